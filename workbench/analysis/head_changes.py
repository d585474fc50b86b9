"""What training changed in attention: the difference of each head's maps before and after, streamed over texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor

from workbench.analysis._head_sums import CLASSES, NAMES, BatchOfTexts, RatioSums, reduce_heads
from workbench.analysis.heads import attention_batches, reading_stack
from workbench.analysis.token_changes import tokenizers_agree
from workbench.errors import ModelError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import AttentionCall, AttentionObserver, Stack, Text, observe_attention
from workbench.trace.encoding import Encoded, inputs_of
from workbench.trace.padding import together
from workbench.trace.structure import call_model, require_distributions

__all__ = ["head_changes", "jensen_shannon"]

# name -> unit, meaning; in the order in which they are summed
_CHANGES = {
    "change of attention entropy": ("nats", "after minus before"),
    "change of attention distance": ("tokens", "after minus before"),
    "attention divergence": ("bits", "Jensen-Shannon divergence between the maps before and after"),
}
_COLUMNS = [list(NAMES).index(name) for name in ("entropy", "distance")]
_TINY = 1e-30


def jensen_shannon(
    first: Float[Tensor, "... key"], second: Float[Tensor, "... key"]
) -> Float[Tensor, " ..."]:
    """Jensen-Shannon divergence in bits between rows, each divided by its sum (float64; 0 of rows without weight)."""
    one, other = (w.double() / w.double().sum(-1, keepdim=True).clamp_min(_TINY) for w in (first, second))
    entropies = [torch.special.entr(w).sum(-1) for w in ((one + other) / 2, one, other)]
    return (entropies[0] - (entropies[1] + entropies[2]) / 2).clamp_min(0) / np.log(2)


def head_changes(before: LoadedModel, after: LoadedModel, texts: Sequence[Text]) -> dict[str, Statistic]:
    """How each head's attention changed over the queries of ``texts``, which both models read as the same tokens.

    By name: "change of attention entropy" (nats) and "change of attention distance" (tokens), each after minus before,
    and "attention divergence", the Jensen-Shannon divergence (bits) between the two maps, all (layer, head); and the
    last as its mean over the heads of a layer, "attention divergence of layers" (layer). Standard errors are clustered
    by text, intervals are Student's t over texts. Memory is that of one model's maps of one batch.

    Raises :class:`~workbench.errors.ModelError` where tokenizers or the numbers of layers or heads differ;
    :class:`~workbench.errors.TraceError` for attention whose rows are no distributions.

    Example:
        ```python
        import workbench
        from workbench.analysis.head_changes import head_changes

        model = workbench.load("novels-decoder")
        print(head_changes(model, model, ["She was happy.", "He left."])["attention divergence"])
        ```
    """
    shapes = []
    for model in (before, after):
        require_distributions(model.model, "head_changes")
        structure, where, _ = reading_stack(model)
        shapes.append((structure.layers[where], structure.heads[where]))
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"{before.name} has {shapes[0][0]} layers of {shapes[0][1]} heads, {after.name} {shapes[1][0]} of "
            f"{shapes[1][1]}; heads are compared one by one"
        )
    if not tokenizers_agree(before, after, texts):
        raise ModelError(f"{before.name} and {after.name} split the texts into different tokens")
    kept, sums = _Kept(reading_stack(before)[1]), _Differences(reading_stack(after)[1], shapes[0][0])
    longest = min(before.max_length, after.max_length)
    for batch in attention_batches(before, texts, longest, shapes[0][1]):
        for places in together(after.model, [len(one.alignment) for one in batch]):
            _compare(before, after, [batch[place] for place in places], kept, sums)
    return sums.statistics(len(texts))


def _compare(
    before: LoadedModel, after: LoadedModel, batch: Sequence[Encoded], kept: _Kept, sums: _Differences
) -> None:
    lengths = [len(one.alignment) for one in batch]
    classes = [np.zeros((n, len(CLASSES)), dtype=np.float32) for n in lengths]
    for model, observer in ((before, kept), (after, sums)):
        if observer is sums:
            sums.begin(BatchOfTexts.of(lengths, classes, model.device), kept.weights)
        with observe_attention(model, observer):
            call_model(reading_stack(model)[2], **inputs_of(model, batch))


class _Kept(AttentionObserver):
    """Keeps the weights of each layer of one batch."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack)
        self.weights: dict[int, Tensor] = {}

    def observe(self, call: AttentionCall) -> None:
        """Keep a copy of one layer."""
        self.weights[call.layer] = call.weights.detach().clone()


class _Differences(AttentionObserver):
    """Adds up, for each layer, how the weights differ from those that were kept, which it lets go."""

    def __init__(self, stack: Stack, layers: int) -> None:
        super().__init__(stack)
        self.sums = [RatioSums() for _ in range(layers)]
        self.means = [RatioSums() for _ in range(layers)]  # over the heads of a layer
        self._batch: BatchOfTexts | None = None
        self._before: dict[int, Tensor] = {}

    def begin(self, batch: BatchOfTexts, before: dict[int, Tensor]) -> None:
        """Say which texts the next pass reads, and the weights before, by layer."""
        self._batch, self._before = batch, before

    def observe(self, call: AttentionCall) -> None:
        """Add one layer of the batch."""
        batch = self._batch
        assert batch is not None, "begin() comes before the pass"
        old = self._before.pop(call.layer).to(call.weights.device).float()
        with torch.no_grad():
            new, every = call.weights.float(), torch.ones_like(batch.queries)
            moved = (reduce_heads(new, batch, every) - reduce_heads(old, batch, every))[..., _COLUMNS]
            divergence = (jensen_shannon(old, new) * batch.queries[:, None]).sum(-1, keepdim=True)
        totals = torch.cat([moved.double(), divergence], -1).cpu().numpy()  # (B, H, 3)
        counts = batch.lengths.cpu().numpy()[:, None, None]
        self.sums[call.layer].add(totals, counts)
        self.means[call.layer].add(totals.mean(1), counts[:, 0])

    def statistics(self, texts: int) -> dict[str, Statistic]:
        """What was added up, with intervals over texts."""
        found = {
            name: _statistic(name, unit, note, ("layer", "head"), self.sums, column, texts)
            for column, (name, (unit, note)) in enumerate(_CHANGES.items())
        }
        last = "attention divergence"
        unit, note = _CHANGES[last]
        of_layers = _statistic(
            f"{last} of layers", unit, f"{note}, mean over heads", ("layer",), self.means, 2, texts
        )
        return {**found, of_layers.name: of_layers}


def _statistic(
    name: str,
    unit: str,
    note: str,
    axes: tuple[str, ...],
    sums: Sequence[RatioSums],
    column: int,
    texts: int,
) -> Statistic:
    values: Array = np.stack([layer.values[..., column] for layer in sums])
    errors = np.stack([layer.standard_errors[..., column] for layer in sums])
    reach = errors * (stats.t.ppf(0.975, texts - 1) if texts > 1 else np.nan)
    return Statistic(
        name=name,
        unit=unit,
        values=values,
        axes=axes,
        standard_error=errors,
        low=values - reach,
        high=values + reach,
        count=texts,
        note=note,
    )
