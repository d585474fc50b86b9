"""A training run as a run folder: recipe, identity, sizes, loss curve, results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.models.built_in import BuiltInConfig
from workbench.models.size import flops_per_token
from workbench.models.weights import content_hash
from workbench.runs import Run, RunFolder, RunRecord, write_atomically
from workbench.training.corpora import Corpora
from workbench.training.objectives import MASK_RATE, Distilled, ReplacedTokens, SpanBoundaries
from workbench.training.progress import read_log
from workbench.training.settings import TrainSettings

__all__ = ["describe_model", "finish_run", "open_run", "training_flops"]


def describe_model(model: Any) -> dict[str, Any]:
    """Class and weights of the model that the folder will hold, and of the one beside it."""
    if isinstance(model, Distilled):
        return {**_size(model.student), "teacher": _size(model.teacher)}
    if isinstance(model, ReplacedTokens):
        return {**_size(model.discriminator), "generator": _size(model.generator)}
    if isinstance(model, SpanBoundaries):
        return {**_size(model.masked), "span_boundary": _size(model.head)}
    return _size(model)


def _size(model: Any) -> dict[str, Any]:
    return {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())}


def training_flops(model: Any, length: int, scored: float = 1.0) -> float:
    """Operations of a training step per token: three forward passes for one with its gradient; a teacher has none.

    ``scored`` is the share of places at which the output layer runs.
    """
    if isinstance(model, Distilled):
        return 3.0 * _forward(model.student, length) + _forward(model.teacher, length)
    if isinstance(model, ReplacedTokens):
        return 3.0 * (_forward(model.generator, length) + _forward(model.discriminator, length))
    if isinstance(model, SpanBoundaries):  # its head runs at hidden places, and projects onto the token table
        table = model.masked.get_output_embeddings().weight.numel()
        return 3.0 * (
            _forward(model.masked, length) + MASK_RATE * (_forward(model.head, length) + 2.0 * table)
        )
    skipped = 2.0 * model.get_output_embeddings().weight.numel() if scored < 1.0 else 0.0
    return 3.0 * (_forward(model, length) - (1.0 - scored) * skipped)


def _forward(model: Any, length: int) -> float:
    """Of a forward pass; for foreign models two a weight (Kaplan et al. 2020, section 2.1)."""
    config = getattr(model, "config", None)
    if isinstance(config, BuiltInConfig) and isinstance(model, PreTrainedModel):
        return float(flops_per_token(config, length, type(model)))
    return 2.0 * sum(p.numel() for p in model.parameters())


def open_run(
    out: Path, settings: TrainSettings, corpora: Corpora, model: Any, device: str, found: Run | None
) -> RunFolder:
    """Make the folder ``out``, or open the run ``found`` there to go on with it.

    Raises :class:`~workbench.errors.RunError` if the corpus is another one now.
    """
    if found is not None:
        _refuse_other_corpus(found, corpora)
        write_atomically(out / "recipe.yaml", settings.to_yaml().encode())
        folder = RunFolder(out, found.record)
        folder.hold()
        return folder
    info = corpora.train.info
    record = RunRecord.new(
        "train",
        recipe=settings.to_dict(),
        model={
            "name": settings.model.preset or settings.model.config or settings.model.model,
            **describe_model(model),
        },
        data={
            "corpus": {
                "name": Path(settings.data.corpus).name,
                "sha256": info.corpus_sha256,
                "tokens": info.tokens,
                "characters": info.characters,
            },
            "tokenizer": {"sha256": info.tokenizer_sha256},
        },
        seeds={"training": settings.optimisation.seed},
        device=device,
    )
    folder = RunFolder.create(out.parent, replace(record, id=out.name))
    write_atomically(out / "recipe.yaml", settings.to_yaml().encode())
    return folder


def _refuse_other_corpus(found: Run, corpora: Corpora) -> None:
    stored = found.record.data.get("corpus", {}).get("sha256")
    if stored != corpora.train.info.corpus_sha256:
        raise RunError(
            f"cannot resume {found.path}: its corpus was another one (sha256 {str(stored)[:12]}, now "
            f"{corpora.train.info.corpus_sha256[:12]}); give the same --corpus, or another --out"
        )


def finish_run(folder: RunFolder, results: Mapping[str, Estimate], throughput: Mapping[str, Any]) -> Run:
    """Store loss curve (as examples), results and throughput; the run is then complete."""
    rows = read_log(folder.path / "log.jsonl")
    done = folder.finished_ids()
    named = [{"id": f"row-{number:06d}", **row} for number, row in enumerate(rows)]
    columns = dict.fromkeys(key for row in named for key in row)
    folder.append([{key: row.get(key) for key in columns} for row in named if row["id"] not in done])
    digest = content_hash(folder.path.glob("*.safetensors"))
    folder.finish({"training": results}, throughput, {"weights_sha256": digest})
    return Run.open(folder.path)
