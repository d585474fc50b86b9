"""Which model the numbers are from, and in which precision: the same in every verb's text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.models import LoadedModel
    from workbench.runs import Run

__all__ = ["model_line", "model_record"]


def model_record(model: LoadedModel | Run, *further: str) -> dict[str, Any]:
    """``{"name", "dtype"}`` of a loaded model or of a run's, and ``further`` fields of a run's record.

    ``dtype`` is ``None`` for predictions, which no model has computed here.
    """
    stored = _stored(model)
    return {name: stored.get(name) for name in ("name", "dtype", *further)}


def model_line(model: LoadedModel | Run) -> str:
    """``gpt2 (124,439,808 parameters, float32)``; the kind of a model that has neither."""
    stored = _stored(model)
    size = stored.get("parameters")
    known = [None if size is None else f"{size:,} parameters", stored.get("dtype")]
    return f"{stored['name']} ({', '.join(filter(None, known)) or stored['kind']})"


def _stored(model: LoadedModel | Run) -> dict[str, Any]:
    from workbench.models import LoadedModel

    if not isinstance(model, LoadedModel):
        return model.record.model
    dtype = str(model.dtype).removeprefix("torch.")
    return {"name": model.name, "dtype": dtype, "parameters": model.num_parameters, "kind": str(model.kind)}
