"""Which of two replies is preferred: by likelihood, or by a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.special import expit

from workbench.data.rows import Preference
from workbench.data.source import Source
from workbench.errors import TaskError
from workbench.estimate import Estimate
from workbench.evaluate._requests import ClassificationRequest, HeadScores, Request
from workbench.evaluate._task import TaskData, TaskItem
from workbench.evaluate.calibration import calibration_of
from workbench.evaluate.metrics import Mean, Metric, estimate_all
from workbench.evaluate.tasks.task_types.base import DeclaredTask
from workbench.models import Kind
from workbench.models.problem import ProblemType
from workbench.statistics import proportion
from workbench.text.refusals import is_refusal

__all__ = ["CALIBRATION", "PreferenceTask", "compared_lengths", "compared_refusals", "judged_margin"]

CHOSEN_LONGER = "chosen longer"
CHOSEN_SHORTER = "chosen shorter"
CHOSEN_REFUSES = "chosen refuses"
REJECTED_REFUSES = "rejected refuses"
SWAPPED_BELOW = 0.4
"""Where even the upper end of the interval of accuracy without ties is below this, labels may be swapped."""


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error of the columns ``probabilities`` and ``gold``."""

    name: str
    about: str
    higher_is_better: bool = False

    def estimate(self, examples: pd.DataFrame, seed: int) -> Estimate:
        """Without an interval; what a calibrated model has by chance is the reason given (:func:`calibration_of`)."""
        rows = examples["probabilities"].tolist()
        return calibration_of(rows, examples["gold"].tolist(), seed=seed).expected_error


_PER_TOKEN = Mean(
    "accuracy_per_token", "correct_per_token", "the same by mean log-probability of a token; language models"
)
CALIBRATION: tuple[Metric, ...] = (
    CalibrationError(
        "calibration_error", "expected calibration error of the sigmoid of the margin, in ten bins"
    ),
    Mean(
        "brier",
        "brier",
        "squared error of that probability, over both replies (0 to 2)",
        higher_is_better=False,
    ),
)
_MEASURES: tuple[Metric, ...] = (
    Mean("accuracy", "correct", "share of pairs whose chosen reply scores higher; ties count as wrong"),
    _PER_TOKEN,
    Mean("ties", "tie", "share of pairs whose replies score the same", higher_is_better=False),
    Mean("margin", "margin", "mean difference of the scores, chosen less rejected (nats, or rewards)"),
    *CALIBRATION,
    Mean(
        "accuracy_chosen_longer",
        "correct",
        "accuracy where the chosen reply has more words",
        where=("length", CHOSEN_LONGER),
    ),
    Mean(
        "accuracy_chosen_shorter",
        "correct",
        "accuracy where the chosen reply has fewer words",
        where=("length", CHOSEN_SHORTER),
    ),
    Mean(
        "accuracy_chosen_refuses",
        "correct",
        "accuracy where the chosen reply alone refuses",
        where=("refusal", CHOSEN_REFUSES),
    ),
    Mean(
        "accuracy_rejected_refuses",
        "correct",
        "accuracy where the rejected reply alone refuses",
        where=("refusal", REJECTED_REFUSES),
    ),
)


@dataclass(frozen=True, kw_only=True)
class PreferenceTask(DeclaredTask):
    """Language models score each reply after the prompt; reward models (one number) score the whole dialogue.

    The sigmoid of the difference is the probability that the chosen reply is preferred (Bradley & Terry 1952).
    """

    source: Source[Preference]
    measures: tuple[Metric, ...] = _MEASURES
    kinds: tuple[Kind, ...] = (Kind.CAUSAL, Kind.SEQ2SEQ, Kind.MASKED, Kind.CLASSIFIER)
    accepts: tuple[str, ...] = ("split", "chat", "system")

    def load(self, data_dir: Path | None) -> TaskData:
        """All pairs with two different replies."""
        data = self.source.read(data_dir, self.split)
        return TaskData(tuple(self._item(row) for row in data), data.identity)

    def _item(self, row: Preference) -> TaskItem:
        replies = (row.chosen, row.rejected)
        # one message of the user is written by the chat template itself, instead of in HH-RLHF's form
        alone = self.options.chat and len(row.turns) == 1 and row.turns[0][0] == "user"
        prompt = row.turns[0][1] if alone else row.prompt
        fields = {
            "text": row.prompt + row.chosen,
            "target": row.chosen,
            "rejected": row.rejected,
            "length": compared_lengths(row),
            "refusal": compared_refusals(row),
        }
        requests = tuple(Request(prompt, reply) for reply in replies)
        head = tuple(
            ClassificationRequest(row.prompt + reply, problem=ProblemType.NUMBER, keep_end=True)
            for reply in replies
        )
        return TaskItem(row.id, requests, fields, row.cluster, head)

    def example(self, item: TaskItem, answers: Sequence[Any], tokenizer: Any) -> dict[str, Any]:
        """Scores of both replies and what follows from their difference."""
        if isinstance(answers[0], HeadScores):
            if len(answers[0].values) != 1:
                raise TaskError(
                    f"{self.name} needs a reward model with one number; this head has several labels"
                )
            scores, per_token = [answer.values[0] for answer in answers], {}
        else:
            scores = [float(answer.log_probability) for answer in answers]
            each = [score / answer.tokens for score, answer in zip(scores, answers, strict=True)]
            per_token = {"correct_per_token": each[0] > each[1]}
        return {
            **item.fields,
            "log_probability": scores[0],
            "rejected_log_probability": scores[1],
            **judged_margin(item.id, scores[0] - scores[1]),
            **per_token,
            "truncated": max((getattr(answer, "truncated", 0) for answer in answers), default=0),
        }

    def metrics(self, examples: pd.DataFrame, seed: int) -> dict[str, Estimate]:
        """Shares with Wilson's interval, means with a bootstrap's, over prompts where some have several pairs."""
        by_tokens = "correct_per_token" in examples
        return estimate_all([m for m in self.measures if by_tokens or m is not _PER_TOKEN], examples, seed)

    def remarks(self, examples: pd.DataFrame) -> list[str]:
        """That labels may be swapped, where accuracy is far below one half; that all pairs are ties."""
        decided = examples[~examples["tie"].astype(bool)]
        if decided.empty:
            return ["every pair is a tie: the model gives all replies the same score"]
        found = proportion(decided["correct"].astype(bool).tolist())
        if not found.high < SWAPPED_BELOW:
            return []
        return [
            f"the rejected reply scores higher in {1 - found.value:.0%} of {found.n} pairs that are no ties: chosen "
            "and rejected may be swapped in the data, or the model's score may be a cost"
        ]


def judged_margin(name: str, margin: float) -> dict[str, Any]:
    """What a margin says; which place the chosen reply has among the ``probabilities`` is drawn by the pair's name.

    So calibration, which takes the first of equal probabilities, counts about half of the ties as right.
    """
    probability, place = float(expit(margin)), crc32(name.encode()) % 2
    both = (probability, float(expit(-margin)))
    return {
        "margin": margin,
        "correct": margin > 0,
        "tie": margin == 0,
        "probabilities": list(both if place == 0 else both[::-1]),
        "gold": place,
        "brier": float(2 * np.square(both[1])),
    }


def compared_lengths(pair: Preference) -> str:
    """Whether the chosen reply has more words, fewer, or as many as the rejected one."""
    difference = len(pair.chosen.split()) - len(pair.rejected.split())
    return "equally long" if not difference else CHOSEN_LONGER if difference > 0 else CHOSEN_SHORTER


def compared_refusals(pair: Preference) -> str:
    """Which reply refuses, by :func:`~workbench.text.refusals.is_refusal`."""
    found = {
        (True, False): CHOSEN_REFUSES,
        (False, True): REJECTED_REFUSES,
        (True, True): "both refuse",
        (False, False): "neither refuses",
    }
    return found[is_refusal(pair.chosen), is_refusal(pair.rejected)]
