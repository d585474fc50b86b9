"""Built-in models written in their original architecture: plain transformers opens them and gives the same outputs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

import workbench
from tests.helpers import assert_near, run_command
from tests.parity.families import CASES, batch
from workbench.errors import ModelError
from workbench.models.exporting import export_model, to_original
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.imports import to_builtin
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig
from workbench.models.presets import preset

_PLAIN = """
import sys, torch, transformers
assert not any(name.split(".")[0] == "workbench" for name in sys.modules)
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
ids = transformers.AutoTokenizer.from_pretrained(sys.argv[1])("She was", return_tensors="pt").input_ids
torch.save((ids, model(ids).logits.detach()), sys.argv[2])
"""


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name: str) -> None:
    """An original made built-in and exported again is the original: its outputs are the reference."""
    original = CASES[name].build()
    back = to_original(to_builtin(original))
    assert type(back) is type(original)
    given = batch(CASES[name].kind, "right")
    inputs = {key: value for key, value in given.items() if "label" not in key and "positions" not in key}
    if original.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"].flip(1)
    with torch.no_grad():
        expected, found = (model.eval()(**inputs).to_tuple()[0] for model in (original, back))
    assert_near(found, expected, relative=1e-5)


def test_a_bias_that_is_absent_is_zero_there() -> None:
    """The preset of BART has no bias behind the logits, BERT without segments is BERT with one of zeros."""
    bart = preset("bart-base")
    bart.vocab_size, bart.hidden_size, bart.depth = 60, 24, DepthConfig(layers=2, decoder_layers=1)
    bart.attention, bart.feed_forward = (
        AttentionConfig(heads=2),
        FeedForwardConfig(activation="gelu", size=32),
    )
    model = TransformerEncoderDecoderForConditionalGeneration(bart)
    assert type(to_original(model)).__name__ == "BartForConditionalGeneration"
    bert = preset("bert-tiny")
    bert.vocab_size, bert.embeddings = 60, replace(bert.embeddings, segments=0)
    exported = to_original(TransformerEncoderForMaskedLM(bert))
    assert exported.bert.embeddings.token_type_embeddings.weight.abs().sum() == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("roberta-base", "RobertaForMaskedLM"),
        ("albert-base", "AlbertForMaskedLM"),
        ("distilbert-base", "DistilBertForMaskedLM"),
        ("electra-small-generator", "ElectraForMaskedLM"),
        ("bloom-tiny", "BloomForCausalLM"),
    ],
)
def test_a_preset_is_exported_to_its_own_family(name: str, expected: str) -> None:
    """With other sizes; :func:`to_original` compares outputs itself."""
    config = preset(name)
    config.vocab_size, config.hidden_size = 60, 24
    config.depth = replace(config.depth, layers=2)
    config.attention = replace(config.attention, heads=4)
    config.feed_forward = replace(config.feed_forward, size=96)
    causal = config.model_type == "workbench-decoder"
    model = (TransformerDecoderForCausalLM if causal else TransformerEncoderForMaskedLM)(config)
    assert type(to_original(model)).__name__ == expected


def test_plain_transformers_opens_an_exported_folder(tmp_path: Path) -> None:
    """In a process without this package, with its own tokenizer; the reference is the built-in model."""
    done = run_command("models", "export", "novels-decoder", str(tmp_path / "plain"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("LlamaForCausalLM written")
    program = [sys.executable, "-c", _PLAIN, str(tmp_path / "plain"), str(tmp_path / "found.pt")]
    subprocess.run(program, check=True, capture_output=True, cwd=tmp_path)
    ids, logits = torch.load(tmp_path / "found.pt")
    model = workbench.load("novels-decoder", dtype="float32")
    assert model.tokenizer("She was").input_ids == ids[0].tolist()
    with torch.no_grad():
        assert_near(logits, model.model(ids).logits, relative=1e-5)
    again = run_command("models", "export", "novels-decoder", str(tmp_path / "plain"))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_what_has_no_original_says_which_setting_differs(tmp_path: Path) -> None:
    done = run_command("models", "export", "novels-encoder", str(tmp_path / "plain"))
    assert done.returncode == 2
    assert "the nearest, bert, differs: positions.kind is 'rotary' (there 'learned')" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    builtin = to_builtin(transformers.LlamaForCausalLM(_llama()))
    builtin.config.attention = replace(builtin.config.attention, softcap=30.0)
    with pytest.raises(
        ModelError, match=r"the nearest, llama, differs: attention.softcap is 30.0 \(there None\)"
    ):
        to_original(builtin)
    with pytest.raises(ModelError, match="is no built-in model"):
        to_original(transformers.LlamaForCausalLM(_llama()))
    assert export_model.__doc__


def _llama() -> transformers.LlamaConfig:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    return transformers.LlamaConfig(vocab_size=50, **sizes)
