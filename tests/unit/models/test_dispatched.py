"""Models whose weights accelerate has put on disk or in the CPU's memory give what they give in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import workbench
from probes.features import extract
from tests.helpers import assert_near
from tests.model_folders import framed_tokenizer
from tests.unit.tiny import WORDS, word_tokenizer
from workbench.analysis.direct import direct_logit_attribution
from workbench.analysis.faithfulness_examine import shuffled
from workbench.analysis.neurons import promoted_tokens
from workbench.errors import ModelError
from workbench.evaluate import own_task
from workbench.evaluate.doctor import examine
from workbench.models import Kind, LoadedModel
from workbench.models.dispatched import input_device, is_offloaded, stack_layers

accelerate = pytest.importorskip("accelerate")

TEXTS = ["the cats sat on the table .", "a key is on the mat", "dogs ran to the cabinet , and cats sat"]
SIZES = {"vocab_size": 4 + len(WORDS), "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def llama(**other: Any) -> Any:
    config = transformers.LlamaConfig(**SIZES, **SPECIAL, intermediate_size=48, **other)
    return transformers.LlamaForCausalLM(config)


def gpt2() -> Any:  # its head is its embedding
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, **SPECIAL, n_positions=64))


def bert() -> Any:
    return transformers.BertForMaskedLM(
        transformers.BertConfig(**SIZES, intermediate_size=48, pad_token_id=0)
    )


def t5() -> Any:
    sizes = {"vocab_size": SIZES["vocab_size"], "num_layers": 2, "num_heads": 4, "d_model": 32, "d_ff": 48}
    config = transformers.T5Config(**sizes, d_kv=8, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def built(make: Callable[[], Any]) -> Any:
    """A model with weights large enough that its answers differ."""
    torch.manual_seed(0)
    model = make().eval()
    for name, weight in model.named_parameters():
        if "norm" not in name.lower() and "ln_" not in name:
            torch.nn.init.normal_(weight, std=0.3)
    return model


def on_disk(model: Any, folder: Path) -> Any:
    return accelerate.disk_offload(model, str(folder / "weights"), execution_device=torch.device("cpu"))


def in_cpu_memory(model: Any, folder: Path) -> Any:
    return accelerate.cpu_offload(model, execution_device=torch.device("cpu"))


def by_map(model: Any, folder: Path) -> Any:
    """As ``from_pretrained(device_map=…)`` spreads a model that is larger than the memory: the blocks on disk."""
    model.save_pretrained(folder / "model")
    places = {
        name: "cpu"
        for name, module in model.named_modules()
        if next(module.parameters(False), None) is not None
    }
    places = {
        name: "disk" if any(char.isdigit() for char in name) else place for name, place in places.items()
    }
    return type(model).from_pretrained(folder / "model", device_map=places, offload_folder=folder / "weights")


TARGETS = {Kind.CAUSAL: "cats"}


def wrapped(model: Any) -> LoadedModel:
    masked = type(model).__name__.startswith("Bert")
    tokenizer = framed_tokenizer() if masked or model.config.is_encoder_decoder else word_tokenizer()
    if masked:
        tokenizer.mask_token = "."
    return workbench.wrap(model, tokenizer, name="tiny")


def answers(model: LoadedModel, folder: Path) -> dict[str, Any]:
    """Numbers of every room, by name."""
    rows = [{"query": text, "choices": [" cats", " the key", " a mat"], "gold": 1} for text in TEXTS]
    run = workbench.evaluate(model, tasks=own_task(rows, "own"), out=folder / "run")
    trace = workbench.trace(model, TEXTS, record={"hidden", "attention", "logits"})[0]
    stack = "decoder" if model.kind is Kind.SEQ2SEQ else None
    found = {
        "hash": model.content_hash,
        "parameters": model.num_parameters,
        "evaluate": run.examples().select_dtypes("number").to_numpy(),
        "metrics": run.to_frame()["value"].to_numpy(),
        "trace": trace.logits,
        "probe": extract(model, [text.split() for text in TEXTS]).values,
        "capture": workbench.capture(model, TEXTS, "mlp", stack=stack).values,
        "saliency": workbench.attribute(model, TEXTS[0], target=TARGETS.get(model.kind)).scores,
    }
    if model.kind is not Kind.SEQ2SEQ:
        found["surprisal"] = np.concatenate([s.words().bits for s in workbench.surprisal(model, TEXTS)])
    if model.kind is not Kind.MASKED:
        found["lens"] = workbench.lens(model, TEXTS[0], target="cats").target_log_probability
        found["generate"] = workbench.generate(model, TEXTS[0], max_tokens=5).text
        found["score"] = workbench.score(model, TEXTS[0], "the cats").token_log_probabilities
    if model.kind is Kind.CAUSAL:
        found["direct"] = direct_logit_attribution(model, TEXTS[0], "cats").heads
        found["promotes"] = [value for _, value in promoted_tokens(model, 1, 3).raised]
        found["patch"] = workbench.patch(model, "the cats sat", "the dogs sat", "on", "to").values
    return found


@cache
def in_memory(make: Callable[[], Any], folder: Path) -> dict[str, Any]:
    """What the model answers that is not offloaded; computed once for all ways."""
    return answers(wrapped(built(make)), folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


@pytest.mark.parametrize(
    ("make", "offload"),
    [
        (llama, on_disk), (llama, in_cpu_memory), (llama, by_map), (gpt2, in_cpu_memory), (gpt2, by_map),
        (bert, on_disk), (t5, in_cpu_memory),
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_an_offloaded_model_gives_what_it_gives_in_memory(
    make: Callable[[], Any], offload: Callable[[Any, Path], Any], tmp_path: Path, folder: Path
) -> None:
    away = wrapped(offload(built(make), tmp_path))
    assert is_offloaded(away.model)
    assert away.device == torch.device("cpu")
    expected, found = in_memory(make, folder / make.__name__), answers(away, tmp_path / "away")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        if isinstance(value, str):
            assert found[name] == value, name
        else:  # equal but for where numbers lie in memory, by which products of matrices round
            assert_near(found[name], value, 1e-6, name)
    assert is_offloaded(away.model)  # nothing was left in memory


def test_scores_at_bfloat16_read_the_offloaded_head(tmp_path: Path) -> None:
    plain = built(llama).bfloat16()
    expected = workbench.score(wrapped(copy.deepcopy(plain)), TEXTS[0], "the cats")
    found = workbench.score(wrapped(on_disk(plain, tmp_path)), TEXTS[0], "the cats")
    assert found.token_log_probabilities == expected.token_log_probabilities


def test_what_changes_weights_in_place_is_one_line(tmp_path: Path) -> None:
    model = wrapped(on_disk(built(llama), tmp_path))
    with (
        pytest.raises(ModelError, match="shuffling weights needs all weights in memory") as refused,
        shuffled(model),
    ):
        pass
    assert "\n" not in str(refused.value)
    checks = {check.name: check for check in examine(model).checks}
    assert "offloaded" in checks["gradient"].detail


def test_a_model_that_was_never_given_values_is_one_line() -> None:
    with torch.device("meta"):
        model = llama()
    with pytest.raises(ModelError, match=r"has no values for lm_head\.weight"):
        _ = wrapped(model).content_hash


def test_where_a_model_takes_its_inputs() -> None:
    model = built(llama)
    assert input_device(model) == torch.device("cpu")
    accelerate.hooks.add_hook_to_module(
        model.model.embed_tokens, accelerate.hooks.AlignDevicesHook(execution_device=torch.device("meta"))
    )
    assert input_device(model) == torch.device("meta")


def test_layers_of_several_devices_are_stacked_on_the_first() -> None:
    layers = [torch.zeros(2, 3, device="meta"), torch.ones(2, 3)]
    assert stack_layers(layers).device == torch.device("meta")
    np.testing.assert_array_equal(stack_layers(layers[1:] * 2), np.ones((2, 2, 3)))
