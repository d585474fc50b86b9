"""Every architecture family that can be built tiny: its route, row sums, direction, and agreement with eager."""

from __future__ import annotations

import warnings

import pytest

from workbench.trace.architectures import FAMILIES, examine
from workbench.trace.structure import Route

# Families whose attention functions are their own; the number of all others is what decision 3 promises.
OUTPUTS = {
    "megatron-bert", "mpnet", "roformer", "rembert", "convbert", "ibert", "deberta", "deberta-v2", "big_bird",
    "nystromformer", "luke", "longformer", "squeezebert", "funnel", "xlm", "flaubert", "xlnet", "openai-gpt",
    "gpt_neo", "gpt_neox_japanese", "xglm", "bloom", "falcon", "mpt", "mvp", "led", "prophetnet",
}  # fmt: skip
# A learned sink takes the rest of each row; the other two return scores, which traces refuse.
NOT_ONE = {"gpt_oss", "squeezebert", "prophetnet"}
# XLNet's language model sees the whole text unless it is given a permutation mask.
LOOKS_AHEAD = {"xlnet"}


def test_enough_families():
    assert len({family.model_type for family in FAMILIES}) == len(FAMILIES) >= 40


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_family(family):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny configurations make some families complain
        found = examine(family)
    assert found.route is (Route.OUTPUTS if family.model_type in OUTPUTS else Route.INTERFACE)
    assert (found.row_sum_error < 1e-5) == (family.model_type not in NOT_ONE)
    causal = family.auto != "AutoModelForMaskedLM" and family.model_type not in LOOKS_AHEAD
    assert found.looks_ahead is not causal
    assert found.kernel_difference < 1e-5
