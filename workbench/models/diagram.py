"""One block of a configuration, drawn with text: the residual stream on the left, sub-layers on the right."""

from __future__ import annotations

from workbench.models.assembly import form_settings
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import TransformerConfig
from workbench.nn import GATED_NAMES
from workbench.terminal import counted

__all__ = ["block_diagram"]

_NORM_NAMES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm", "none": "no norm"}


def block_diagram(config: BuiltInConfig) -> str:
    """The block that repeats; for an encoder-decoder, that of the decoder."""
    if not isinstance(config, TransformerConfig):
        return config.diagram()
    layers = config.num_hidden_layers
    states = f"hidden states (batch, tokens, {config.hidden_size})"
    lines = [f"{states}", *_sub_layer(config, _attention_lines(config))]
    if config.is_encoder_decoder:
        lines += _sub_layer(config, [f"cross-attention to the encoder: {_heads(config)}"])
    lines += _sub_layer(config, _feed_forward_lines(config))
    if config.depth.pool_every is not None:
        pooled = f"  half as many places after every {config.depth.pool_every} layers"
        lines.insert(1, f"{pooled}, all tokens in the last {config.depth.upsampled_layers}")
    if config.depth.has_steps:
        lines[1:1] = _step_lines(config)
    shared = f", {config.depth.groups} with weights of its own" if config.depth.groups else ""
    side = "decoder block" if config.is_encoder_decoder else "block"
    return "\n".join([f"{side}, {layers} times{shared}:", "", *lines, states])


def _sub_layer(config: TransformerConfig, inside: list[str]) -> list[str]:
    norm, placement = _NORM_NAMES[config.norm.kind], config.norm.placement
    branch = list(inside)
    if placement in ("pre", "sandwich"):
        branch.insert(0, norm)
    if placement == "sandwich":
        branch.append(norm)
    if config.dropout:
        branch.append(f"dropout {config.dropout}")
    if config.norm.residual_scale != "none":
        branch.append(f"times a learned number ({config.norm.residual_scale})")
    lines = ["  │", "  ├────────┐", *(f"  │     {text}" for text in branch), "  +◄───────┘"]
    return [*lines, f"{norm}"] if placement == "post" else lines


def _step_lines(config: TransformerConfig) -> list[str]:
    added = ["  + positions and the number of the step"] if config.depth.step_encoding else []
    threshold = config.depth.halting
    halts = [f"  a position halts where its probabilities sum to {threshold}"] if threshold else []
    return [*added, *halts]


def _heads(config: TransformerConfig) -> str:
    heads, grouped = config.attention.heads, config.num_key_value_heads
    text = f"{counted(heads, 'head')} of {config.head_dim}"
    return text if grouped == heads else f"{text}, {counted(grouped, 'key/value head')}"


def _attention_lines(config: TransformerConfig) -> list[str]:
    chosen = config.attention
    is_encoder = config.model_type == "workbench-encoder"
    lines = [f"{'' if is_encoder else 'causal '}self-attention: {_heads(config)}", f"  {_positions(config)}"]
    if chosen.window is not None:
        window = counted(chosen.window, "token")
        reach = f"up to {window} away" if is_encoder else f"the last {window}"
        some = f", every {chosen.global_every}. layer all" if chosen.global_every else ""
        lines.append(f"  each token sees {reach}{some}")
    if config.form.kind != "full":
        lines.append(_form(config))
    if chosen.softcap is not None:
        lines.append(f"  scores capped at ±{chosen.softcap}")
    return lines


def _form(config: TransformerConfig) -> str:
    kind, settings = config.form.kind, form_settings(config, config.form.kind)
    sizes = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    where = " in the encoder" if config.is_encoder_decoder else ""
    padded = "; lengths are padded inside to a multiple of the block" if "block" in settings else ""
    return f"  form{where}: {kind}, {sizes}{padded}"


def _positions(config: TransformerConfig) -> str:
    chosen = config.positions
    return {
        "none": "no positions",
        "learned": "positions: learned, added to the embeddings",
        "sinusoidal": "positions: sinusoids, added to the embeddings",
        "relative": f"positions: bias for each of {chosen.buckets} buckets of distance (T5)",
        "alibi": "positions: bias falling with distance (ALiBi)",
        "rotary": f"positions: queries and keys rotate, base {chosen.base:g}",
    }[chosen.kind]


def _feed_forward_lines(config: TransformerConfig) -> list[str]:
    chosen = config.feed_forward
    gate = GATED_NAMES.get(chosen.activation)
    how = f"{chosen.activation}, gated by {gate}" if gate else chosen.activation
    one = f"{config.hidden_size} → {chosen.size} → {config.hidden_size}, {how}"
    if chosen.experts is None:
        return [f"feed-forward: {one}"]
    routes = f"{chosen.experts_per_token} of {counted(chosen.experts, 'expert')} for each token"
    some = f", in every {chosen.expert_every}. layer" if chosen.expert_every > 1 else ""
    return [f"{routes}{some}: {one}"]
