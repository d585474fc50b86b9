"""Methods judged over a data set, stored as a run that can be interrupted and resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from workbench.analysis.faithfulness import MEASURES
from workbench.analysis.faithfulness_examine import CHEAP_METHODS, FLOOR, Judged, judge_all, with_floor
from workbench.analysis.saliency import OcclusionUnit, SaliencyOptions
from workbench.analysis.saliency.targets import TargetRequest, ask
from workbench.data import DataIdentity, content_hash
from workbench.data.tables import check_column, class_label, read_marks, read_rows, text_column
from workbench.errors import DataError
from workbench.estimate import Estimate
from workbench.models import LoadedModel
from workbench.records import check_fields
from workbench.runs import Run, RunFolder, RunRecord
from workbench.statistics import bootstrap

__all__ = ["SaliencySettings", "SaliencyText", "evaluate_saliency", "read_texts"]

CHUNK = 8  # texts that are stored at once


@dataclass(frozen=True, kw_only=True)
class SaliencySettings:
    """What the numbers depend on, beside the model. ``data`` is a table; columns are guessed where ``None``."""

    data: str
    methods: tuple[str, ...] = CHEAP_METHODS
    limit: int | None = None
    text_column: str | None = None
    label_column: str | None = None  # explain this class; the predicted one where None
    rationale_column: str | None = None
    baseline: str | None = None
    steps: int | None = None
    samples: int | None = None
    layer: int | None = None
    unit: str = "token"
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def options(self) -> SaliencyOptions:
        """The options of the methods."""
        return SaliencyOptions(
            steps=self.steps,
            samples=self.samples,
            layer=self.layer,
            unit=OcclusionUnit(self.unit),
            seed=self.seed,
        )


@dataclass(frozen=True)
class SaliencyText:
    """One row of the table: a text, the class to explain, and the words that people marked."""

    id: str
    text: str
    target: str | int | None = None
    rationale: tuple[int, ...] | None = None


def read_texts(settings: SaliencySettings) -> tuple[SaliencyText, ...]:
    """The first ``limit`` texts of the table; raises :class:`DataError` for missing columns and empty texts."""
    rows = read_rows(Path(settings.data).expanduser())[: settings.limit]
    columns = list(rows[0])
    text = text_column(columns, settings.text_column, settings.data)
    for column in (settings.label_column, settings.rationale_column):
        check_column(column, columns, settings.data)
    found = []
    for number, row in enumerate(rows, 1):
        if not str(row[text]).strip():
            raise DataError(f"{settings.data}, row {number}: empty {text}")
        place = f"{settings.data}, row {number}"
        marked = row.get(settings.rationale_column) if settings.rationale_column else None
        label = settings.label_column
        target = None if label is None else class_label(row.get(label), place)
        found.append(SaliencyText(str(number), str(row[text]), target, read_marks(marked, place)))
    return tuple(found)


def evaluate_saliency(
    model: LoadedModel,
    settings: SaliencySettings,
    *,
    texts: Sequence[SaliencyText] | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    doctor: Callable[[], Mapping[str, Any]] | None = None,
    progress: bool = False,
    allow_cost: bool = False,
) -> Run:
    """Judge methods on every text and store the run under ``out`` (default ``runs/``).

    ``results`` hold for each method every measure of :data:`MEASURES` as its mean over texts with a bootstrap
    interval, and under ``METHOD - random`` the paired difference from the random floor. The run's examples
    are the texts, with each method's scores. ``resume`` goes on with an interrupted run.
    """
    texts = read_texts(settings) if texts is None else texts
    names = with_floor(settings.methods)
    folder = RunFolder.begin(_record(model, settings, texts), out=out, resume=resume)
    if folder.complete:
        return Run.open(folder.path)
    folder.examine(doctor)
    done = folder.finished_ids()
    # chunks are cut over all texts, so that a resumed run makes the batches that it would have made
    chunks = [texts[i : i + CHUNK] for i in range(0, len(texts), CHUNK)]
    unfinished = [chunk for chunk in chunks if not all(text.id in done for text in chunk)]
    seconds = folder.append_all(
        _chunk_rows(model, chunk, names, settings, allow_cost)
        for chunk in tqdm(unfinished, unit="chunk", leave=False, disable=not progress)
    )
    rows = folder.rows()
    results = _results(rows, names, settings.seed)
    throughput = {"seconds": seconds, "texts": len(texts) - len(done)}
    notes = {"methods": list(names), "measures": {name: MEASURES[name].about for name in MEASURES}}
    folder.finish(results, throughput, notes, order=[text.id for text in texts])
    return Run.open(folder.path)


def _record(model: LoadedModel, settings: SaliencySettings, texts: Sequence[SaliencyText]) -> RunRecord:
    name = Path(settings.data).stem
    identity = DataIdentity(
        name, settings.data, content_hash(f"{t.text}\t{t.target}\t{t.rationale}" for t in texts), len(texts)
    )
    return RunRecord.new(
        "attribute",
        recipe={**asdict(settings), **asdict(model.prompt)},
        model=model.identity(),
        data={name: identity.to_dict()},
        seeds={"methods, noise and removals": settings.seed},
        device=str(model.device),
        label=f"{Path(model.name).name}-attribute-{name}",
    )


def _chunk_rows(
    model: LoadedModel,
    texts: Sequence[SaliencyText],
    names: Sequence[str],
    settings: SaliencySettings,
    allow_cost: bool,
) -> list[dict[str, Any]]:
    questions = [ask(model, text.text, TargetRequest(text.target)) for text in texts]
    judged = judge_all(
        model,
        questions,
        names,
        settings.baseline,
        settings.options,
        [text.rationale for text in texts],
        allow_cost=allow_cost,
    )
    return [_row(text, one) for text, one in zip(texts, judged, strict=True)]


def _row(text: SaliencyText, judged: Judged) -> dict[str, Any]:
    first = next(iter(judged.attributions.values()))
    row: dict[str, Any] = {
        "id": text.id,
        "text": text.text,
        "target": first.target,
        "value": first.value,
        "tokens": list(first.tokens),
    }
    for method, attribution in judged.attributions.items():
        row[f"{method}: scores"] = attribution.scores.tolist()
        for measure, value in judged.measures[method].items():
            row[f"{method}: {measure}"] = value
    return row


def _results(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], seed: int
) -> dict[str, dict[str, Estimate]]:
    results: dict[str, dict[str, Estimate]] = {}
    for measure in MEASURES.values():
        by_method = {
            name: np.array([_number(row.get(f"{name}: {measure.name}")) for row in rows]) for name in names
        }
        for name, values in by_method.items():
            better = measure.higher_is_better
            _add(results, name, measure.name, values, better, seed)
            if name != FLOOR and measure.name not in ("seed_agreement", "method_agreement"):
                _add(results, f"{name} - {FLOOR}", measure.name, values - by_method[FLOOR], better, seed)
    return results


def _add(
    results: dict[str, dict[str, Estimate]],
    task: str,
    measure: str,
    values: np.ndarray,
    better: bool | None,
    seed: int,
) -> None:
    """Texts without the measure (one marked word too few, no number) are left out; ``n`` counts the others."""
    kept = values[np.isfinite(values)]
    if len(kept):
        estimate = bootstrap(kept, seed=seed, higher_is_better=bool(better))
        results.setdefault(task, {})[measure] = estimate


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
