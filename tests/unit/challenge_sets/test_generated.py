import pytest

from challenge_sets.paradigms import PARADIGMS, all_pairs, pairs
from workbench.data.grammar import nouns
from workbench.errors import ConfigError, DataError

PLURALS = {noun.plural for noun in nouns()}


def test_phenomena_and_size():
    assert {paradigm.phenomenon for paradigm in PARADIGMS.values()} == {
        "subject_verb_agreement",
        "reflexives",
        "negative_polarity",
        "filler_gap",
        "argument_structure",
        "determiner_noun_agreement",
    }
    everything = all_pairs(1000)
    assert len(everything) == 1000 * len(PARADIGMS)
    assert len(PARADIGMS) >= 12
    assert len({pair.id for pair in everything}) == len(everything)
    assert len({(pair.paradigm, pair.good) for pair in everything}) == len(everything)


@pytest.mark.parametrize("name", list(PARADIGMS))
def test_members_differ_in_one_place_only(name):
    """One contrast: one word changes, or (NPI scope, islands) the same words stand in another order."""
    moved = {"npi_ever_in_scope", "filler_gap_adjunct_island"}
    for pair in pairs(name, 300, seed=4):
        good, bad = pair.good[:-1].split(), pair.bad[:-1].split()
        assert good != bad
        assert pair.good[-1] == pair.bad[-1]
        if name in moved:
            assert sorted(word.lower() for word in good) == sorted(word.lower() for word in bad)
        else:
            assert sum(a != b for a, b in zip(good, bad, strict=True)) == 1


def test_seeded_and_a_longer_list_starts_with_the_shorter():
    assert pairs("reflexive_gender", 20, seed=1) == pairs("reflexive_gender", 50, seed=1)[:20]
    assert pairs("reflexive_gender", 20, seed=1) != pairs("reflexive_gender", 20, seed=2)


@pytest.mark.parametrize(
    "name", ["agreement_prepositional", "agreement_subject_relative", "agreement_object_relative"]
)
def test_half_of_the_attractors_clash_and_the_good_verb_follows_the_subject(name):
    found = pairs(name, 1000)
    clashing = sum(pair.metadata["attractor"] == "true" for pair in found)
    assert 400 < clashing < 600
    singular = {"is", "was", "has"}
    plural = {"are", "were", "have"}
    for pair in found:
        subject = pair.good.split()[1]
        differing = next(
            a for a, b in zip(pair.good[:-1].split(), pair.bad[:-1].split(), strict=True) if a != b
        )
        if differing in singular | plural:
            assert (differing in plural) == (subject in PLURALS), pair.good


def test_reflexives_agree_with_the_subject_and_not_with_the_nearer_noun():
    for pair in pairs("reflexive_across_relative", 200):
        assert pair.good.split()[1] in PLURALS
        assert pair.good.endswith("themselves.")
        assert pair.bad.endswith(("himself.", "herself."))


def test_determiners_agree_with_their_nouns():
    for pair in pairs("determiner_noun", 300):
        *_, determiner, noun = pair.good[:-1].split()
        assert (determiner in ("these", "those")) == (noun in PLURALS)


def test_gaps_hang_on_verbs_that_cannot_lose_their_object():
    """*that she lost* is a sentence; *that she devoured* is none."""
    optional = {"lost", "ate", "read", "wrote", "sold", "dropped", "cooked", "drove", "played", "explained"}
    for pair in pairs("filler_gap_gap_needs_filler", 500):
        assert not set(pair.bad[:-1].split()) & optional, pair.bad


def test_bad_input():
    with pytest.raises(
        ConfigError, match="unknown paradigm 'reflexive_gendr'; did you mean 'reflexive_gender'"
    ):
        pairs("reflexive_gendr")
    with pytest.raises(ConfigError, match="count must be 1 or more, got 0"):
        pairs("reflexive_gender", 0)
    with pytest.raises(DataError, match=r"makes about [0-9]+ pairs, not 30000"):
        pairs("reflexive_gender", 30000)
