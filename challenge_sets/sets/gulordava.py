"""Two forms of a verb at one place of a sentence: Gulordava et al. (2018), for masked models as Goldberg (2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from challenge_sets._conventions import convention
from challenge_sets.readers import gulordava
from challenge_sets.sets.base import QuestionSet, Results, by_groups, within_limits
from workbench.data import Dataset
from workbench.errors import DataError
from workbench.evaluate.inference import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Blank, score_cloze
from workbench.statistics import Estimate, clustered_wilson

__all__ = ["GULORDAVA", "Gulordava"]

_POLICIES = {
    Kind.CAUSAL: "log-probability of each form given the words before it (Gulordava et al. 2018)",
    Kind.MASKED: "log-probability of each form in place of a mask, the rest of the sentence given (Goldberg 2019), "
    "summed over its pieces, each behind a mask of its own",
    Kind.SEQ2SEQ: "log-probability of each form for a hidden word, the rest of the sentence given",
}


class Gulordava(QuestionSet):
    """How often the right form is the more probable one, in sentences from text and in nonsense made from them.

    Intervals are clustered by the original sentence, 41 in English, each with nine nonsense sentences.
    """

    accepts = ("limit_per_paradigm", "convention")

    def items(self) -> Dataset[gulordava.TargetItem]:
        """The items, within the limits (``limit_per_paradigm`` by pattern)."""
        folder = self.folder()
        kept = within_limits(list(gulordava.read(folder)), lambda item: item.pattern, self.options)
        if not kept:
            raise DataError(f"{folder} holds no sentence of Gulordava et al.")
        texts = (text for item in kept for text in (item.before, item.after, item.correct, item.wrong))
        return self.dataset(kept, texts, folder.name)

    def policy(self, model: LoadedModel) -> str:
        """What is scored."""
        return f"{_POLICIES[model.kind]}; ties are wrong"

    def scored(
        self, model: LoadedModel, items: Sequence[gulordava.TargetItem], inference: InferenceOptions
    ) -> list[dict[str, Any]]:
        """Log-probabilities (nats) of both forms, their pieces, and whether the right one won."""
        blanks = [
            Blank(f"{item.before} ", f" {item.after}", form)
            for item in items
            for form in (item.correct, item.wrong)
        ]
        scores = score_cloze(
            model,
            blanks,
            first_token=convention(self.options.convention).first_token,
            batch_tokens=inference.batch_tokens,
            progress=inference.progress,
        )
        found = [(score.log_probability, score.pieces) for score in scores]
        return [_row(item, found[2 * i : 2 * i + 2]) for i, item in enumerate(items)]

    def results(self, examples: pd.DataFrame) -> Results:
        """Accuracy over all sentences, over originals and nonsense, and by pattern."""
        return by_groups(self.name, examples, ("sentences", "pattern"), _accuracy)


def _accuracy(rows: pd.DataFrame) -> dict[str, Estimate]:
    return {"accuracy": clustered_wilson(rows["correct"].tolist(), rows["cluster"].tolist())}


def _row(item: gulordava.TargetItem, scores: Sequence[tuple[float, int]]) -> dict[str, Any]:
    (good, good_pieces), (bad, bad_pieces) = scores
    return {
        "id": item.id,
        "pattern": item.pattern,
        "sentences": "original" if item.is_original else "nonce",
        "cluster": item.original,
        "good": f"{item.before} {item.correct} {item.after}".strip(),
        "bad": f"{item.before} {item.wrong} {item.after}".strip(),
        "good_score": good,
        "bad_score": bad,
        "margin": good - bad,
        "good_pieces": good_pieces,
        "bad_pieces": bad_pieces,
        "tie": good == bad,
        "correct": bool(good > bad),
    }


GULORDAVA = Gulordava(
    "gulordava",
    "number agreement in text and in nonsense made from it",
    files="generated.text with generated.gold, or generated.tab",
)
