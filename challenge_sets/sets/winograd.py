"""Winograd schemas: which of the nouns that could stand for the pronoun makes the rest more probable?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import pandas as pd

from challenge_sets._conventions import convention
from challenge_sets.readers import winograd
from challenge_sets.sets.base import QuestionSet, Results, Rows
from workbench.data import Dataset
from workbench.data.files import find_fitting
from workbench.data.tables import has_columns
from workbench.errors import DataError
from workbench.evaluate import TaskItem
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, Request
from workbench.statistics import proportion

__all__ = ["WSC", "Winograd"]


_PARTIAL = ("context_options",)


class Winograd(QuestionSet):
    """Partial scoring (Trinh & Le 2018): the text after the noun, given the text up to it.

    Reads ``context_options`` JSONL (WinoGrande, WSC), or SuperGLUE's WSC, whose items are put together by text
    and pronoun: a schema counts where exactly one of at least two nouns is right; others are left out.
    """

    accepts = ("limit_per_paradigm", "convention")

    def items(self) -> Dataset[winograd.PartialItem]:
        """The schemas."""
        folder = self.folder()
        items = tuple(_read(folder))[: self.options.limit or self.options.limit_per_paradigm]
        if not items:
            raise DataError(f"no schema in {folder} has at least two nouns of which exactly one is right")
        texts = (text for item in items for text in (*item.contexts, item.continuation))
        return self.dataset(items, texts, folder.name)

    def policy(self, model: LoadedModel) -> str:
        """What is scored."""
        return "sum of log-probabilities of the text after the noun, given the text up to it; ties are wrong"

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Rows:
        """Whether the right noun wins, and by how much (nats)."""
        todo = [item.fields["item"] for place, item in enumerate(items) if place not in done]
        first_token = convention(self.options.convention).first_token
        engine = Engine(model, first_token, options.batch_tokens, options.progress)
        owners = [(item, k) for item in todo for k in range(len(item.contexts))]
        requests = [Request(item.contexts[k], f" {item.continuation.strip()}") for item, k in owners]
        waiting: dict[str, dict[int, float]] = {}
        for batch in engine.stream(requests):
            ready = []
            for place, score in batch:
                item, k = owners[place]
                found = waiting.setdefault(item.id, {})
                found[k] = score.log_probability
                if len(found) == len(item.contexts):
                    ready.append(_row(item, found))
            yield ready

    def results(self, examples: pd.DataFrame) -> Results:
        """Accuracy."""
        return {self.name: {"accuracy": proportion(examples["correct"].tolist())}}


def _read(folder: Path) -> Iterable[winograd.PartialItem]:
    inside = (folder / "WSC").is_dir() and not (folder / "winogrande.jsonl").is_file()
    file = find_fitting(
        folder / "WSC" if inside else folder,
        lambda path: has_columns(path, _PARTIAL) or has_columns(path, ("text", "target")),
        "Winograd schemas",
        "winogrande.jsonl",
        "val.jsonl",
    )
    partial = has_columns(file, _PARTIAL)
    return winograd.read_partial(file) if partial else _schemas(winograd.read_wsc(file))


def _schemas(items: Iterable[winograd.WscItem]) -> Iterable[winograd.PartialItem]:
    """SuperGLUE's items put together by text and pronoun."""
    groups: dict[tuple[str, int], list[winograd.WscItem]] = {}
    for item in items:
        groups.setdefault((item.text, item.pronoun_position), []).append(item)
    for (text, position), candidates in groups.items():
        right = [k for k, item in enumerate(candidates) if item.same]
        words = text.split(" ")
        rest = " ".join(words[position + len(candidates[0].pronoun.split(" ")) :])
        if len(candidates) < 2 or len(right) != 1 or not rest.strip():
            continue
        before = " ".join(words[:position])
        contexts = tuple(_joined(before, item.noun) for item in candidates)
        yield winograd.PartialItem(candidates[right[0]].id, contexts, rest, right[0])


def _joined(before: str, noun: str) -> str:
    """The noun behind the text; an article that began its sentence loses its capital inside another."""
    if before and not before.rstrip().endswith((".", "!", "?")) and noun.split(" ")[0] in ("The", "A", "An"):
        noun = noun[0].lower() + noun[1:]
    return f"{before} {noun}".strip()


def _row(item: winograd.PartialItem, scores: dict[int, float]) -> dict[str, Any]:
    others = [k for k in scores if k != item.gold]
    best = max(others, key=lambda k: scores[k])
    margin = scores[item.gold] - scores[best]
    return {
        "id": item.id,
        "good": f"{item.contexts[item.gold]} {item.continuation}",
        "bad": f"{item.contexts[best]} {item.continuation}",
        "margin": margin,
        "tie": margin == 0,
        "correct": margin > 0,
    }


WSC = Winograd(
    "wsc",
    "Winograd schemas: WinoGrande, or SuperGLUE's WSC; partial scoring",
    kinds=(Kind.CAUSAL,),
    files="winogrande.jsonl, or WSC/val.jsonl",
)
