"""From a recipe to a model: preset or configuration, sized for its tokenizer, with single fields changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from workbench.errors import ConfigError, did_you_mean
from workbench.models import Kind, load
from workbench.models.auto import AUTO_CLASSES
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import EncoderConfig
from workbench.models.loading import locate
from workbench.models.presets import preset
from workbench.pretrained import from_pretrained
from workbench.training.objectives.replaced_tokens import ReplacedTokens
from workbench.training.settings import ModelSource
from workbench.yaml_reader import parse, read_values

__all__ = ["build_model", "build_pair", "change_fields", "make_config"]

# Short ways to say what is varied most.
_SHORT = {"positions": "positions.kind", "layers": "depth.layers", "width": "hidden_size"}
_SHORT |= {"heads": "attention.heads", "activation": "feed_forward.activation", "norm": "norm.kind"}
_SHORT |= {"form": "form.kind"}
_VALUES = {"positions.kind": {"rope": "rotary", "t5": "relative"}}


def make_config(source: ModelSource, tokenizer: Any) -> BuiltInConfig:
    """The configuration with the tokenizer's vocabulary and special ids.

    Raises :class:`~workbench.errors.ConfigError` for an unreadable file or an impossible combination.
    """
    config = preset(source.preset) if source.preset is not None else _read(str(source.config))
    settings = config.settings()
    settings["vocab_size"] = len(tokenizer)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        settings[name] = getattr(tokenizer, name)
    if config.is_encoder_decoder:
        settings["decoder_start_token_id"] = first_of(tokenizer.bos_token_id, tokenizer.pad_token_id)
    return BuiltInConfig.from_settings(change_fields(settings, source.set))


def _read(name: str) -> BuiltInConfig:
    file = _configuration(name)
    return BuiltInConfig.from_settings(read_values(file), str(file))


def _configuration(name: str) -> Path:
    """A file, or a configuration that comes with the package's recipes, by its name."""
    shipped = Path(__file__).parent / "recipes" / "configurations" / f"{name}.yaml"
    return shipped if shipped.is_file() else Path(name).expanduser()


def first_of(*values: int | None) -> int | None:
    """The first that is not ``None``."""
    return next((value for value in values if value is not None), None)


def change_fields(settings: dict[str, Any], changes: tuple[str, ...]) -> dict[str, Any]:
    """``settings`` with changes such as ``norm.placement=pre``; values are read as YAML.

    ``none`` stands for no value where the field holds no name.
    A change of ``hidden_size`` keeps the ratio of the feed-forward width. Raises
    :class:`~workbench.errors.ConfigError` for an unknown field, naming near ones.
    """
    changed: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in settings.items()}
    for change in changes:
        path, separator, text = change.partition("=")
        if not separator:
            raise ConfigError(f"cannot read {change!r}; write field=value, such as norm.placement=pre")
        path = _SHORT.get(path.strip(), path.strip())
        value = parse(text, f"--set {path}") if text.strip() else None
        value = _VALUES.get(path, {}).get(value, value) if isinstance(value, str) else value
        if path == "hidden_size" and isinstance(value, int) and "feed_forward" in changed:
            _scale_feed_forward(changed, value)
        _set(changed, path, value)
    return changed


def _scale_feed_forward(settings: dict[str, Any], width: int) -> None:
    part = settings["feed_forward"]
    part["size"] = max(1, round(part["size"] * width / settings["hidden_size"] / 8) * 8)


def _set(settings: dict[str, Any], path: str, value: Any) -> None:
    part: Any = settings
    *parents, last = path.split(".")
    for name in parents:
        part = part.get(name) if isinstance(part, dict) else None
    if not isinstance(part, dict) or last not in part:
        known = [*(k for k, v in settings.items() if not isinstance(v, dict))]
        known += [f"{k}.{name}" for k, v in settings.items() if isinstance(v, dict) for name in v]
        raise ConfigError(f"unknown field {path!r}; {did_you_mean(path, known)}")
    is_name = isinstance(part[last], str)  # "none" is the name of a variant, too
    part[last] = None if value == "none" and not is_name else value


def build_model(
    source: ModelSource, auto: str, tokenizer: Any, seed: int, trains: type[BuiltInConfig] | None = None
) -> Any:
    """The model to train, in float32: fresh weights drawn from ``seed``, or those of ``source.model``.

    ``trains``: the only configuration that the objective is for. Raises :class:`~workbench.errors.ConfigError` if the
    shape of the model does not fit the objective.
    """
    if source.model is not None:
        return _given_model(source.model, auto, tokenizer, trains)
    config = make_config(source, tokenizer)
    models = AUTO_CLASSES[type(config)]
    if auto not in models or (trains is not None and type(config) is not trains):
        kinds = [trains] if trains is not None else [k for k, autos in AUTO_CLASSES.items() if auto in autos]
        fitting = sorted({kind.model_type for kind in kinds})
        raise ConfigError(
            f"this objective trains {', '.join(fitting)} models, and the configuration is a {config.model_type}; "
            "choose another preset (workbench models --presets) or objective"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return models[auto](config)


# class that an objective trains -> the kind of model that goes on with it
_KINDS = {
    "AutoModelForCausalLM": Kind.CAUSAL,
    "AutoModelForMaskedLM": Kind.MASKED,
    "AutoModelForSeq2SeqLM": Kind.SEQ2SEQ,
}


def _given_model(name: str, auto: str, tokenizer: Any, trains: type[BuiltInConfig] | None) -> Any:
    loaded = load(name, dtype="float32", device="cpu")
    kind = _KINDS.get(auto, loaded.kind)
    if loaded.kind is not kind:
        raise ConfigError(f"this objective trains {kind} models, and {name} is of kind {loaded.kind}")
    foreign = trains is EncoderConfig and not isinstance(loaded.config, BuiltInConfig)
    if trains is not None and not (foreign or isinstance(loaded.config, trains)):
        kind_of = loaded.config.model_type
        raise ConfigError(f"this objective trains {trains.model_type} models, and {name} is a {kind_of}")
    rows = loaded.model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise ConfigError(
            f"the tokenizer has {len(tokenizer)} tokens and {name} only {rows}; leave out --tokenizer for its own"
        )
    if trains in (None, EncoderConfig):
        return loaded.model
    whole = AUTO_CLASSES[trains][auto]  # which was loaded as an encoder, without what it is trained with
    return from_pretrained(whole, locate(name), dtype="float32", use_safetensors=True)


def build_pair(source: ModelSource, tokenizer: Any, seed: int) -> ReplacedTokens:
    """Generator and discriminator; raises :class:`~workbench.errors.ConfigError` if the shape is no encoder."""
    if source.model is not None:
        raise ConfigError("replaced tokens are trained from fresh weights; name a --preset or --config")
    config = make_config(source, tokenizer)
    if not isinstance(config, EncoderConfig):
        raise ConfigError(f"replaced tokens train an encoder, and the configuration is a {config.model_type}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ReplacedTokens(config)
