"""Amnesic probing: erase a property inside a language model and see what its predictions lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from probes._data import ProbeData, Unit
from probes.conclusions import shown
from probes.estimators import INLPEraser, LeaceEraser, LinearProbe
from probes.features import extract
from probes.features.policy import resolve_pool
from probes.settings import ProbeSettings
from probes.splits import split_items
from workbench.errors import TaskError, did_you_mean
from workbench.estimate import Estimate
from workbench.models import Kind, LoadedModel
from workbench.shapes import Array
from workbench.statistics import bootstrap
from workbench.text import Alignment, align_words
from workbench.trace import Edit, Site, intervene
from workbench.trace.encoding import encode_all, inputs_of

__all__ = ["AmnesicReport", "amnesic"]

ERASERS: dict[str, Callable[[], LeaceEraser | INLPEraser]] = {"leace": LeaceEraser, "inlp": INLPEraser}


@dataclass(frozen=True)
class AmnesicReport:
    """What erasing ``task`` after ``layer`` did. Losses are means over sentences, nats a token.

    ``added_loss`` is that of erasing, ``added_loss_random`` that of removing as many random directions, and
    ``difference`` the first less the second, sentence by sentence.
    """

    model: str
    task: str
    layer: int
    rank: int
    probe_before: float
    probe_after: float
    majority: float
    loss: Estimate
    added_loss: Estimate
    added_loss_random: Estimate
    difference: Estimate

    @property
    def conclusion(self) -> str:
        """What may be said."""
        erased = (
            f"Erasing {self.rank} directions after layer {self.layer} takes a linear probe from "
            f"{self.probe_before:.3f} to {self.probe_after:.3f} (majority class {self.majority:.3f}) and the loss from "
            f"{self.loss.value:.3f} up by {shown(self.added_loss)} nats a token; as many random directions by "
            f"{shown(self.added_loss_random)}."
        )
        used = (
            f" The model uses {self.task} here: erasing it costs more."
            if self.difference.low > 0
            else f" That {self.task} is used here is not established: random directions cost as much."
        )
        return erased + used


def amnesic(
    model: LoadedModel,
    data: ProbeData,
    layer: int,
    *,
    eraser: str = "leace",
    sentences: int = 200,
    seed: int = 0,
) -> AmnesicReport:
    """Erase a word-level property after layer ``layer`` (from 1) of a decoder (Elazar et al. 2021).

    The eraser is fitted on four fifths of the items and applied to every token of up to ``sentences`` others,
    whose next-token loss is measured as it is, erased, and with as many random directions removed.

    Raises :class:`TaskError` for layer 0, an unknown eraser or an item that is no word; ``ModelError`` for a
    model that is no decoder.
    """
    model.require(Kind.CAUSAL, verb="amnesic probing")
    if eraser not in ERASERS:
        raise TaskError(f"unknown eraser {eraser!r}; {did_you_mean(eraser, list(ERASERS))}")
    if layer < 1 or data.unit is not Unit.WORD:
        raise TaskError(
            f"layer is {layer} and the items are {data.unit}s; amnesic probing needs a layer from 1 and words"
        )
    settings = ProbeSettings(task=data.task, seed=seed)
    split = split_items(data, "sentence", settings.test_share, seed)
    features = extract(
        model, data.sentences, data.places, layers=[layer], pool=resolve_pool("auto", model, data.unit)
    )
    x, y = features.layer(layer)[data.place_rows[:, 0]], np.array(data.labels)
    x_train, x_test, y_train, y_test = x[split.train], x[split.test], y[split.train], y[split.test]
    fitted = ERASERS[eraser]().fit(x_train, y_train)
    before = LinearProbe(C=0.01).fit(x_train, y_train).score(x_test, y_test)
    after = (
        LinearProbe(C=0.01).fit(fitted.transform(x_train), y_train).score(fitted.transform(x_test), y_test)
    )
    chosen = np.unique(data.sentence_of[split.test])[:sentences]
    texts = [data.sentences[s] for s in chosen if len(data.sentences[s].forms) > 1]
    aligned = [align_words(t.forms, model.tokenizer, space_after=t.space_after) for t in texts]
    random = _random_directions(x_train, fitted.rank_, seed)
    plain = _losses(model, aligned)
    erased = _losses(model, aligned, layer, _change(fitted.mean_, fitted.removed_))
    control = _losses(model, aligned, layer, _change(fitted.mean_, random))
    values, counts = np.unique(y_train, return_counts=True)

    def estimate(losses: Array) -> Estimate:
        return bootstrap(losses, seed=seed, resamples=1000, higher_is_better=False)

    return AmnesicReport(
        model=model.name,
        task=data.task,
        layer=layer,
        rank=int(fitted.rank_),
        probe_before=float(before),
        probe_after=float(after),
        majority=float(np.mean(y_test == values[counts.argmax()])),
        loss=estimate(plain),
        added_loss=estimate(erased - plain),
        added_loss_random=estimate(control - plain),
        difference=estimate(erased - control),
    )


def _random_directions(features: Array, rank: int, seed: int) -> Array:
    """An oblique projection like LEACE's, of the same rank, onto random directions of the whitened space."""
    centred = features.astype(np.float64) - features.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    keep = values > 1e-5 * values.max()
    root = np.sqrt(values[keep])
    drawn = np.random.default_rng(seed).normal(size=(int(keep.sum()), rank))
    basis = np.linalg.qr(drawn)[0]
    found: Array = (vectors[:, keep] * root) @ basis @ basis.T @ (vectors[:, keep] / root).T
    return found


def _change(mean: Array, removed: Array) -> Callable[[Tensor], Tensor]:
    """Take away from each vector (B, P, D) its part in ``removed``, around ``mean``."""
    centre, matrix = torch.from_numpy(np.float32(mean)), torch.from_numpy(np.float32(removed))

    def change(hidden: Tensor) -> Tensor:
        values = hidden.float()
        away = (values - centre.to(hidden.device)) @ matrix.T.to(hidden.device)
        return (values - away).to(hidden.dtype)

    return change


def _losses(
    model: LoadedModel,
    texts: Sequence[Alignment],
    layer: int = 0,
    change: Callable[[Tensor], Tensor] | None = None,
) -> Array:
    """Mean next-token loss of each text, in nats; ``change`` acts on what leaves block ``layer - 1``."""
    edits = [] if change is None else [Edit(Site.RESIDUAL, layer - 1, change)]
    losses = []
    with intervene(model, *edits), torch.inference_mode():
        for encoded in encode_all(model, texts):
            inputs = inputs_of(model, [encoded])
            log_p = torch.log_softmax(model.model(**inputs, use_cache=False).logits[0, :-1].float(), -1)
            losses.append(float(-log_p.gather(1, inputs["input_ids"][0, 1:, None]).mean()))
    return np.array(losses)
