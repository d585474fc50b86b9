"""The public files themselves; row counts are those of the data folder's README and of the papers."""

from collections import Counter

import pytest

from challenge_sets.readers import (
    agreement,
    blimp,
    checklist,
    contrast_sets,
    crows_pairs,
    lama,
    lm_diagnostics,
    winograd,
)
from tests.helpers import data_dir, needs_data

pytestmark = [pytest.mark.data, needs_data]
DATA = data_dir()


def test_blimp_table_and_official_files_agree():
    table = blimp.read(DATA / "blimp")
    assert len(table) == 67_000
    assert set(Counter(pair.paradigm for pair in table).values()) == {1000}
    assert len({pair.phenomenon for pair in table}) == 12
    official = blimp.read(DATA / "blimp" / "first100")
    assert len(official) == 6_700
    by_id = {pair.id: pair for pair in table}
    for pair in official:
        other = by_id[pair.id]
        assert (pair.good, pair.bad, pair.phenomenon) == (other.good, other.bad, other.phenomenon)
    # Counted with awk over the table: equal members in passive_1 (2) and principle_A_case_2 (5).
    equal = Counter(pair.paradigm for pair in table if pair.members_equal)
    assert equal == {"passive_1": 2, "principle_A_case_2": 5}


def test_blimp_phenomena_are_those_of_the_published_means():
    """The published mean of each phenomenon is the mean of the paradigms that we put into it."""
    published = blimp.published_accuracy(DATA / "blimp" / "published_results" / "models_summary.jsonl")
    paradigms = {path.stem for path in (DATA / "blimp" / "first100").glob("*.jsonl")}
    for phenomenon in {blimp.phenomenon_of(name) for name in paradigms}:
        members = [published[name]["gpt2"] for name in paradigms if blimp.phenomenon_of(name) == phenomenon]
        assert sum(members) / len(members) == pytest.approx(published[phenomenon]["gpt2"], abs=1e-6)
    people = blimp.human_accuracy(DATA / "blimp" / "published_results" / "human_validation_summary.csv")
    assert paradigms <= set(people)
    assert people["adjunct_island"] == 0.94


def test_crows_pairs():
    pairs = list(crows_pairs.read(DATA / "crows_pairs"))
    assert len(pairs) == 1508
    # Table 1 of Nangia et al. 2020.
    types = Counter(pair.bias_type for pair in pairs)
    assert (types["race-color"], types["gender"], types["disability"]) == (516, 262, 60)
    assert sum("\n" in pair.less for pair in pairs) == 1


def test_agreement_sets():
    items = list(agreement.read_gold_text(DATA / "agreement" / "linzen"))
    assert len(items) == 7489
    assert not any("<eos>" in item.words for item in items)
    pairs = list(agreement.read_marvin_linzen(DATA / "agreement"))
    assert len(pairs) == 4320 + 480  # rows, and the second bad sentences of the polarity cases
    assert len({pair.metadata["case"] + pair.paradigm for pair in pairs}) == 72


def test_lm_diagnostics():
    folder = DATA / "lm_diagnostics"
    assert len(list(lm_diagnostics.read_cprag(folder))) == 34
    roles = list(lm_diagnostics.read_role(folder))
    assert len(roles) == 88
    assert set(Counter(item.pair for item in roles).values()) == {2}
    simple, natural = list(lm_diagnostics.read_neg(folder)), list(lm_diagnostics.read_neg(folder, "NAT"))
    assert (len(simple), len(natural)) == (18, 16)
    assert sum(bool(item.licensed) for item in natural) == 8


def test_lama():
    templates = lama.read_relations(DATA / "lama")
    assert len(templates) == 46
    assert len(list(lama.read(DATA / "lama" / "Squad" / "test.jsonl"))) == 305
    facts = list(lama.read(DATA / "lama" / "TREx_first100_each.jsonl", templates))
    assert len(facts) == 2800
    assert all(fact.prompt and "[MASK]" in fact.prompt for fact in facts)
    for path in (DATA / "lama" / "Google_RE").glob("*.jsonl"):
        assert len(list(lama.read(path))) == 500


def test_contrast_sets():
    for split, count in (("test", 488), ("dev", 100)):
        sets = list(contrast_sets.read_imdb(DATA / "contrast_sets", split))
        assert len(sets) == count
        assert not any(
            '""' in member.texts[0] and member.texts[0].startswith('"') for s in sets for member in s.members
        )
    # 70 entries and 341 questions with the entry that explains the fields; five questions are empty.
    sets = list(contrast_sets.read_boolq(DATA / "contrast_sets"))
    assert (len(sets), sum(len(s.members) - 1 for s in sets)) == (69, 335)


def test_checklist_suites():
    sentiment = list(checklist.read(DATA / "checklist" / "sentiment_suite_first40.jsonl"))
    assert (len(sentiment), sum(len(test.cases) for test in sentiment)) == (38, 1482)
    assert {len(example) for test in sentiment for case in test.cases for example in case.examples} == {1}
    qqp = list(checklist.read(DATA / "checklist" / "qqp_suite_first25.jsonl"))
    assert (len(qqp), sum(len(test.cases) for test in qqp)) == (53, 1325)
    assert {len(example) for test in qqp for case in test.cases for example in case.examples} == {2}


def test_winograd():
    items = list(winograd.read_wsc(DATA / "superglue" / "WSC"))
    assert len(items) == 104
    assert all(item.same is not None for item in items)
    assert len(list(winograd.read_partial(DATA / "multiple_choice" / "winogrande.jsonl"))) == 1267
