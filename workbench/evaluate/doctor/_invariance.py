"""What must not change the outputs: company in the batch, padding, the attention kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from workbench.evaluate.doctor._records import Finding, NotApplicable, Status, agree, judge
from workbench.evaluate.doctor._subject import (
    Batch,
    outputs,
    padded,
    real_hidden_states,
    real_outputs,
    sample_sequences,
    takes_positions,
    truncate,
)
from workbench.models import Kind, LoadedModel
from workbench.models.batching import HeadOutput, HeadRow, Padding, head_outputs, padding_of
from workbench.nn import SinusoidalPositions
from workbench.trace import attention_implementation
from workbench.trace.padding import padding_matters

__all__ = [
    "batch_size",
    "eager_attention",
    "eager_equals_sdpa",
    "finite_outputs",
    "left_padding",
    "longest_text",
    "right_padding",
]

Reader = Callable[[LoadedModel, Batch], Tensor]

_EXTRA = 3  # padding that even the longest row gets
_LONGEST_TRIED = 4096  # tokens
_MOST_WORK = 3e11  # tokens times parameters: some ten seconds of two slow cores
_FIXED = "the architecture's attention implementation cannot be switched"


def finite_outputs(loaded: LoadedModel) -> Finding:
    """No NaN and no infinity, and the same outputs when asked twice. Value: the largest difference."""
    batch = padded(loaded, sample_sequences(loaded)[:1])
    first, second = real_outputs(loaded, batch), real_outputs(loaded, batch)
    return agree(first, second, loaded.dtype, "outputs are finite, and the same when asked twice")


def batch_size(loaded: LoadedModel) -> Finding:
    """Each sequence alone gives what it gives among others: of its length; in a classifier's own batches, of any."""
    sequences = sample_sequences(loaded)
    if loaded.kind is Kind.CLASSIFIER:
        return _through_the_head(loaded, sequences)
    shortest = min(map(len, sequences))
    equal = [truncate(sequence, shortest) for sequence in sequences]
    together = real_outputs(loaded, padded(loaded, equal))
    return agree(_alone(loaded, equal), together, loaded.dtype, f"batch 1 against batch {len(equal)}")


def _through_the_head(loaded: LoadedModel, sequences: list[list[int]]) -> Finding:
    """A plain pass of each sequence against the batches in which classifiers are evaluated."""
    found = head_outputs(loaded, [HeadRow(tuple(sequence)) for sequence in sequences])
    together = torch.cat([_lines(output) for output in found])
    detail = f"batch 1 against batch {len(sequences)}, padding {padding_of(loaded)}"
    return agree(_alone(loaded, sequences), together, loaded.dtype, detail)


def _lines(output: HeadOutput) -> Tensor:
    """What a head gives one row as :func:`real_outputs` gives it: (1, L) of a text, (T, L) of its tokens."""
    if "logits" not in output:
        return torch.stack([output["start_logits"], output["end_logits"]], dim=-1)
    logits = output["logits"]
    return logits if logits.ndim == 2 else logits[None]


def longest_text(loaded: LoadedModel) -> Finding:
    """A text of exactly as many tokens as the model is said to read is read, on each side of an encoder-decoder.

    Value: outputs that are not finite. Skipped where such a text is too much to try.
    """
    lengths = (loaded.max_length, loaded.max_target_length)
    if max(lengths) > _LONGEST_TRIED or max(lengths) * loaded.num_parameters > _MOST_WORK:
        raise NotApplicable(f"a text of {max(lengths):,} tokens is too much to try with this model")
    text = sample_sequences(loaded)[0]
    batch = padded(loaded, [_repeated(text, lengths[0])])
    batches = [batch]
    if batch.decoder_ids is not None:
        target = _repeated(batch.decoder_ids[0].tolist(), lengths[1])
        batches.append(
            replace(padded(loaded, [text]), decoder_ids=torch.tensor([target], device=loaded.device))
        )
    # A classifier's head is small, and makes its decoder's input itself.
    body = loaded.model if loaded.kind is Kind.CLASSIFIER else loaded.model.base_model
    broken = 0.0
    for one in batches:
        with torch.no_grad():
            states = outputs(body, one)
        broken += float((~torch.isfinite(states)).sum())
    sides = f"{lengths[0]} tokens" + (f" and a target of {lengths[1]}" if len(batches) > 1 else "")
    return judge(broken, 0, f"outputs that are not finite for a text of {sides}, the longest that is allowed")


def _repeated(ids: list[int], length: int) -> list[int]:
    """``length`` ids: the first one, those between again and again, and the last one."""
    inner = ids[1:-1] or ids[:1]
    middle = [inner[i % len(inner)] for i in range(length - 2)]
    return [ids[0], *middle, ids[-1]][:length]


def right_padding(loaded: LoadedModel) -> Finding:
    """Each sequence alone gives what it gives in a batch padded on the right."""
    if loaded.kind is Kind.CLASSIFIER and padding_of(loaded) is not Padding.RIGHT:
        raise NotApplicable(f"the head minds padding on the right; padding used: {padding_of(loaded)}")
    _refuse_unpadded(loaded)
    sequences = sample_sequences(loaded)
    together = real_outputs(loaded, padded(loaded, sequences, "right", _EXTRA))
    return agree(_alone(loaded, sequences), together, loaded.dtype, "unpadded against padded on the right")


def left_padding(loaded: LoadedModel) -> Finding:
    """The same on the left, with each token's position given to models that take it.

    Skipped for models whose learned positions count the padding and cannot be given, and for heads that
    read what stands first (the [CLS] state), which would be padding.
    """
    if loaded.kind is Kind.CLASSIFIER and padding_of(loaded) in (Padding.EQUAL, Padding.SINGLE):
        raise NotApplicable(f"the head minds padding; padding used: {padding_of(loaded)}")
    if (
        loaded.kind is not Kind.CAUSAL
    ):  # prompts of causal models are padded on the left, whatever the right does
        _refuse_unpadded(loaded)
    found = _against_left(loaded, real_outputs)
    if found.status is Status.PASS:
        return found
    if not takes_positions(loaded) and _has_position_table(loaded.model):
        raise NotApplicable("positions are absolute, count the padding and cannot be given: pad on the right")
    if loaded.kind is not Kind.CLASSIFIER:
        return found
    if _against_left(loaded, real_hidden_states).status is Status.PASS:
        raise NotApplicable("hidden states agree, but the head minds the place of a text: pad on the right")
    return found


def _refuse_unpadded(loaded: LoadedModel) -> None:
    """Raise :class:`NotApplicable` for a model whose texts are never padded; NaN is no reason."""
    if loaded.kind is Kind.CLASSIFIER or not padding_matters(loaded.model):
        return
    if torch.isfinite(real_outputs(loaded, padded(loaded, sample_sequences(loaded)[:1]))).all():
        raise NotApplicable(
            "padding changes outputs at other tokens, so only texts of one length share a batch"
        )


def _against_left(loaded: LoadedModel, read: Reader) -> Finding:
    """Compare what ``read`` gives without padding and with it on the left."""
    sequences = sample_sequences(loaded)
    alone = _alone(loaded, sequences, read)
    batch = padded(loaded, sequences, "left", _EXTRA)
    found = agree(alone, read(loaded, batch), loaded.dtype, "unpadded against padded on the left")
    if found.status is Status.PASS or not takes_positions(loaded):
        return found
    # Absolute positions are passed, counted from where the text begins, as generate() does.
    positions = (batch.mask.cumsum(-1) - 1).clamp(min=0)
    told = read(loaded, replace(batch, positions=positions))
    return agree(alone, told, loaded.dtype, "unpadded against padded on the left, positions given")


def eager_equals_sdpa(loaded: LoadedModel) -> Finding:
    """Attention step by step gives what PyTorch's fused kernel gives, padding included."""
    if not loaded.model._can_set_attn_implementation():
        raise NotApplicable(_FIXED)
    if not getattr(loaded.model, "_supports_sdpa", False):
        raise NotApplicable("the architecture has no SDPA attention")
    sequences = sample_sequences(loaded)
    if loaded.kind is Kind.CLASSIFIER and padding_of(loaded) is Padding.SINGLE:
        batch = padded(loaded, sequences[:1])  # its head refuses more
    else:
        batch = padded(loaded, sequences, "right", _EXTRA)
    with eager_attention(loaded):
        eager = real_outputs(loaded, batch)
    with attention_implementation(loaded.model, "sdpa"):
        fused = real_outputs(loaded, batch)
    return agree(eager, fused, loaded.dtype, "eager attention against SDPA")


@contextmanager
def eager_attention(loaded: LoadedModel) -> Iterator[None]:
    """Let the model compute attention step by step for a while.

    Raises :class:`NotApplicable` for a model that does not, and whose attention cannot be switched.
    """
    if loaded.model._can_set_attn_implementation():
        with attention_implementation(loaded.model, "eager"):
            yield
    elif loaded.config._attn_implementation in (None, "eager"):
        yield
    else:
        raise NotApplicable(_FIXED)


def _alone(loaded: LoadedModel, sequences: list[list[int]], read: Reader = real_outputs) -> Tensor:
    return torch.cat([read(loaded, padded(loaded, [sequence])) for sequence in sequences])


def _has_position_table(model: nn.Module) -> bool:
    """Whether there is a table of absolute positions, learned or computed (relative ones do not mind padding)."""
    return any(
        isinstance(module, SinusoidalPositions)
        or (isinstance(module, nn.Embedding) and "position" in name and "relative" not in name)
        for name, module in model.named_modules()
    )
