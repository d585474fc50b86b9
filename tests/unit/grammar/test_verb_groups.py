from workbench.data.grammar import Sampler, verbs
from workbench.data.grammar._tree import node
from workbench.data.grammar._verbs import BE, Agreement, Form, VerbGroup, verb_group

SINGULAR, PLURAL, FIRST = Agreement(3, "Sing"), Agreement(3, "Plur"), Agreement(1, "Sing")
WRITE = next(verb for verb in verbs("transitive") if verb.lemma == "write")


def _text(group: VerbGroup) -> str:
    words = [*group.before, *([group.main] if group.main else [])]
    return "".join(("" if word.glued else " ") + word.form for word in words).strip()


def _group(verb, agreement, form, **options):
    return verb_group(Sampler(0), verb, agreement, form, **options)


def test_tense_and_aspect_of_an_irregular_verb():
    expected = {
        Form.PAST: "wrote", Form.PRESENT: "writes", Form.FUTURE: "will write", Form.PERFECT: "has written",
        Form.PAST_PERFECT: "had written", Form.PROGRESSIVE: "is writing", Form.PAST_PROGRESSIVE: "was writing",
    }  # fmt: skip
    assert {form: _text(_group(WRITE, SINGULAR, form)) for form in expected} == expected


def test_agreement_reaches_the_first_word_only():
    assert _text(_group(WRITE, PLURAL, Form.PERFECT)) == "have written"
    assert _text(_group(WRITE, PLURAL, Form.PROGRESSIVE)) == "are writing"
    assert _text(_group(WRITE, FIRST, Form.PROGRESSIVE)) == "am writing"


def test_passive():
    assert _text(_group(WRITE, PLURAL, Form.PAST, passive=True)) == "were written"
    assert _text(_group(WRITE, SINGULAR, Form.PERFECT, passive=True)) == "has been written"
    assert _text(_group(WRITE, SINGULAR, Form.FUTURE, passive=True)) == "will be written"


def test_negation_brings_do_and_contracts():
    texts = {_text(verb_group(Sampler(s), WRITE, SINGULAR, Form.PAST, negated=True)) for s in range(20)}
    assert texts == {"did not write", "didn't write"}
    texts = {_text(verb_group(Sampler(s), WRITE, SINGULAR, Form.FUTURE, negated=True)) for s in range(20)}
    assert texts == {"will not write", "won't write"}


def test_i_am_not_never_contracts():
    assert {_text(verb_group(Sampler(s), BE, FIRST, Form.PRESENT, negated=True)) for s in range(20)} == {
        "am not"
    }


def test_copula_is_an_auxiliary():
    assert _text(_group(BE, SINGULAR, Form.PRESENT)) == "is"
    assert _text(_group(BE, PLURAL, Form.PERFECT)) == "have been"
    assert _group(BE, SINGULAR, Form.PRESENT).main is None


def test_question_puts_the_subject_behind_the_first_auxiliary():
    subject = node("Anna", "PROPN", "nsubj")
    question = _group(WRITE, SINGULAR, Form.PRESENT, question=True)
    assert [word.form for word in question.inverted(subject)] == ["does", "Anna"]
    passive = _group(WRITE, SINGULAR, Form.PERFECT, passive=True, question=True)
    assert [word.form for word in passive.inverted(subject)] == ["has", "Anna", "been"]
