"""Checkpoints that hold only the weights that are trained, and another try when memory runs out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer

from workbench.errors import ConfigError
from workbench.terminal import counted, say
from workbench.training.checkpoints import mark_complete
from workbench.training.libraries import should_reduce_batch_size

__all__ = ["Resumable", "put_back", "trained_weights", "with_fewer_rows"]

TRAINED = "trained.safetensors"
Found = TypeVar("Found")


class Resumable(Trainer):
    """A trainer whose checkpoints have the trained weights only, and say when they are whole."""

    def keep(self, folder: Path) -> None:
        """Store what else belongs in a checkpoint."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        step = self.state.global_step
        mark_complete(Path(str(self.args.output_dir)) / f"checkpoint-{step}", "", step)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Only the weights that are trained; the others are in the model's own folder."""
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(trained_weights(self.model), folder / TRAINED)
        self.keep(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        put_back(self.model if model is None else model, load_file(Path(resume_from_checkpoint) / TRAINED))


def trained_weights(model: Any) -> dict[str, torch.Tensor]:
    """Copies of the parameters that are trained, by name."""
    return {n: p.detach().clone().contiguous() for n, p in model.named_parameters() if p.requires_grad}


def put_back(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Give the parameters named in ``weights`` those values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights:
                parameter.copy_(weights[name])


def with_fewer_rows(attempt: Callable[[int], Found], batch: int, folder: Path, *, advice: str) -> Found:
    """``attempt`` with ``batch`` rows of a pass; out of memory, with half as many from the start, without ``folder``.

    Raises :class:`~workbench.errors.ConfigError` with ``advice`` if memory is short for one row.
    """
    rows = batch
    while True:
        try:
            return attempt(rows)
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or should_reduce_batch_size(error)):
                raise
            if rows == 1:
                raise ConfigError(f"out of memory with one row at a time; {advice}") from error
        shutil.rmtree(folder, ignore_errors=True)
        rows = max(r for r in range(1, rows // 2 + 1) if batch % r == 0)
        say(f"out of memory: again with {counted(rows, 'row')} at a time, the batch stays", error=True)
