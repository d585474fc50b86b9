import pytest

from challenge_sets.templates import Template, TemplateError


def _texts(template, *args, **options):
    return [case.text for case in template.expand(*args, **options)]


def test_product_in_order_with_the_last_slot_fastest():
    template = Template("{who} is {a:adj} {job}", who=["Ana", "Bo"], adj=["old", "new"], job=["cook"])
    assert _texts(template) == [
        "Ana is an old cook",
        "Ana is a new cook",
        "Bo is an old cook",
        "Bo is a new cook",
    ]
    assert template.size == 4


def test_built_in_lexicons_and_the_example_of_the_documentation():
    template = Template("{first_name} is {a:adj} {profession}", adj=["honest"])
    case = template.expand(1, seed=3)[0]
    assert case.text == f"{case.slots['first_name']} is an honest {case.slots['profession']}"


def test_a_lexicon_may_be_another_ones_name():
    assert set(_texts(Template("{word}", word="weekday"))) >= {"Monday", "Sunday"}


def test_numbered_slots_are_separate_draws_and_a_repeated_slot_is_one():
    template = Template("{x1} {x2} {x1}", x=["a", "b"])
    assert _texts(template) == ["a a a", "a b a", "b a b", "b b b"]


def test_remove_duplicates_drops_equal_draws_and_equal_texts():
    assert _texts(Template("{x1} {x2}", x=["a", "b"]), remove_duplicates=True) == ["a b", "b a"]
    assert _texts(Template("{x}", x=["a", "b", "a"]), remove_duplicates=True) == ["a", "b"]


def test_tied_slots_stay_together():
    people = [{"name": "Ana", "own": "her"}, {"name": "Bo", "own": "his"}]
    assert _texts(Template("{p.name} lost {p.own} key", p=people)) == ["Ana lost her key", "Bo lost his key"]
    places = [("Rome", "Italy"), ("Oslo", "Norway")]
    assert _texts(Template("{c[0]} is in {c[1]}", c=places)) == ["Rome is in Italy", "Oslo is in Norway"]


def test_a_record_written_bare_stands_for_its_first_part():
    assert _texts(Template("{p}", p=[{"name": "Ana", "own": "her"}, ("Bo", "his")])) == ["Ana", "Bo"]


def test_pairs_share_their_slots():
    template = Template(("Is {x} {a}?", "Is {x} not {a}?"), x=["Ana"], a=["old", "new"])
    assert [case.texts for case in template.expand()] == [
        ("Is Ana old?", "Is Ana not old?"),
        ("Is Ana new?", "Is Ana not new?"),
    ]


def test_forms_of_a_slot():
    template = Template("{A:x} {capital:x} {lower:y} {plural:x}", x=["owl", "child"], y=["YES"])
    assert _texts(template) == ["An owl Owl yes owls", "A child Child yes children"]


def test_doubled_braces_and_percent_signs_are_text():
    assert _texts(Template("{{x}} 100% {x} %s", x=["a"])) == ["{x} 100% a %s"]
    assert _texts(Template("no slot")) == ["no slot"]


def test_labels_from_slots_and_metadata():
    words = [{"text": "good", "score": 1}, {"text": "bad", "score": 0}]
    template = Template("It was {w}.", w=words)
    assert [case.label for case in template.expand(label="{w.score}")] == [1, 0]
    assert [case.label for case in template.expand(label=lambda slots: slots["w"]["text"][0])] == ["g", "b"]
    cases = template.expand(label="positive", name="t", metadata={"capability": "vocabulary"})
    assert [(c.id, c.label, c.metadata["capability"]) for c in cases] == [
        ("t#0", "positive", "vocabulary"),
        ("t#1", "positive", "vocabulary"),
    ]


def test_sampling_is_seeded_distinct_and_keeps_ids():
    template = Template("{a} {b}", a=[str(n) for n in range(40)], b=[str(n) for n in range(40)])
    every = {case.id: case.text for case in template.expand(name="t")}
    sample = template.expand(100, seed=1, name="t")
    assert sample == template.expand(100, seed=1, name="t")
    assert sample != template.expand(100, seed=2, name="t")
    assert len({case.text for case in sample}) == 100
    assert all(every[case.id] == case.text for case in sample)


def test_sampling_from_more_combinations_than_64_bits_count():
    digits = [str(n) for n in range(10)]
    template = Template(" ".join(f"{{d{n}}}" for n in range(25)), d=digits)
    assert template.size == 10**25
    cases = template.expand(500, seed=0)
    assert len({case.text for case in cases}) == 500
    first = cases[0]
    assert int(first.id.split("#")[1]) == int(first.text.replace(" ", ""))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Template("{profesion}"),
            r"slot \{profesion\} has no lexicon 'profesion'; did you mean 'profession'",
        ),
        (
            lambda: Template("{x}", x=[]),
            "the lexicon of slot {x} is empty".replace("{", r"\{").replace("}", r"\}"),
        ),
        (lambda: Template("{x}", x=["a"], y=["b"]), "uses the lexicon 'y'; slots: x"),
        (lambda: Template("{x"), "single '{' at character 1; double it"),
        (lambda: Template("{an:x}", x=["a"]), "unknown modifier 'an'"),
        (lambda: Template("{x y}", x=["a"]), r"\{x y\} is no slot"),
        (
            lambda: Template("{p.nam}", p=[{"name": "Ana"}]).expand(),
            "has no field 'nam'; did you mean 'name'",
        ),
        (
            lambda: Template("{p[2]}", p=[("a", "b")]).expand(),
            r"has 2 members; no member 2, write \{p\[0\]\} to \{p\[1\]\}",
        ),
        (lambda: Template("{p.a}", p=["word"]).expand(), "holds 'word', which has no part 'a'"),
        (
            lambda: Template("{x}", x=["a", "b", "c"]).expand(500),
            "only 3 of 500 cases .entries: x 3.; add entries, ask for 3",
        ),
        (
            lambda: Template("{x1} {x2}", x=["a"]).expand(remove_duplicates=True),
            "makes no case without duplicates",
        ),
        (lambda: Template("{x}", x=["a"]).expand(0), "count must be 1 or more, got 0"),
        (lambda: Template("{x} {mask}", x=["a"]).expand(), r"\{mask\} has no lexicon; get one from suggest"),
        (lambda: Template("{x}", x=["a"]).expand(label="{y}"), "the template has no slot 'y'; known: x"),
        (
            lambda: Template("{x1}{x2}{x3}", x=[str(n) for n in range(101)]).expand(),
            "1,030,301 combinations; give count=",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(TemplateError, match=message):
        make()


def test_fewer_cases_on_request():
    assert len(Template("{x}", x=["a", "b", "c"]).expand(500, allow_fewer=True)) == 3
