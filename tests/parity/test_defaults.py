"""Built-in counterparts of models made from their families' default configurations, in which only sizes are smaller."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from tests.parity import defaults
from workbench.models.imports import FAMILIES, family_of, to_builtin

_BY_TYPE = {family.model_type: family for family in defaults.FAMILIES}
# A module serves several model types (Llama and Mistral); a class belongs to the type whose configuration it has.
CASES = [
    (model_type, name)
    for model_type in FAMILIES
    for name in family_of(model_type).classes
    if getattr(transformers, name).config_class.model_type == model_type
]


@pytest.mark.parametrize(("model_type", "name"), CASES, ids=[name for _, name in CASES])
def test_the_same_outputs(model_type: str, name: str) -> None:
    config = defaults.config_of(_BY_TYPE[model_type])
    torch.manual_seed(0)
    _same(getattr(transformers, name)(config).eval())


def test_byt5() -> None:
    """T5 1.1 and ByT5: gated feed-forward parts and an output matrix of its own, all else as in T5."""
    config = defaults.config_of(_BY_TYPE["t5"], feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    torch.manual_seed(0)
    _same(transformers.T5ForConditionalGeneration(config).eval())


def _same(original: Any) -> None:
    builtin = to_builtin(original)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        assert getattr(builtin.config, name) == getattr(original.config, name, None)
    ids = torch.tensor([[5, 6, 7, 9, 8]])
    inputs = {"input_ids": ids[:, None] if "MultipleChoice" in type(original).__name__ else ids}
    if original.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :3]
    with torch.no_grad():
        theirs, ours = original(**inputs), builtin(**inputs)
    compared = {
        field
        for field in ("logits", "prediction_logits", "start_logits", "last_hidden_state")
        if theirs.get(field) is not None
    }
    assert compared
    for field in compared:
        scale = float(theirs[field].abs().max())
        torch.testing.assert_close(ours[field], theirs[field], atol=1e-5 * scale, rtol=0)
