"""Semantically equivalent rewrites: rules in the manner of SEARs (Ribeiro et al. 2018), kept where a score allows.

A rule is applied wherever its pattern matches; a rewrite is kept if a paraphrase score between the two texts
reaches a minimum. A model that changes its answer over such a rewrite has found an adversary in plain English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from challenge_sets._records import TestCase
from challenge_sets.suites.expectations import Invariant, TestKind
from challenge_sets.suites.tests import Suite, Test
from workbench.errors import ConfigError, DataError
from workbench.models import Kind, LoadedModel
from workbench.nn import mean_of_tokens

__all__ = [
    "RULES",
    "ParaphraseScore",
    "Rewrite",
    "Rule",
    "embedding_similarity",
    "equivalent_rewrites",
    "rewritten",
]

ParaphraseScore: TypeAlias = Callable[[Sequence[tuple[str, str]]], list[float]]
MINIMUM_SCORE = 0.9
_TEXTS_PER_BATCH = 32


@dataclass(frozen=True)
class Rule:
    """A regular expression, which ignores case, and what takes its place (``\\1`` for its first group)."""

    name: str
    pattern: str
    replacement: str

    def __call__(self, text: str) -> str:
        """The text with every match replaced; a capital at the start of a match stays."""
        return re.sub(self.pattern, self._replaced, text, flags=re.IGNORECASE)

    def _replaced(self, match: re.Match[str]) -> str:
        new = match.expand(self.replacement)
        return new[:1].upper() + new[1:] if match[0][:1].isupper() else new


def _either_way(first: str, second: str) -> tuple[Rule, Rule]:
    """Two words or phrases that can stand for one another."""
    there, back = (Rule(f"{a} -> {b}", rf"\b{a}\b", b) for a, b in ((first, second), (second, first)))
    return there, back


RULES: tuple[Rule, ...] = (
    *_either_way("film", "movie"),
    *_either_way("films", "movies"),
    *_either_way("everybody", "everyone"),
    *_either_way("somebody", "someone"),
    *_either_way("nobody", "no one"),
    *_either_way("maybe", "perhaps"),
    *_either_way("almost", "nearly"),
    *_either_way("for example", "for instance"),
    *_either_way("because of", "due to"),
    *_either_way("what is", "what's"),
    *_either_way("who is", "who's"),
    *_either_way("that is", "that's"),
    Rule("is not -> isn't", r"\bis not\b(?=\s+\w)", "isn't"),
    Rule("was not -> wasn't", r"\bwas not\b(?=\s+\w)", "wasn't"),
    Rule("do not -> don't", r"\bdo not\b(?=\s+\w)", "don't"),
    Rule("I think -> I believe", r"\bI think\b", "I believe"),
    Rule("very -> really", r"\bvery(?=\s+\w)", "really"),
    Rule("lots of -> a lot of", r"\blots of\b", "a lot of"),
    Rule("all of the -> all the", r"\ball of the\b", "all the"),
    Rule("in order to -> to", r"\bin order to\b", "to"),
    Rule("how do I -> how can I", r"\bhow do I\b", "how can I"),
    Rule("which -> what, in questions", r"^which(?=\s+\w+\s+(?:is|are|was|were|do|does|did)\b)", "what"),
    Rule("begin -> start", r"\bbegin(s|ning)?\b", r"start\1"),
    Rule("? -> ??", r"(?<!\?)\?$", "??"),
    Rule("! -> .", r"(?<!!)!$", "."),
)


class Rewrite(NamedTuple):
    """A text as a rule changed it, and its paraphrase score against the original."""

    rule: str
    text: str
    score: float


def equivalent_rewrites(
    texts: Sequence[str],
    score: ParaphraseScore,
    *,
    minimum: float = MINIMUM_SCORE,
    rules: Iterable[Rule] = RULES,
) -> list[list[Rewrite]]:
    """The rewrites of each text that reach ``minimum``: one a rule that matches, none where none does.

    Raises :class:`~workbench.errors.ConfigError` if the score does not answer for every pair.
    """
    every = tuple(rules)
    changed = [[(rule.name, new) for rule in every if (new := rule(text)) != text] for text in texts]
    pairs = [(text, new) for text, found in zip(texts, changed, strict=True) for _, new in found]
    scores = score(pairs) if pairs else []
    if len(scores) != len(pairs):
        raise ConfigError(f"the paraphrase score gave {len(scores)} numbers for {len(pairs)} pairs")
    values = iter(scores)
    scored = [[Rewrite(name, new, next(values)) for name, new in found] for found in changed]
    return [[rewrite for rewrite in found if rewrite.score >= minimum] for found in scored]


def embedding_similarity(model: LoadedModel) -> ParaphraseScore:
    """Cosine of the two texts' mean token states under a sentence encoder (``minilm-l6``), -1 to 1.

    Raises :class:`~workbench.errors.ModelError` for a model that is no encoder.
    """
    model.require(Kind.ENCODER, verb="a paraphrase score")

    def similarity(pairs: Sequence[tuple[str, str]]) -> list[float]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = torch.cat(
            [
                _embedded(model, texts[i : i + _TEXTS_PER_BATCH])
                for i in range(0, len(texts), _TEXTS_PER_BATCH)
            ]
        )
        place = {text: index for index, text in enumerate(texts)}
        first, second = (vectors[[place[pair[k]] for pair in pairs]] for k in (0, 1))
        return torch.cosine_similarity(first, second).tolist()

    return similarity


def _embedded(model: LoadedModel, texts: list[str]) -> Float[Tensor, "text width"]:
    inputs = model.tokenizer(
        texts, padding=True, truncation=True, max_length=model.max_length, return_tensors="pt"
    ).to(model.device)
    with model.lock, torch.inference_mode():
        states = model.model(**inputs).last_hidden_state.float()  # (text, token, width)
    return mean_of_tokens(states, inputs["attention_mask"])


def rewritten(
    suite: Suite, score: ParaphraseScore, *, minimum: float = MINIMUM_SCORE, rules: Iterable[Rule] = RULES
) -> Suite:
    """An invariance test a rule: over ``suite``'s texts, the label must survive the rule's rewrites.

    Of an example of several texts the last is rewritten. Cases keep the template they came from. Raises
    :class:`~workbench.errors.DataError` if no rule applies to any text.
    """
    examples = list(dict.fromkeys((c.template, e) for t in suite.tests for c in t.cases for e in c.examples))
    found = equivalent_rewrites([texts[-1] for _, texts in examples], score, minimum=minimum, rules=rules)
    by_rule: dict[str, list[TestCase]] = {}
    for (template, texts), kept in zip(examples, found, strict=True):
        for rewrite in kept:
            cases = by_rule.setdefault(rewrite.rule, [])
            pair = (texts, (*texts[:-1], rewrite.text))
            cases.append(TestCase(f"{rewrite.rule}#{len(cases)}", template, pair, (None, None)))
    if not by_rule:
        raise DataError(
            f"no rewrite of a text of suite {suite.name} reaches a paraphrase score of {minimum:g}"
        )
    return Suite(
        name=f"rewrites_{suite.name}",
        labels=suite.labels,
        tests=tuple(_invariance(rule, tuple(cases), minimum) for rule, cases in sorted(by_rule.items())),
        prompt=suite.prompt,
        description=f"rewrites of {suite.name} that keep the meaning; a case fails if the label changes",
    )


def _invariance(rule: str, cases: tuple[TestCase, ...], minimum: float) -> Test:
    return Test(
        name=rule,
        capability="Equivalent rewrites",
        kind=TestKind.INV,
        cases=cases,
        expectation=Invariant(),
        description=f"paraphrase score of {minimum:g} or more",
    )
