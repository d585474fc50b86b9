import json

import pytest

from challenge_sets.readers import syntaxgym
from challenge_sets.readers.syntaxgym import FormulaError, parse_formula
from workbench.errors import DataError


def _region(number, content):
    return {"region_number": number, "content": content, "metric_value": {"sum": 0.0}}


SUITE = {
    "meta": {"name": "number_orc", "metric": "sum"},
    "region_meta": {"1": "subject", "2": "verb", "3": "end"},
    "predictions": [{"type": "formula", "formula": "(2;%mismatch%) > (2;%match%)"}],
    "items": [
        {
            "item_number": 1,
            "conditions": [
                {
                    "condition_name": "match",
                    "regions": [_region(2, "laughs"), _region(1, "The boy"), _region(3, ".")],
                },
                {
                    "condition_name": "mismatch",
                    "regions": [_region(1, "The boy"), _region(2, "laugh"), _region(3, "")],
                },
            ],
        }
    ],
}


def _read(tmp_path, **changes):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(SUITE | changes), encoding="utf-8")
    return syntaxgym.read(path)


def test_regions_come_in_order_and_join_to_the_sentence(tmp_path):
    suite = _read(tmp_path)
    match, mismatch = suite.items[0].conditions
    assert (match.text, mismatch.text) == ("The boy laughs.", "The boy laugh")
    assert suite.region_names == {1: "subject", 2: "verb", 3: "end"}


def test_prediction_holds_by_surprisal(tmp_path):
    (prediction,) = _read(tmp_path).predictions
    assert prediction.holds({("match", 2): 3.0, ("mismatch", 2): 5.0})
    assert not prediction.holds({("match", 2): 5.0, ("mismatch", 2): 5.0})


def test_formulas_kept_as_strings_in_meta(tmp_path):
    meta = SUITE["meta"] | {"string_predictions": ["(2;%mismatch%) > (2;%match%)"]}
    (prediction,) = _read(tmp_path, meta=meta, predictions=[]).predictions
    assert prediction.regions == {("match", 2), ("mismatch", 2)}


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("(1;%a%) < (1;%b%)", True),
        ("((1;%a%) + (2;%a%)) = (1;%b%)", True),  # 1 + 2 = 3
        ("((1;%b%) - (1;%a%)) > ((2;%b%) - (2;%a%))", False),  # 3 - 1 > 5 - 2
        ("[(1;%a%) > (1;%b%)] | [(2;%a%) < (2;%b%)]", True),
        ("[(1;%a%) > (1;%b%)] & [(2;%a%) < (2;%b%)]", False),
        ("(*;%a%) < (*;%b%)", True),  # 3 < 8
        ("(*;%a%) = 3", True),
        ("(1;%a%) + (2;%a%) < (2;%b%)", True),
        ("[ (1;%a%) < (1;%b%) ]& [[(2;%b%) - (1;%b%) ] > [(2;%a%) - (1;%a%) ]]", True),  # 5 - 3 > 2 - 1
    ],
)
def test_formulas_by_hand(formula, expected):
    surprisals = {("a", 1): 1.0, ("a", 2): 2.0, ("b", 1): 3.0, ("b", 2): 5.0}
    assert parse_formula(formula).holds(surprisals) is expected


@pytest.mark.parametrize(
    "formula", ["", "(1;%a%)", "(1;%a%) <", "(1;%a%) < (1;%b%", "(1;%a%) < (1;%b%) extra", "< (1;%a%)"]
)
def test_what_does_not_parse(formula):
    with pytest.raises(FormulaError):
        parse_formula(formula)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (
            "(2;%mismtch%) > (2;%match%)",
            r"predictions\[0\]: unknown condition 'mismtch'; did you mean 'mismatch'",
        ),
        ("(9;%mismatch%) > (2;%match%)", r"predictions\[0\]: condition 'mismatch' has no region 9"),
        ("(2;%mismatch%) >", r"predictions\[0\]: cannot read '' at character"),
    ],
)
def test_predictions_about_what_is_not_there(tmp_path, formula, message):
    with pytest.raises(DataError, match=message):
        _read(tmp_path, predictions=[{"type": "formula", "formula": formula}])


def test_missing_parts_are_named(tmp_path):
    with pytest.raises(DataError, match="'items' must be a list, is None"):
        _read(tmp_path, items=None)
    with pytest.raises(DataError, match="'items' is empty"):
        _read(tmp_path, items=[])
    with pytest.raises(DataError, match=r"items\[0\]: 'conditions' must be a list"):
        _read(tmp_path, items=[{"item_number": 1}])
