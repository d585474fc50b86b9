"""What ``import workbench`` gives: names, rooms, verbs with true signatures, and results that show themselves."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import workbench
from workbench.errors import ConfigError
from workbench.evaluate import EvaluateSettings
from workbench.records import settings_of

# verb -> the function that it is, and its first argument
VERBS = {
    "attribute": ("workbench.analysis.saliency", "attribute", "model"),
    "capture": ("workbench.trace", "capture", "model"),
    "changes": ("probes", "changes", "models"),
    "check": ("challenge_sets", "check", "model"),
    "compare": ("workbench.evaluate.compare", "compare", "runs"),
    "doctor": ("workbench.evaluate.doctor", "examine", "model"),
    "evaluate": ("workbench.evaluate", "evaluate", "model"),
    "align": ("workbench.training.preferences.aligning", "align", "model"),
    "finetune": ("workbench.training.finetuning", "finetune", "model"),
    "generate": ("workbench.scoring.generation", "generate", "model"),
    "lens": ("workbench.analysis.lens", "lens", "model"),
    "load": ("workbench.models", "load", "name"),
    "patch": ("workbench.analysis.patching", "patch", "model"),
    "probe": ("probes", "probe", "model"),
    "report": ("workbench.report", "report", "runs"),
    "score": ("workbench.scoring", "score", "model"),
    "surprisal": ("workbench.scoring", "surprisal", "model"),
    "trace": ("workbench.trace", "trace", "model"),
    "wrap": ("workbench.models", "wrap", "model"),
}
ROOMS = ["analysis", "data", "errors", "evaluate", "figures", "models", "nn", "report", "runs", "scoring"]
ROOMS += ["statistics", "text", "trace", "training"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_its_function_with_its_signature(verb):
    module, name, first = VERBS[verb]
    function = getattr(import_module(module), name)
    public = getattr(workbench, verb)
    signature = inspect.signature(public)
    assert signature == inspect.signature(function)
    assert next(iter(signature.parameters)) == first
    assert public is function or isinstance(public, ModuleType)
    if isinstance(public, ModuleType):
        assert getattr(public, verb) is function


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_an_attribute(room):
    assert getattr(workbench, room) is import_module(f"workbench.{room}")


def test_names_and_rooms_are_listed():
    assert set(dir(workbench)) == {*workbench.__all__, *ROOMS}
    assert {*VERBS} <= set(workbench.__all__)
    assert {"lens", "patching", "saliency"} <= set(dir(workbench.analysis))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'workbench' has no attribute 'evalute'"):
        workbench.evalute  # noqa: B018


def test_the_import_brings_nothing_heavy():
    heavy = "{'torch', 'transformers', 'pandas', 'numpy', 'matplotlib'}"
    code = f"import sys, workbench; dir(workbench); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_keywords_in_the_signature_are_the_fields_of_the_recipe():
    names = set(inspect.signature(workbench.evaluate).parameters)
    assert set(EvaluateSettings.__dataclass_fields__) <= names
    assert "options" not in names


def test_settings_come_from_keywords_or_whole():
    made = settings_of(EvaluateSettings, None, {"tasks": ["lambada_sample"], "limit": 3})
    assert made == EvaluateSettings(tasks=("lambada_sample",), limit=3)
    assert settings_of(EvaluateSettings, made, {}) is made
    with pytest.raises(ConfigError, match="settings and limit are both given"):
        settings_of(EvaluateSettings, made, {"limit": 4})
    with pytest.raises(ConfigError, match="unknown option 'limt'; did you mean 'limit'"):
        settings_of(EvaluateSettings, None, {"tasks": ("a",), "limt": 4})
