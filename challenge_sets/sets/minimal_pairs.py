"""Sets of minimal pairs: BLiMP, agreement, the generated pairs, and CrowS-Pairs with its own question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from challenge_sets._conventions import convention
from challenge_sets._records import MinimalPair
from challenge_sets.pairs import PairScore, PairScorer, pair_scorer, too_long
from challenge_sets.paradigms import PARADIGMS, SET_NAME, all_pairs
from challenge_sets.readers import agreement, blimp, crows_pairs
from challenge_sets.sets.base import PAIR_MODELS, QuestionSet, Results, Rows, by_groups, within_limits
from workbench.data import Dataset
from workbench.data.tables import has_columns
from workbench.errors import DataError
from workbench.evaluate import TaskItem, TaskOptions
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.statistics import Estimate, proportion
from workbench.terminal import counted

__all__ = ["AGREEMENT", "BLIMP", "BUILTIN", "CROWS_PAIRS", "CrowsPairs", "PairSet"]

# Pairs of each paradigm that are scored before those behind them.
_PAIRS_PER_ROUND = 100
_ACCEPTS = ("limit_per_paradigm", "convention", "reduction", "masking", "chat", "system")
Published = dict[str, dict[str, float]]


def _scorer(
    model: LoadedModel, options: TaskOptions, inference: InferenceOptions, *, shared_only: bool = False
) -> PairScorer:
    return pair_scorer(
        model,
        convention_name=options.convention,
        reduction_name=options.reduction,
        masking=options.masking,
        shared_only=shared_only,
        batch_tokens=inference.batch_tokens,
        progress=inference.progress,
    )


@dataclass(frozen=True)
class PairSet(QuestionSet):
    """Pairs of which the good member should be more probable; equal scores are ties, which count as stated.

    Pairs with equal members are left out, and counted in the run's notes; the lm-eval convention keeps them,
    as ties, which it counts as right.

    In chat format the members are replies to an empty message of the user, as lm-eval's --apply_chat_template has them:
    a chat model is trained to give probabilities to its own turn, not to the user's.
    """

    accepts = _ACCEPTS
    kinds: tuple[Kind, ...] = field(default=PAIR_MODELS, kw_only=True)
    read: Callable[[TaskOptions], Sequence[MinimalPair]]
    published: Callable[[TaskOptions], Published] = lambda _: {}
    default_source: str = "generated"

    def items(self) -> Dataset[MinimalPair]:
        """The pairs within the limits."""
        kept = self._within_limits
        if not self._tie_is_right:
            kept = [pair for pair in kept if not pair.members_equal]
        if not kept:
            raise DataError(f"set {self.name} has no pair to score; the members of all its pairs are equal")
        texts = (text for pair in kept for text in (pair.good, pair.bad))
        place = self.options.data_dir
        source = Path(place).name if place else self.default_source
        return self.dataset(kept, texts, source)

    @property
    def _tie_is_right(self) -> bool:
        return convention(self.options.convention).tie_is_right

    @cached_property
    def _within_limits(self) -> list[MinimalPair]:
        return within_limits(self.read(self.options), lambda pair: pair.paradigm, self.options)

    def policy(self, model: LoadedModel) -> str:
        """How texts are scored, and who wins a tie."""
        ties = "right" if self._tie_is_right else "wrong"
        return f"{_scorer(model, self.options, InferenceOptions()).policy}; ties count as {ties}"

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Rows:
        """Scores of both members (nats), margin, and whether the good one won."""
        pairs: list[MinimalPair] = [item.fields["item"] for item in items]
        scorer = _scorer(model, self.options, options)
        for places in _rounds([pair.paradigm for pair in pairs]):
            finished = {n for n, place in enumerate(places) if place in done}
            if len(finished) == len(places):
                continue
            asked = [pairs[place] for place in places]
            refused, scored = _parted(scorer, [(pair.good, pair.bad) for pair in asked], finished)
            yield [_unscored(asked[n], reason) for n, reason in refused.items() if n not in finished]
            for batch in scored:
                yield [_row(asked[n], score, self._tie_is_right) for n, score in batch]

    def results(self, examples: pd.DataFrame) -> Results:
        """Accuracy over all pairs, of each phenomenon and of each paradigm that has a name, with Wilson's intervals.

        The intervals are over pairs and take the paradigms as given.
        """
        rows = _with_scores(examples)
        found: Results = {self.name: {"accuracy": proportion(rows["correct"].tolist())}}
        for columns in (["phenomenon"], ["phenomenon", "paradigm"]):
            for names, part in rows.groupby(columns, sort=False):
                name = "/".join(filter(None, [self.name, *map(str, names)]))
                found.setdefault(name, {"accuracy": proportion(part["correct"].tolist())})
        return found

    def notes(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Beside those of all sets: published accuracies, and pairs left out because their members are equal."""
        found = {**super().notes(rows), "published": self.published(self.options)}
        equal = [pair.id for pair in self._within_limits if pair.members_equal]
        if equal and not self._tie_is_right:
            found["left_out"] = (
                f"{counted(len(equal), 'pair')} with equal members are left out: {', '.join(equal)}"
            )
        return found


def _rounds(paradigms: Sequence[str]) -> list[list[int]]:
    """Places of the first pairs of every paradigm, then of the next ones: an interrupted run is an even sample."""
    rounds: dict[int, list[int]] = {}
    counts: Counter[str] = Counter()
    for place, paradigm in enumerate(paradigms):
        rounds.setdefault(counts[paradigm] // _PAIRS_PER_ROUND, []).append(place)
        counts[paradigm] += 1
    return list(rounds.values())


def _row(pair: MinimalPair, score: PairScore, tie_is_right: bool) -> dict[str, Any]:
    tie = score.margin == 0
    return {
        "id": pair.id,
        "paradigm": pair.paradigm,
        "phenomenon": pair.phenomenon,
        "good": pair.good,
        "bad": pair.bad,
        "good_score": score.first,
        "bad_score": score.second,
        "margin": score.margin,
        "good_tokens": score.tokens[0],
        "bad_tokens": score.tokens[1],
        "tie": tie,
        "correct": bool(score.margin > 0 or (tie and tie_is_right)),
        "not_scored": "",
    }


def _unscored(pair: MinimalPair, reason: str) -> dict[str, Any]:
    """The row of a pair with a text that is too long for the model: no score, and why."""
    row = _row(pair, PairScore(0.0, 0.0, (0, 0)), False)
    nothing = dict.fromkeys(("good_score", "bad_score", "margin", "correct"))
    return {**row, **nothing, "tie": False, "not_scored": reason}


def _parted(
    scorer: PairScorer, texts: Sequence[tuple[str, str]], done: Set[int]
) -> tuple[dict[int, str], Iterator[list[tuple[int, PairScore]]]]:
    """Places of pairs that are too long, with the reason; scores of the others, batch by batch."""
    refused = too_long(scorer, texts)
    kept = [place for place in range(len(texts)) if place not in refused]
    finished = {n for n, place in enumerate(kept) if place in done}
    batches = scorer.stream([texts[place] for place in kept], finished) if kept else iter(())
    return refused, ([(kept[n], score) for n, score in batch] for batch in batches)


def _with_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of pairs that the model could read; runs stored before there were others have all of them."""
    if "not_scored" not in rows:
        return rows
    scored = rows[rows["not_scored"].fillna("").eq("")]
    if scored.empty:
        raise DataError(f"no pair could be scored: {rows['not_scored'].iloc[0]}")
    return scored


_BLIMP_HUB = "hub:nyu-mll/blimp"


def _blimp(options: TaskOptions) -> list[MinimalPair]:
    return blimp.read(BLIMP.folder(options))


def _blimp_published(options: TaskOptions) -> Published:
    """People's forced choices and the paper's models, by paradigm, phenomenon and overall."""
    data = Path(options.data_dir or ".")
    folders = [place / "published_results" for place in (data, data.parent)]
    folder = next((f for f in folders if (f / "human_validation_summary.csv").is_file()), None)
    if folder is None:
        return {}
    people = blimp.human_accuracy(folder / "human_validation_summary.csv")
    found = {"human": _blimp_groups(people)}
    models = folder / "models_summary.jsonl"
    if models.is_file():
        table = blimp.published_accuracy(models)
        accuracies = {uid: row["gpt2"] for uid, row in table.items() if "gpt2" in row and uid in people}
        scale = 100.0 if max(accuracies.values(), default=0.0) > 1 else 1.0
        found["gpt2_large_paper"] = _blimp_groups({uid: value / scale for uid, value in accuracies.items()})
    return found


def _blimp_groups(by_paradigm: Mapping[str, float]) -> dict[str, float]:
    """Means over paradigms, under the names that the results have."""
    groups: dict[str, list[float]] = {}
    for paradigm, value in by_paradigm.items():
        phenomenon = blimp.phenomenon_of(paradigm)
        names = ("blimp", f"blimp/{phenomenon}", f"blimp/{phenomenon}/{paradigm}")
        for name in names:
            groups.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in groups.items()}


def _builtin(options: TaskOptions) -> list[MinimalPair]:
    return all_pairs(options.limit_per_paradigm or 1000, options.seed)


def _agreement(options: TaskOptions) -> list[MinimalPair]:
    """Both sets, or whichever of them the folder holds, as whole sentences.

    Linzen et al. compare the verb's two forms after the words before it alone.
    """
    folder = AGREEMENT.folder(options)
    pairs: list[MinimalPair] = []
    for place in (folder / "linzen", folder):
        if any(place.glob("*.text")):
            pairs += [item.pair() for item in agreement.read_gold_text(place)]
            break
    if any(has_columns(file, agreement.MARVIN_LINZEN) for file in folder.glob("*.*")):
        pairs += agreement.read_marvin_linzen(folder)
    if not pairs:
        raise DataError(f"no linzen/*.text with *.gold, and no marvin_linzen*.tsv, in {folder}")
    return pairs


BLIMP = PairSet(
    "blimp",
    "67 paradigms of English grammar, with people's agreement",
    _blimp,
    _blimp_published,
    default_source=_BLIMP_HUB,
    files="BLiMP's *.jsonl, *.parquet or its table",
    hub=_BLIMP_HUB,
)
BUILTIN = PairSet(SET_NAME, f"{len(PARADIGMS)} generated paradigms; needs no files", _builtin)
AGREEMENT = PairSet(
    "agreement",
    "subject-verb agreement in text (Linzen) and templates (Marvin & Linzen)",
    _agreement,
    files="linzen/*.text with *.gold, and marvin_linzen*.tsv",
)


class CrowsPairs(QuestionSet):
    """How often the more stereotyping sentence is the more probable one; 0.5 is a model without preference.

    Masked models score the tokens that both members have (the published measure), others the whole text.
    """

    accepts = _ACCEPTS

    def items(self) -> Dataset[crows_pairs.StereotypePair]:
        """The pairs within the limits (``limit_per_paradigm`` by bias type)."""
        pairs = list(crows_pairs.read(self.folder()))
        kept = within_limits(pairs, lambda pair: pair.bias_type, self.options)
        texts = (text for pair in kept for text in (pair.more, pair.less))
        return self.dataset(kept, texts, "crows_pairs_anonymized.csv")

    def policy(self, model: LoadedModel) -> str:
        """How texts are scored."""
        scorer = _scorer(model, self.options, InferenceOptions(), shared_only=True)
        return f"{scorer.policy}; ties count as no preference for the stereotype"

    def rows(
        self, model: LoadedModel, items: Sequence[TaskItem], options: InferenceOptions, done: Set[int]
    ) -> Rows:
        """Scores of both sentences (nats) and which is preferred."""
        pairs: list[crows_pairs.StereotypePair] = [item.fields["item"] for item in items]
        scorer = _scorer(model, self.options, options, shared_only=True)
        refused, scored = _parted(scorer, [(pair.more, pair.less) for pair in pairs], done)
        yield [_crows_row(pairs[n], None, reason) for n, reason in refused.items() if n not in done]
        for batch in scored:
            yield [_crows_row(pairs[n], score) for n, score in batch]

    def results(self, examples: pd.DataFrame) -> Results:
        """Share preferring the stereotype: overall, by bias type, and by direction of the pair."""
        return by_groups(self.name, _with_scores(examples), ("bias_type", "direction"), _share, sort=True)


def _share(rows: pd.DataFrame) -> dict[str, Estimate]:
    preferred = rows["stereotype_preferred"].tolist()
    return {"stereotype_preferred": proportion(preferred, higher_is_better=False)}


def _crows_row(pair: crows_pairs.StereotypePair, score: PairScore | None, reason: str = "") -> dict[str, Any]:
    # In an antistereo pair the sentence called "more" states the opposite of a stereotype.
    return {
        "id": pair.id,
        "bias_type": pair.bias_type,
        "direction": pair.direction,
        "good": pair.less,
        "bad": pair.more,
        "margin": None if score is None else -score.margin,
        "tie": score is not None and score.margin == 0,
        "stereotype_preferred": None if score is None else bool(score.margin > 0),
        "correct": None if score is None else bool(score.margin <= 0),
        "not_scored": reason,
    }


CROWS_PAIRS = CrowsPairs(
    "crows_pairs",
    "1,508 pairs: is the stereotyping sentence more probable? by bias type (offensive text)",
    files="crows_pairs_anonymized.csv",
)
