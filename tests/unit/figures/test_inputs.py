"""Attention in every form people hold it in, and the one-line refusals of what cannot be shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.errors import ConfigError, NumericsError, TraceError
from workbench.figures._inputs import AttentionInputs, as_shown, attention_frame
from workbench.figures._maps import MAX_TOKENS, shown_tokens, sink_positions

TOKENS = ["[CLS]", "play", "##ing", "[SEP]"]


def uniform(layers: int = 2, heads: int = 3, queries: int = 4, keys: int = 4) -> np.ndarray:
    return np.full((layers, heads, queries, keys), 1 / keys, dtype=np.float32)


def test_hugging_face_tuples_and_arrays_are_the_same_map():
    array = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 4)).astype(np.float32)
    bfloat = tuple(torch.tensor(layer)[None] for layer in array)
    one = AttentionInputs(attention=array, tokens=TOKENS).maps()[0]
    two = AttentionInputs(attention=bfloat, tokens=TOKENS).maps()[0]
    assert np.array_equal(one.weights, two.weights)
    assert one.layers == (0, 1)
    assert one.heads == (0, 1, 2)


def test_bfloat16_tensors_are_read():
    half = (torch.full((1, 1, 4, 4), 0.25, dtype=torch.bfloat16),)
    assert AttentionInputs(attention=half, tokens=TOKENS).maps()[0].weights.max() == 0.25


def test_included_layers_and_heads_keep_their_numbers():
    array = uniform(4, 3)
    array[2, 1] = np.eye(4)
    chosen = AttentionInputs(attention=array, tokens=TOKENS, include_layers=[2], include_heads=[1]).maps()[0]
    assert chosen.layers == (2,)
    assert chosen.heads == (1,)
    assert np.array_equal(chosen.weights[0, 0], np.eye(4))


def test_encoder_decoder_gives_three_maps_with_their_own_tokens():
    maps = AttentionInputs(
        encoder_attention=uniform(1, 1),
        decoder_attention=uniform(1, 1, 2, 2),
        cross_attention=uniform(1, 1, 2, 4),
        encoder_tokens=TOKENS,
        decoder_tokens=["das", "Spiel"],
    ).maps()
    assert [m.name for m in maps] == ["encoder", "decoder", "cross"]
    assert maps[2].weights.shape == (1, 1, 2, 4)
    assert maps[2].keys.sinks == (0, 3)  # [CLS] and [SEP] by name


def test_first_token_is_a_sink_within_one_text_but_not_across_two():
    assert sink_positions(["The", "cat", "</s>"], first=True) == (0, 2)
    assert sink_positions(["The", "cat", "</s>"], first=False) == (2,)


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ({"attention": uniform(), "tokens": ["a"]}, ConfigError, "4 x 4 .* 1 and 1 tokens"),
        ({"attention": uniform(), "tokens": []}, ConfigError, "tokens="),
        ({}, ConfigError, "nothing to show"),
        ({"attention": uniform(), "tokens": TOKENS, "include_layers": [2]}, TraceError, "0 to 1"),
        ({"attention": uniform(), "tokens": TOKENS, "include_heads": [7]}, TraceError, "0 to 2"),
        ({"attention": (None, None), "tokens": TOKENS}, TraceError, "attn_implementation='eager'"),
        ({"attention": uniform() * np.nan, "tokens": TOKENS}, NumericsError, "NaN"),
        ({"attention": uniform() - 1, "tokens": TOKENS}, TraceError, "heat_map"),
        (
            {"attention": uniform(2, 2)[None], "tokens": TOKENS},
            ConfigError,
            "one text at a time|\\(head, query",
        ),
        ({"attention": uniform(), "tokens": TOKENS, "words": [0]}, ConfigError, "one per token"),
        ({"attention": uniform(), "tokens": TOKENS, "sentence_b_start": 4}, ConfigError, "between 1 and 3"),
        ({"attention": uniform(), "cross_attention": uniform(), "tokens": TOKENS}, ConfigError, "not both"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_the_way_out(arguments, error, part):
    with pytest.raises(error, match=part):
        AttentionInputs(**arguments).maps()


def test_ten_thousand_tokens_are_refused_with_limit_and_alternative():
    huge = np.broadcast_to(np.float32(0), (1, 1, 10_000, 10_000))  # takes no memory
    with pytest.raises(ConfigError, match=r"10,000 tokens .* at most 2,048; pass a slice"):
        AttentionInputs(attention=huge, tokens=["x"] * 10_000).maps()
    assert MAX_TOKENS == 2048


def test_words_sum_over_attended_and_average_over_attending_pieces():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.5, 0.0], [1, 0, 0, 0]])
    (whole,) = AttentionInputs(attention=weights[None, None], tokens=TOKENS, words=[None, 0, 0, None]).maps()
    merged = as_shown(whole, merge_words=True, hide_sinks=False)
    assert merged.queries.shown == ("[CLS]", "playing", "[SEP]")
    # by hand: columns 1 and 2 added, then rows 1 and 2 averaged
    expected = [[0.1, 0.5, 0.4], [(0.4 + 0.0) / 2, (0.5 + 1.0) / 2, (0.1 + 0.0) / 2], [1, 0, 0]]
    assert np.allclose(merged.weights[0, 0], expected, atol=1e-6)


def test_hidden_sinks_are_zero_and_the_rest_is_untouched():
    (whole,) = AttentionInputs(attention=uniform(1, 1), tokens=TOKENS).maps()
    hidden = as_shown(whole, merge_words=False, hide_sinks=True).weights[0, 0]
    assert np.array_equal(hidden[0], [0, 0.25, 0.25, 0])


def test_frame_has_one_row_per_edge():
    (whole,) = AttentionInputs(attention=uniform(2, 3), tokens=TOKENS).maps()
    frame = attention_frame([whole])
    assert len(frame) == 2 * 3 * 4 * 4
    last = frame.iloc[-1]
    assert (last.layer, last["head"], last.query_token, last.key_token) == (1, 2, "[SEP]", "[SEP]")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("\x00", "⟨U+0000⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\u2028b", "a⟨U+2028⟩b"),
        ("", "(empty)"),
        ("  ", "␣␣"),
        ("▁street", "street"),
        ("<script>", "<script>"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
)
def test_every_token_is_visible(token, shown):
    assert shown_tokens([token], prettify=True) == (shown,)


def test_byte_level_pieces_are_decoded_and_half_characters_left():
    # "é" is C3 A9; byte-level BPE writes these bytes as Ã and ©
    assert shown_tokens(["Ġcaf", "Ã©", "Ã", "Ċ"], prettify=True) == ("caf", "é", "Ã", "↵")
    assert shown_tokens(["Ġcaf"], prettify=False) == ("Ġcaf",)
