"""Several adapters on one base, beside plain PEFT, which switches between them with ``set_adapter``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench
from tests.helpers import assert_near
from tests.model_folders import save_adapter, save_bert, save_llama
from workbench.errors import ModelError
from workbench.models import LoadedModel, load, load_adapters

peft = pytest.importorskip("peft")

IDS = torch.tensor([[4, 5, 6, 7, 8]])
LORA = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
CONFIGS = {
    "a": peft.LoraConfig(**LORA),
    "b": peft.LoraConfig(r=4, **LORA),
    "head": peft.LoraConfig(modules_to_save=["lm_head"], **LORA),
    "dora": peft.LoraConfig(use_dora=True, **LORA),
    "ia3": peft.IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj"], feedforward_modules=[]),
    "prompt": peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
}


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("base") / "llama")


@pytest.fixture(scope="module")
def folders(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name, config in CONFIGS.items():
        found[name] = tmp_path_factory.mktemp("adapters") / name
        save_adapter(load(str(base)).model, found[name], config)
    return found


def test_each_model_computes_what_set_adapter_computes_and_the_base_stays(
    base: Path, folders: dict[str, Path]
) -> None:
    plain = load(str(base))
    before = {name: weight.clone() for name, weight in plain.model.state_dict().items()}
    found = load_adapters(plain, folders)
    with warnings.catch_warnings():  # peft asks transformers by names that are on their way out
        warnings.simplefilter("ignore")
        theirs = peft.PeftModel.from_pretrained(load(str(base)).model, folders["a"], adapter_name="a").eval()
        for name in ("b", "dora"):
            theirs.load_adapter(folders[name], adapter_name=name)
    for name in ("a", "b", "dora", "a"):  # in turn: none leaves its trace in another
        theirs.set_adapter(name)
        assert_near(logits(found[name].model), logits(theirs), what=name)
    for name, model in found.items():
        alone = load(str(folders[name]))
        assert_near(logits(model.model)[:, -5:], logits(alone.model)[:, -5:], what=name)
        assert model.content_hash == alone.content_hash != plain.content_hash
    assert len({model.content_hash for model in found.values()}) == len(CONFIGS)
    assert all(torch.equal(before[name], weight) for name, weight in plain.model.state_dict().items())


def test_weights_that_an_adapter_leaves_alone_are_shared(base: Path, folders: dict[str, Path]) -> None:
    plain = load(str(base))
    found = load_adapters(plain, folders)

    def place(model: LoadedModel, name: str) -> int:
        return int(model.model.get_parameter(name).data_ptr())

    mlp, query = "model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.weight"
    assert {place(found[n], mlp) for n in ("a", "b", "head", "dora", "ia3")} == {place(plain, mlp)}
    assert len({place(model, query) for model in (plain, found["a"], found["b"])}) == 3


def test_adapters_are_scored_and_compared_as_models(
    base: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    from workbench.evaluate.compare import compare

    found = load_adapters(str(base), {name: folders[name] for name in ("a", "b")})
    assert [model.name for model in found.values()] == [f"{base}+a", f"{base}+b"]
    runs = [
        workbench.evaluate(model, tasks="lambada_sample", limit=3, doctor=False, out=tmp_path)
        for model in found.values()
    ]
    assert runs[0].record.model["content_hash"] != runs[1].record.model["content_hash"]
    assert len(compare(*runs).to_frame())


def test_a_folder_that_does_not_fit_is_one_line(base: Path, folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no adapter"):
        load_adapters(str(base), {"a": tmp_path})
    bert = save_bert(tmp_path / "bert")
    with pytest.raises(ModelError, match="makes a causal model"):
        load_adapters(str(bert), {"a": folders["a"]})
    other = save_adapter(load(str(base)).model, tmp_path / "wide", peft.LoraConfig(target_modules=["q_proj"]))
    assert other is not None
    with pytest.raises(ModelError, match="cannot load from"):
        load_adapters(str(bert), {"a": tmp_path / "wide"})
