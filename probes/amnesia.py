"""Amnesic probing: erase a property inside a language model and see what its predictions lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from probes._data import ProbeData, Unit
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
from workbench.terminal import counted
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
        """What the numbers allow to conclude."""
        erased = (
            f"Erasing {counted(self.rank, 'direction')} after layer {self.layer} takes a linear probe from "
            f"{self.probe_before:.3f} to {self.probe_after:.3f} (majority class {self.majority:.3f}) and the loss from "
            f"{self.loss.value:.3f} up by {self.added_loss.text(3)} nats a token; as many random directions by "
            f"{self.added_loss_random.text(3)}."
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
    """Erase a word-level property after layer ``layer`` (from 1) of a language model (Elazar et al. 2021).

    They erase by INLP, which ``eraser="inlp"`` does; LEACE takes away less. They report accuracy and divergence of the
    predictions, this the loss. Their second control, which gives the erased label back, is not made.

    The eraser is fitted on four fifths of the items and applied to every token of up to ``sentences`` others,
    whose loss is measured as it is, erased, and with as many random directions removed: of each next token, or
    of a seventh of the tokens, masked together, where the model has a masked-language-model head.

    Raises :class:`TaskError` for layer 0, an unknown eraser or an item that is no word; ``ModelError`` for a
    model that is no causal or masked language model.
    """
    _check(model, data, layer, eraser)
    split = split_items(data, "sentence", ProbeSettings(task=data.task).test_share, seed)
    features = extract(
        model, data.sentences, data.places, layers=[layer], pool=resolve_pool("auto", model, data.unit)
    )
    readable = features.valid[data.place_rows[:, 0]]
    x, y = features.layer(layer)[data.place_rows[:, 0]], np.array(data.labels)
    train, test = (part[readable[part]] for part in (split.train, split.test))
    known = _known(x[train], y[train], x[test], y[test], ERASERS[eraser]())
    chosen = np.unique(data.sentence_of[split.test])[:sentences]
    texts = [data.sentences[s] for s in chosen if len(data.sentences[s].forms) > 1]
    aligned = [align_words(t.forms, model.tokenizer, space_after=t.space_after) for t in texts]
    plain, erased, control = (
        _losses(model, aligned, layer, change, seed)
        for change in (
            None,
            _change(known.eraser.mean_, known.eraser.removed_),
            _change(known.eraser.mean_, _random_directions(x[train], known.eraser, seed)),
        )
    )

    def estimate(losses: Array) -> Estimate:
        return bootstrap(losses, seed=seed, resamples=1000, higher_is_better=False)

    return AmnesicReport(
        model=model.name,
        task=data.task,
        layer=layer,
        rank=int(known.eraser.rank_),
        probe_before=known.before,
        probe_after=known.after,
        majority=known.majority,
        loss=estimate(plain),
        added_loss=estimate(erased - plain),
        added_loss_random=estimate(control - plain),
        difference=estimate(erased - control),
    )


def _check(model: LoadedModel, data: ProbeData, layer: int, eraser: str) -> None:
    model.require(Kind.CAUSAL, Kind.MASKED, verb="amnesic probing")
    if eraser not in ERASERS:
        raise TaskError(f"unknown eraser {eraser!r}; {did_you_mean(eraser, list(ERASERS))}")
    if model.kind is Kind.MASKED and model.tokenizer.mask_token_id is None:
        raise TaskError(f"the tokenizer of {model.name} has no mask token, so no loss can be measured")
    if layer < 1 or data.unit is not Unit.WORD:
        raise TaskError(
            f"layer is {layer} and the items are {data.unit}s; amnesic probing needs a layer from 1 and words"
        )


@dataclass(frozen=True, eq=False)
class _Known:
    """A fitted eraser, and what a linear probe and the majority class score before and after it."""

    eraser: LeaceEraser | INLPEraser
    before: float
    after: float
    majority: float


def _known(x: Array, y: Array, x_test: Array, y_test: Array, eraser: LeaceEraser | INLPEraser) -> _Known:
    fitted = eraser.fit(x, y)
    cleaned, cleaned_test = fitted.transform(x), fitted.transform(x_test)
    values, counts = np.unique(y, return_counts=True)
    return _Known(
        fitted,
        before=float(LinearProbe(C=0.01).fit(x, y).score(x_test, y_test)),
        after=float(LinearProbe(C=0.01).fit(cleaned, y).score(cleaned_test, y_test)),
        majority=float(np.mean(y_test == values[counts.argmax()])),
    )


def _random_directions(features: Array, eraser: LeaceEraser | INLPEraser, seed: int) -> Array:
    """A projection (D, D) of the eraser's kind and rank: orthogonal for INLP, oblique through whitening for LEACE."""
    rank = eraser.rank_
    if isinstance(eraser, INLPEraser):
        basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(features.shape[1], rank)))[0]
        orthogonal: Array = basis @ basis.T
        return orthogonal
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
    layer: int,
    change: Callable[[Tensor], Tensor] | None,
    seed: int,
) -> Array:
    """Mean loss of each text, in nats a predicted token; ``change`` acts on what leaves block ``layer - 1``."""
    edits = [] if change is None else [Edit(Site.RESIDUAL, layer - 1, change)]
    draw = np.random.default_rng(seed)  # the same masks whatever the change
    losses = []
    with intervene(model, *edits), torch.inference_mode():
        for encoded in encode_all(model, texts):
            inputs = inputs_of(model, [encoded])
            ids = inputs["input_ids"][0].clone()
            if model.kind is Kind.MASKED:
                places = _masked(encoded.alignment, draw)
                inputs["input_ids"][0, places] = int(model.tokenizer.mask_token_id)
                logits = model.model(**inputs).logits[0, places]
                targets = ids[places]
            else:
                logits, targets = model.model(**inputs, use_cache=False).logits[0, :-1], ids[1:]
            losses.append(float(F.cross_entropy(logits.float(), targets)))
    return np.array(losses)


def _masked(alignment: Alignment, draw: np.random.Generator) -> list[int]:
    """A seventh of the tokens that stand for words, at least one."""
    words = [token for token, word in enumerate(alignment.word_ids) if word is not None]
    return sorted(draw.choice(words, size=max(1, len(words) // 7), replace=False).tolist())
