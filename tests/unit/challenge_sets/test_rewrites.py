"""Rules of rewriting by hand: what they match, what they change, and which words may take another's place."""

from __future__ import annotations

import pytest

from challenge_sets.rewrites import PHRASES, Replacement, Rule, may_replace, synonyms
from workbench.data.grammar import lexicon


def by_rule(text: str) -> dict[str, str]:
    edits = {rule.name: rule.edit(text) for rule in PHRASES}
    return {name: edit.changed for name, edit in edits.items() if edit}


@pytest.mark.parametrize(
    ("text", "rule", "expected"),
    [
        ("What is the best way to cook?", "what is -> what's", "What's the best way to cook?"),
        ("Which films are good?", "which -> what, in questions", "What films are good?"),
        ("It was not good.", "was not -> wasn't", "It wasn't good."),
        ("It isn't good.", "isn't -> is not", "It is not good."),
        ("How do I learn to ski?", "how do I -> how can I", "How can I learn to ski?"),
        ("It begins now.", "begin -> start", "It starts now."),
        ("Is it long?", "? -> ??", "Is it long??"),
    ],
)
def test_a_phrase_is_rewritten_where_its_pattern_matches(text: str, rule: str, expected: str) -> None:
    assert by_rule(text)[rule] == expected


@pytest.mark.parametrize(
    "text",
    ["I thought so, but it was not", "He wondered which it was.", "It's been long.", "there is n't one"],
)
def test_phrases_leave_alone_what_they_do_not_match(text: str) -> None:
    assert by_rule(text) == {}


def test_phrases_have_different_names() -> None:
    assert len({rule.name for rule in PHRASES}) == len(PHRASES) >= 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the film, the film", "the movie, the film"),  # the first match
        ("Film is an art.", "Movie is an art."),
        ("in the Film Museum", None),  # a capital inside a text may mark a name
        ("a filmmaker", None),
    ],
)
def test_a_rule_of_words_is_of_whole_words(text: str, expected: str | None) -> None:
    edit = Rule.of_words(("film", "movie")).edit(text)
    assert (edit.changed if edit else None) == expected


def test_a_rule_between_neighbours_needs_them() -> None:
    rule = Rule.of_words(("big", "large"), before="the")
    assert rule.name == "the big -> the large"
    assert rule.edit("a big cat") is None
    assert rule.edit("see the big cat") == Replacement("see the big cat", 4, 11, "the large")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("great", "terrible"),  # antonyms: of opposite polarity in the lexicons
        ("enjoy", "hate"),
        ("it", "i"),  # function words
        ("was", "did"),
        ("movie", "it"),
        ("never", "often"),  # a negation
        ("two", "three"),  # numbers
        ("2", "3"),
        ("animal", "creature"),  # an animal, a creature
    ],
)
def test_words_that_may_not_take_the_place_of_one_another(old: str, new: str) -> None:
    assert not may_replace(old, new)
    assert not may_replace(new, old)


def test_synonyms_are_those_of_the_lexicon_that_keep_the_article() -> None:
    """*a funny film* would become *an amusing film*."""
    assert synonyms({"film", "funny"}) == [("film", "movie"), ("funny", "comical")]


def test_no_synonyms_are_of_opposite_polarity() -> None:
    for group in lexicon("near_synonyms"):
        opposed = {str(word) for word in group}
        assert not (
            opposed & set(lexicon("positive_adjective")) and opposed & set(lexicon("negative_adjective"))
        )
