"""Cloze sets: Ettinger's diagnostics and LAMA's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from challenge_sets._conventions import convention
from challenge_sets.readers import lama, lm_diagnostics
from challenge_sets.sets.base import QuestionSet, Results, by_groups, within_limits
from workbench.data import Dataset
from workbench.errors import DataError
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Blank, ClozeScore, score_cloze
from workbench.statistics import proportion

__all__ = ["LAMA", "LM_DIAGNOSTICS", "Lama", "LmDiagnostics"]


class ClozeSet(QuestionSet):
    """A set whose items are words in blanks."""

    accepts = ("limit_per_paradigm", "convention")

    def policy(self, model: LoadedModel) -> str:
        """How a word is scored."""
        seen = "only what is before the blank" if model.kind is Kind.CAUSAL else "both sides of the blank"
        return f"log-probability of the word in the blank, summed over its pieces; the model reads {seen}"

    def scores(
        self, model: LoadedModel, blanks: Sequence[Blank], inference: InferenceOptions
    ) -> list[ClozeScore]:
        """A score for each blank, by the convention of the options."""
        first_token = convention(self.options.convention).first_token
        return score_cloze(model, blanks, first_token=first_token, batch_tokens=inference.batch_tokens)


class DiagnosticItem(NamedTuple):
    """Blanks of which the first should be the most probable, and those that people fill most often, if others."""

    id: str
    part: str
    group: str
    blanks: tuple[Blank, ...]
    expected: tuple[Blank, ...] = ()


class LmDiagnostics(ClozeSet):
    """CPRAG-102, ROLE-88 and NEG-136 (Ettinger 2020): word prediction and sensitivity.

    ``accuracy`` is the share of items whose expected word beats the other ones (CPRAG), of role pairs where the target
    is more probable in its own order (ROLE), and of contexts where the true word beats the false one (NEG): her tests
    of sensitivity, without a least difference. ``top_5`` is how often an expected word is among the five most probable:
    any of those that people give most often for ROLE, the true word for NEG (which she asks of affirmative contexts).
    """

    def items(self) -> Dataset[DiagnosticItem]:
        """The items of all four files."""
        folder = self.folder()
        items = [*_cprag(folder), *_role(folder), *_neg(folder, "SIMP"), *_neg(folder, "NAT")]
        kept = within_limits(items, lambda item: item.part, self.options)
        texts = (text for item in kept for b in item.blanks for text in (b.before, b.answer))
        return self.dataset(kept, texts, folder.name)

    def scored(
        self, model: LoadedModel, items: Sequence[DiagnosticItem], inference: InferenceOptions
    ) -> list[dict[str, Any]]:
        """Whether the first blank's word wins, by how much (nats), and its rank."""
        asked = [blank for item in items for blank in (*item.blanks, *item.expected)]
        scores = iter(self.scores(model, asked, inference))
        return [
            _diagnostic_row(item, [next(scores) for _ in item.blanks], [next(scores) for _ in item.expected])
            for item in items
        ]

    def results(self, examples: pd.DataFrame) -> Results:
        """Accuracy and top-5 of each part, and of each part's conditions."""
        found: Results = {}
        for part, of_part in examples.groupby("part", sort=False):
            found[f"{self.name}/{part}"] = _both(of_part)
            for group, of_group in of_part.groupby("group", sort=False):
                found[f"{self.name}/{part}/{group}"] = _both(of_group)
        return found


def _both(rows: pd.DataFrame) -> Any:
    return {
        "accuracy": proportion(rows["correct"].tolist()),
        "top_5": proportion((rows["rank"] <= 5).tolist()),
    }


def _ends(context: str, *words: str) -> tuple[Blank, ...]:
    return tuple(Blank(f"{context} ", ".", word) for word in words)


def _cprag(folder: Path) -> Iterable[DiagnosticItem]:
    for item in lm_diagnostics.read_cprag(folder):
        blanks = _ends(item.context, item.expected, item.within_category, item.between_category)
        yield DiagnosticItem(f"cprag-{item.id}", "CPRAG-102", f"constraint_{item.constraint}", blanks)


def _role(folder: Path) -> Iterable[DiagnosticItem]:
    """Each context is scored with its own target and with that of the sentence with the roles exchanged."""
    items = list(lm_diagnostics.read_role(folder))
    contexts = {item.id: item.context for item in items}
    for item in items:
        other = f"{item.pair}-{'b' if item.id.endswith('a') else 'a'}"
        if other not in contexts:
            raise DataError(f"ROLE-88 item {item.id} has no partner {other}")
        blanks = (*_ends(item.context, item.target), *_ends(contexts[other], item.target))
        given = _ends(item.context, *item.expected)
        yield DiagnosticItem(f"role-{item.id}", "ROLE-88", "target_in_its_own_order", blanks, given)


def _neg(folder: Path, part: str) -> Iterable[DiagnosticItem]:
    for item in lm_diagnostics.read_neg(folder, part):
        true, false = item.target_affirmative, item.target_negative
        for index, (name, right, wrong) in enumerate(
            (("affirmative", true, false), ("negative", false, true))
        ):
            blanks = tuple(Blank(f"{item.contexts(word)[index]} ", ".", word) for word in (right, wrong))
            natural = {None: "", True: "_natural", False: "_unnatural"}[item.licensed]
            yield DiagnosticItem(f"neg-{part}-{item.id}-{name}", f"NEG-136-{part}", name + natural, blanks)


def _diagnostic_row(
    item: DiagnosticItem, scores: list[ClozeScore], expected: list[ClozeScore]
) -> dict[str, Any]:
    first, *others = scores
    best = max(range(1, len(scores)), key=lambda i: scores[i].log_probability)
    margin = first.log_probability - max(score.log_probability for score in others)
    good, bad = item.blanks[0], item.blanks[best]
    return {
        "id": item.id,
        "part": item.part,
        "group": item.group,
        "good": good.before + good.answer,
        "bad": bad.before + bad.answer,
        "margin": margin,
        "tie": margin == 0,
        "correct": margin > 0,
        "rank": min(score.rank for score in expected or [first]),
        "predicted": first.top,
    }


class FactItem(NamedTuple):
    """A fact as a blank, and whether a baseline that knows only its relation's most frequent object gets it."""

    id: str
    source: str
    relation: str
    blank: Blank
    by_frequency: bool


class Lama(ClozeSet):
    """LAMA (Petroni et al. 2019): P@1 and P@10 of the object, over all facts and over the hard ones.

    Each fact counts once: by its relation's template, else its first sentence with a blank. For causal
    models only facts whose blank is at the end (nothing but punctuation follows) can be asked; the others
    are left out.
    An object of several pieces is at k if each piece is among the k most probable after those before it.
    ``*_without_frequent`` leaves out what a baseline gets that always answers the most frequent object that
    the file has for the relation. Ranks are over the whole vocabulary; Petroni et al. rank words that all their models
    have, and leave out other true objects of the same subject.
    """

    def items(self) -> Dataset[FactItem]:
        """The facts of every file in the folder."""
        folder = self.folder()
        facts = _facts(folder)
        frequent = _most_frequent(facts)
        items = [_fact_item(fact, frequent) for fact in facts]
        kept = within_limits(items, lambda item: item.relation, self.options)
        texts = (text for item in kept for text in (item.blank.before, item.blank.after, item.blank.answer))
        return self.dataset(kept, texts, folder.name)

    def scored(
        self, model: LoadedModel, items: Sequence[FactItem], inference: InferenceOptions
    ) -> list[dict[str, Any]]:
        """Rank and log-probability (nats) of the object; facts that cannot be asked have ``asked`` false."""
        open_items = [item for item in items if _askable(item, model.kind)]
        found = self.scores(model, [item.blank for item in open_items], inference)
        scores = {item.id: score for item, score in zip(open_items, found, strict=True)}
        return [_fact_row(item, scores.get(item.id)) for item in items]

    def results(self, examples: pd.DataFrame) -> Results:
        """P@1 and P@10 overall, by source and by relation."""
        asked = examples[examples["asked"]]
        if asked.empty:
            raise DataError(
                "no fact has its blank at the end, and a causal model reads only what is before it"
            )
        found = by_groups(self.name, asked, ("source",), _precision, sort=True)
        for names, part in asked.groupby(["source", "relation"], sort=True):
            found["/".join([self.name, *map(str, names)])] = _precision(part)
        return found


def _facts(folder: Path) -> list[lama.ClozeFact]:
    templates = lama.read_relations(folder) if (folder / "relations.jsonl").is_file() else {}
    files = [p for p in sorted(folder.rglob("*.jsonl")) if p.name != "relations.jsonl"]
    if not files:
        raise DataError(f"no LAMA files (*.jsonl) in {folder}")
    return [fact for file in files for fact in lama.read(file, templates)]


def _most_frequent(facts: Sequence[lama.ClozeFact]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for fact in facts:
        counts.setdefault(fact.relation, Counter())[fact.object] += 1
    return {relation: counter.most_common(1)[0][0] for relation, counter in counts.items()}


def _fact_item(fact: lama.ClozeFact, frequent: dict[str, str]) -> FactItem:
    text = fact.prompt or next(sentence for sentence in fact.sentences if lama.MASK in sentence)
    before, after = text.split(lama.MASK, 1)
    # A sentence may hold the object again: there it is filled in, so that it is no second blank.
    blank = Blank(before, after.replace(lama.MASK, fact.object), fact.object)
    by_frequency = fact.source != "Squad" and frequent[fact.relation] == fact.object
    name = f"{fact.source}/{fact.relation}/{fact.id}"
    return FactItem(name, fact.source, fact.relation, blank, by_frequency)


def _askable(item: FactItem, kind: Kind) -> bool:
    ends = not any(character.isalnum() for character in item.blank.after)
    return bool(item.blank.before.strip()) and (ends or kind is not Kind.CAUSAL)


def _fact_row(item: FactItem, score: ClozeScore | None) -> dict[str, Any]:
    return {
        "id": item.id,
        "source": item.source,
        "relation": item.relation,
        "text": f"{item.blank.before}{lama.MASK}{item.blank.after}",
        "object": item.blank.answer,
        "asked": score is not None,
        "rank": score.rank if score else None,
        "log_probability": score.log_probability if score else None,
        "pieces": score.pieces if score else None,
        "predicted": score.top if score else None,
        "by_frequency": item.by_frequency,
    }


def _precision(rows: pd.DataFrame) -> Any:
    hard = rows[~rows["by_frequency"].astype(bool)]
    found = {}
    for suffix, part in (("", rows), ("_without_frequent", hard)):
        if len(part):
            for k in (1, 10):
                found[f"p@{k}{suffix}"] = proportion((part["rank"] <= k).tolist())
    return found


LM_DIAGNOSTICS = LmDiagnostics(
    "lm_diagnostics",
    "Ettinger's psycholinguistic diagnostics: CPRAG-102, ROLE-88, NEG-136",
    version=2,
    chunk=256,
    files="CPRAG-102.tsv, ROLE-88.tsv and NEG-136-*.tsv",
)
LAMA = Lama(
    "lama",
    "facts as cloze sentences: T-REx, Google-RE, SQuAD",
    chunk=256,
    files="LAMA's relations.jsonl, TREx*, Google_RE/* and Squad/*",
)
