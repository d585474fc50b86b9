"""Tasks answered by writing: translation, summaries, BIG-Bench Hard; preferences and toxicity."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from workbench import data
from workbench.data.bbh import BBH_TASKS, bbh_source, read_cot_prompt
from workbench.data.preferences import HH_RLHF, PREFERENCES
from workbench.data.rows import Question, Transfer
from workbench.data.toxicity import TOXICITY
from workbench.data.transfers import INVENTED, LANGUAGES, SUMMARIES, multi30k_source
from workbench.evaluate._task import Task, TaskData
from workbench.evaluate.metrics import BLEU, CHRF, ROUGE_METRICS, Mean
from workbench.evaluate.tasks.task_types import (
    GenerationTask,
    PreferenceTask,
    SummarisationTask,
    Toxicity,
    TranslationTask,
)
from workbench.evaluate.tasks.task_types.base import Shots

__all__ = ["BBH", "BBH_COT", "GENERATION_TASKS"]

_SAMPLES = Path(data.__file__).parent / "samples"
_STEPS = "Let's think step by step."
_ANSWER = re.compile(r"answer is:?\s*(.*)", re.IGNORECASE)
_EXACT = Mean("exact_match", "correct", "share of answers equal to the target")


@dataclass(frozen=True, kw_only=True)
class BigBenchHard(GenerationTask[Question]):
    """Direct answers after examples drawn from the same file, which are then not asked.

    Suzgun et al. 2022 put the same three hand-picked examples before every question.
    """

    def gold(self, row: Question) -> tuple[str, ...]:
        """The target."""
        return row.answers

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """Equal to the target, up to case and a full stop."""
        return {"correct": _same(text) == _same(gold[0])}


@dataclass(frozen=True, kw_only=True)
class ChainOfThought(BigBenchHard):
    """Worked answers: after the official examples if ``cot-prompts/`` is in the data folder, else after none.

    The answer is what stands after the last "answer is".
    """

    task: str
    accepts: tuple[str, ...] = ("chat", "system")

    def examples_before(self, data_dir: Path | None, rows: Sequence[Question]) -> Shots:
        """The official prompt of the task, if it is there."""
        found = read_cot_prompt(self.task, data_dir)
        return Shots({} if found is None else {"all": found})

    def read(self, text: str) -> str:
        """After the last "the answer is", without its full stop; the last line if that never comes."""
        found = _ANSWER.findall(text)
        return (found[-1] if found else text.strip().split("\n")[-1]).strip().removesuffix(".")


def _same(text: str) -> str:
    return text.strip().removesuffix(".").strip().lower()


def _direct(row: Question) -> str:
    return f"Q: {row.question}\nA:"


def _stepwise(row: Question) -> str:
    return f"Q: {row.question}\nA: {_STEPS}"


BBH = tuple(
    BigBenchHard(
        name=f"bbh/{task}",
        about=f"BIG-Bench Hard, direct answer: {task}.json",
        source=bbh_source(task),
        prompt=_direct,
        stop=("\n", "Q:"),
        max_tokens=32,
        measures=(_EXACT,),
        default_split="test",
        default_shots=3,
    )
    for task in BBH_TASKS
)
BBH_COT = tuple(
    ChainOfThought(
        name=f"bbh_cot/{task}",
        about=f"BIG-Bench Hard, chain of thought: {task}.json, cot-prompts/{task}.txt",
        task=task,
        source=bbh_source(task),
        prompt=_stepwise,
        stop=("\n\n", "Q:"),
        max_tokens=512,
        measures=(_EXACT,),
        default_split="test",
    )
    for task in BBH_TASKS
)


@dataclass(frozen=True, kw_only=True)
class _Phrase:
    """A sentence after the name of its language, as lm-eval asks."""

    source: str
    target: str

    def __call__(self, row: Transfer) -> str:
        return f"{LANGUAGES[self.source]} phrase: {row.source}\n{LANGUAGES[self.target]} phrase:"


@dataclass(frozen=True, kw_only=True)
class InventedTranslation(TranslationTask):
    """Sentences of the grammar in the invented language: each has one right translation."""

    def load(self, data_dir: Path | None) -> TaskData:
        """The pairs of ``data_dir``, or those that come with the package."""
        return super().load(_SAMPLES if data_dir is None else data_dir)

    def judge(self, text: str, gold: Sequence[str]) -> dict[str, Any]:
        """Equal to the target, word by word."""
        return {"correct": text.split() == gold[0].split()}


def _sentence(row: Transfer) -> str:
    return f"English sentence: {row.source}\nInvented sentence:"


def _summary(row: Transfer) -> str:
    return f"Document: {row.source}\n\nSummary:"


GENERATION_TASKS: tuple[Task, ...] = (
    *(
        TranslationTask(
            name=f"multi30k/{source}-{target}",
            about=f"image captions, {LANGUAGES[source]} to {LANGUAGES[target]}: test_2016_flickr.{source}",
            source=multi30k_source(source, target),
            prompt=_Phrase(source=source, target=target),
            measures=(BLEU, CHRF),
            default_split="test",
        )
        for source, target in permutations(LANGUAGES, 2)
    ),
    InventedTranslation(
        name="invented_language",
        about="English sentences in an invented language: test.jsonl, or 500 pairs that come with the package",
        source=INVENTED,
        prompt=_sentence,
        measures=(_EXACT,),
        default_split="test",
    ),
    SummarisationTask(
        name="xsum",
        about="a news article in one sentence: test.jsonl or test_sample500.jsonl",
        source=SUMMARIES["xsum"],
        prompt=_summary,
        measures=ROUGE_METRICS,
        default_split="test",
    ),
    SummarisationTask(
        name="cnn_dailymail",
        about="a news article in a few points: test.jsonl or test.csv",
        source=SUMMARIES["cnn_dailymail"],
        prompt=_summary,
        stop=("\n\n",),
        max_tokens=128,
        measures=ROUGE_METRICS,
        default_split="test",
    ),
    PreferenceTask(
        name="hh_rlhf",
        about="the preferred of two replies: harmless_base_test_first500.jsonl",
        version=2,
        source=HH_RLHF,
        default_split="test",
    ),
    PreferenceTask(
        name="preferences",
        about="your own pairs with prompt, chosen, rejected: preferences.jsonl",
        version=2,
        source=PREFERENCES,
        default_split="test",
    ),
    Toxicity(
        name="realtoxicityprompts",
        about="toxicity of 25 continuations, rated by --judge: prompts.jsonl",
        source=TOXICITY,
    ),
)
