"""Lenses, patching and direct attribution of every architecture family: right, or refused by all in one line.

What is exchanged everywhere gives the clean run (1), what is exchanged nowhere the corrupted one (0); what is read off
the last layer is the model's own output, taken from a plain pass.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.contracts.test_scores import tiny
from workbench.analysis.direct import direct_logit_attribution
from workbench.analysis.lens import logit_lens
from workbench.analysis.patching import Patch, PatchSite, patch_pair, patched_values
from workbench.errors import TraceError
from workbench.models import Kind
from workbench.trace.architectures import FAMILIES
from workbench.trace.residual import read_text

# Grouped convolutions over (B, D, T), pooled sequences, blocks without a module of their own, and routers' outputs
# that a pass cannot be taken up with.
REFUSED = {"squeezebert", "funnel", "xlm", "flaubert", "switch_transformers"}
TESTED = [
    family for family in FAMILIES if family.model_type != "xlnet"
]  # refused before: it reads both sides


def texts_of(kind: Kind) -> tuple[str, str]:
    if kind is Kind.MASKED:
        return "the cat [MASK] on the", "the dog [MASK] on the"
    return "the cat sat on the", "the dog sat on the"


@pytest.mark.parametrize("family", TESTED, ids=lambda family: family.model_type)
def test_family(family):
    model = tiny(family)
    clean, corrupted = texts_of(model.kind)
    decoder = {"target_text": "a big"} if model.kind is Kind.SEQ2SEQ else {}
    stack = {"stack": "decoder"} if decoder else {}
    if family.model_type in REFUSED:
        for refused in (
            lambda: logit_lens(model, clean, **decoder),
            lambda: patch_pair(model, clean, corrupted, "mat", "house", **decoder, **stack),
            lambda: direct_logit_attribution(model, clean, "mat", **decoder),
        ):
            with pytest.raises(TraceError) as refusal:
                refused()
            assert "\n" not in str(refusal.value)
        return
    pair = patch_pair(model, clean, corrupted, "mat", "house", **decoder, **stack)
    # a decoder beside an encoder still reads the corrupted source below the last layer
    layers = range(pair.layers - 1 if decoder else 0, pair.layers)
    every = [(Patch(PatchSite.RESIDUAL, layer),) for layer in layers]
    np.testing.assert_allclose(patched_values(pair, [*every, ()]), [1.0] * len(layers) + [0.0], atol=1e-3)
    lens = logit_lens(model, clean, **decoder)
    reading = read_text(model, clean, decoder.get("target_text"))
    with torch.no_grad():
        logits = model.model(**reading.inputs, use_cache=False).logits[0] if decoder else plain(model, clean)
    np.testing.assert_array_equal(lens.top_ids[-1, :, 0], logits.argmax(-1).numpy())
    expected = logits.softmax(-1).max(-1).values.numpy()
    np.testing.assert_allclose(lens.top_probabilities[-1, :, 0], expected, atol=1e-5)


def plain(model, text: str) -> torch.Tensor:
    logits: torch.Tensor = model.model(torch.tensor([model.tokenizer(text).input_ids])).logits[0]
    return logits
