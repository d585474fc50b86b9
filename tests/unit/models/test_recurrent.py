"""Recurrent encoder-decoders against plain PyTorch from their own weights, and what every built-in model must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSeq2SeqLM

from workbench.errors import ConfigError, ModelError
from workbench.models.ancestors.recurrent import RecurrentEncoderDecoderForConditionalGeneration
from workbench.models.ancestors.recurrent_configuration import RecurrentConfig
from workbench.models.auto import AUTO_CLASSES
from workbench.models.built_in import BuiltInConfig
from workbench.models.exporting import to_original
from workbench.models.presets import build, describe
from workbench.nn.recurrent import AlignmentScore, RecurrentLayer, TokenOrder

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
CURRENT: dict[str, Any] = {
    "cell": {"kind": "lstm", "bidirectional": False},
    "readout": {"kind": "tanh", "sees_token": False},
    "depth": {"layers": 2},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "bahdanau": {"embeddings": {"size": 12}, "attention": {"size": 10}},
    "bahdanau, two layers": {"depth": {"layers": 2, "decoder_layers": 3}, "cell": {"kind": "lstm"}},
    "luong": {**CURRENT, "attention": {"score": "general", "query": "current", "input_feeding": True}},
    "luong, dot": {**CURRENT, "attention": {"score": "dot", "query": "current"}},
}
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
LEFT = torch.tensor([[5, 6, 7, 8, 2], [0, 0, 9, 10, 2]])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])


def model(name: str) -> Any:
    torch.manual_seed(0)
    config = RecurrentConfig(vocab_size=30, hidden_size=16, initializer_range=0.5, **IDS, **VARIANTS[name])
    return RecurrentEncoderDecoderForConditionalGeneration(config).eval()


def mask(ids: Tensor) -> Tensor:
    return ids.ne(0).long()


def close(one: Tensor, other: Tensor, tolerance: float = 1e-5) -> None:
    one, other = one.detach(), other.detach()
    assert float((one - other).abs().max()) <= tolerance * float(other.abs().max())


def test_layer_is_pytorchs_over_the_tokens_alone() -> None:
    torch.manual_seed(1)
    layer = RecurrentLayer(kind="gru", inputs=3, width=4, bidirectional=True)
    plain = nn.GRU(3, 4, batch_first=True, bidirectional=True)
    plain.load_state_dict(layer.recurrence.state_dict())
    vectors = torch.randn(2, 5, 3)
    seen = torch.tensor([[0, 1, 1, 1, 1], [0, 1, 0, 1, 0]])  # padding in the middle too
    states = layer(vectors, TokenOrder.of(seen, vectors))
    for row in range(2):
        close(states[row][seen[row] == 1], plain(vectors[row][seen[row] == 1][None])[0][0])
    assert states[seen == 0].abs().max() == 0


def test_scores_by_hand() -> None:
    state, source = torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]])
    seen = torch.tensor([[1, 1, 0]])
    dot = AlignmentScore(score="dot", query=2, source=2, size=2)
    context, weights = dot(state, dot.keys(source), source, seen)  # scores 1 and 2
    share = 1 / (1 + torch.tensor(1.0).exp())
    torch.testing.assert_close(weights, torch.tensor([[share, 1 - share, 0.0]]))
    torch.testing.assert_close(context, torch.tensor([[share, 1 - share]]))
    general = AlignmentScore(score="general", query=2, source=2, size=2)
    general.key.weight.data = torch.tensor([[0.0, 3.0], [1.0, 0.0]])  # W h: (0, 1) and (3, 0)
    _, weights = general(state, general.keys(source), source, seen)  # scores 2 and 3
    torch.testing.assert_close(weights, torch.tensor([[share, 1 - share, 0.0]]))


def test_bahdanau_is_the_papers_equations() -> None:
    network = model("bahdanau")
    with torch.no_grad():
        found = network(SOURCE[:1], decoder_input_ids=TARGET[:1], output_attentions=True)
        body, table = network.model, network.model.encoder.tokens.weight
        gru = nn.GRU(12, 16, batch_first=True, bidirectional=True)
        gru.load_state_dict(body.encoder.layers[0].recurrence.state_dict())
        source = gru(table[SOURCE[:1]])[0][0]  # (S, 32)
        decoder = body.decoder
        state = torch.tanh(decoder.first_states[0](source[0, 16:]))
        query, key, energy = decoder.alignment.query, decoder.alignment.key, decoder.alignment.energy
        for place, token in enumerate(TARGET[0]):
            scores = torch.stack([energy(torch.tanh(query(state) + key(h)))[0] for h in source])
            weights = scores.exp() / scores.exp().sum()
            context = (weights[:, None] * source).sum(0)
            state = decoder.layers[0].step(torch.cat([table[token], context])[None], state[None])[0]
            pairs = decoder.readout.dense(torch.cat([state, context, table[token]]))
            read = torch.maximum(pairs[0::2], pairs[1::2])
            close(found.logits[0, place], network.head.output(read))
            close(found.cross_attentions[0][0, 0, place], weights)


def test_luong_feeds_its_last_output() -> None:
    network = model("luong")
    with torch.no_grad():
        found = network(SOURCE[:1], decoder_input_ids=TARGET[:1], output_attentions=True)
        body, table = network.model, network.model.encoder.tokens.weight
        source = table[SOURCE[:1]]
        for layer in body.encoder.layers:
            source = layer.recurrence(source)[0]
        decoder, source = body.decoder, source[0]
        states = [(torch.tanh(first(source[-1:])), torch.zeros(1, 16)) for first in decoder.first_states]
        fed = torch.zeros(16)
        for place, token in enumerate(TARGET[0]):
            entering = torch.cat([table[token], fed])[None]
            for number, cell in enumerate(decoder.layers):
                states[number] = cell.step(entering, states[number])
                entering = states[number][0]
            weights = torch.softmax(decoder.alignment.key(source) @ entering[0], 0)
            fed = torch.tanh(decoder.readout.dense(torch.cat([entering[0], weights @ source])))
            close(found.logits[0, place], network.head.output(fed))
            close(found.cross_attentions[0][0, 0, place], weights)


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_changes_nothing(name: str) -> None:
    network = model(name)
    with torch.no_grad():
        both = network(SOURCE, mask(SOURCE), TARGET, output_attentions=True)
        alone = network(SOURCE[1:, :3], mask(SOURCE[1:, :3]), TARGET[1:])
        close(both.logits[1], alone.logits[0])
        close(network(LEFT, mask(LEFT), TARGET).logits, both.logits)
        padded = nn.functional.pad(TARGET, (2, 0))  # left padding of the target
        seen = nn.functional.pad(torch.ones_like(TARGET), (2, 0))
        close(network(SOURCE, mask(SOURCE), padded, seen).logits[:, 2:], both.logits)
    weights = both.cross_attentions[0]
    assert weights.shape == (2, 1, 4, 5)
    close(weights.sum(-1), torch.ones(2, 1, 4))
    assert weights[1, ..., 3:].abs().max() == 0


@pytest.mark.parametrize("name", VARIANTS)
def test_step_by_step_equals_teacher_forcing(name: str) -> None:
    network = model(name)
    with torch.no_grad():
        whole = network(SOURCE, mask(SOURCE), TARGET).logits
        cache, encoded = None, network.model.encoder(SOURCE, mask(SOURCE))
        for place in range(TARGET.shape[1]):
            step = network(
                attention_mask=mask(SOURCE),
                encoder_outputs=encoded,
                decoder_input_ids=TARGET[:, place : place + 1],
                cache=cache,
                use_cache=True,
            )
            cache = step.cache
            assert cache.get_seq_length() == place + 1
            close(step.logits[:, 0], whole[:, place])
    for beams in (1, 3):
        cached, plain = (
            network.generate(
                SOURCE, attention_mask=mask(SOURCE), max_new_tokens=6, num_beams=beams, use_cache=use
            )
            for use in (True, False)
        )
        assert torch.equal(cached, plain)


@pytest.mark.parametrize("name", VARIANTS)
def test_no_output_depends_on_later_tokens(name: str) -> None:
    network = model(name)
    vectors = network.get_input_embeddings()(TARGET).detach().requires_grad_()
    logits = network(SOURCE, mask(SOURCE), decoder_inputs_embeds=vectors).logits
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), vectors)
    assert gradient[:, 2:].abs().max() == 0
    assert gradient[:, :2].abs().min() > 0


def test_saves_loads_and_resizes(tmp_path: Path) -> None:
    network = model("bahdanau")
    assert AUTO_CLASSES[RecurrentConfig]["AutoModelForSeq2SeqLM"] is type(network)
    network.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    body = AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        expected = network(SOURCE, mask(SOURCE), TARGET, output_hidden_states=True)
        close(again(SOURCE, mask(SOURCE), TARGET).logits, expected.logits, 1e-6)
        states = body(SOURCE, mask(SOURCE), TARGET).last_hidden_state
        close(states, expected.decoder_hidden_states[-1], 1e-6)
    again.resize_token_embeddings(35)
    assert again.model.decoder.tokens.weight is again.model.encoder.tokens.weight
    assert again(SOURCE, mask(SOURCE), TARGET).logits.shape == (2, 4, 35)


def test_labels_train_all_weights() -> None:
    network = model("luong").train()
    loss = network(SOURCE, mask(SOURCE), labels=TARGET).loss
    loss.backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_settings_round_trip() -> None:
    config = model("luong").config
    assert BuiltInConfig.from_yaml(config.to_yaml()).to_dict() == config.to_dict()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": {"kind": "rnn"}}, "cell.kind = 'rnn' is not allowed; allowed: gru, lstm"),
        ({"attention": {"score": "concat"}}, "allowed: additive, dot, general"),
        ({"attention": {"score": "dot"}}, "states of 16 meet a source of 32"),
        ({"attention": {"input_feeding": True}}, "true only with attention.query = current"),
        ({"depth": {"layers": 0}}, "depth.layers = 0 is not allowed; allowed: 1 or more"),
        ({"readout": {"size": 8}, "tie_word_embeddings": True}, "readout.size = 8 and embeddings.size = 16"),
        ({"cells": {}}, "unknown setting 'cells'"),
    ],
)
def test_wrong_settings_are_one_line(changes: dict[str, Any], message: str) -> None:
    settings = {"model_type": "workbench-recurrent", "hidden_size": 16, **changes}
    with pytest.raises(ConfigError) as raised:
        BuiltInConfig.from_settings(settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_presets() -> None:
    assert "additive scores of the previous state" in describe("bahdanau")
    network = build("luong-tiny").eval()
    assert network(SOURCE, mask(SOURCE), TARGET).logits.shape == (2, 4, 8000)


def test_no_original_architecture_to_export_to() -> None:
    with pytest.raises(ModelError, match="is of no architecture in transformers"):
        to_original(model("bahdanau"))
