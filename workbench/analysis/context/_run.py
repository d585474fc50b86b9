"""Score every item under every condition, as a run that can be resumed or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.analysis.context._curves import ToleranceOf, context_points, effective_length
from workbench.analysis.context._edits import Condition, ContextItem, conditions_of, edited, word_pool
from workbench.choices import member
from workbench.data import DataIdentity
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.models import LoadedModel, prompted
from workbench.runs import Run, RunFolder, RunRecord
from workbench.scoring import Engine, FirstToken, Request, Score
from workbench.text import PromptFormat

__all__ = ["EFFECTIVE", "ContextSettings", "context_examples", "context_run"]

EFFECTIVE = {
    ToleranceOf.LOSS: "effective context length (words)",
    ToleranceOf.PERPLEXITY: "effective context length (words, perplexity)",
}
"""Names of the effective context length in a run's results, by what is within 1 % of the full context's."""


@dataclass(frozen=True, kw_only=True)
class ContextSettings(PromptFormat):
    """What the curves depend on, beside model and data. ``source`` is a LAMBADA variant or a text file.

    In ``chat`` format a context is the user's message, and the word begins the reply.
    """

    source: str
    data_dir: str | None = None
    limit: int | None = None
    operations: tuple[str, ...] = ("keep", "shuffle all", "drop content", "drop function")
    distances: tuple[int, ...] = (1, 5, 10, 20, 50)
    window: int | None = None
    longest: int = 200
    first_token: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        member(FirstToken, self.first_token, "first-token policy")

    def conditions(self) -> list[Condition]:
        """All conditions; raises :class:`~workbench.errors.DataError` for names that do not exist."""
        return conditions_of(self.operations, self.distances, self.window)


@dataclass(frozen=True)
class _Work:
    """One item under one condition."""

    item: ContextItem
    condition: Condition
    context: str
    changed: int

    @property
    def id(self) -> str:
        """Of the example."""
        return f"{self.item.id}|{self.condition.key}"

    def row(self, score: Score) -> dict[str, Any]:
        """The example."""
        return {
            "id": self.id,
            "item": self.item.id,
            "condition": self.condition.key,
            "curve": self.condition.name,
            "distance": self.condition.distance,
            "changed": self.changed,
            "context": self.context,
            "target": self.item.target,
            "log_probability": score.log_probability,
            "tokens": score.tokens,
            "greedy": score.is_greedy,
            "rank": score.ranks[0],
            "truncated": score.truncated,
        }


def _work(items: Sequence[ContextItem], conditions: Sequence[Condition], seed: int) -> list[_Work]:
    pool = word_pool(items)
    return [
        _Work(item, condition, *edited(item, condition, pool, seed))
        for item in items
        for condition in conditions
    ]


def context_examples(
    model: LoadedModel,
    items: Sequence[ContextItem],
    conditions: Sequence[Condition],
    *,
    first_token: str = "auto",
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Every item under every condition, scored; what :func:`context_points` and the figures take.

    Raises :class:`~workbench.errors.ModelError` for a model that is not causal.
    """
    if not items:
        raise DataError("no words to predict; give at least one item")
    work = _work(items, conditions, seed)
    engine = Engine(model, first_token, progress=progress)
    scores = engine.score([Request(w.context, w.item.target) for w in work])
    return pd.DataFrame([w.row(score) for w, score in zip(work, scores, strict=True)])


def context_run(
    model: LoadedModel,
    items: Sequence[ContextItem],
    identity: DataIdentity,
    settings: ContextSettings,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    doctor: Callable[[], Mapping[str, Any]] | None = None,
    progress: bool = False,
) -> Run:
    """Score, store as it goes, and finish with the curves; ``resume`` is the folder of an interrupted run.

    ``results`` hold, under the data's name, loss and accuracy with the full context and the effective context
    lengths by loss and by perplexity; under ``NAME/CURVE`` each point's ``loss@d``, ``accuracy@d`` and
    ``loss increase@d``.

    Raises :class:`~workbench.errors.ModelError` for a model that is not causal and
    :class:`~workbench.errors.RunError` where the run to resume was made otherwise.
    """
    model = prompted(model, settings)
    engine = Engine(model, settings.first_token, progress=progress)
    work = _work(items, settings.conditions(), settings.seed)
    folder = RunFolder.begin(_record(model, identity, settings), out=out, resume=resume)
    if folder.complete:
        return Run.open(folder.path)
    folder.examine(doctor)
    throughput = _score(engine, work, folder)
    examples = pd.DataFrame(folder.rows())
    notes = {
        "first_token": str(engine.policy),
        "items": len(items),
        "truncated": int((examples["truncated"] > 0).sum()),
    }
    folder.finish(
        _results(examples, identity.name, settings.seed), throughput, notes, order=[w.id for w in work]
    )
    return Run.open(folder.path)


def _record(model: LoadedModel, identity: DataIdentity, settings: ContextSettings) -> RunRecord:
    return RunRecord.new(
        "context",
        recipe=asdict(settings),
        model=model.identity(),
        data={identity.name: identity.to_dict()},
        seeds={"edits and intervals": settings.seed},
        device=str(model.device),
        label=f"{Path(model.name).name}-context-{identity.name}",
    )


def _score(engine: Engine, work: Sequence[_Work], folder: RunFolder) -> dict[str, float]:
    finished = folder.finished_ids()
    done = {place for place, w in enumerate(work) if w.id in finished}
    sequences = engine.encode([Request(w.context, w.item.target) for w in work])
    tokens = 0

    def rows() -> Iterator[list[dict[str, Any]]]:
        nonlocal tokens
        for batch in engine.stream_sequences(sequences, done):
            tokens += sum(sequence.length for sequence in {sequences[place] for place, _ in batch})
            yield [work[place].row(score) for place, score in batch]

    seconds = folder.append_all(rows())
    return {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / max(seconds, 1e-9)}


def _results(examples: pd.DataFrame, name: str, seed: int) -> dict[str, dict[str, Estimate]]:
    results: dict[str, dict[str, Estimate]] = {}
    for point in context_points(examples, seed):
        if point.increase is None:
            results[name] = {"loss": point.loss, "accuracy": point.accuracy}
            continue
        metrics = results.setdefault(f"{name}/{point.curve}", {})
        metrics[f"loss@{point.distance}"] = point.loss
        metrics[f"accuracy@{point.distance}"] = point.accuracy
        metrics[f"loss increase@{point.distance}"] = point.increase
    for of, metric in EFFECTIVE.items():
        length = effective_length(examples, seed=seed, of=of)
        if length is not None:
            results[name][metric] = length
    return results
