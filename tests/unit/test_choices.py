"""An option given as a string is the enum member, in every dataclass that has one; unknown names are refused."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import challenge_sets
import probes
import workbench
from challenge_sets.pairs import CausalPairs, DetectorPairs, MaskedPairs, PermutationPairs, Seq2SeqPairs
from challenge_sets.suites.expectations import Monotonic
from challenge_sets.suites.tests import Test
from probes._data import ProbeData
from probes.settings import ProbeKind, ProbeSettings
from probes.tasks._task import ProbeTask
from tests.unit.trace import tiny
from workbench.analysis.context._edits import Condition
from workbench.analysis.context._run import ContextSettings
from workbench.analysis.patching import Component, Patch
from workbench.analysis.saliency._methods import OcclusionUnit, SaliencyOptions
from workbench.analysis.saliency._record import Attribution
from workbench.analysis.saliency.targets import TargetRequest
from workbench.errors import WorkbenchError
from workbench.evaluate import EvaluateSettings, TaskOptions
from workbench.evaluate.judge import JudgeSettings
from workbench.evaluate.tasks.task_types.classification import TextClassification, TextScore
from workbench.figures.view_options import ViewOptions
from workbench.scoring import Engine, MaskedEngine
from workbench.text import PromptFormat
from workbench.trace import Edit, scale
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import FineTask
from workbench.training.preferences.settings import AlignSettings
from workbench.training.settings import Optimisation

ANY: Any = None

# class, the field, a string for it, and what else the class needs
OPTIONS: list[tuple[type, str, str, dict[str, Any]]] = [
    (SaliencyOptions, "unit", "sentence", {}),
    (TargetRequest, "output", "probability", {}),
    (Attribution, "normalisation", "max", {"tokens": (), "scores": (), "attributed": ()}),
    (Patch, "site", "head", {"layer": 0}),
    (Component, "site", "mlp_out", {"layer": 0}),
    (Edit, "site", "mlp", {"layer": 0, "change": scale(0)}),
    (Edit, "stack", "cross", {"layer": 0, "change": scale(0), "site": "mlp"}),
    (Condition, "operation", "shuffle", {}),
    (Condition, "words", "content", {"operation": "drop"}),
    (ViewOptions, "kind", "neuron", {}),
    (ViewOptions, "step", "reads", {}),
    (Engine, "boundary", "separate", {"model": tiny.llama()}),
    (EvaluateSettings, "boundary", "separate", {"tasks": ("lambada_sample",)}),
    (TextClassification, "problem", "regression", {"name": "", "about": ""}),
    (TextScore, "problem", "multi_label_classification", {"name": "", "about": ""}),
    (MaskedEngine, "masking", "within_word_l2r", {"model": tiny.bert()}),
    (MaskedPairs, "masking", "within_word_l2r", {"model": ANY}),
    (MaskedPairs, "reduction", "mean", {"model": ANY}),
    (CausalPairs, "reduction", "word", {"model": ANY}),
    (Seq2SeqPairs, "reduction", "mean", {"model": ANY}),
    (DetectorPairs, "reduction", "mean", {"model": ANY}),
    (PermutationPairs, "reduction", "mean", {"model": ANY}),
    (Monotonic, "change", "down", {"label": None}),
    (Test, "kind", "DIR", {"name": "", "capability": "", "cases": (), "expectation": ANY}),
    (ProbeData, "unit", "word", {"task": "", "sentences": (), "items": (), "identity": ANY}),
    (ProbeTask, "unit", "word", {"name": "", "about": ""}),
    (ProbeKind, "reads", "trees", {"name": "", "about": "", "linear": True, "make": dict}),
    (Optimisation, "schedule", "wsd", {}),
    (FineSettings, "method", "lora", {}),
    (FineSettings, "schedule", "cosine", {}),
    (AlignSettings, "method", "kto", {}),
    (AlignSettings, "schedule", "cosine", {}),
    (AlignSettings, "long_prompts", "cut", {}),
    (PromptFormat, "special_tokens", "text", {}),
    (JudgeSettings, "special_tokens", "text", {}),
    (TaskOptions, "special_tokens", "text", {}),
    (EvaluateSettings, "special_tokens", "text", {"tasks": ("lambada_sample",)}),
    (ContextSettings, "special_tokens", "text", {"source": "lambada_sample"}),
    (ProbeSettings, "special_tokens", "text", {"task": "pos"}),
    (FineTask, "kind", "number", {"name": "", "text": "", "label": ""}),
]
IDS = [f"{kind.__name__}.{name}" for kind, name, _, _ in OPTIONS]
# What the code itself fills in: found by examining models or data, never by a user.
RECORDS = {"AttentionInputs", "ClassificationRequest", "HeadScores"}


@pytest.mark.parametrize(("kind", "name", "value", "rest"), OPTIONS, ids=IDS)
def test_a_string_is_the_member(kind, name, value, rest):
    given = getattr(_built(kind, rest, name, value), name)
    assert isinstance(given, StrEnum)
    assert given is type(given)(value)


@pytest.mark.parametrize(("kind", "name", "value", "rest"), OPTIONS, ids=IDS)
def test_an_unknown_name_is_refused_in_one_line(kind, name, value, rest):
    with pytest.raises(WorkbenchError, match=r"^unknown .*'nonsense'; .*allowed: .*") as refusal:
        _built(kind, rest, name, "nonsense")
    assert "\n" not in str(refusal.value)


def _built(kind: type, rest: dict[str, Any], name: str, value: str) -> Any:
    required = {
        f.name: None
        for f in dataclasses.fields(kind)
        if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    return kind(**{**required, **rest, name: value})


def test_every_option_that_is_an_enum_is_among_these():
    missing = {
        f"{kind.__module__}.{kind.__name__}.{field}"
        for package in (workbench, probes, challenge_sets)
        for kind in _dataclasses(package)
        for field in _enum_options(kind)
        if (kind, field) not in {(k, n) for k, n, _, _ in OPTIONS} and kind.__name__ not in RECORDS
    }
    assert missing == set()


def _dataclasses(package: Any) -> set[type]:
    found: set[type] = set()
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if "__main__" in info.name or "pytest_plugin" in info.name:
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an extra that is not installed
            continue
        found |= {v for v in vars(module).values() if isinstance(v, type) and dataclasses.is_dataclass(v)}
    return {kind for kind in found if kind.__module__.startswith(package.__name__)}


def _enum_options(kind: type) -> list[str]:
    """Fields with a default that are an enum's members, or may be ``None``."""
    fields = [f for f in dataclasses.fields(kind) if f.init and f.default is not dataclasses.MISSING]
    if not fields:
        return []
    try:
        hints = get_type_hints(kind)
    except NameError:  # names that only a type checker imports
        return []
    return [
        f.name
        for f in fields
        if get_origin(hints[f.name]) is not tuple
        for part in (hints[f.name], *get_args(hints[f.name]))
        if isinstance(part, type) and issubclass(part, StrEnum)
    ]


def test_a_model_made_by_hand_may_name_its_kind():
    model = dataclasses.replace(tiny.llama(), kind="causal")  # type: ignore[arg-type]
    assert model.kind is workbench.models.Kind.CAUSAL


def test_occlusion_by_sentence_is_the_same_by_either_name():
    model = tiny.bert("AutoModelForSequenceClassification")
    text = "the cat sat . a dog ran ."
    found = [
        workbench.attribute(model, text, method="occlusion", options=SaliencyOptions(unit=unit)).scores
        for unit in (OcclusionUnit.SENTENCE, "sentence", OcclusionUnit.WORD)
    ]
    assert (found[0] == found[1]).all()
    assert not (found[0] == found[2]).all()
