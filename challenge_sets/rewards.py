"""Suites as rewards: the share of a suite's expectations that a generated reply meets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from challenge_sets._records import TestCase
from challenge_sets.suite import load_suites
from challenge_sets.suites.expectations import EqualLabel, Expectation, NotLabel, Prediction
from challenge_sets.suites.tests import Suite
from workbench.errors import TaskError

__all__ = ["SuiteReward", "suite_reward"]

# expectations of one reply by itself; the others compare the replies to several prompts
_OF_ONE_REPLY = (EqualLabel, NotLabel)


@dataclass(frozen=True)
class _Expected:
    """What one prompt's reply is judged by."""

    answers: Mapping[str, str]
    case: TestCase
    expectation: Expectation

    def is_met(self, reply: str) -> bool:
        """Whether the label that the reply begins with is an expected one."""
        label = _label_of(reply, self.answers)
        if label is None:
            return False
        margin = self.expectation.judge(self.case, [Prediction(label, {label: 1.0})])
        return margin is not None and margin >= 0


def _label_of(reply: str, answers: Mapping[str, str]) -> str | None:
    """The label whose answer the reply begins with, whatever its case; of several the longest answer's."""
    said = reply.strip().casefold()
    begun = [label for label, answer in answers.items() if said.startswith(answer.strip().casefold())]
    return max(begun, key=lambda label: len(answers[label].strip()), default=None)


class SuiteReward:
    """For each reply the share of the suites' expectations of its prompt that it meets: 1 less the failure rate.

    The prompts are those that the suite asks a language model with (:attr:`prompts`). A reply stands for the label
    whose answer it begins with; one that begins with none meets nothing. Only expectations of a single reply
    count (minimum functionality tests): invariance and directional tests compare the replies to several prompts.

    Raises :class:`~workbench.errors.TaskError` for suites without a prompt or without such tests, and when called
    with a prompt that is not the suite's.
    """

    def __init__(self, suites: Sequence[Suite], name: str) -> None:
        self.name = f"suite:{name}"
        found: dict[str, list[_Expected]] = defaultdict(list)
        for suite in suites:
            for prompt, expected in _expectations(suite):
                found[prompt].append(expected)
        if not found:
            raise TaskError(
                f"{self.name} cannot judge a single reply: it needs a prompt (text and answers) and a test of kind MFT"
            )
        self._expected = dict(found)

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts that it can judge replies to, each once, in the suites' order."""
        return tuple(self._expected)

    def __call__(self, prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
        """Numbers from 0 to 1."""
        return [self._share(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]

    def _share(self, prompt: str, reply: str) -> float:
        expected = self._expected.get(prompt)
        if expected is None:
            raise TaskError(
                f"{self.name} judges replies to its own {len(self._expected)} prompts only; {prompt!r:.60} is none of "
                "them: leave out --data, and its prompts are used"
            )
        return sum(one.is_met(reply) for one in expected) / len(expected)


def _expectations(suite: Suite) -> Iterator[tuple[str, _Expected]]:
    if suite.prompt is None:
        return
    for test in suite.tests:
        if not isinstance(test.expectation, _OF_ONE_REPLY):
            continue
        for case in test.cases:
            for example, label in zip(case.examples, case.labels, strict=True):
                if label is not None:
                    single = TestCase(case.id, case.template, (example,), (label,))
                    yield (
                        suite.prompt.filled(example),
                        _Expected(suite.prompt.answers, single, test.expectation),
                    )


def suite_reward(name: str) -> SuiteReward:
    """The reward ``suite:NAME``: a suite of ours, a file or a folder, as ``workbench check --suite`` takes it."""
    return SuiteReward(load_suites(name), name)
