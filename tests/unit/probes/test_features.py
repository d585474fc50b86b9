"""Features of tiny models against their own outputs; stores, and what has no vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from probes._data import Place, Words
from probes.features import Features, extract, with_random_weights
from tests.model_folders import save_bart, save_bert
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError, TaskError, TraceError
from workbench.models import LoadedModel, load

SENTENCES = ["the keys to the cabinet", "cats ran", "a dogs sat on the mat ."]


@pytest.fixture(scope="module")
def decoder() -> LoadedModel:
    return tiny_causal()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


def hidden(model: LoadedModel, text: str) -> np.ndarray:
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        output = model.model.base_model(input_ids=ids, output_hidden_states=True)
    return torch.stack(output.hidden_states)[:, 0].numpy()  # (L, T, D)


def test_words_get_the_models_own_hidden_states(decoder: LoadedModel) -> None:
    features = extract(decoder, SENTENCES)
    expected = np.concatenate([hidden(decoder, text) for text in SENTENCES], axis=1)  # a token a word
    assert features.layers == (0, 1, 2)
    np.testing.assert_allclose(features.values, expected, atol=1e-5)
    assert features.valid.all()
    table = decoder.model.get_input_embeddings().weight.detach().numpy()
    ids = np.concatenate([decoder.tokenizer(text).input_ids for text in SENTENCES])
    np.testing.assert_allclose(features.static, table[ids], atol=1e-6)


POOLED = {
    "first": lambda tokens: tokens[1],
    "last": lambda tokens: tokens[3],
    "mean": lambda tokens: tokens[1:4].mean(0),
    "cls": lambda tokens: tokens[0],
}


@pytest.mark.parametrize("pool", POOLED)
def test_a_span_is_pooled_by_the_stated_rule(decoder: LoadedModel, pool: str) -> None:
    features = extract(decoder, SENTENCES, [Place(2, 1, 4)], pool=pool, layers=[2])
    tokens = hidden(decoder, SENTENCES[2])[2]
    np.testing.assert_allclose(features.values[0, 0], POOLED[pool](tokens), atol=1e-5)


def test_parts_of_the_residual_stream_add_up(decoder: LoadedModel) -> None:
    residual = extract(decoder, SENTENCES)
    attention, mlp = (extract(decoder, SENTENCES, what=what) for what in ("attention_out", "mlp_out"))
    assert attention.layers == mlp.layers == (0, 1)
    # a pre-norm layer adds what its two parts give; the last residual entry is after the final norm
    np.testing.assert_allclose(
        residual.values[1] - residual.values[0], attention.values[0] + mlp.values[0], atol=1e-5
    )


def test_heads_before_the_projection_make_the_attention_output(decoder: LoadedModel) -> None:
    heads = [extract(decoder, SENTENCES, what=f"head:1.{h}").values[0] for h in range(4)]
    projection = decoder.model.model.layers[1].self_attn.o_proj.weight.detach().numpy()
    attention = extract(decoder, SENTENCES, what="attention_out", layers=[1]).values[0]
    np.testing.assert_allclose(np.concatenate(heads, axis=1) @ projection.T, attention, atol=1e-5)


def test_a_store_is_reused_and_one_of_another_model_refused(decoder: LoadedModel, tmp_path: Path) -> None:
    first = extract(decoder, SENTENCES, out=tmp_path / "store")
    changed = (first.path / "values.npy").stat().st_mtime_ns
    again = extract(decoder, SENTENCES, out=tmp_path / "store")
    assert again.key == first.key
    assert (again.path / "values.npy").stat().st_mtime_ns == changed
    blank = with_random_weights(decoder, seed=1)  # the tiny decoder itself is what seed 0 draws
    with pytest.raises(DataError, match="made from other weights, data or settings"):
        extract(blank, SENTENCES, out=tmp_path / "store")
    with pytest.raises(DataError, match="made from other"):
        extract(decoder, SENTENCES[:2], out=tmp_path / "store")
    with pytest.raises(DataError, match="is not a feature store"):
        Features.open(tmp_path)


def test_random_weights_keep_the_architecture_and_the_callers_dice(decoder: LoadedModel) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, same, other = (with_random_weights(decoder, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    weights = [m.model.state_dict()["model.layers.0.mlp.up_proj.weight"] for m in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert weights[0].shape == decoder.model.state_dict()["model.layers.0.mlp.up_proj.weight"].shape
    assert len({m.content_hash for m in (decoder, one, other)}) == 3


def test_words_without_tokens_and_beyond_the_length_have_no_vector(tmp_path: Path) -> None:
    model = tiny_causal(positions=8)
    words = [Words(("cat", "", "sat")), Words(("",)), Words(("the",) * 12)]
    features = extract(model, words)
    assert features.valid.tolist() == [True, False, True, False, *[True] * 8, *[False] * 4]
    assert (features.dropped, features.truncated) == (2, 4)


@pytest.mark.parametrize("stack", [None, "encoder", "decoder"])
def test_both_sides_of_an_encoder_decoder(tmp_path: Path, stack: str | None) -> None:
    model = load(str(save_bart(tmp_path / "bart")), dtype="float32", device="cpu")
    features = extract(model, SENTENCES[:1], stack=stack)
    ids = model.tokenizer(SENTENCES[0], return_tensors="pt").input_ids  # <s> … </s>
    start = torch.tensor(
        [[2, *ids[0, 1:-1].tolist()]]
    )  # the start token; no <s>, which nothing forces, and no end
    with torch.no_grad():
        output = model.model(input_ids=ids, decoder_input_ids=start, output_hidden_states=True)
    if stack == "decoder":
        # "the" is the second token that the decoder reads
        expected = torch.stack(output.decoder_hidden_states)[:, 0, 1:6].numpy()
    else:
        expected = torch.stack(output.encoder_hidden_states)[:, 0, 1:6].numpy()
    np.testing.assert_allclose(features.values, expected, atol=1e-5)
    assert features.values.shape == (3, 5, 32)


def test_an_encoder_takes_first_tokens_and_a_decoder_last_ones(decoder: LoadedModel, tmp_path: Path) -> None:
    encoder = load(str(save_bert(tmp_path / "bert")), dtype="float32", device="cpu")
    assert extract(encoder, SENTENCES).policy.pool == "first"
    assert extract(decoder, SENTENCES).policy.pool == "last"


BAD = [
    ({"layers": [9]}, TaskError, "layer 9 is out of range: the decoder has layers 0 to 2"),
    ({"layers": []}, TaskError, "out of range"),
    ({"what": "head:0.7"}, TraceError, "head 7 is out of range"),
    ({"what": "head:5.0"}, TraceError, "layer 5 is out of range"),
    ({"what": "logits"}, ConfigError, "cannot probe 'logits'; allowed: residual"),
    ({"pool": "middle"}, ConfigError, "unknown pool 'middle'"),
    ({"stack": "encoder"}, TraceError, "no 'encoder'"),
    ({"out": "/proc/none/store"}, DataError, "cannot write features to /proc/none/store"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD, ids=[m for _, _, m in BAD])
def test_mistakes_are_told_in_one_line(
    decoder: LoadedModel, options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        extract(decoder, SENTENCES, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_no_sentences_and_one_string(decoder: LoadedModel) -> None:
    with pytest.raises(DataError, match="no sentences"):
        extract(decoder, [])
    with pytest.raises(DataError, match="write \\[sentence\\]"):
        extract(decoder, "the cat")
