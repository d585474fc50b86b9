"""Rules of replacement induced from the rewrites of many texts (after Ribeiro, Singh & Guestrin 2018, SEARs).

Synonyms and phrases (:mod:`challenge_sets.rewrites`) propose rewrites of the texts; a judge accepts or refuses each in
its text (:func:`~challenge_sets.paraphrase_judge.nearer_than_fillers`). A rule is kept where nine tenths of its
rewrites are accepted (the paper's delta of 0.1); one that does not hold everywhere is tried with the word before or
behind, and kept if it is accepted more often there than elsewhere (Fisher's exact test at 5 %, corrected for as many
neighbours as are tried: among many, some would be accepted by chance). Then each rule is an invariance test over the
texts in which it is accepted: its failure rate is the flip rate.

What differs from the paper: it proposes by translating to and fro, scores a paraphrase by how likely that makes it
beside the text itself, generalises to parts of speech, takes rules from rewrites that fool the model and chooses among
them on other texts than it reports, and has people judge them. Here the proposals are a lexicon's: the rules do not
depend on the model that is tested, all that hold are reported, and there are none for words that the lexicon lacks. A
masked model's own proposals are not taken, because similarity does not tell which of them mean the same
(docs/findings.md has the numbers). A flip is a change of the model's label, whether or not that was right before.

What this does not see: register and grammar, a sense that the embedding misses too (*the big screen*, *the large
screen*), and whether the label rightly changes with the shade of meaning (*small*, *little*). No person has judged the
rules: read them before you call a flip an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy.stats import fisher_exact

from challenge_sets._records import TestCase
from challenge_sets.paraphrase_judge import Judge
from challenge_sets.rewrites import PHRASES, Replacement, Rule, Swap, may_replace, synonyms
from challenge_sets.suites.expectations import Invariant, TestKind
from challenge_sets.suites.tests import REWRITING, Suite, Test
from workbench.errors import DataError

__all__ = ["InducedRule", "induced_rules", "rewritten"]

_ACCEPTED = 0.9  # least share of a rule's rewrites that the judge accepts
_LEVEL = 0.05
_WORDS = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class InducedRule:
    """A rule, the rewrites of it that are accepted, by their text, and how many texts it matches."""

    rule: Rule
    rewrites: dict[str, str]
    matched: int


class _Candidate(NamedTuple):
    rule: Rule
    edits: tuple[Replacement, ...]
    swap: Swap | None  # of a word, which may be tried between neighbours


def induced_rules(
    texts: Sequence[str],
    judge: Judge,
    *,
    swaps: Iterable[Swap] | None = None,
    phrases: Iterable[Rule] = PHRASES,
    least: int = 5,
) -> list[InducedRule]:
    """The rules that hold in ``texts``, those with most accepted rewrites first; an empty list where none does.

    Args:
        texts: the texts; repeated ones count once.
        judge: says of each edit whether it keeps the meaning.
        swaps: words and their replacements, in small letters; synonyms of the texts' words by default. Those that
            :func:`~challenge_sets.rewrites.may_replace` forbids are left out.
        phrases: rules that are judged as they are.
        least: texts in which a rule must be accepted.

    Example:
        ```python
        from challenge_sets import induced_rules

        texts = [f"The film {verb}." for verb in ("ran", "began", "ended", "failed", "won")]
        rules = induced_rules(texts, lambda edits: [True] * len(edits))
        print([(found.rule.name, found.matched) for found in rules])
        ```
    """
    different = list(dict.fromkeys(texts))
    if swaps is None:
        swaps = synonyms({word for text in different for word in _WORDS.findall(text.lower())})
    proposed = [(Rule.of_words(swap), swap) for swap in swaps if may_replace(*swap)]
    found = [_candidate(rule, different, swap) for rule, swap in [*proposed, *((r, None) for r in phrases)]]
    candidates = [one for one in found if len(one.edits) >= least]
    edits = list(dict.fromkeys(edit for one in candidates for edit in one.edits))
    accepted = {edit for edit, keeps in zip(edits, judge(edits), strict=True) if keeps}
    kept = [rule for one in candidates for rule in _holding(one, accepted, least)]
    return sorted(kept, key=lambda one: -len(one.rewrites))


def _candidate(rule: Rule, texts: Iterable[str], swap: Swap | None) -> _Candidate:
    return _Candidate(rule, tuple(edit for text in texts if (edit := rule.edit(text))), swap)


def _holding(candidate: _Candidate, accepted: set[Replacement], least: int) -> Iterator[InducedRule]:
    """The rule, if it holds; else those with a neighbour that do and have a text that the ones before lack."""
    if rule := _judged(candidate, accepted, least):
        yield rule
        return
    seen: set[str] = set()
    tried = [one for one in _with_neighbours(candidate) if len(one.edits) >= least]
    for one in tried:
        rule = _judged(one, accepted, least)
        if (
            rule
            and len(tried) * _by_chance(one, candidate, accepted) <= _LEVEL
            and not rule.rewrites.keys() <= seen
        ):
            seen |= rule.rewrites.keys()
            yield rule


def _judged(candidate: _Candidate, accepted: set[Replacement], least: int) -> InducedRule | None:
    rewrites = {edit.text: edit.changed for edit in candidate.edits if edit in accepted}
    holds = len(rewrites) >= max(least, _ACCEPTED * len(candidate.edits))
    return InducedRule(candidate.rule, rewrites, len(candidate.edits)) if holds else None


def _by_chance(one: _Candidate, candidate: _Candidate, accepted: set[Replacement]) -> float:
    """How likely as many of ``one``'s edits are accepted if neighbours do not matter (one-sided)."""
    inside = sum(edit in accepted for edit in one.edits)
    outside = sum(edit in accepted for edit in candidate.edits) - inside
    rest = len(candidate.edits) - len(one.edits)
    table = [[inside, len(one.edits) - inside], [outside, rest - outside]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def _with_neighbours(candidate: _Candidate) -> Iterator[_Candidate]:
    """The rule behind each word that stands before it in its texts, and before each behind, the most frequent first."""
    if candidate.swap is None:
        return
    sides = {
        edit: (_last_word(edit.text[: edit.start]), _first_word(edit.text[edit.end :]))
        for edit in candidate.edits
    }
    counts = Counter((side, words[side]) for words in sides.values() for side in (0, 1) if words[side])
    for (side, word), _ in counts.most_common():
        rule = Rule.of_words(candidate.swap, **{("before", "behind")[side]: word})
        edits = tuple(edit for edit, words in sides.items() if words[side] == word)
        yield _Candidate(rule, edits, None)


def _last_word(text: str) -> str:
    found = re.search(r"([a-z']+) $", text.lower())
    return found[1] if found else ""


def _first_word(text: str) -> str:
    found = re.match(r" ([a-z']+)", text.lower())
    return found[1] if found else ""


def rewritten(suite: Suite, judge: Judge, *, least: int = 5) -> Suite:
    """An invariance test for each rule induced from ``suite``'s texts: the label must survive its rewrites.

    A test's failure rate is the rule's flip rate; it has a case for each text in which the rule is accepted. Of an
    example of several texts the last is rewritten. Cases keep the template they came from. Raises
    :class:`~workbench.errors.DataError` if no rule holds.
    """
    examples = list(dict.fromkeys((c.template, e) for t in suite.tests for c in t.cases for e in c.examples))
    texts = [example[-1] for _, example in examples]
    found = induced_rules(texts, judge, least=least)
    if not found:
        raise DataError(
            f"no rewrite rule holds in {least} of the {len(set(texts)):,} texts of {suite.name}; give more texts"
        )
    return Suite(
        name=f"rewrites_{suite.name}",
        labels=suite.labels,
        tests=tuple(_invariance(one, examples) for one in found),
        prompt=suite.prompt,
        description=f"rewrites of {suite.name} that keep the meaning; a case fails if the label changes",
    )


def _invariance(induced: InducedRule, examples: Sequence[tuple[str, tuple[str, ...]]]) -> Test:
    name = induced.rule.name
    cases = [
        TestCase(f"{name}#{i}", template, (texts, (*texts[:-1], induced.rewrites[texts[-1]])), (None, None))
        for i, (template, texts) in enumerate((t, e) for t, e in examples if e[-1] in induced.rewrites)
    ]
    return Test(
        name=name,
        capability=REWRITING,
        kind=TestKind.INV,
        cases=tuple(cases),
        expectation=Invariant(),
        description=f"matches {induced.matched} different texts and is accepted in {len(induced.rewrites)} of them",
    )
