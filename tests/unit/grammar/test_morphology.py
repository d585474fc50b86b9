"""Expected forms are from any English dictionary."""

import pytest

from workbench.data.grammar import _morphology as morphology


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("key", "keys"),
        ("box", "boxes"),
        ("story", "stories"),
        ("church", "churches"),
        ("potato", "potatoes"),
        ("piano", "pianos"),
    ],
)
def test_plural(noun, expected):
    assert morphology.plural(noun) == expected


@pytest.mark.parametrize(
    ("lemma", "third", "past", "gerund"),
    [
        ("watch", "watches", "watched", "watching"),
        ("carry", "carries", "carried", "carrying"),
        ("stop", "stops", "stopped", "stopping"),
        ("play", "plays", "played", "playing"),
        ("agree", "agrees", "agreed", "agreeing"),
        ("tie", "ties", "tied", "tying"),
        ("visit", "visits", "visited", "visiting"),
        ("clean", "cleans", "cleaned", "cleaning"),
        ("fix", "fixes", "fixed", "fixing"),
    ],
)
def test_regular_verb(lemma, third, past, gerund):
    assert morphology.third_person(lemma) == third
    assert morphology.past(lemma) == past
    assert morphology.gerund(lemma) == gerund


def test_be_in_full():
    forms = {
        (tense, person, number): morphology.be(tense, person, number)
        for tense in ("Pres", "Past")
        for person in (1, 2, 3)
        for number in ("Sing", "Plur")
    }
    assert [forms["Pres", p, "Sing"] for p in (1, 2, 3)] == ["am", "are", "is"]
    assert [forms["Pres", p, "Plur"] for p in (1, 2, 3)] == ["are", "are", "are"]
    assert [forms["Past", p, "Sing"] for p in (1, 2, 3)] == ["was", "were", "was"]
    assert [forms["Past", p, "Plur"] for p in (1, 2, 3)] == ["were", "were", "were"]


def test_only_the_third_person_singular_present_is_marked():
    assert morphology.finite("see", "saw", tense="Pres", person=3, number="Sing") == "sees"
    assert morphology.finite("see", "saw", tense="Pres", person=1, number="Sing") == "see"
    assert morphology.finite("see", "saw", tense="Past", person=3, number="Sing") == "saw"
    assert morphology.have("Pres", 3, "Sing") == "has"
    assert morphology.have("Pres", 2, "Plur") == "have"


@pytest.mark.parametrize(
    ("phrase", "article"),
    [
        ("cat", "a"), ("apple", "an"), ("hour", "an"), ("honest man", "an"), ("university", "a"),
        ("unimportant fact", "an"), ("unidentified object", "an"), ("one-way street", "a"), ("onion", "an"),
        ("European", "a"), ("useful tool", "a"), ("umbrella", "an"), ("FBI agent", "an"), ("UFO", "a"),
        ("8", "an"), ("18-year-old", "an"), ("11", "an"), ("110", "a"), ("house", "a"), ('"old" car', "an"),
    ],
)  # fmt: skip
def test_indefinite_article_goes_by_sound(phrase, article):
    assert morphology.indefinite_article(phrase) == article
