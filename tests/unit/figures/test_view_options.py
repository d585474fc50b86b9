"""Views of traces that hold only some layers or heads: what is shown has the model's own numbers."""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from tests.unit.tiny import tiny_causal
from workbench.errors import TraceError

TEXT = "the cat sat on the mat"


@pytest.mark.parametrize("kind", ["head", "model"])
@pytest.mark.parametrize(("layers", "heads"), [([1], None), (None, [1]), ([1], [1])])
def test_layers_and_heads_keep_their_numbers(
    kind: str, layers: list[int] | None, heads: list[int] | None
) -> None:
    model = tiny_causal()
    whole = workbench.trace(model, TEXT)[0].attention
    shown = workbench.trace(model, TEXT, layers=layers, heads=heads).figure(kind=kind).to_frame()
    assert set(shown["layer"]) == set(layers or range(whole.shape[0]))
    assert set(shown["head"]) == set(heads or range(whole.shape[1]))
    places = tuple(shown[name] for name in ("layer", "head", "query", "key"))
    np.testing.assert_allclose(shown["weight"], whole[places], atol=1e-6)


def test_a_view_of_all_heads_says_that_some_were_not_recorded() -> None:
    traced = workbench.trace(tiny_causal(), TEXT, ("attention", "queries_keys"), heads=[1])
    with pytest.raises(TraceError, match="trace without heads="):
        traced.figure(kind="neuron")
