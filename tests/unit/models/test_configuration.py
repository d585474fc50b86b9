"""Configurations: mistakes are named when they are made, and nothing is lost on the way to JSON and YAML."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.models.tiny import VARIANTS, decoder, encoder
from workbench.errors import ConfigError
from workbench.models.configuration import DecoderConfig, TransformerConfig
from workbench.models.size import flops_per_token, num_parameters

MISTAKES: list[tuple[dict[str, Any], str, str, str]] = [  # settings, field, value, allowed
    (
        {"hidden_size": 20, "attention": {"heads": 4}, "positions": {"kind": "rotary"}},
        "fraction",
        "5",
        "even",
    ),
    ({"attention": {"heads": 8, "key_value_heads": 3}}, "attention.key_value_heads", "3", "1, 2, 4, 8"),
    ({"attention": {"window": 0}}, "attention.window", "0", "1 or more"),
    ({"attention": {"window": -2}}, "attention.window", "-2", "1 or more"),
    ({"attention": {"heads": "8"}}, "attention.heads", "'8'", "a whole number"),
    ({"attention": {"global_every": 2}}, "attention.global_every", "2", "attention.window"),
    ({"attention": {"dropout": 1.0}}, "attention.dropout", "1.0", "from 0"),
    ({"hidden_size": 30, "attention": {"heads": 4}}, "hidden_size", "30", "multiple of attention.heads = 4"),
    ({"positions": {"kind": "rotating"}}, "positions.kind", "'rotating'", "rotary"),
    ({"positions": {"kind": "sinusoidal"}, "embeddings": {"size": 7}}, "embeddings.size", "7", "even"),
    ({"positions": {"buckets": 6}}, "positions.buckets", "6", "multiple of 4"),
    ({"positions": {"buckets": 32, "max_distance": 16}}, "positions.max_distance", "16", "above"),
    ({"norm": {"kind": "batch"}}, "norm.kind", "'batch'", "layer_norm, rms_norm, none"),
    ({"norm": {"placement": "middle"}}, "norm.placement", "'middle'", "post, pre, sandwich"),
    ({"feed_forward": {"activation": "swich"}}, "feed_forward.activation", "'swich'", "swish"),
    ({"feed_forward": {"experts": 0}}, "feed_forward.experts", "0", "1 or more"),
    (
        {"feed_forward": {"experts": 2, "experts_per_token": 3}},
        "feed_forward.experts_per_token",
        "3",
        "up to 2",
    ),
    (
        {"feed_forward": {"experts": 2, "capacity_factor": 0.0}},
        "feed_forward.capacity_factor",
        "0.0",
        "above 0",
    ),
    ({"feed_forward": {"balance": -1.0}}, "feed_forward.balance", "-1.0", "0 or more"),
    ({"depth": {"layers": 6, "groups": 4}}, "depth.groups", "4", "divisor of layers = 6"),
    ({"depth": {"halting": 0.0, "groups": 1}}, "depth.halting", "0.0", "above 0"),
    ({"depth": {"step_encoding": True}}, "depth.groups", "None", "1, with depth.step_encoding"),
    ({"depth": {"layers": 6, "pool_every": 2}}, "depth.pool_every", "2", "but for an encoder"),
    ({"depth": {"layers": 6, "pool_every": 6}}, "depth.pool_every", "6", "a divisor of the 6 layers"),
    ({"depth": {"upsampled_layers": 2}}, "depth.upsampled_layers", "2", "0 without pooling"),
    ({"depth": {"layers": 0}}, "depth.layers", "0", "1 or more"),
    ({"embeddings": {"frozen_padding": True}}, "pad_token_id", "None", "an id"),
    ({"attention": {"headz": 8}}, "attention.headz", "headz", "did you mean 'heads'"),
    ({"norm": 3}, "norm", "3", "NormConfig"),
    ({"vocab_size": 0}, "vocab_size", "0", "1 or more"),
]


@pytest.mark.parametrize(("settings", "field", "value", "allowed"), MISTAKES)
def test_a_mistake_names_field_value_and_allowed(
    settings: dict[str, Any], field: str, value: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderConfig(**settings)
    message = str(caught.value)
    assert field in message
    assert value in message
    assert allowed in message
    assert "\n" not in message


@pytest.mark.parametrize("name", VARIANTS)
def test_round_trip(name: str) -> None:
    config = VARIANTS[name]
    assert TransformerConfig.from_yaml(config.to_yaml()).to_yaml() == config.to_yaml()
    again = type(config).from_dict(json.loads(config.to_json_string()))
    assert again.to_dict() == config.to_dict()
    assert (again.attention, again.positions, again.depth) == (
        config.attention,
        config.positions,
        config.depth,
    )


def test_yaml_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="workbench-encoder"):
        TransformerConfig.from_yaml("model_type: bert")
    with pytest.raises(ConfigError, match="mapping"):
        TransformerConfig.from_yaml("- 1")


def test_length_beyond_learned_positions() -> None:
    with pytest.raises(ConfigError, match=r"13 tokens.*positions.max_length = 12"):
        decoder().check_length(13)
    decoder(positions={"kind": "alibi"}).check_length(13)


def test_parameters_by_hand() -> None:
    """GPT-2's count: table V D, positions P D, 12 D² + 13 D a layer, 2 D for the final norm."""
    vocabulary, width, places, layers = 40, 16, 12, 2
    config = decoder(feed_forward={"size": 4 * width})
    by_hand = vocabulary * width + places * width + layers * (12 * width**2 + 13 * width) + 2 * width
    assert num_parameters(config) == by_hand


def test_operations_by_hand() -> None:
    """Per layer 2 * 12 D²; 4 D for each visible key, (T + 1) / 2 of them on average; 2 D V for the logits."""
    vocabulary, width, layers, length = 40, 16, 2, 9
    config = decoder(feed_forward={"size": 4 * width})
    by_hand = layers * (24 * width**2 + 4 * width * (length + 1) // 2) + 2 * width * vocabulary
    assert flops_per_token(config, length) == by_hand


def test_operations_count_what_a_window_shows() -> None:
    """With a window of 2 over 3 tokens, queries see 1, 2 and 2 keys: 5 / 3 on average instead of 2."""
    whole, local = decoder(), decoder(attention={"heads": 4, "window": 2})
    assert flops_per_token(whole, 3) - flops_per_token(local, 3) == round(2 * 4 * 16 * (2 - 5 / 3))


def test_shared_layers_cost_as_much_as_others() -> None:
    shared = decoder(depth={"layers": 4, "groups": 1})
    assert flops_per_token(shared, 8) == flops_per_token(decoder(depth={"layers": 4}), 8)
    assert num_parameters(shared) < num_parameters(decoder(depth={"layers": 4}))


def test_a_form_counts_what_it_computes() -> None:
    """In products of a head's width, beside full attention: Linformer's two projections and its rows, by hand."""
    full = encoder(positions={"max_length": 64})
    formed = encoder(positions={"max_length": 64}, form={"kind": "linformer", "rank": 4})
    width, length = full.attention.heads * full.head_dim, 64
    products = full.depth.layers * 4 * width
    assert flops_per_token(full, length) - flops_per_token(formed, length) == products * (length - 2 * 4)
