"""The convolutional encoder-decoder against explicit loops from its own weights, and what every model must keep."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM

from workbench.errors import ConfigError
from workbench.models.ancestors.convolutional import ConvolutionalEncoderDecoderForConditionalGeneration
from workbench.models.ancestors.convolutional_configuration import ConvolutionalConfig
from workbench.models.auto import AUTO_CLASSES
from workbench.models.built_in import BuiltInConfig
from workbench.models.presets import build, describe
from workbench.nn.convolutional import GatedConvolution

SETTINGS: dict[str, Any] = {
    "vocab_size": 30, "hidden_size": 16, "embeddings": {"size": 12}, "initializer_range": 0.5,
    "depth": {"layers": 2, "decoder_layers": 3}, "positions": {"max_length": 20},
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
LEFT = torch.tensor([[5, 6, 7, 8, 2], [0, 0, 9, 10, 2]])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
HALF = math.sqrt(0.5)


@pytest.fixture(params=["eager", "sdpa"])
def network(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    model = ConvolutionalEncoderDecoderForConditionalGeneration(ConvolutionalConfig(**SETTINGS)).eval()
    for weight in model.parameters():  # biases too
        if weight.dim() == 1:
            nn.init.normal_(weight, std=0.1)
    model.set_attn_implementation(request.param)
    return model


def mask(ids: Tensor) -> Tensor:
    return ids.ne(0).long()


def close(one: Tensor, other: Tensor, tolerance: float = 1e-5) -> None:
    one, other = one.detach(), other.detach()
    assert float((one - other).abs().max()) <= tolerance * float(other.abs().max())


def gated(layer: Any, hidden: Tensor, before: int, after: int) -> Tensor:
    """A convolution with its gate by explicit sums over the kernel: (T, D)."""
    weight, bias = layer.convolution.weight, layer.convolution.bias
    rows = []
    for place in range(len(hidden)):
        total = bias.clone()
        for number, offset in enumerate(range(-before, after + 1)):
            if 0 <= place + offset < len(hidden):
                total = total + weight[:, :, number] @ hidden[place + offset]
        one, gate = total.chunk(2)
        rows.append(one * torch.sigmoid(gate))
    return torch.stack(rows)


def expected_logits(model: Any, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's equations for one pair, and the weights of each layer (L, T, S)."""
    encoder, decoder = model.model.encoder, model.model.decoder
    embedded = encoder.tokens.weight[source] + encoder.positions.weight[: len(source)]
    hidden = encoder.enter(embedded)
    for block in encoder.layers:
        hidden = (gated(block.convolution, hidden, 1, 1) + hidden) * HALF
    keys = encoder.leave(hidden)
    values = (keys + embedded) * HALF
    vectors = decoder.tokens.weight[target] + decoder.positions.weight[: len(target)]
    hidden, weights = decoder.enter(vectors), []
    for block in decoder.layers:
        states = gated(block.convolution, hidden, 2, 0)
        queries = (block.attention.query(states) + vectors) * HALF
        scores = queries @ keys.T
        weights.append(scores.exp() / scores.exp().sum(-1, keepdim=True))
        context = block.attention.output(weights[-1] @ values * math.sqrt(len(source)))
        hidden = ((states + context) * HALF + hidden) * HALF
    return model.head.output(decoder.leave(hidden)), torch.stack(weights)


def test_it_is_the_papers_equations(network: Any) -> None:
    with torch.no_grad():
        found = network(SOURCE[:1], decoder_input_ids=TARGET[:1], output_attentions=True)
        logits, weights = expected_logits(network, SOURCE[0], TARGET[0])
    close(found.logits[0], logits)
    if network.config._attn_implementation == "eager":
        assert [w.shape for w in found.cross_attentions] == [(1, 1, 4, 5)] * 3
        close(torch.cat(found.cross_attentions)[:, 0], weights)
        close(weights.sum(-1), torch.ones(3, 4))


def test_a_gated_convolution_by_hand() -> None:
    layer = GatedConvolution(width=1, kernel=3, is_causal=True)
    layer.convolution.weight.data = torch.tensor([[[1.0, 2.0, 3.0]], [[0.0, 0.0, 0.0]]])
    layer.convolution.bias.data = torch.tensor([0.0, 0.0])  # a gate of 0 lets a half through
    states, last = layer(torch.tensor([[[1.0], [10.0], [100.0]]]), torch.ones(1, 3))
    assert states[0, :, 0].tolist() == [1.5, 16.0, 160.5]  # (3, 2 + 30, 1 + 20 + 300) / 2
    assert last[0, :, 0].tolist() == [10.0, 100.0]
    states, _ = layer(torch.tensor([[[1000.0]]]), torch.ones(1, 1), last)
    assert states.item() == (10 + 200 + 3000) / 2


def test_padding_changes_nothing(network: Any) -> None:
    with torch.no_grad():
        both = network(SOURCE, mask(SOURCE), TARGET)
        alone = network(SOURCE[1:, :3], mask(SOURCE[1:, :3]), TARGET[1:])
        close(both.logits[1], alone.logits[0])
        close(network(LEFT, mask(LEFT), TARGET).logits, both.logits)
        padded = nn.functional.pad(TARGET, (2, 0))
        seen = nn.functional.pad(torch.ones_like(TARGET), (2, 0))
        close(network(SOURCE, mask(SOURCE), padded, seen).logits[:, 2:], both.logits)


def test_step_by_step_equals_teacher_forcing(network: Any) -> None:
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
            close(step.logits[:, 0], whole[:, place])
        assert [layer[0].shape for layer in cache.layers] == [(2, 2, 16)] * 3  # whatever the length
    for beams in (1, 3):
        cached, plain = (
            network.generate(
                SOURCE, attention_mask=mask(SOURCE), max_new_tokens=6, num_beams=beams, use_cache=use
            )
            for use in (True, False)
        )
        assert torch.equal(cached, plain)


def test_no_output_depends_on_later_tokens(network: Any) -> None:
    vectors = network.get_input_embeddings()(TARGET).detach().requires_grad_()
    logits = network(SOURCE, mask(SOURCE), decoder_inputs_embeds=vectors).logits
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), vectors)
    assert gradient[:, 2:].abs().max() == 0
    assert gradient[:, :2].abs().min() > 0


def test_saves_loads_and_trains(network: Any, tmp_path: Path) -> None:
    assert AUTO_CLASSES[ConvolutionalConfig]["AutoModelForSeq2SeqLM"] is type(network)
    network.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    close(again(SOURCE, mask(SOURCE), TARGET).logits, network(SOURCE, mask(SOURCE), TARGET).logits, 1e-6)
    assert again.model.decoder.tokens.weight is again.model.encoder.tokens.weight
    network.train()(SOURCE, mask(SOURCE), labels=TARGET).loss.backward()
    assert [name for name, weight in network.named_parameters() if weight.grad is None] == []
    config = network.config
    assert BuiltInConfig.from_yaml(config.to_yaml()).settings() == config.settings()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convolution": {"kernel": 4}}, "convolution.kernel = 4 is not allowed; allowed: an odd number"),
        ({"positions": {"max_length": 0}}, "positions.max_length = 0 is not allowed; allowed: 1 or more"),
        ({"depth": {"layer": 2}}, "depth.layer is not a setting; did you mean 'layers'"),
    ],
)
def test_wrong_settings_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BuiltInConfig.from_settings({"model_type": "workbench-convolutional", **changes})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_text_too_long_is_one_line(network: Any) -> None:
    ids = torch.full((1, 21), 5)
    with pytest.raises(ConfigError, match="a sequence of 21 tokens is longer than the learned positions"):
        network(ids, mask(ids), TARGET[:1])


def test_presets() -> None:
    assert "gated linear unit: → 512" in describe("convs2s")
    network = build("convs2s-tiny").eval()
    assert network(SOURCE, mask(SOURCE), TARGET).logits.shape == (2, 4, 8000)
