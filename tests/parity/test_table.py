"""Rows of the table of families in docs/numerics.md: every number is rounding, and what is refused is known."""

from __future__ import annotations

import pytest

from tests.parity import defaults
from tests.parity.columns import COLUMNS
from tests.parity.table import NOT_APPLICABLE, REFUSED, cells

# One of each way to read positions, to attend, to pad and to begin; `python -m tests.parity.table` examines all.
CHOSEN = {
    "bert", "mpnet", "deberta-v2", "xlm", "xlnet", "funnel", "longformer", "nystromformer", "mobilebert",
    "gpt2", "starcoder2", "falcon", "bloom", "mistral", "gemma3_text", "opt", "openai-gpt", "mamba",
    "t5", "bart", "mbart", "m2m_100", "led", "prophetnet",
}  # fmt: skip
# What cannot be computed: sequences that are pooled, no attention, scores in place of weights, a decoder that sees
# later tokens, and a classifier whose decoder has no start token in T5's default configuration.
CANNOT = {
    ("funnel", "attention"), ("mamba", "attention"), ("prophetnet", "attention"), ("prophetnet", "score"),
    ("t5", "classifier batch"),
}  # fmt: skip
# The largest of all families is 5e-6; a wrong mask, position or prefix gives 1e-2 and more.
ROUNDING = 2e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", [f for f in defaults.FAMILIES if f.model_type in CHOSEN], ids=lambda family: family.model_type
)
def test_a_row_of_the_table(family: defaults.Architecture) -> None:
    row = dict(zip(COLUMNS, cells(family), strict=True))
    refused = {name for name, cell in row.items() if str(cell).startswith(REFUSED)}
    assert {(family.model_type, name) for name in refused} == {c for c in CANNOT if c[0] == family.model_type}
    numbers = [cell for cell in row.values() if isinstance(cell, float)]
    assert numbers
    assert len(numbers) + len(refused) + list(row.values()).count(NOT_APPLICABLE) == len(COLUMNS)
    assert max(numbers) < ROUNDING
