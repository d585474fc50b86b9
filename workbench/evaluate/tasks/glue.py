"""GLUE (Wang et al. 2019): zero- and few-shot by verbalised answers as lm-eval asks, or by a head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.data.glue import GLUE, glue_source
from workbench.data.rows import TextPair
from workbench.evaluate.metrics import ACCURACY, F1, MATTHEWS, PEARSON, SPEARMAN, Metric
from workbench.evaluate.tasks.task_types import TextClassification, TextScore

__all__ = ["GLUE_AVERAGE", "GLUE_TASKS"]


@dataclass(frozen=True)
class _Asked:
    """How a task is verbalised, and what counts."""

    prompt: Callable[[TextPair], str]
    words: tuple[str, ...]
    measures: tuple[Metric, ...]
    about: str


def _fixed(template: str) -> Callable[[TextPair], str]:
    return lambda row: template.format(text=row.text, pair=row.pair)


def _mnli(row: TextPair) -> str:
    hypothesis = (row.pair or "").strip()
    stop = "" if hypothesis.endswith(".") else "."
    return f"{row.text}\nQuestion: {hypothesis}{stop} True, False or Neither?\nAnswer:"


_TRUE_FALSE = _fixed("{text}\nQuestion: {pair} True or False?\nAnswer:")
_ASKED: dict[str, _Asked] = {
    "cola": _Asked(
        _fixed("{text}\nQuestion: Does this sentence make sense?\nAnswer:"),
        ("no", "yes"),
        (MATTHEWS,),
        "acceptable sentence or not",
    ),
    "sst2": _Asked(
        _fixed("{text}\nQuestion: Is this sentence positive or negative?\nAnswer:"),
        ("negative", "positive"),
        (ACCURACY,),
        "sentiment of a film review's sentence",
    ),
    "mrpc": _Asked(
        _fixed(
            "Sentence 1: {text}\nSentence 2: {pair}\nQuestion: Do both sentences mean the same thing?\nAnswer:"
        ),
        ("no", "yes"),
        (ACCURACY, F1),
        "paraphrase or not",
    ),
    "qqp": _Asked(
        _fixed(
            "Question 1: {text}\nQuestion 2: {pair}\nQuestion: Do both questions ask the same thing?\nAnswer:"
        ),
        ("no", "yes"),
        (ACCURACY, F1),
        "the same question or not",
    ),
    "stsb": _Asked(
        _fixed(
            "Sentence 1: {text}\nSentence 2: {pair}\n"
            "Question: How similar are both sentences, from 0 to 5?\nAnswer:"
        ),
        ("0", "1", "2", "3", "4", "5"),
        (PEARSON, SPEARMAN),
        "similarity of two sentences, 0 to 5",
    ),
    "mnli": _Asked(_mnli, ("True", "Neither", "False"), (ACCURACY,), "inference, genres of the train set"),
    "mnli_mismatched": _Asked(_mnli, ("True", "Neither", "False"), (ACCURACY,), "inference, other genres"),
    "qnli": _Asked(
        _fixed("{text}\n{pair}\nQuestion: Does this response answer the question?\nAnswer:"),
        ("yes", "no"),
        (ACCURACY,),
        "does the sentence answer the question",
    ),
    "rte": _Asked(_TRUE_FALSE, ("True", "False"), (ACCURACY,), "does the first text entail the second"),
    "wnli": _Asked(_TRUE_FALSE, ("False", "True"), (ACCURACY,), "inference that hangs on a pronoun"),
    "ax": _Asked(_mnli, ("True", "Neither", "False"), (MATTHEWS,), "diagnostic inference set, labelled file"),
}


# Names that heads of published models have for labels that GLUE numbers.
_ALIASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "cola": (("unacceptable", "acceptable"),),
    "sst2": (("neg", "pos"),),
    "mrpc": (("not_equivalent", "equivalent"),),
    "qqp": (("not_duplicate", "duplicate"),),
    "wnli": (("not_entailment", "entailment"),),
}


def _task(name: str, asked: _Asked) -> TextClassification:
    layout = GLUE[name]
    form = TextClassification if layout.labels else TextScore
    files = ", ".join(layout.validation)
    return form(
        name=f"glue/{name}",
        about=f"{asked.about}: {layout.folder}/{files}",
        source=glue_source(name),
        labels=layout.labels,
        words=asked.words,
        prompt=asked.prompt,
        measures=asked.measures,
        aliases=_ALIASES.get(name, ()),
    )


GLUE_TASKS: tuple[TextClassification, ...] = tuple(_task(name, asked) for name, asked in _ASKED.items())

# The benchmark's average: metrics of a task first, both MNLI sets as one task, AX left out.
GLUE_AVERAGE: dict[str, tuple[tuple[str, str], ...]] = {
    name: tuple((f"glue/{name}", metric.name) for metric in _ASKED[name].measures)
    for name in ("cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte", "wnli")
}
GLUE_AVERAGE["mnli"] = (("glue/mnli", "accuracy"), ("glue/mnli_mismatched", "accuracy"))
