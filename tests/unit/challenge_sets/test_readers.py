"""Small files written by hand; what the readers give is read off them."""

import json

from challenge_sets.readers import (
    agreement,
    blimp,
    checklist,
    contrast_sets,
    crows_pairs,
    hans,
    lama,
    lm_diagnostics,
    winograd,
)


def _write(path, *lines, end="\n"):
    path.write_bytes((end.join(lines) + end).encode("utf-8"))
    return path


def _jsonl(path, *records):
    return _write(path, *(json.dumps(record) for record in records))


BLIMP = {
    "UID": "passive_1",
    "sentence_good": "It is.",
    "sentence_bad": "Is it.",
    "pairID": "7",
    "linguistics_term": "s-selection",
}


def test_blimp_jsonl_groups_by_the_papers_phenomena(tmp_path):
    pair = blimp.read(_jsonl(tmp_path / "p.jsonl", BLIMP))[0]
    assert (pair.id, pair.set, pair.paradigm, pair.phenomenon) == (
        "passive_1-7",
        "blimp",
        "passive_1",
        "argument_structure",
    )
    assert pair.metadata["linguistics_term"] == "s-selection"


def test_blimp_table_keeps_quotes_and_either_line_end(tmp_path):
    rows = [
        "UID\tpair_id\tsentence_good\tsentence_bad",
        'passive_1\t0\tHe said "no\tHe "no said',
        "x_1\t1\ta\tb",
    ]
    for end in ("\n", "\r\n"):
        first, second = blimp.read(_write(tmp_path / "all.tsv", *rows, end=end))
        assert (first.good, first.bad) == ('He said "no', 'He "no said')
        assert (second.paradigm, second.phenomenon) == ("x_1", "other")
    (tmp_path / "all.tsv").write_bytes(f"{rows[0]}\r\n{rows[1]}\n{rows[2]}\r\n".encode())
    assert [pair.bad for pair in blimp.read(tmp_path / "all.tsv")] == ['He "no said', "b"]


def test_blimp_folder_prefers_the_table(tmp_path):
    (tmp_path / "data").mkdir()
    _jsonl(tmp_path / "data" / "passive_1.jsonl", BLIMP)
    assert len(blimp.read(tmp_path)) == 1
    _write(tmp_path / "all.tsv", "UID\tpair_id\tsentence_good\tsentence_bad", "a\t0\tb\tc", "a\t1\td\te")
    assert len(blimp.read(tmp_path)) == 2


def test_crows_pairs_with_quotes_commas_and_a_line_break(tmp_path):
    header = ",sent_more,sent_less,stereo_antistereo,bias_type"
    path = _write(
        tmp_path / "c.csv", header, '0,"He, ""they"" say","She\n.",stereo,gender', "1,a,b,antistereo,age"
    )
    first, second = crows_pairs.read(path)
    assert (first.more, first.less, first.bias_type) == ('He, "they" say', "She\n.", "gender")
    assert (second.id, second.direction) == ("1", "antistereo")


HANS_HEADER = "gold_label\tsentence1\tsentence2\tpairID\theuristic\tsubcase\ttemplate"


def test_hans(tmp_path):
    row = "non-entailment\tThe king saw the cook .\tThe cook saw the king .\tex0\tlexical_overlap\tln_swap\ttemp1"
    item = next(hans.read(_write(tmp_path / "heuristics_evaluation_set.txt", HANS_HEADER, row).parent))
    assert (item.entailed, item.heuristic, item.subcase) == (False, "lexical_overlap", "ln_swap")
    assert item.hypothesis == "The cook saw the king ."


def test_gold_and_text_go_line_by_line(tmp_path):
    _write(tmp_path / "set.text", "the keys to the box are here . <eos>", "Are they old ? <eos>")
    _write(tmp_path / "set.gold", "5\tare\tis\t1", "0\tare\tis\t0")
    first, second = agreement.read_gold_text(tmp_path / "set.gold")
    assert first.prefix == "the keys to the box"
    assert (first.pair().good, first.pair().bad) == (
        "the keys to the box are here .",
        "the keys to the box is here .",
    )
    assert first.pair().paradigm == "attractors_1"
    assert second.position == 0


def test_marvin_linzen_gives_a_pair_for_each_bad_sentence(tmp_path):
    header = "construction\tcase\tsentence_good\tsentence_bad\tsentence_bad2"
    path = _write(
        tmp_path / "m.tsv", header, "simple_agrmt\ts\ta b\ta c\t", "simple_npi_anim\tp\tno x\tthe x\tmost x"
    )
    pairs = list(agreement.read_marvin_linzen(path))
    assert [(p.id, p.phenomenon, p.bad) for p in pairs] == [
        ("0a", "subject_verb_agreement", "a c"),
        ("1a", "npi_licensing", "the x"),
        ("1b", "npi_licensing", "most x"),
    ]


def test_diagnostics(tmp_path):
    _write(
        tmp_path / "CPRAG-102.tsv",
        "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint",
        "0\tHe hit it.\tHe needed a\tbat\tglove\tcar\tH",
    )
    item = next(lm_diagnostics.read_cprag(tmp_path))
    assert (item.context, item.expected, item.constraint) == ("He hit it. He needed a", "bat", "high")
    _write(
        tmp_path / "ROLE-88.tsv",
        "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)",
        "61-b\tThe cook knew which guest the waiter had \tserved|seen\t0.1\tserved\t0.05\t0",
    )
    role = next(lm_diagnostics.read_role(tmp_path))
    assert (role.pair, role.expected, role.target_cloze) == ("61", ("served", "seen"), 0.05)
    assert role.context.endswith("had")
    _write(
        tmp_path / "NEG-136-SIMP.tsv",
        "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg",
        "0\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\tvegetable",
    )
    neg = next(lm_diagnostics.read_neg(tmp_path))
    assert neg.contexts("insect") == ("An ant is an", "An ant is not an")
    assert neg.contexts("vegetable") == ("An ant is a", "An ant is not a")
    assert neg.licensed is None


def test_lama_parts_tell_themselves_apart(tmp_path):
    _jsonl(tmp_path / "relations.jsonl", {"relation": "P19", "template": "[X] was born in [Y] ."})
    templates = lama.read_relations(tmp_path)
    facts = _jsonl(
        tmp_path / "facts.jsonl",
        {
            "uuid": "u",
            "obj_label": "Rome",
            "sub_label": "Ana",
            "predicate_id": "P19",
            "evidences": [{"masked_sentence": "In [MASK]."}],
        },
        {
            "uuid": "v",
            "obj_label": "1941",
            "sub_label": "Bo",
            "pred": "/people/person/date_of_birth",
            "masked_sentences": ["A.", "[MASK]"],
        },
        {"id": "w", "obj_label": "gold", "sub_label": "Squad", "masked_sentences": ["The [MASK] one."]},
    )
    trex, google, squad = lama.read(facts, templates)
    assert (trex.source, trex.prompt, trex.sentences) == ("TREx", "Ana was born in [MASK] .", ("In [MASK].",))
    assert (google.source, google.relation, google.prompt) == ("Google_RE", "date_of_birth", None)
    assert (squad.source, squad.id) == ("Squad", "w")


def test_imdb_pairs_and_their_quoting(tmp_path):
    _write(
        tmp_path / "test_original.tsv",
        "Sentiment\tText",
        'Negative\t"A ""bad"" film"',
        "Positive\tGood<br />film",
    )
    _write(tmp_path / "test_contrast.tsv", "Sentiment\tText", "Positive\tA good film", "Negative\tBad")
    first, second = contrast_sets.read_imdb(tmp_path)
    assert first.members[0].texts == ('A "bad" film',)
    assert [member.label for member in first.members] == ["negative", "positive"]
    assert second.members[0].texts == ("Good<br />film",)


def test_boolq_leaves_out_the_explanation_and_empty_questions(tmp_path):
    def entry(question, answer, *changed):
        perturbed = [{"perturbed_q": q, "answer": a} for q, a in changed]
        return {
            "title": "t",
            "paragraph": "p",
            "question": question,
            "answer": answer,
            "perturbed_questions": perturbed,
        }

    data = [
        entry("Question", "Gold Answer", ("Perturbed Q", "New Answer")),
        entry("q", "TRUE", ("r", "FALSE"), ("", "")),
    ]
    path = _write(tmp_path / "b.json", json.dumps({"data": data}))
    (found,) = contrast_sets.read_boolq(path)
    assert [(m.texts, m.label, m.original) for m in found.members] == [
        (("q", "p"), "yes", True),
        (("r", "p"), "no", False),
    ]


def test_checklist_shapes_of_cases(tmp_path):
    base = {"capability": "Vocabulary", "test": "t", "description": None, "n_cases_full": 9}
    path = _jsonl(
        tmp_path / "suite.jsonl",
        {**base, "type": "MFT", "labels": [1, 0], "cases": ["good", "bad"]},
        {**base, "type": "MFT", "labels": 0, "cases": [["q1", "q2"]]},
        {**base, "type": "INV", "labels": None, "cases": [["a", "b", "c"]]},
        {**base, "type": "DIR", "labels": None, "cases": [[["a", "b"], ["c", "d"]]]},
    )
    single, pair, variants, pairs = checklist.read(path)
    assert [(case.examples, case.label) for case in single.cases] == [((("good",),), 1), ((("bad",),), 0)]
    assert pair.cases[0].examples == (("q1", "q2"),)
    assert variants.cases[0].examples == (("a",), ("b",), ("c",))
    assert pairs.cases[0].examples == (("a", "b"), ("c", "d"))
    assert single.full_size == 9


def test_wsc_and_partial_scoring(tmp_path):
    target = {"span1_text": "the old king", "span1_index": 0, "span2_text": "he", "span2_index": 4}
    record = {
        "text": "the old king slept because he was tired",
        "target": target | {"span2_index": 5},
        "label": True,
        "idx": 3,
    }
    item = next(winograd.read_wsc(_jsonl(tmp_path / "val.jsonl", record)))
    assert (item.id, item.same) == ("3", True)
    options = {"context_options": ["so Ana", "so Bo"], "continuation": "won.", "gold": 1}
    partial = next(winograd.read_partial(_jsonl(tmp_path / "w.jsonl", options)))
    assert (partial.contexts, partial.gold) == (("so Ana", "so Bo"), 1)
