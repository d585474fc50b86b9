"""Which model a number is from: its weights say it, whoever built it and whatever it is called."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from challenge_sets import check, load_suites
from tests.helpers import REPOSITORY
from tests.model_folders import save_llama
from tests.unit.tiny import tiny_causal, tiny_gpt2
from workbench import attribute
from workbench.analysis.saliency import SaliencyOptions
from workbench.errors import RunError, TaskError
from workbench.evaluate import EvaluateSettings, evaluate
from workbench.models import LoadedModel, load

QUIET = {"doctor": False}


def _other_weights(model: LoadedModel) -> LoadedModel:
    torch.manual_seed(5)
    return replace(model, model=type(model.model)(model.config).eval())


def test_models_built_by_hand_differ_by_their_weights() -> None:
    model = tiny_causal()
    same = replace(model, name="another name")
    assert model.content_hash == same.content_hash
    assert len({model.content_hash, tiny_gpt2().content_hash, _other_weights(model).content_hash}) == 3
    assert model.identity() == {
        "name": "tiny",
        "kind": "causal",
        "implementation": "hf",
        "revision": None,
        "dtype": "float32",
        "content_hash": model.content_hash,
        "parameters": model.num_parameters,
    }


def test_a_loaded_model_has_the_hash_of_its_files_until_its_weights_change(tmp_path: Path) -> None:
    """The files' hash is what runs have always stored; after a step of training the weights are not the files'."""
    from workbench.models.weights import content_hash

    folder = save_llama(tmp_path / "llama")
    model = load(str(folder), dtype="float32", device="cpu")
    assert model.content_hash == content_hash(folder.glob("*.safetensors"))
    with torch.no_grad():
        next(model.model.parameters()).add_(1.0)
    changed = model.content_hash
    assert changed != content_hash(folder.glob("*.safetensors"))
    with torch.no_grad():
        next(model.model.parameters()).add_(1.0)
    assert model.content_hash not in (changed, content_hash(folder.glob("*.safetensors")))


def test_a_run_is_not_resumed_with_another_models_weights(tmp_path: Path) -> None:
    """Both are built by hand and called alike; the run of one was finished, and its numbers are not the other's."""
    model = tiny_causal(2048)
    settings = EvaluateSettings(tasks=("lambada_sample",), limit=3)
    run = evaluate(model, settings, out=tmp_path, **QUIET)
    assert evaluate(model, settings, resume=run.path, **QUIET).results == run.results
    with pytest.raises(RunError, match=r"model\.content_hash was"):
        evaluate(_other_weights(model), settings, resume=run.path, **QUIET)


def test_runs_of_every_verb_store_one_identity() -> None:
    """``LoadedModel.identity`` is the only place that builds one."""
    found = [
        str(file.relative_to(REPOSITORY))
        for package in ("workbench", "probes", "challenge_sets")
        for file in (REPOSITORY / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        and {"content_hash", "implementation"} <= {k.value for k in node.keys if isinstance(k, ast.Constant)}
    ]
    assert found == ["workbench/models/_loaded.py"]


def test_a_set_is_named_once(tmp_path: Path) -> None:
    """A suite that is loaded already goes by its own name, and was not named by the user."""
    (suite,) = load_suites("sentiment")
    recipes = [
        check(tiny_causal(2048), challenge, limit=2, out=tmp_path, **QUIET).record.recipe
        for challenge in ("sentiment", suite)
    ]
    assert [(recipe["set"], recipe["suite"]) for recipe in recipes] == [
        ("sentiment", "sentiment"),
        ("sentiment", None),
    ]


def test_a_seed_is_named_once() -> None:
    """SmoothGrad's noise is drawn by the seed, which reaches it from either place."""
    model, text = tiny_causal(), "the cat sat on the"

    def scores(**named: object) -> list[float]:
        return list(attribute(model, text, "smoothgrad", **named).scores)  # type: ignore[arg-type]

    assert scores(options=SaliencyOptions(seed=7)) == scores(seed=7)
    assert scores(options=SaliencyOptions(seed=7)) != scores(seed=0)
    assert scores(options=SaliencyOptions(seed=7), seed=7) == scores(seed=7)
    with pytest.raises(TaskError, match="seed is 3, and options have seed 7"):
        scores(options=SaliencyOptions(seed=7), seed=3)
