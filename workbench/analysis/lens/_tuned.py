"""Tuned lens: an affine translator for each layer, trained so that what is read off it is what the model says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from workbench.analysis.lens._read import LensReading, read_layers, run_text
from workbench.errors import ModelError, RunError
from workbench.models import LoadedModel
from workbench.runs import make_folder, read_json, write_atomically, write_json
from workbench.trace import Text

__all__ = [
    "TunedLens",
    "TunedLensRecord",
    "find_tuned_lens",
    "load_tuned_lens",
    "save_tuned_lens",
    "tuned_lens",
    "tuned_lens_folder",
]

SCHEMA = 1
_WEIGHTS, _RECORD = "tuned_lens.safetensors", "tuned_lens.json"


@dataclass(frozen=True)
class TunedLensRecord:
    """Where a tuned lens comes from. ``model_hash`` is the model's content hash; a lens fits no other weights.

    ``logit_divergence`` and ``divergence`` are KL(output ‖ layer) in nats on text held out from training, for each
    layer from the embeddings on, before (the logit lens) and after.
    """

    model: str
    model_hash: str
    corpus: str
    corpus_sha256: str
    tokens: int
    steps: int
    seed: int
    learning_rate: float
    logit_divergence: tuple[float, ...]
    divergence: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class TunedLens:
    """Translators of all layers but the last: ``state + state @ matrices[i].T + biases[i]``; the last is as it is.

    Belrose et al. 2023, "Eliciting Latent Predictions from Transformers with the Tuned Lens", equation 8.
    """

    matrices: Float[Tensor, "layer D D"]  # the identity is not part of them
    biases: Float[Tensor, "layer D"]
    record: TunedLensRecord

    def translate(self, layer: int, state: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The state of ``layer`` (0: embeddings) as the last layer would have it."""
        if layer == len(self.matrices):
            return state
        matrix, bias = (t[layer].to(state) for t in (self.matrices, self.biases))
        return state + state @ matrix.T + bias


def tuned_lens(
    model: LoadedModel,
    lens: TunedLens,
    text: Text,
    *,
    target: str | None = None,
    contrast: str | None = None,
    target_text: Text | None = None,
    positions: Sequence[int] | None = None,
    top: int = 5,
) -> LensReading:
    """:func:`logit_lens` through the translators of ``lens``; the arguments are the same.

    Raises :class:`~workbench.errors.ModelError` for a lens of another model.
    """
    _check_model(lens.record, model)
    reading, run = run_text(model, text, target_text)
    return read_layers(model, reading, run, lens.translate, "tuned", (target, contrast), positions, top)


def _check_model(record: TunedLensRecord, model: LoadedModel) -> None:
    if record.model_hash != model.content_hash:
        raise ModelError(
            f"the tuned lens was trained on {record.model} ({record.model_hash[:12]}), not on the weights of "
            f"{model.name} ({model.content_hash[:12]}); train one: workbench lens MODEL TEXT --train CORPUS"
        )


def tuned_lens_folder(model: LoadedModel) -> Path:
    """Where a model's lens lies by default: ``tuned_lens`` beside its weights.

    Raises :class:`~workbench.errors.ModelError` for a model without a folder of its own.
    """
    if model.path is None:
        raise ModelError(f"{model.name} lies in no folder of its own; name one for its lens: --tuned FOLDER")
    return (model.path if model.path.is_dir() else model.path.parent) / "tuned_lens"


def save_tuned_lens(lens: TunedLens, folder: str | Path) -> Path:
    """Write a lens as safetensors and JSON, the JSON last; raises :class:`~workbench.errors.RunError` if it cannot."""
    from safetensors.torch import save

    target = make_folder(Path(folder))
    weights = save({"matrices": lens.matrices.contiguous(), "biases": lens.biases.contiguous()})
    write_atomically(target / _WEIGHTS, weights)
    write_json(target / _RECORD, {"schema": SCHEMA, **asdict(lens.record)})
    return target


def find_tuned_lens(folder: str | Path) -> Path:
    """``folder`` if a lens lies there; raises :class:`~workbench.errors.RunError` if none does."""
    source = Path(folder)
    if not (source / _RECORD).is_file():
        raise RunError(f"no tuned lens in {source}; train one: workbench lens MODEL TEXT --train CORPUS")
    return source


def load_tuned_lens(folder: str | Path, model: LoadedModel) -> TunedLens:
    """The lens in ``folder``, checked to be of this model's weights.

    Raises :class:`~workbench.errors.RunError` where there is none, and
    :class:`~workbench.errors.ModelError` where it is another model's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    source = find_tuned_lens(folder)
    values = read_json(source / _RECORD)
    if values.pop("schema", None) != SCHEMA:
        raise RunError(f"{source / _RECORD} is not of schema {SCHEMA}; train the lens again")
    try:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        record = TunedLensRecord(**fields)
        weights = load_file(source / _WEIGHTS)
        lens = TunedLens(weights["matrices"].to(model.device), weights["biases"].to(model.device), record)
    except (OSError, SafetensorError, TypeError, KeyError, json.JSONDecodeError) as error:
        raise RunError(f"the tuned lens in {source} is damaged: {error}") from error
    _check_model(record, model)
    return lens
