"""Predictions for examples: from a classifier, from a language model through a prompt, or from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from scipy.special import softmax

from challenge_sets.suites.expectations import Prediction
from challenge_sets.suites.tests import Suite, SuitePrompt
from workbench.data.files import read_jsonl, text_field
from workbench.data.tables import class_label
from workbench.errors import DataError, TaskError
from workbench.models import Kind, LoadedModel, TextFunction
from workbench.models.batching import HeadRow, encode_row
from workbench.models.problem import ProblemType, problem_of
from workbench.scoring import Blank, Engine, PrefixGroup, Request, Seq2SeqEngine, score_cloze
from workbench.scoring.streams import head_scores
from workbench.text import align

__all__ = ["Example", "PredictionFile", "Predictor", "predictor_for"]

_HEAD = "ForSequenceClassification"
_SPARE_TOKENS = 4  # tokens that a model puts around a text, and the full stop behind a masked answer


class Example(NamedTuple):
    """One text or several, under the id that prediction files use."""

    id: str
    texts: tuple[str, ...]


class Predictor(Protocol):
    """Gives each example a label and the probability of every label."""

    @property
    def policy(self) -> str:
        """How labels come about, in words."""

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """One prediction an example, in their order."""

    def members(self, example: Example, label: str) -> str:
        """The text that a language model found likely for ``label``; the example itself for others."""


def predictor_for(
    model: LoadedModel | TextFunction, suite: Suite, batch_tokens: str | int = "auto"
) -> Predictor:
    """The predictor for this kind of model.

    Raises :class:`~workbench.errors.TaskError` if a classifier lacks a label of the suite, or a language
    model is given and the suite has no prompt; :class:`~workbench.errors.ModelError` for an encoder.
    """
    if isinstance(model, TextFunction):
        return _Function(model, _matched(model.labels, suite, model.name, "labels"))
    model.require(Kind.CLASSIFIER, Kind.CAUSAL, Kind.MASKED, Kind.SEQ2SEQ, verb=f"suite {suite.name}")
    if model.kind is Kind.CLASSIFIER:
        return _Classifier(model, _names(model, suite), batch_tokens)
    if suite.prompt is None:
        raise TaskError(
            f"suite {suite.name} has no prompt, so a language model cannot be asked; give it one "
            "(prompt: text and answers), or use a classifier or --predictions"
        )
    return _Prompted(model, suite.prompt, batch_tokens)


def _names(model: LoadedModel, suite: Suite) -> tuple[str, ...]:
    """The suite's label for each output of a classifier; outputs it does not know keep their own name."""
    problem = problem_of(model.model)
    if problem is not ProblemType.ONE_LABEL or not type(model.model).__name__.endswith(_HEAD):
        raise TaskError(
            f"suite {suite.name} needs a head that gives a text one of several labels; {model.name} is a "
            f"{type(model.model).__name__} with problem_type {problem} in its config.json"
        )
    theirs = [str(name) for _, name in sorted(model.config.id2label.items())]
    return _matched(theirs, suite, model.name, "id2label in the model's config.json")


def _matched(theirs: Sequence[str], suite: Suite, model: str, place: str) -> tuple[str, ...]:
    """The suite's label for each of ``theirs``; ``place`` is where the model called ``model`` names them."""
    known = {
        alias.casefold(): label for label, aliases in suite.labels.items() for alias in (label, *aliases)
    }
    ours = tuple(known.get(name.casefold(), name) for name in theirs)
    missing = [label for label in suite.labels if label not in ours]
    if missing:
        raise TaskError(
            f"suite {suite.name} needs the label {missing[0]!r}; {model} has {', '.join(theirs)}: add the "
            f"model's name for it to the suite's labels, or to {place}"
        )
    return ours


@dataclass(frozen=True)
class _Classifier:
    """Softmax over the outputs of a classification head.

    ``labels`` holds the suite's label for each output. Where several outputs stand for one label (neutral and
    contradiction for non-entailment), the label is that of the most probable output, as in McCoy et al. (2019), and
    their probabilities are added.
    """

    model: LoadedModel
    labels: tuple[str, ...]
    batch_tokens: str | int = "auto"

    @property
    def policy(self) -> str:
        """See :class:`Predictor`."""
        return "label of the classification head"

    def members(self, example: Example, label: str) -> str:
        """See :class:`Predictor`."""
        return " ".join(example.texts)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """See :class:`Predictor`; texts longer than the model are truncated."""
        rows = [encode_row(self.model, *example.texts) for example in examples]
        outputs = head_scores(self.model, rows, self.batch_tokens)
        return [
            _summed(self.labels, output["logits"].softmax(-1).tolist(), self._truncated(example, row))
            for example, row, output in zip(examples, rows, outputs, strict=True)
        ]

    def _truncated(self, example: Example, row: HeadRow) -> int:
        """Tokens of the example that do not fit into the model."""
        if row.length < self.model.max_length:
            return 0
        return len(self.model.tokenizer(*example.texts, verbose=False)["input_ids"]) - row.length


def _summed(labels: Sequence[str], outputs: Sequence[float], truncated: int = 0) -> Prediction:
    """The prediction of outputs that stand for ``labels``, several of which may be one label."""
    summed = dict.fromkeys(labels, 0.0)
    for label, probability in zip(labels, outputs, strict=True):
        summed[label] += probability
    best = max(range(len(outputs)), key=lambda i: outputs[i])
    return Prediction(labels[best], summed, truncated)


@dataclass(frozen=True)
class _Function:
    """What a function of the user's returns; ``labels`` holds the suite's label for each of its columns."""

    function: TextFunction
    labels: tuple[str, ...]

    @property
    def policy(self) -> str:
        """See :class:`Predictor`."""
        return "label of the function's largest probability"

    def members(self, example: Example, label: str) -> str:
        """See :class:`Predictor`."""
        return " ".join(example.texts)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """See :class:`Predictor`."""
        texts = [example.texts[0] if len(example.texts) == 1 else example.texts for example in examples]
        return [_summed(self.labels, row) for row in self.function.probabilities(texts).tolist()]


@dataclass(frozen=True)
class _Prompted:
    """Probabilities of the answers behind a prompt, taken among themselves."""

    model: LoadedModel
    prompt: SuitePrompt
    batch_tokens: str | int

    @property
    def policy(self) -> str:
        """See :class:`Predictor`."""
        answers = "/".join(answer.strip() for answer in self.prompt.answers.values())
        said = self.model.prompt
        chat = f" in chat format{f', system {said.system!r}' if said.system else ''}" if said.chat else ""
        return f"most probable answer behind {self.prompt.text!r}{chat}: {answers}"

    def members(self, example: Example, label: str) -> str:
        """See :class:`Predictor`."""
        return self.prompt.filled(example.texts) + self.prompt.answers.get(label, "")

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """See :class:`Predictor`."""
        labels = list(self.prompt.answers)
        prompts = [self._fitted(self.prompt.filled(example.texts)) for example in examples]
        scores = iter(self._scores([(p, self.prompt.answers[label]) for p, _ in prompts for label in labels]))
        return [
            _prediction(labels, softmax([next(scores) for _ in labels]).tolist(), truncated)
            for _, truncated in prompts
        ]

    def _fitted(self, prompt: str) -> tuple[str, int]:
        """The end of the prompt that fits into the model with the longest answer, and how many tokens are left out."""
        tokenizer, answers = self.model.tokenizer, self.prompt.answers.values()
        answer = max(len(tokenizer(text, add_special_tokens=False).input_ids) for text in answers)
        frame = len(self.model.read(".")) if self.model.prompt.chat else 0
        room = self.model.max_length - answer - _SPARE_TOKENS - frame
        tokens = align(prompt, tokenizer, add_special_tokens=False)
        if len(tokens) <= room:
            return prompt, 0
        surplus = len(tokens) - max(room, 1)
        return prompt[tokens.offsets[surplus][0] :], surplus

    def _scores(self, asked: list[tuple[str, str]]) -> list[float]:
        """Log-probability (nats) of each answer behind its prompt."""
        if self.model.kind is Kind.CAUSAL:
            engine = Engine(self.model, "auto", self.batch_tokens)
            blank = " " if self.model.prompt.chat else ""  # a reply begins without the one before the answer
            sequences = engine.encode([Request(prompt, a.removeprefix(blank)) for prompt, a in asked])
            size = len(self.prompt.answers)
            groups = [PrefixGroup(tuple(sequences[i : i + size])) for i in range(0, len(sequences), size)]
            return [score.log_probability for scores in engine.score_groups(groups) for score in scores]
        if self.model.kind is Kind.MASKED:
            blanks = [Blank(f"{prompt.rstrip()} ", ".", answer.strip()) for prompt, answer in asked]
            return [
                s.log_probability for s in score_cloze(self.model, blanks, batch_tokens=self.batch_tokens)
            ]
        requests = [Request(prompt, answer.strip()) for prompt, answer in asked]
        return [
            score.log_probability for score in Seq2SeqEngine(self.model, self.batch_tokens).score(requests)
        ]


def _prediction(labels: Sequence[str], probabilities: Sequence[float], truncated: int) -> Prediction:
    of_label = dict(zip(labels, probabilities, strict=True))
    return Prediction(max(labels, key=lambda label: of_label[label]), of_label, truncated)


@dataclass(frozen=True)
class PredictionFile:
    """Predictions of any system: JSON lines with ``id``, ``label`` and, if it has them, ``probabilities``.

    The lines go in the order of ``workbench check --suite NAME --export FILE``, with its ids.
    """

    path: Path
    labels: tuple[str, ...]
    rows: tuple[tuple[str, Prediction], ...] = field(repr=False)
    sha256: str = ""
    device: ClassVar[str] = "cpu"  # as a model has one

    def identity(self) -> dict[str, Any]:
        """What stands for the model in a run's record."""
        return {"name": str(self.path), "kind": "predictions", "content_hash": self.sha256}

    @classmethod
    def read(cls, path: Path, suites: Sequence[Suite]) -> PredictionFile:
        """Raises :class:`~workbench.errors.DataError` naming the line for labels that the suites lack."""
        labels = tuple(dict.fromkeys(label for suite in suites for label in suite.labels))
        rows = []
        for number, record in read_jsonl(path):
            where = f"{path}, line {number}"
            rows.append((text_field(record, "id", where), _read_prediction(record, labels, where)))
        return cls(path, labels, tuple(rows), hashlib.sha256(path.read_bytes()).hexdigest())

    @property
    def policy(self) -> str:
        """Where the predictions come from."""
        return f"predictions in {self.path.name}"

    def members(self, example: Example, label: str) -> str:
        """The example's own text."""
        return " ".join(example.texts)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise :class:`~workbench.errors.DataError` unless the lines are the examples, one by one, in order."""
        for number, (example, (given, _)) in enumerate(zip(examples, self.rows, strict=False), 1):
            if example.id != given:
                raise DataError(
                    f"{self.path}, line {number} has id {given!r}, but example {number} is {example.id!r}; "
                    "keep the order and ids of the exported texts (--export)"
                )
        if len(self.rows) != len(examples):
            raise DataError(
                f"{self.path} has {len(self.rows)} predictions for {len(examples)} texts; "
                "it needs one line for each exported text (--export)"
            )

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """The predictions under the examples' ids."""
        known = dict(self.rows)
        return [known[example.id] for example in examples]


def _read_prediction(record: dict[str, Any], labels: Sequence[str], where: str) -> Prediction:
    label = class_label(text_field(record, "label", where), where)
    probabilities = record.get("probabilities", {label: 1.0})
    if not isinstance(probabilities, dict) or not all(
        isinstance(p, (int, float)) and 0 <= p <= 1 for p in probabilities.values()
    ):
        raise DataError(
            f"{where}: probabilities must map labels to numbers from 0 to 1, is {probabilities!r:.60}"
        )
    for name in (label, *probabilities):
        if name not in labels:
            raise DataError(f"{where}: unknown label {name!r}; the suite's labels: {', '.join(labels)}")
    return Prediction(label, {name: float(p) for name, p in probabilities.items()})
