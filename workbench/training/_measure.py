"""How well a trained model does its own objective on held-out rows, each of its parts by name, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from workbench.estimate import Estimate
from workbench.shapes import Array
from workbench.statistics import bits_per_unit_measure, measure_estimate, unit_perplexity_measure
from workbench.training.blocks import Blocks
from workbench.training.objectives import IGNORED, Objective, Term, terms_of
from workbench.training.pair_corpora import PairRows

__all__ = ["measure"]


def measure(
    model: Any, objective: Objective, blocks: Blocks | PairRows, rows: int, *, tokenizer: Any = None
) -> dict[str, Estimate]:
    """The objective's loss, and loss and accuracy of each of its parts, over all rows of ``blocks``.

    ``loss`` is what training minimises: the weighted sum of the parts' losses in nats, each a mean over its scored
    places. A part that predicts tokens has a perplexity too. Names of parts stand in front (``pair_accuracy``); the
    only part has none. With the ``tokenizer`` of a whole text, also bits per character of the scored tokens. Intervals
    are over rows.
    """
    sums: list[Array] = []  # (row, term, 3): loss, scored places, right ones
    characters: list[int] = []
    terms: list[Term] = []
    was_training = model.training
    model.eval()
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # ELECTRA's generator draws
        for start in range(0, len(blocks), rows):
            batch = objective([blocks[i] for i in range(start, min(start + rows, len(blocks)))])
            batch = {name: value.to(model.device) for name, value in batch.items()}
            terms = terms_of(model, batch, objective.auto)
            sums.append(np.stack([_row_sums(term) for term in terms], axis=1))
            if tokenizer is not None:
                characters += [_length(tokenizer, row[row != IGNORED]) for row in batch["labels"].cpu()]
    model.train(was_training)
    table = np.concatenate(sums)
    scored = table[:, 0, 1] > 0
    found = _estimates(terms, table[scored])
    if tokenizer is not None:
        units = np.array(characters)[scored] * _true_length(tokenizer, blocks)
        found["bits_per_character"] = measure_estimate(
            np.stack([table[scored, 0, 0], units], axis=1),
            bits_per_unit_measure,
            seed=0,
            higher_is_better=False,
        )
    return found


def _row_sums(term: Term) -> Array:
    """(row, 3): loss, scored places, right ones."""
    right = torch.zeros_like(term.scored) if term.right is None else term.right & term.scored
    losses = (term.losses.float() * term.scored).sum(1)
    return torch.stack([losses, term.scored.sum(1), right.sum(1)], dim=1).double().cpu().numpy()


def _estimates(terms: Sequence[Term], table: Array) -> dict[str, Estimate]:
    weights = np.array([term.weight for term in terms])

    def total(sample: Array) -> Any:
        sums = sample.reshape(*sample.shape[:-1], len(terms), 3).sum(-3)
        return (weights * sums[..., 0] / sums[..., 1]).sum(-1)

    flat = table.reshape(len(table), -1)
    found = {"loss": measure_estimate(flat, total, seed=0, higher_is_better=False)}
    for number, term in enumerate(terms):
        part, front = table[:, number], f"{term.name}_" if term.name else ""
        if term.name:
            found[f"{front}loss"] = measure_estimate(part[:, :2], _share, seed=0, higher_is_better=False)
        if term.is_tokens:
            found[f"{front}perplexity"] = measure_estimate(
                part[:, :2], unit_perplexity_measure, seed=0, higher_is_better=False
            )
        if term.right is not None:
            found[f"{front}accuracy"] = measure_estimate(part[:, [2, 1]], _share, seed=0)
    return found


def _share(sample: Array) -> Any:
    """Sum of the first column over that of the second."""
    return sample[..., 0].sum(-1) / sample[..., 1].sum(-1)


def _length(tokenizer: Any, ids: Any) -> int:
    """Characters of the text that ``ids`` stand for."""
    text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return len(text)


def _true_length(tokenizer: Any, blocks: Blocks | PairRows) -> float:
    """Characters of the text for each that its decoded rows have: tokenizers drop a space here and there."""
    decoded = sum(_length(tokenizer, blocks[i].ids) for i in range(blocks.blocks))
    return blocks.file.info.characters / max(1, decoded)
