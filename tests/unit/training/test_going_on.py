"""Training goes on with a model only where its objective and its tokenizer fit."""

from __future__ import annotations

import pytest

from tests.model_folders import save_bart, save_llama
from tests.unit.tiny import WORDS
from workbench.errors import ConfigError
from workbench.training.building import build_model
from workbench.training.settings import ModelSource

ROWS = 4 + len(WORDS)  # of the tiny models' embeddings


@pytest.mark.parametrize(
    ("save", "auto", "tokens", "message"),
    [
        (save_llama, "AutoModelForCausalLM", ROWS, None),
        (save_llama, "AutoModelForCausalLM", ROWS + 1, f"has {ROWS + 1} tokens and .* only {ROWS}"),
        (save_llama, "AutoModelForMaskedLM", ROWS, "trains masked models, and .* is of kind causal"),
        (save_bart, "AutoModelForCausalLM", ROWS, "trains causal models, and .* is of kind seq2seq"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(save, auto, tokens, message, tmp_path):
    source = ModelSource(model=str(save(tmp_path / "model")))
    if message is None:
        assert build_model(source, auto, range(tokens), 0).get_input_embeddings().num_embeddings == ROWS
        return
    with pytest.raises(ConfigError, match=message):
        build_model(source, auto, range(tokens), 0)
