"""Ettinger's ROLE-88: sensitivity is of the target, word prediction of the endings that people give most often."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from challenge_sets import check
from challenge_sets.sets.cloze import LM_DIAGNOSTICS, DiagnosticItem
from tests.unit.trace.tiny import bert
from workbench.evaluate.inference import InferenceOptions
from workbench.models import LoadedModel
from workbench.scoring import Blank

_CONTEXTS = {"1-a": "the dog sat on the", "1-b": "the cat ran on the"}
_EXPECTED, _TARGET = ("mat", "cabinet"), "keys"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return bert()


def _role(folder: Path) -> Path:
    lines = ["item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze"]
    lines += [f"{n}\t{c} \t{'|'.join(_EXPECTED)}\t0.5\t{_TARGET}\t0.1" for n, c in _CONTEXTS.items()]
    (folder / "ROLE-88.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    cprag = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint"
    (folder / "CPRAG-102.tsv").write_text(f"{cprag}\n0\tthe cat sat.\ta dog\tran\tsat\tmat\tH\n")
    for part in ("SIMP", "NAT"):
        rows = [
            "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg",
            "0\ta cat is\ta cat is not\tdog\tmat",
        ]
        (folder / f"NEG-136-{part}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def _by_hand(model: LoadedModel, context: str, word: str) -> tuple[float, int]:
    """Log-probability of a word of one piece at the mask of "context [MASK].", and its rank from 1."""
    tokenizer = model.tokenizer
    ids = torch.tensor([tokenizer(f"{context} {tokenizer.mask_token}.").input_ids])
    place = ids[0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        logits = model.model(input_ids=ids).logits[0, place].log_softmax(-1)
    own = logits[tokenizer.convert_tokens_to_ids(word)]
    return float(own), int((logits > own).sum()) + 1


def test_role_pairs_compare_the_target_and_rank_the_endings_that_people_give(
    model: LoadedModel, tmp_path: Path
) -> None:
    rows = check(model, "lm_diagnostics", data_dir=str(_role(tmp_path)), out=tmp_path / "runs", doctor=False)
    found = rows.examples().set_index("id")
    for name, other in (("1-a", "1-b"), ("1-b", "1-a")):
        own, swapped = (_by_hand(model, _CONTEXTS[n], _TARGET)[0] for n in (name, other))
        best = min(_by_hand(model, _CONTEXTS[name], word)[1] for word in _EXPECTED)
        assert found.loc[f"role-{name}", "margin"] == pytest.approx(own - swapped, abs=1e-5)
        assert found.loc[f"role-{name}", "rank"] == best


def test_without_other_endings_the_first_blank_is_ranked(model: LoadedModel) -> None:
    blanks = tuple(Blank("the dog sat on the ", ".", word) for word in ("mat", "keys"))
    item = DiagnosticItem("x", "CPRAG-102", "constraint_high", blanks)
    (row,) = LM_DIAGNOSTICS.scored(model, [item], InferenceOptions())
    assert row["rank"] == _by_hand(model, "the dog sat on the", "mat")[1]
