"""SyntaxGym suites: predictions about the surprisal of regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from challenge_sets.readers import syntaxgym
from challenge_sets.sets.base import QuestionSet, Results, by_groups, within_limits
from workbench.data import Dataset
from workbench.errors import DataError
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, Request
from workbench.statistics import proportion
from workbench.text import split_texts

__all__ = ["SYNTAXGYM", "SyntaxGym"]


class SuiteItem(NamedTuple):
    """An item with the suite whose predictions it must fulfil."""

    suite: syntaxgym.SyntaxGymSuite
    item: syntaxgym.SyntaxGymItem

    @property
    def id(self) -> str:
        """Suite and item number."""
        return f"{self.suite.name}-{self.item.number}"


class SyntaxGym(QuestionSet):
    """Share of items for which the suite's predictions hold (Hu et al. 2020).

    A region's surprisal (bits) sums that of its tokens; a token belongs to the region in which it begins,
    white space aside. BOS stands before each sentence, so the first token has a surprisal too.
    """

    def items(self) -> Dataset[SuiteItem]:
        """The items of every suite in the folder, or of one file."""
        folder = self.folder()
        files = [folder] if folder.is_file() else sorted(Path(folder).glob("*.json"))
        if not files:
            raise DataError(f"no SyntaxGym suite (*.json) in {folder}")
        items = [SuiteItem(suite, item) for suite in map(syntaxgym.read, files) for item in suite.items]
        kept = within_limits(items, lambda item: item.suite.name, self.options)
        texts = (condition.text for i in kept for condition in i.item.conditions)
        return self.dataset(kept, texts, folder.name)

    def policy(self, model: LoadedModel) -> str:
        """How regions are scored."""
        return "surprisal of each region in bits; a token belongs to the region in which it begins"

    def scored(
        self, model: LoadedModel, items: Sequence[SuiteItem], inference: InferenceOptions
    ) -> list[dict[str, Any]]:
        """Whether all predictions hold for an item, and each of them."""
        conditions = [condition for item in items for condition in item.item.conditions]
        engine = Engine(model, "prefix", inference.batch_tokens, inference.progress)
        scores = engine.score([Request("", condition.text) for condition in conditions])
        bits = iter(
            _regions(model, c, s.token_log_probabilities) for c, s in zip(conditions, scores, strict=True)
        )
        return [_row(item, [next(bits) for _ in item.item.conditions]) for item in items]

    def results(self, examples: pd.DataFrame) -> Results:
        """Over all items, and by suite."""
        return by_groups(
            self.name, examples, ("suite",), lambda part: {"accuracy": proportion(part["correct"].tolist())}
        )


def _regions(
    model: LoadedModel, condition: syntaxgym.SyntaxGymCondition, log_probabilities: Sequence[float]
) -> dict[tuple[str, int], float]:
    """Surprisal in bits by condition and region number; empty regions have 0."""
    text = condition.text
    (pieces,) = split_texts([text], model.tokenizer, add_special_tokens=False)
    ends, position = [], 0
    for region in condition.regions:
        for word in region.text.split():
            position = text.index(word, position) + len(word)
        ends.append(position)
    found = {(condition.name, region.number): 0.0 for region in condition.regions}
    for (start, end), value in zip(pieces.offsets, log_probabilities, strict=True):
        begin = start + len(text[start:end]) - len(text[start:end].lstrip())
        place = next((k for k, stop in enumerate(ends) if begin < stop), len(ends) - 1)
        found[condition.name, condition.regions[place].number] -= value / math.log(2)
    return found


def _row(item: SuiteItem, bits: list[dict[tuple[str, int], float]]) -> dict[str, Any]:
    surprisals = {key: value for of_condition in bits for key, value in of_condition.items()}
    holds = [prediction.holds(surprisals) for prediction in item.suite.predictions]
    return {
        "id": item.id,
        "suite": item.suite.name,
        "correct": all(holds),
        "predictions": holds,
        "texts": [condition.text for condition in item.item.conditions],
        "surprisals": [f"{name}/{region}: {value:.3f}" for (name, region), value in surprisals.items()],
    }


SYNTAXGYM = SyntaxGym(
    "syntaxgym",
    "SyntaxGym suites: surprisal of regions, and formulas about them",
    files="SyntaxGym's *.json",
    kinds=(Kind.CAUSAL,),
)
