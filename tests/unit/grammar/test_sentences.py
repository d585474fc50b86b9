import conllu
import pytest

from workbench.data.grammar import CONSTRUCTION_NAMES, sentences, to_conllu, write_conllu
from workbench.errors import ConfigError

CORPUS = sentences(1500, seed=5)
UPOS = {
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "VERB",
}


def test_same_seed_same_sentences_and_a_longer_list_starts_with_the_shorter():
    assert sentences(50, seed=5) == CORPUS[:50]
    assert [s.text for s in sentences(50, seed=6)] != [s.text for s in CORPUS[:50]]


def test_texts_are_distinct_and_every_construction_occurs():
    assert len({s.text for s in CORPUS}) == 1500
    assert {s.construction for s in CORPUS} == set(CONSTRUCTION_NAMES)


def test_an_independent_parser_reads_the_export_back():
    parsed = conllu.parse(to_conllu(CORPUS))
    assert [block.metadata["text"] for block in parsed] == [s.text for s in CORPUS]
    for block, sentence in zip(parsed, CORPUS, strict=True):
        assert [t["id"] for t in block] == list(range(1, len(sentence.words) + 1))
        assert [(t["form"], t["upos"], t["head"], t["deprel"]) for t in block] == [
            (w.form, w.upos, w.head, w.deprel) for w in sentence.words
        ]
        # conllu builds the tree itself and raises on anything but one root that reaches every token.
        tree = block.to_tree()
        assert tree.token["deprel"] == "root"
        # The text is the forms joined by spaces, except behind SpaceAfter=No.
        gaps = ["" if (t["misc"] or {}).get("SpaceAfter") == "No" else " " for t in block]
        joined = "".join(t["form"] + gap for t, gap in zip(block, gaps, strict=True))
        assert joined.rstrip() == sentence.text


def test_trees_are_projective_and_tags_universal():
    for sentence in CORPUS:
        arcs = [tuple(sorted((w.index, w.head))) for w in sentence.words if w.head]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs), sentence.text
        assert {w.upos for w in sentence.words} <= UPOS
        for word in sentence.words:
            assert list(word.feats) == sorted(word.feats, key=lambda feat: feat[0].lower())


def _number_of_subject(sentence, subject):
    """Plural if coordinated, else the number of the head noun."""
    return "Plur" if sentence.dependents(subject, "conj") else subject.number


def test_finite_verbs_agree_with_their_subjects():
    """Worked out from the words alone: the form of a present verb or of *be* against the subject's number."""
    checked = 0
    singular_forms = {"is", "was", "has", "does"}
    plural_forms = {"are", "were", "have", "do"}
    for sentence in CORPUS:
        for word in sentence.words:
            subjects = [
                s for s in sentence.dependents(word) if s.deprel.startswith("nsubj") and s.upos == "NOUN"
            ]
            forms = [
                d.form.lower() for d in sentence.dependents(word) if d.deprel in ("aux", "aux:pass", "cop")
            ][:1]
            if not subjects or not forms or forms[0] not in singular_forms | plural_forms:
                continue
            expected = singular_forms if _number_of_subject(sentence, subjects[0]) == "Sing" else plural_forms
            assert forms[0] in expected, sentence.text
            checked += 1
    assert checked > 300


def test_relative_verbs_agree_across_the_attractor():
    """In a subject relative the verb takes the number of the noun outside."""
    checked = 0
    for sentence in CORPUS:
        for word in sentence.words:
            if word.deprel != "acl:relcl" or word.tense != "Pres" or word.feature("VerbForm") != "Fin":
                continue
            subject = sentence.dependents(word, "nsubj")[0]
            if subject.feature("PronType") == "Rel":
                head = sentence.words[word.head - 1]
                assert (word.form != word.lemma) == (head.number == "Sing"), sentence.text
                checked += 1
    assert checked >= 5


def test_no_object_pronoun_repeats_a_first_or_second_person_subject():
    clash = {("I", "me"), ("I", "us"), ("We", "us"), ("We", "me"), ("You", "you")}
    for sentence in CORPUS:
        for word in sentence.words:
            subject = [s.form for s in sentence.dependents(word, "nsubj")]
            target = [o.form for o in sentence.dependents(word, "obj")]
            assert not {(s, t) for s in subject for t in target} & clash, sentence.text


def test_indefinite_articles_fit_the_next_word():
    vowels = set("aeiou")
    for sentence in CORPUS:
        for article, following in zip(sentence.words, sentence.words[1:], strict=False):
            if article.form.lower() in ("a", "an") and following.form not in (
                "honest",
                "uniform",
                "useful",
                "useless",
                "unusual",
            ):
                assert (article.form.lower() == "an") == (following.form[0] in vowels), sentence.text


def test_construction_filter_and_bad_input():
    assert {s.construction for s in sentences(20, constructions=["passive"])} == {"passive"}
    with pytest.raises(ConfigError, match="did you mean 'passive'"):
        sentences(5, constructions=["pasive"])
    with pytest.raises(ConfigError, match="count must be 0 or more, got -1"):
        sentences(-1)
    assert sentences(0) == []


def test_written_file_is_what_to_conllu_gives(tmp_path):
    path = write_conllu(CORPUS[:20], tmp_path / "gold.conllu")
    assert path.read_text(encoding="utf-8") == to_conllu(CORPUS[:20])
    assert [p.name for p in tmp_path.iterdir()] == ["gold.conllu"]
