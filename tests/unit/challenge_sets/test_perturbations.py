import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from challenge_sets.perturbations import PERTURBATIONS, perturbation
from workbench.errors import ConfigError


def _one(name, text, seed=0):
    found = perturbation(name)(text, seed=seed)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("contract", "It is late and they are not here.", "It's late and they're not here."),
        ("contract", "We do not know.", "We don't know."),
        ("contract", "Yes, it is.", None),  # nothing follows
        ("expand_contractions", "She won't go, we can't stay.", "She will not go, we cannot stay."),
        ("expand_contractions", "It's been long.", None),  # is or has
        ("expand_contractions", "Don't you know?", None),
        ("punctuation", "No stop", "No stop."),
        ("punctuation", "", None),
        ("change_names", "The cook sleeps.", None),
        ("change_places", "We like it here.", None),
        ("change_numbers", "Version 2.5 of B52 has 1 part", None),
        ("synonyms", "An error happened.", "A mistake happened."),
        ("synonyms", "Two bikes", "Two bicycles"),
        ("synonyms", "They talk.", None),
        ("add_negation", "The food was good.", "The food was not good."),
        ("add_negation", "Alice likes Rome.", "Alice does not like Rome."),
        ("add_negation", "She bought a car.", "She did not buy a car."),
        ("add_negation", "Is it good?", None),
        ("add_negation", "It was never good.", None),
        ("add_negation", "The man who is tall sings.", None),
        ("remove_negation", "The food was not good.", "The food was good."),
        ("remove_negation", "She didn't buy it.", "She bought it."),
        ("remove_negation", "He does not like Rome.", "He likes Rome."),
        ("remove_negation", "They won't come.", "They will come."),
        ("remove_negation", "I never liked it.", "I liked it."),
        ("remove_negation", "It was good.", None),
        ("remove_negation", "I do not think it is not good.", None),
        ("word_order", "Hello!", None),
        ("near_context", "no final stop", None),
        ("add_url", " ", None),
        ("typos", "A big dog ran", None),  # no word of four letters
    ],
)
def test_by_hand(name, text, expected):
    assert _one(name, text) == expected


def test_negation_undoes_itself():
    for text in ("The food was good.", "Alice likes Rome.", "She bought a car.", "We can go."):
        assert _one("remove_negation", _one("add_negation", text)) == text


def test_a_typo_swaps_two_neighbours():
    changed = _one("typos", "The weather is nice")
    places = [i for i, (a, b) in enumerate(zip("The weather is nice", changed, strict=True)) if a != b]
    assert len(places) == 2
    assert places[1] == places[0] + 1
    assert sorted(changed) == sorted("The weather is nice")


def test_numbers_keep_their_length_and_years_their_century():
    for seed in range(30):
        changed = _one("change_numbers", "In 1987 we saw 25 birds and 1 cat", seed)
        words = changed.split()
        assert words[1].startswith("19")
        assert words[1] != "1987"
        assert len(words[4]) == 2
        assert words[4] != "25"
        assert words[7] == "1"


def test_names_keep_their_gender_and_change_alike_in_a_pair():
    from workbench.data.grammar import names

    women = {name.text for name in names("female")}
    first, second = perturbation("change_names").together(("Alice met Henry.", "Henry knows Alice."))[0]
    woman, man = first.rstrip(".").split(" met ")
    assert woman in women - {"Alice"}
    assert man not in women
    assert second == f"{man} knows {woman}."


def test_places_stay_of_their_kind():
    from workbench.data.grammar import lexicon

    city, country = _one("change_places", "Rome, Italy").split(", ")
    assert city in lexicon("city")
    assert city != "Rome"
    assert country in lexicon("country")
    assert country != "Italy"


def test_context_keeps_the_text():
    assert _one("near_context", "It rains.").startswith("It rains. ")
    assert _one("distant_context", "It rains.").endswith(" It rains.")
    assert _one("distant_context", "It rains.").count(".") == 6
    assert _one("add_handle", "It rains.").startswith("@")


def test_unknown_and_not_consistent():
    with pytest.raises(ConfigError, match="unknown perturbation 'typo'; did you mean 'typos'"):
        perturbation("typo")
    with pytest.raises(ConfigError, match="word_order changes one text, not 2 together"):
        perturbation("word_order").together(("a b", "b a"))


@pytest.mark.parametrize("name", sorted(PERTURBATIONS))
def test_each_says_what_it_preserves(name):
    assert len(PERTURBATIONS[name].preserves) > 5


@pytest.mark.parametrize("name", sorted(PERTURBATIONS))
@given(text=st.text(max_size=40), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_any_text_gives_distinct_changed_texts_and_the_same_ones_again(name, text, seed):
    found = perturbation(name)(text, count=3, seed=seed)
    assert len(found) <= 3
    assert text not in found
    assert len(set(found)) == len(found)
    assert found == perturbation(name)(text, count=3, seed=seed)
