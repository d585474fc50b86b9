"""Greedy generation for several prompts together is what each prompt alone is followed by."""

from __future__ import annotations

import pytest

from tests.parity import defaults
from tests.parity.table import model_of
from workbench.models import LoadedModel
from workbench.scoring import Generated, GenerationRequest, collect, generate_texts

# Encoders with learned positions (BART, Blenderbot, MVP), in windows (LED, Pegasus X), with sinusoidal ones (M2M100);
# decoders with learned and with rotary positions, and one whose default end token is beyond its vocabulary.
CHOSEN = (
    "bart",
    "blenderbot",
    "mvp",
    "led",
    "pegasus_x",
    "m2m_100",
    "gpt2",
    "opt",
    "llama",
    "bloom",
    "starcoder2",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", CHOSEN)
def test_a_batch_is_followed_by_what_each_prompt_is(model_type: str) -> None:
    model = model_of(next(family for family in defaults.FAMILIES if family.model_type == model_type))
    prompts = [GenerationRequest(text, max_tokens=6, stop=()) for text in defaults.TEXTS]
    assert _written(model, prompts) == [_written(model, [prompt])[0] for prompt in prompts]


def _written(model: LoadedModel, prompts: list[GenerationRequest]) -> list[Generated]:
    return collect(generate_texts(model, prompts), len(prompts))
