"""PEFT folders as ``save_pretrained`` writes them: what is loaded computes what the adapted model computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from tests.model_folders import save_adapter, save_bert, save_llama
from workbench.errors import ModelError
from workbench.models import Kind, load, load_tokenizer

peft = pytest.importorskip("peft")

IDS = torch.tensor([[4, 5, 6, 7]])


def _output(model: Any, ids: Tensor = IDS) -> Tensor:
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return out.logits if hasattr(out, "logits") else out.last_hidden_state


def _settings(folder: Path, **values: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("base") / "llama")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("base") / "bert")


def _headed(name: str, base: Path, labels: int) -> Any:
    torch.manual_seed(2)
    return getattr(transformers, name).from_pretrained(base, num_labels=labels, pad_token_id=0)


_CLASSES, _WORDS = "AutoModelForSequenceClassification", "AutoModelForTokenClassification"
_PROMPT = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=2)


@pytest.mark.parametrize(
    ("auto", "base", "config"),
    [
        (_CLASSES, "bert", peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query"])),
        (_CLASSES, "llama", peft.LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"])),
        (_CLASSES, "bert", _PROMPT),
        (_WORDS, "bert", peft.LoraConfig(task_type="TOKEN_CLS", target_modules=["query"])),
    ],
)
def test_heads_have_the_labels_of_the_adapter(
    auto: str, base: str, config: Any, bert: Path, llama: Path, tmp_path: Path
) -> None:
    """Five labels, where the base's configuration knows two; the folder holds no tokenizer, so it is the base's."""
    folder = tmp_path / "adapter"
    adapted = save_adapter(_headed(auto, bert if base == "bert" else llama, 5), folder, config)
    loaded = load(str(folder), dtype="float32", device="cpu")
    assert loaded.kind is Kind.CLASSIFIER
    assert _output(loaded.model).shape[-1] == 5
    torch.testing.assert_close(_output(loaded.model), _output(adapted), atol=1e-5, rtol=1e-5)
    assert loaded.tokenizer.get_vocab() == load_tokenizer(str(bert)).get_vocab()


@pytest.mark.parametrize(
    "options",
    [{}, {"modules_to_save": ["embed_tokens", "lm_head"]}, {"trainable_token_indices": [23, 24]}],
    ids=["embeddings saved", "embeddings trained", "new tokens trained"],
)
def test_added_tokens_have_the_vectors_of_the_adapter(
    options: dict[str, Any], llama: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "adapter"
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    tokenizer.add_tokens(["<new>", "<other>"])
    base = transformers.AutoModelForCausalLM.from_pretrained(llama)
    base.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], **options)
    adapted = save_adapter(base, folder, lora)
    tokenizer.save_pretrained(folder)
    loaded = load(str(folder), dtype="float32", device="cpu")
    ids = loaded.tokenizer("the <new> cat <other>", return_tensors="pt").input_ids
    assert {len(tokenizer) - 2, len(tokenizer) - 1} <= set(ids[0].tolist())
    torch.testing.assert_close(_output(loaded.model, ids), _output(adapted, ids), atol=1e-5, rtol=1e-5)


def test_tokens_without_vectors_are_refused(llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    base = transformers.AutoModelForCausalLM.from_pretrained(llama)
    save_adapter(base, folder, task_type="CAUSAL_LM", target_modules=["q_proj"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="24 tokens, the base model vectors for 23"):
        load(str(folder), device="cpu")


def test_a_base_is_found_by_known_name_and_beside_the_adapter(llama: Path, tmp_path: Path) -> None:
    base = load("novels-decoder", dtype="float32", device="cpu")
    adapted = save_adapter(base.model, tmp_path / "known", task_type="CAUSAL_LM", target_modules="all-linear")
    _settings(tmp_path / "known", base_model_name_or_path="novels-decoder")
    loaded = load(str(tmp_path / "known"), dtype="float32", device="cpu")
    torch.testing.assert_close(_output(loaded.model), _output(adapted), atol=1e-4, rtol=1e-4)
    assert type(loaded.model) is type(base.model)  # merged: a plain model, which every analysis knows

    save_adapter(
        transformers.AutoModelForCausalLM.from_pretrained(llama),
        tmp_path / "beside",
        target_modules=["q_proj"],
    )
    (tmp_path / "beside" / "mother").symlink_to(llama)
    _settings(tmp_path / "beside", base_model_name_or_path="mother")
    assert load(str(tmp_path / "beside"), device="cpu").kind is Kind.CAUSAL  # no task: what the base is


def test_the_hash_covers_the_base(llama: Path, tmp_path: Path) -> None:
    """The same adapter on other base weights is another model."""
    for name, seed in (("one", 1), ("two", 2)):
        torch.manual_seed(seed)
        config = transformers.AutoConfig.from_pretrained(llama)
        transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / name)
        transformers.AutoTokenizer.from_pretrained(llama).save_pretrained(tmp_path / name)
    save_adapter(
        transformers.AutoModelForCausalLM.from_pretrained(llama),
        tmp_path / "adapter",
        target_modules=["q_proj"],
    )
    hashes = set()
    for name in ("one", "two"):
        _settings(tmp_path / "adapter", base_model_name_or_path=str(tmp_path / name))
        hashes.add(load(str(tmp_path / "adapter"), device="cpu").content_hash)
    assert len(hashes) == 2


BROKEN = {
    "no base": ({"base_model_name_or_path": None}, "names no base model"),
    "base is a number": ({"base_model_name_or_path": 3}, "names no base model"),
    "base is gone": ({"base_model_name_or_path": "/no/where"}, "its base model cannot be found"),
    "another task": ({"task_type": "X"}, "adapter for task 'X'; allowed: SEQ_CLS"),
    "task is a list": ({"task_type": [1]}, "adapter for task"),
    "another kind of adapter": ({"peft_type": "NOPE"}, "cannot load"),
    "rank of the wrong type": ({"r": "x"}, "cannot load"),
    "another rank": ({"r": 4}, "size mismatch"),
    "modules that are not there": ({"target_modules": ["zzz"]}, "zzz"),
    "weights of other modules": ({"target_modules": ["k_proj"]}, "missing adapter keys"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_settings_are_one_line(case: str, llama: Path, tmp_path: Path) -> None:
    change, message = BROKEN[case]
    base = transformers.AutoModelForCausalLM.from_pretrained(llama)
    save_adapter(base, tmp_path / "adapter", task_type="CAUSAL_LM", target_modules=["q_proj"])
    _settings(tmp_path / "adapter", **change)
    with pytest.raises(ModelError, match=message) as caught:
        load(str(tmp_path / "adapter"), device="cpu")
    assert "\n" not in str(caught.value)


def test_a_base_without_the_head_is_refused(bert: Path, llama: Path, tmp_path: Path) -> None:
    """transformers would draw the missing head at random."""
    folder = tmp_path / "adapter"
    base = transformers.AutoModelForCausalLM.from_pretrained(llama)
    save_adapter(base, folder, task_type="CAUSAL_LM", target_modules=["q_proj"])
    _settings(folder, base_model_name_or_path=str(bert))
    with pytest.raises(ModelError, match=r"neither .* nor the adapter in .* holds cls\.predictions"):
        load(str(folder), device="cpu")
    other = transformers.AutoModelForCausalLM.from_pretrained(llama)
    save_adapter(other, tmp_path / "other", task_type="CAUSAL_LM", target_modules=["q_proj"])
    _settings(folder, base_model_name_or_path=str(tmp_path / "other"))
    with pytest.raises(ModelError, match="is an adapter on another adapter"):
        load(str(folder), device="cpu")
