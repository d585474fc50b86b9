"""SuperGLUE (Wang et al. 2019), asked as lm-eval asks where it has the task."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from workbench.data.rows import Blanked, SpanPair, TextPair
from workbench.data.superglue import (
    SUPERGLUE_LABELS,
    superglue_blanked,
    superglue_choices,
    superglue_pairs,
    superglue_spans,
)
from workbench.evaluate._task import Task
from workbench.evaluate.metrics import (
    ACCURACY,
    EXACT_MATCH,
    F1,
    MACRO_F1,
    MATTHEWS,
    WORD_F1,
    Metric,
    OfRows,
    exact_groups,
)
from workbench.evaluate.tasks.task_types import ClozeTask, MultipleChoice, SpanPairs, TextClassification

__all__ = ["SUPERGLUE_AVERAGE", "SUPERGLUE_TASKS"]


def _boolq(row: TextPair) -> str:
    return f"{row.text}\nQuestion: {row.pair}?\nAnswer:"


def _cb(row: TextPair) -> str:
    return f"{row.text}\nQuestion: {row.pair}. True, False, or Neither?\nAnswer:"


def _rte(row: TextPair) -> str:
    return f"{row.text}\nQuestion: {row.pair} True or False?\nAnswer:"


def _multirc(row: TextPair) -> str:
    """lm-eval's text; it scores the answer too, which is the same for both labels and so changes nothing."""
    passage, _, question = row.text.rpartition("\n")
    return f"{passage}\nQuestion: {question}\nAnswer: {row.pair}\nIs the answer correct?"


def _wic(row: SpanPair) -> str:
    return (
        f"Sentence 1: {row.first}\nSentence 2: {row.second}\n"
        f"Question: Is the word '{row.words[0]}' used in the same way in the two sentences above?\nAnswer:"
    )


def _wsc(row: SpanPair) -> str:
    """The pronoun stands between asterisks."""
    start, end = row.second_span
    noun, pronoun = row.words
    passage = f"{row.second[:start]}*{pronoun}*{row.second[end:]}"
    question = f'In the passage above, does the pronoun "*{pronoun}*" refer to "*{noun}*"?'
    return f"Passage: {passage}\nQuestion: {question}\nAnswer:"


def _record(row: Blanked) -> str:
    """The article, its summary points as a list, and the start of one more."""
    text, *points = row.passage.strip().split("\n@highlight\n")
    return text + "\n\n" + "".join(f"  - {point}.\n" for point in points) + "  - "


def _parity(examples: pd.DataFrame) -> float:
    """Share of sentence twins, which differ in a pronoun's gender, that get the same label."""
    return float((examples.groupby("group")["prediction"].nunique() == 1).mean())


GENDER_PARITY = OfRows(
    "gender_parity", _parity, "share of twins that differ in gender and get the same label"
)


@dataclass(frozen=True)
class _Pairs:
    """A task over pairs of texts."""

    name: str
    about: str
    words: tuple[str, ...]
    measures: tuple[Metric, ...]


_PROMPTS = {"boolq": _boolq, "cb": _cb, "rte": _rte, "axb": _rte, "axg": _rte, "multirc": _multirc}
_PAIRS = (
    _Pairs("boolq", "yes or no about a passage: BoolQ/val.jsonl", ("no", "yes"), (ACCURACY,)),
    _Pairs("cb", "commitment to a clause: CB/val.jsonl", ("True", "False", "Neither"), (ACCURACY, MACRO_F1)),
    _Pairs(
        "multirc",
        "answers to questions about a passage: MultiRC/val.jsonl",
        ("no", "yes"),
        (F1, exact_groups(), ACCURACY),
    ),
    _Pairs("rte", "does the first text entail the second: RTE/val.jsonl", ("True", "False"), (ACCURACY,)),
    _Pairs("axb", "diagnostic inference set, two-way: AX-b.jsonl", ("True", "False"), (MATTHEWS, ACCURACY)),
    _Pairs(
        "axg", "inference about pronouns' gender: AX-g.jsonl", ("True", "False"), (ACCURACY, GENDER_PARITY)
    ),
)

SUPERGLUE_TASKS: tuple[Task, ...] = (
    *(
        TextClassification(
            name=f"superglue/{pairs.name}",
            about=pairs.about,
            source=superglue_pairs(pairs.name),
            labels=SUPERGLUE_LABELS[pairs.name],
            words=pairs.words,
            prompt=_PROMPTS[pairs.name],
            measures=pairs.measures,
        )
        for pairs in _PAIRS
    ),
    MultipleChoice(
        name="superglue/copa",
        about="which clause is the cause or the effect: COPA/val.jsonl",
        source=superglue_choices(),
        prompt=lambda row: row.question,
        measures=(ACCURACY,),
    ),
    SpanPairs(
        name="superglue/wic",
        about="the same sense of a word in two sentences: WiC/val.jsonl; encoders by span states",
        source=superglue_spans("wic"),
        prompt=_wic,
    ),
    SpanPairs(
        name="superglue/wsc",
        about="does the pronoun stand for the noun: WSC/val.jsonl; encoders by span states",
        source=superglue_spans("wsc"),
        prompt=_wsc,
    ),
    ClozeTask(
        name="superglue/record",
        about="the entity left out of a sentence about the news: ReCoRD/val.jsonl",
        source=superglue_blanked(),
        passage=_record,
        measures=(WORD_F1, EXACT_MATCH),
    ),
)

# The benchmark's average over its eight tasks; the two diagnostics are left out.
SUPERGLUE_AVERAGE: dict[str, tuple[tuple[str, str], ...]] = {
    "boolq": (("superglue/boolq", "accuracy"),),
    "cb": (("superglue/cb", "accuracy"), ("superglue/cb", "macro_f1")),
    "copa": (("superglue/copa", "accuracy"),),
    "multirc": (("superglue/multirc", "f1"), ("superglue/multirc", "exact_match")),
    "record": (("superglue/record", "f1"), ("superglue/record", "exact_match")),
    "rte": (("superglue/rte", "accuracy"),),
    "wic": (("superglue/wic", "accuracy"),),
    "wsc": (("superglue/wsc", "accuracy"),),
}
