"""Presets have the published numbers of parameters, and are described in full."""

from __future__ import annotations

import pytest

from workbench.errors import ModelError
from workbench.models.presets import PRESETS, describe, model_class, preset, preset_table
from workbench.models.size import num_parameters

# Counted from the released checkpoints of the same architecture, language-model head included.
PUBLISHED = {
    "bert-base": 110_106_428,
    "bert-tiny": 4_433_468,
    "roberta-base": 124_697_433,
    "distilbert-base": 66_985_530,
    "gpt": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "byt5-small": 299_637_760,
    "bart-base": 139_420_416,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str) -> None:
    assert num_parameters(preset(name), model_class(name)) == PUBLISHED[name]


def test_table_has_a_row_for_each() -> None:
    table = preset_table()
    assert list(table["preset"]) == list(PRESETS)
    assert (table["parameters (M)"] > 0).all()


def test_description_shows_what_is_special() -> None:
    text = describe("mistral-tiny")
    assert "window: 64" in text
    assert "8 heads of 32, 2 key/value heads" in text
    assert "each token sees the last 64 tokens" in text
    assert "cross-attention" in describe("transformer-base")
    assert "12 times, 1 with weights of its own" in describe("albert-base")


def test_unknown_preset() -> None:
    with pytest.raises(ModelError, match="did you mean 'bart-base'"):
        preset("bartbase")
