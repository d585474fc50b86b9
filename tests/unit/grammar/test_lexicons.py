import pytest

from workbench.data.grammar import adjectives, lexicon, lexicon_names, names, nouns, verbs
from workbench.errors import ConfigError


def test_every_named_lexicon_has_entries_without_repeats():
    for name in lexicon_names():
        entries = lexicon(name)
        assert entries, name
        texts = [str(entry) for entry in entries]
        assert len(set(texts)) == len(texts), name


def test_unknown_lexicon_is_answered_with_near_names():
    with pytest.raises(ConfigError, match="no lexicon 'profesion'; did you mean 'profession'"):
        lexicon("profesion")


def test_a_person_has_the_pronouns_of_their_gender():
    alice = next(person for person in lexicon("person") if person["name"] == "Alice")
    assert (alice["subject"], alice["object"], alice["possessive"], alice["reflexive"]) == (
        "she",
        "her",
        "her",
        "herself",
    )


def test_a_name_has_one_gender():
    """A name listed under two genders would make pronoun tests wrong."""
    genders: dict[str, set[str]] = {}
    for name in names():
        genders.setdefault(name.text, set()).add(name.gender)
    assert {text for text, found in genders.items() if len(found) > 1} == set()


def test_origins_and_genders_are_balanced_enough_to_compare():
    origins = {name.origin for name in names()}
    assert len(origins) == 12
    for origin in origins:
        assert len(names("female", origin)) >= 6
        assert len(names("male", origin)) >= 6


def test_polarity_lists_do_not_overlap():
    positive = {a.text for a in adjectives("general", "positive")}
    negative = {a.text for a in adjectives("general", "negative")}
    assert not positive & negative
    assert "wonderful" in positive
    assert "awful" in negative


def test_nouns_with_irregular_plurals():
    plurals = {noun.singular: noun.plural for noun in nouns()}
    assert plurals["child"] == "children"
    assert plurals["mouse"] == "mice"
    assert plurals["policewoman"] == "policewomen"
    assert plurals["bus"] == "buses"
    assert all(noun.singular != noun.plural for noun in nouns())


def test_person_covers_men_women_and_professions():
    kinds = {noun.kind for noun in nouns("person")}
    assert kinds == {"person", "man", "woman", "profession"}
    assert all(noun.animate for noun in nouns("person"))


def test_verb_forms():
    forms = {
        verb.lemma: (verb.third, verb.past, verb.participle, verb.gerund) for verb in verbs("transitive")
    }
    assert forms["eat"] == ("eats", "ate", "eaten", "eating")
    assert forms["steal"] == ("steals", "stole", "stolen", "stealing")
    assert forms["drop"] == ("drops", "dropped", "dropped", "dropping")
    assert forms["copy"] == ("copies", "copied", "copied", "copying")
