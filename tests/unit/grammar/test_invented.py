"""The invented language: its rules by hand, its words one to one, its alignments complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.data.grammar import Sentence, Word, sentences
from workbench.data.grammar.invented import InventedPair, invented_pairs, translate, write_pairs
from workbench.data.pairs import read_linked_pairs
from workbench.data.word_links import WordLinks
from workbench.errors import ConfigError, DataError


def sentence(*rows: tuple[str, str, str, int, str, dict[str, str]]) -> Sentence:
    """Words given as form, lemma, part of speech, head, relation and features."""
    words = [
        Word(i, form, lemma, upos, tuple(feats.items()), head, relation)
        for i, (form, lemma, upos, head, relation, feats) in enumerate(rows, start=1)
    ]
    return Sentence("made", tuple(words), "made")


PLURAL, FINITE = {"Number": "Plur"}, {"VerbForm": "Fin", "Tense": "Past"}
THE_OLD_DOGS = (
    ("The", "the", "DET", 3, "det", {}),
    ("old", "old", "ADJ", 3, "amod", {}),
    ("dogs", "dog", "NOUN", 4, "nsubj", PLURAL),
)


def stem(lemma: str, upos: str = "NOUN") -> str:
    """A word of the language without an ending."""
    one = sentence((lemma, lemma, upos, 0, "root", {}))
    return translate(one).target[0]


def test_an_adjective_follows_and_agrees_and_an_object_has_its_particle() -> None:
    """The old dogs chased a cat: the dogs old-PL a cat ka chased."""
    made = sentence(
        *THE_OLD_DOGS,
        ("chased", "chase", "VERB", 0, "root", FINITE),
        ("a", "a", "DET", 6, "det", {}),
        ("cat", "cat", "NOUN", 4, "obj", {"Number": "Sing"}),
        (".", ".", "PUNCT", 4, "punct", {}),
    )
    pair = translate(made)
    assert pair.source == ("the", "old", "dogs", "chased", "a", "cat", ".")
    expected = [stem("the"), stem("dog") + "ri", stem("old") + "ri", stem("a"), stem("cat"), "ka"]
    assert list(pair.target) == [*expected, stem("chase") + "ta", "."]
    assert str(pair.links) == "0-0 2-1 1-2 2?2 4-3 5-4 5?5 3-6 6-7"


def test_prepositions_and_auxiliaries_follow() -> None:
    """A dog has not slept in the garden: a dog the garden in slept has not."""
    made = sentence(
        ("A", "a", "DET", 2, "det", {}),
        ("dog", "dog", "NOUN", 5, "nsubj", {"Number": "Sing"}),
        ("has", "have", "AUX", 5, "aux", {"VerbForm": "Fin", "Tense": "Pres"}),
        ("not", "not", "PART", 5, "advmod", {}),
        ("slept", "sleep", "VERB", 0, "root", {"VerbForm": "Part", "Tense": "Past"}),
        ("in", "in", "ADP", 8, "case", {}),
        ("the", "the", "DET", 8, "det", {}),
        ("garden", "garden", "NOUN", 5, "obl", {"Number": "Sing"}),
    )
    pair = translate(made)
    order = [made.words[source].form for source, _ in sorted(pair.links.sure, key=lambda link: link[1])]
    assert order == ["A", "dog", "the", "garden", "in", "slept", "has", "not"]
    assert pair.target[5:] == (stem("sleep") + "lo", stem("have") + "ne", stem("not"))


def test_a_clause_that_depends_on_the_verb_stays_behind_it() -> None:
    """The nurse said that the boys slept: verbs end their own clauses."""
    said = next(s for s in sentences(40, 1, constructions=["complement_clause"]) if "PROPN" not in tags(s))
    pair = translate(said)
    target_of = dict(sorted(pair.links.sure))
    inner = next(word for word in said.words if word.deprel == "ccomp")
    assert target_of[said.root.index - 1] < target_of[inner.index - 1]
    assert all(
        target_of[word.index - 1] < target_of[inner.index - 1]
        for word in said.dependents(inner)
        if word.deprel in ("nsubj", "obj")
    )


def tags(made: Sentence) -> set[str]:
    return {word.upos for word in made.words}


def test_every_word_is_translated_once_and_words_are_one_to_one() -> None:
    """All constructions; a target word stands for one lemma with one ending, and the other way round."""
    of_lemma: dict[tuple[str, ...], set[str]] = {}
    for made in sentences(2000, 5):
        if "PROPN" in tags(made) or any(word.form.isdigit() for word in made.words):
            continue
        pair = translate(made)
        assert sorted(s for s, _ in pair.links.sure) == list(range(len(pair.source)))
        linked = {t for _, t in pair.links.sure}
        assert {pair.target[t] for t in range(len(pair.target)) if t not in linked} <= {"ka"}
        for source, target in pair.links.sure:
            word = made.words[source]
            agrees = (source, target) in pair.links.sure and word.deprel == "amod"
            feats = (str(word.number), str(word.tense), str(word.feature("VerbForm")))
            if not agrees:
                of_lemma.setdefault((word.lemma, word.upos, *feats), set()).add(pair.target[target])
    assert all(len(found) == 1 for found in of_lemma.values())
    stems: dict[str, set[str]] = {}
    for (lemma, upos, number, tense, form), found in of_lemma.items():
        if upos in ("DET", "ADP", "NUM", "NOUN") and number != "Plur":
            stems.setdefault(next(iter(found)), set()).add(lemma)
        assert tense or form
    assert all(len(lemmas) == 1 for lemmas in stems.values())


def test_equal_seeds_give_equal_pairs_and_another_language_other_words() -> None:
    first = invented_pairs(20, 3)
    assert first == invented_pairs(20, 3)
    assert first[:5] == invented_pairs(5, 3)
    other = invented_pairs(20, 3, language=1)
    assert [p.source for p in first] == [p.source for p in other]
    assert [str(p.links) for p in first] == [str(p.links) for p in other]
    assert [p.target for p in first] != [p.target for p in other]
    assert invented_pairs(0) == []
    with pytest.raises(ConfigError, match="count must be 0 or more"):
        invented_pairs(-1)


def test_files_share_no_source_and_their_test_part_is_the_bundled_one(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, train=60, held_out=30)
    parts = [read_linked_pairs(file) for file in files]
    assert [len(part) for part in parts] == [60, 30, 30]
    assert len({pair.source for part in parts for pair in part}) == 120
    bundled = Path(__file__).parents[3] / "workbench" / "data" / "samples" / "invented_language.jsonl"
    assert read_linked_pairs(bundled, 30) == parts[2]


def test_links_are_read_as_they_are_written() -> None:
    links = WordLinks.parse("0-1 1?0 2-2")
    assert links.sure == {(0, 1), (2, 2)}
    assert links.possible == {(0, 1), (1, 0), (2, 2)}
    assert WordLinks.parse(str(links)) == links
    with pytest.raises(DataError, match=r"line 3: '0:1' is no link"):
        WordLinks.parse("0:1", "line 3")


def test_links_beyond_the_words_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"source": "a b", "target": "c", "alignment": "0-0 1-1"}\n')
    with pytest.raises(DataError, match=r"line 1: link 1-1 is beyond the pair, which has 2 source and 1"):
        read_linked_pairs(tmp_path / "pairs.jsonl")


def test_a_word_without_a_translation_is_named() -> None:
    with pytest.raises(ConfigError, match="no word for 'Zanzibar'"):
        translate(sentence(("Zanzibar", "Zanzibar", "PROPN", 0, "root", {})))
    assert isinstance(translate(sentence(("dog", "dog", "NOUN", 0, "root", {}))), InventedPair)
