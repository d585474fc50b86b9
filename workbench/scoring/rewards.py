"""Rewards of replies: by a model, by a regular expression, by a function, or by what other packages add.

A reward reads prompts and replies and gives one number for each reply, the higher the better. Packages add kinds of
reward by the entry-point group ``workbench.rewards``: an entry point's name is the kind (what stands before the colon),
its value a function from the rest of the name to a :class:`Reward`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

import torch

from workbench.errors import (
    ConfigError,
    ModelError,
    NumericsError,
    TaskError,
    WorkbenchError,
    WorkbenchWarning,
    did_you_mean,
)
from workbench.models import LoadedModel, load
from workbench.models.batching import encode_row_end
from workbench.models.function_names import import_named
from workbench.models.functions import in_a_line
from workbench.models.problem import ProblemType, log_probabilities, problem_of
from workbench.scoring.streams import head_scores
from workbench.terminal import counted

__all__ = [
    "CheckedReward",
    "ModelReward",
    "PatternReward",
    "PythonReward",
    "Reward",
    "find_reward",
    "reward_kinds",
]

_ENTRY_POINTS = "workbench.rewards"
_LARGE = 100.0  # a log-odds of 100 says that one reply in 10**43 is otherwise: a reward that large is no measurement


@runtime_checkable
class Reward(Protocol):
    """Gives each reply a number, the higher the better; ``name`` is what the run stores of it.

    A reward that only knows certain prompts (a suite's) has them as ``prompts``.
    """

    @property
    def name(self) -> str:
        """What the reward is called in runs and tables."""

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """One number for each reply to the prompt at its place."""


class ModelReward:
    """The number that a reward model gives a dialogue, or a classifier's log-odds of ``label``.

    A head with one number (:attr:`~workbench.models.problem.ProblemType.NUMBER`) and a classifier read the prompt
    and the reply as one text, or the reply alone with ``reply_only``. Of a text that is longer than the model the
    beginning is left out, so that the reply stays. The log-odds are ``log p - log(1 - p)`` of the label (nats): of a
    softmax over the labels, or of the label's own sigmoid where several may hold.

    Args:
        model: a model with a head for sequence classification, or its name.
        label: which of a classifier's labels is rewarded; none for a head with one number.
        reply_only: read the reply without its prompt.
        batch_tokens: tokens of a forward pass, padding included.

    Raises:
        ModelError: another kind of model.
        TaskError: a label that the model lacks, a classifier without a label, a label for a number.

    Example:
        ```python
        from workbench.scoring import ModelReward

        reward = ModelReward("sentiment-encoder", label="positive")
        print(reward(["The film was "], ["a quiet delight."]))
        ```
    """

    def __init__(
        self,
        model: LoadedModel | str,
        label: str | None = None,
        *,
        reply_only: bool = False,
        batch_tokens: str | int = "auto",
    ) -> None:
        self.model = load(model) if isinstance(model, str) else model
        self.column = _column(self.model, label)
        self.label, self.reply_only, self.batch_tokens = label, reply_only, batch_tokens

    @property
    def name(self) -> str:
        """``model:NAME#LABEL``."""
        return f"model:{self.model.name}" + ("" if self.label is None else f"#{self.label}")

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """See :class:`Reward`."""
        pairs = zip(prompts, replies, strict=True)
        texts = [reply if self.reply_only else prompt + reply for prompt, reply in pairs]
        rows = [encode_row_end(self.model, text) for text in texts]
        return [self._value(output["logits"]) for output in head_scores(self.model, rows, self.batch_tokens)]

    def _value(self, logits: torch.Tensor) -> float:
        if self.label is None:
            return float(logits[0])
        if problem_of(self.model.model) is ProblemType.LABEL_SET:
            return float(logits[self.column])  # the log-odds of a sigmoid is its logit
        logs = log_probabilities(logits.double(), ProblemType.ONE_LABEL)
        others = torch.cat([logs[: self.column], logs[self.column + 1 :]])
        return float(logs[self.column] - others.logsumexp(0))


def _column(model: LoadedModel, label: str | None) -> int:
    """Which output is read; raises as :class:`ModelReward` does."""
    if not type(model.model).__name__.endswith("ForSequenceClassification"):
        raise ModelError(
            f"a reward needs a model with a head for sequence classification; {model.name} is a "
            f"{type(model.model).__name__}: train one with workbench align --method reward"
        )
    labels = [str(name) for _, name in sorted(model.config.id2label.items())]
    if problem_of(model.model) is ProblemType.NUMBER:
        if label is not None:
            raise TaskError(f"{model.name} gives one number and has no labels; leave out #{label}")
        return 0
    if label is None:
        raise TaskError(
            f"{model.name} is a classifier; say which label is rewarded: model:{model.name}#LABEL, "
            f"its labels: {', '.join(labels)}"
        )
    if label not in labels or len(labels) < 2:
        raise TaskError(f"{model.name} has no label {label!r:.60}; {did_you_mean(label, labels)}")
    return labels.index(label)


class PatternReward:
    """1 for a reply in which the regular expression is found, else 0; the prompt is not read.

    Python's syntax, with ``(?i)`` at the beginning for any case. Raises :class:`~workbench.errors.ConfigError` for an
    expression that does not compile.

    Example:
        ```python
        from workbench.scoring import PatternReward

        print(PatternReward(r"\\bplease\\b")(["Ask: ", "Ask: "], ["Sit down, please.", "Sit down."]))
        ```
    """

    def __init__(self, pattern: str) -> None:
        try:
            self.pattern = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"reward pattern {pattern!r:.80} is no regular expression: {error}") from error

    @property
    def name(self) -> str:
        """``pattern:REGEX``."""
        return f"pattern:{self.pattern.pattern}"

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """See :class:`Reward`."""
        return [float(self.pattern.search(reply) is not None) for reply in replies]


class PythonReward:
    """A function of your own, ``f(prompts, replies) -> numbers``, as such or as ``module:function``.

    A name is imported from the current folder first, which runs the module's code: only for names that the user gives.
    Raises :class:`~workbench.errors.ModelError` for what cannot be imported or fails.
    """

    def __init__(self, function: str | Callable[[Sequence[str], Sequence[str]], Any], name: str = "") -> None:
        self.function: Callable[..., Any] = import_named(function) if isinstance(function, str) else function
        own = function if isinstance(function, str) else getattr(function, "__qualname__", "function")
        self.name = name or f"python:{own}"
        if not callable(self.function):
            raise ModelError(
                f"{self.name} is a {type(self.function).__name__}; a reward is a function of prompts and replies"
            )

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """See :class:`Reward`."""
        try:
            found = self.function(list(prompts), list(replies))
        except WorkbenchError:
            raise
        except Exception as error:  # a function of a user's can raise anything
            raise ModelError(
                f"{self.name} raised {in_a_line(error)} (given {_replies(len(replies))})"
            ) from error
        try:
            return [float(value) for value in found]
        except (TypeError, ValueError):
            said = " ".join(repr(found).split())[:60]
            raise ModelError(
                f"{self.name} returned {said}; it must return one number for each reply"
            ) from None


def _replies(number: int) -> str:
    return "1 reply" if number == 1 else f"{number:,} replies"


class CheckedReward:
    """A reward whose numbers are checked, and clipped to ``[-clip, clip]`` where ``clip`` is given.

    Says once, as a :class:`~workbench.errors.WorkbenchWarning`, that all replies of a call got the same number (nothing
    can be learned from them, which is not said of a reward that is only logged, ``learned=False``), and that a number
    is beyond 100 in size without being clipped.

    Raises:
        ModelError: not one number for each reply.
        NumericsError: NaN or infinite, with the reply.

    Example:
        ```python
        from workbench.scoring import CheckedReward, PatternReward

        reward = CheckedReward(PatternReward("please"), clip=0.5)
        print(reward(["", ""], ["please", "now"]))
        ```
    """

    def __init__(self, reward: Reward, clip: float | None = None, *, learned: bool = True) -> None:
        if clip is not None and not clip > 0:
            raise ConfigError(f"reward_clip {clip}; allowed: above 0, or none")
        self.reward, self.clip, self.learned = reward, clip, learned
        self._said: set[str] = set()

    @property
    def name(self) -> str:
        """The reward's own."""
        return self.reward.name

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """See :class:`Reward`."""
        values = [float(value) for value in self.reward(prompts, replies)]
        if len(values) != len(replies):
            raise ModelError(
                f"reward {self.name} returned {counted(len(values), 'number')} for "
                f"{_replies(len(replies))}; it must return one for each"
            )
        for value, reply in zip(values, replies, strict=True):
            if not math.isfinite(value):
                raise NumericsError(
                    f"reward {self.name} is {value} for the reply {reply!r:.60}, not a finite number"
                )
        self._say(values)
        return values if self.clip is None else [max(-self.clip, min(self.clip, v)) for v in values]

    def _say(self, values: list[float]) -> None:
        if self.learned and len(values) > 1 and min(values) == max(values):
            self._once(
                "constant",
                f"reward {self.name} is {values[0]:g} for all {len(values)} replies of a batch: nothing can be learned "
                "from replies that are equally good; sample more of them, or at a higher temperature",
            )
        largest = max(values, key=abs, default=0.0)
        if abs(largest) > _LARGE and self.clip is None:
            self._once(
                "large",
                f"reward {self.name} reached {largest:g}: beyond {_LARGE:g} in size it outweighs any penalty on KL; "
                "bound it with reward_clip",
            )

    def _once(self, what: str, message: str) -> None:
        if what not in self._said:
            self._said.add(what)
            warnings.warn(message, WorkbenchWarning, stacklevel=4)


def _model_reward(rest: str) -> Reward:
    name, _, label = rest.partition("#")
    return ModelReward(name, label or None)


_OWN: dict[str, Callable[[str], Reward]] = {
    "model": _model_reward,
    "pattern": PatternReward,
    "python": PythonReward,
}


@cache
def _kinds() -> dict[str, Any]:
    """Kinds of reward by name: our own functions, and entry points of installed packages."""
    return {**{point.name: point for point in entry_points(group=_ENTRY_POINTS)}, **_OWN}


def reward_kinds() -> list[str]:
    """What may stand before the colon of a reward's name."""
    return sorted(_kinds())


def find_reward(spec: str | Reward) -> Reward:
    """The reward called ``spec``, or ``spec`` itself if it is one.

    ``model:NAME`` (a reward model) or ``model:NAME#LABEL`` (a classifier's label), ``pattern:REGEX``,
    ``python:module:function``, and what packages add: ``suite:FILE`` and ``probe:RUN``.

    Raises:
        ConfigError: no name of a reward, with the nearest kinds.
        ModelError: what the name names cannot be used; :class:`~workbench.errors.TaskError` likewise.

    Example:
        ```python
        from workbench.scoring import find_reward

        print(find_reward("pattern:(?i)thank you")([""], ["Thank you."]))
        ```
    """
    if not isinstance(spec, str):
        return spec
    kind, colon, rest = spec.partition(":")
    if kind not in _kinds() or not colon or not rest:
        allowed = ", ".join(f"{name}:…" for name in reward_kinds())
        near = "" if kind in _kinds() else f" ({did_you_mean(kind, reward_kinds())})"
        raise ConfigError(f"unknown reward {spec!r:.80}{near}; allowed: {allowed}")
    found = _kinds()[kind]
    return (found if kind in _OWN else found.load())(rest)
