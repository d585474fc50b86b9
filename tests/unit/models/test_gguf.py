"""GGUF files read in one pass, against transformers' own reading of the same files (which needs accelerate)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map
from transformers.pytorch_utils import Conv1D

from tests.helpers import needs_smollm2
from workbench.errors import ModelError
from workbench.models import KNOWN_MODELS, load
from workbench.models._gguf import PLAIN, gguf_to_folder
from workbench.text.load import load_tokenizer

TEXT = "The keys to the cabinet are here,  aren't they? 123 ü\n"
SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "n_embd": 64, "n_layer": 2,
    "n_head": 4, "n_ctx": 128, "layer_norm_epsilon": 1e-5, "norm_eps": 1e-5, "norm_epsilon": 1e-5, "conv_kernel": 4,
    "state_size": 8, "time_step_rank": 4, "feed_forward_length": 256, "sliding_window": 32, "rope_theta": 5000.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _vocabulary() -> tuple[list[str], list[str]]:
    """GPT-2's 256 bytes, three merges and an end of text, all written by the rule of the original."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in visible]
    letters = [chr(b) for b in visible] + [chr(256 + i) for i in range(len(hidden))]
    return [*letters, "th", "the", "Ġt", "<|endoftext|>"], ["t h", "th e", "Ġ t"]


def _values(architecture: str, vocabulary: int) -> dict[str, Any]:
    known = GGUF_CONFIG_MAPPING[architecture]
    values = {name: SIZES[name] for name in known.values() if name in SIZES}
    if architecture in ("bloom", "falcon"):  # rows of query, key and value in one matrix
        values.pop("num_key_value_heads", None)
    if architecture == "mamba":
        values["intermediate_size"] = 128
    return values | {"vocab_size": vocabulary, "bos_token_id": 259, "eos_token_id": 259, "pad_token_id": 259}


def _write(path: Path, architecture: str, *, tokenizer: str = "gpt2", kind: str = "F32") -> Path:
    """A file of random tensors, named and laid out as llama.cpp's converter does."""
    tokens, merges = _vocabulary()
    values = _values(architecture, len(tokens))
    writer = gguf.GGUFWriter(path, architecture)
    for key, name in GGUF_CONFIG_MAPPING[architecture].items():
        if name in values:
            value = values[name]
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(
                f"{architecture}.{key}", value
            )
    writer.add_tokenizer_model(tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    if tokenizer == "gpt2":
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(merges)
    else:
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_bos_token_id(259)
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(259)
    for name, array in _tensors(architecture, values).items():
        quantised = kind if array.ndim == 2 and array.shape[-1] % 32 == 0 else "F32"
        chosen = gguf.GGMLQuantizationType[quantised]
        writer.add_tensor(name, gguf.quantize(array, chosen), raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(architecture: str, values: dict[str, Any]) -> dict[str, np.ndarray]:
    config = AutoConfig.for_model(architecture, **values)
    model = AutoModelForCausalLM.from_config(config)
    names = get_gguf_hf_weights_map(model, TensorProcessor())
    transposed = {f"{n}.weight" for n, module in model.named_modules() if isinstance(module, Conv1D)}
    state, random, found = model.state_dict(), np.random.default_rng(0), {}
    for name, own in names.items():
        if own not in state or (own == "lm_head.weight" and config.tie_word_embeddings):
            continue
        shape = tuple(state[own].shape)
        array = random.normal(size=shape[::-1] if own in transposed else shape).astype(np.float32)
        if "ssm_a" in name:  # stored as minus the exponential
            array = -np.exp(array)
        found[name] = array.squeeze(1) if "ssm_conv1d.weight" in name else array
    return found


def _reference(path: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


@pytest.mark.parametrize("architecture", PLAIN)
def test_each_architecture_is_read_as_transformers_reads_it(architecture: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", architecture)
    folder, _ = gguf_to_folder(path, architecture)
    ours, theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), _reference(path)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
    assert _settings(ours.config) == _settings(theirs.config)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    reference = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    assert tokenizer(TEXT)["input_ids"] == reference(TEXT)["input_ids"]
    assert tokenizer.special_tokens_map.items() <= reference.special_tokens_map.items()  # Gemma gains a mask


def _settings(config: Any) -> dict[str, Any]:
    beside = {
        "architectures",
        "_name_or_path",
        "_model_name_or_path",
        "quantization_config",
        "transformers_version",
    }
    return {key: value for key, value in config.to_dict().items() if key not in beside}


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_each_way_of_storing_numbers_gives_what_transformers_gets(kind: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", "llama", kind=kind)
    folder, _ = gguf_to_folder(path, "tiny")
    ours = load_file(folder / "model.safetensors")
    for name, value in _reference(path).state_dict().items():
        if name in ours:  # a tied head is not written twice
            assert ours[name].dtype == torch.float32
            assert torch.equal(ours[name], value), name


def test_a_sentencepiece_vocabulary_is_cut_as_transformers_cuts_it(tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", "llama", tokenizer="llama")
    ours = load_tokenizer(path)
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    assert ours("the thing")["input_ids"] == theirs("the thing")["input_ids"]
    assert ours("the thing")["input_ids"][0] == 259  # such a file begins its texts if it says nothing


@pytest.mark.weights
@needs_smollm2
def test_smollm2_is_equal_to_what_transformers_reads() -> None:
    path = KNOWN_MODELS["smollm2-135m"].locate()
    ours = load("smollm2-135m", dtype="float32")
    theirs = _reference(path)
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], value), name
    reference = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    assert ours.tokenizer(TEXT)["input_ids"] == reference(TEXT)["input_ids"]


def test_nothing_of_accelerate_is_used(tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", "llama")
    code = (
        "import sys; sys.modules['accelerate'] = None\n"
        f"import workbench; print(workbench.load({str(path)!r}).num_parameters)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Converting {path} from GGUF, once" in done.stderr


def test_an_architecture_left_to_transformers_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.models._gguf.find_spec", lambda _: None)
    monkeypatch.setattr("workbench.models._gguf.PLAIN", ())
    with pytest.raises(
        ModelError, match=r"needs the package accelerate: pip install 'transformer-workbench\[train\]'"
    ):
        gguf_to_folder(_write(tmp_path / "model.gguf", "llama"), "tiny")


def test_an_architecture_left_to_transformers_is_kept_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    path = _write(tmp_path / "model.gguf", "llama")
    ours = load_file(gguf_to_folder(path, "tiny")[0] / "model.safetensors")
    monkeypatch.setenv("WORKBENCH_CACHE", f"{cache}2")
    monkeypatch.setattr("workbench.models._gguf.PLAIN", ())
    theirs = load_file(gguf_to_folder(path, "tiny")[0] / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("end", [0, 3, 20, 100, 2000, -100])
def test_a_truncated_file_is_refused_and_leaves_nothing(end: int, tmp_path: Path, cache: Path) -> None:
    path = _write(tmp_path / "model.gguf", "llama")
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(ModelError, match=r"cannot read GGUF file .*model.gguf"):
        gguf_to_folder(path, "tiny")
    assert not [p for p in cache.rglob("*") if p.is_file()]


def test_a_file_without_a_tensor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _tensors("llama", _values("llama", 260))
    del whole["blk.1.ffn_down.weight"]
    monkeypatch.setattr(sys.modules[__name__], "_tensors", lambda *_: whole)
    with pytest.raises(ModelError, match=r"1 missing, such as model.layers.1.mlp.down_proj.weight"):
        gguf_to_folder(_write(tmp_path / "model.gguf", "llama"), "tiny")
