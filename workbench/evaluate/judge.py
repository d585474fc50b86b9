"""AI feedback: which of two replies a language model prefers, as a stored run and as preferences to learn from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.data import check_ids
from workbench.data.files import write_text
from workbench.data.preferences import PreferenceData, read_replies
from workbench.data.rows import Preference
from workbench.data.tables import Rows
from workbench.errors import ConfigError, DataError, RunError
from workbench.evaluate._requests import as_replies
from workbench.evaluate._runner import Outcome, run_tasks
from workbench.evaluate._task import Work
from workbench.evaluate.inference import InferenceOptions, stream_answers
from workbench.evaluate.tasks.task_types.judging import (
    FIRST,
    PARTS,
    SECOND,
    TEMPLATE,
    TIE,
    JudgeTask,
    both_orders,
    log_odds,
)
from workbench.models import Kind, LoadedModel, prompted
from workbench.records import check_fields, settings_of, takes_fields_of
from workbench.runs import Run, RunRecord, reads_runs
from workbench.scoring import resolve_first_token
from workbench.text import PromptFormat

__all__ = ["JudgeSettings", "judge", "judged_margins", "judged_pairs", "write_judged"]


@dataclass(frozen=True, kw_only=True)
class JudgeSettings(PromptFormat):
    """``template`` is what the judge reads, up to where the letter follows; it names ``{prompt}``, ``{first}`` and
    ``{second}``, whose letters are A and B. ``limit`` takes the first pairs; ``seed`` draws the resamples.

    Raises :class:`~workbench.errors.ConfigError`.
    """

    template: str = TEMPLATE
    limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self)
        missing = [f"{{{name}}}" for name in PARTS if f"{{{name}}}" not in self.template]
        if missing:
            raise ConfigError(f"the judge's template lacks {', '.join(missing)}; give each a place")


@takes_fields_of(JudgeSettings)
def judge(
    model: LoadedModel | str,
    data: PreferenceData | str | Path | Rows,
    settings: JudgeSettings | None = None,
    *,
    data_dir: Path | str | None = None,
    split: str | None = None,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    batch_tokens: str | int = "auto",
    doctor: bool = True,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Which of two replies a language model prefers, asked in both orders; stored as a run.

    Args:
        model: a loaded model or its name, that predicts text.
        data: preferences of people as :func:`~workbench.data.preferences.read_preferences` takes them, or rows with
            ``prompt``, ``first`` and ``second``, which nobody has judged.
        settings: the recipe; or name its fields as keywords.
        data_dir: folder of a data set by name.
        split: its part.
        out: the folder that gets the run folder; ``runs/`` by default.
        resume: the folder of a run that was cut short.
        batch_tokens: tokens of one forward pass, padding included.
        doctor: examine the model first, and store the verdict.
        progress: show a bar.
        **options: fields of :class:`JudgeSettings`, such as ``limit=20`` or ``chat=True``.

    Raises:
        ModelError: a model that predicts no text.
        DataError: unreadable data.
        ConfigError: a template without a place for the prompt or a reply.

    Example:
        ```python
        import workbench

        rows = [{"prompt": "Two and two?", "chosen": " Four.", "rejected": " Fish."}]
        run = workbench.judge("novels-decoder", rows, doctor=False)
        print(run.results["rows"]["consistency"])
        ```
    """
    settings = settings_of(JudgeSettings, settings, options)
    task = _task(data, settings, data_dir, split)
    subject = prompted(model, settings)
    subject.require(*task.kinds, verb="judging replies")
    items = task.load(None).items
    check_ids([item.id for item in items], f"preferences {task.name}")
    work = [
        Work(task, item, {"id": item.id}, as_replies(item.requests) if settings.chat else item.requests)
        for item in items
    ]

    def outcome(rows: pd.DataFrame) -> Outcome:
        notes = {"left_out": task.data.left_out, "truncated": int((rows["truncated"] > 0).sum())}
        return {task.name: task.metrics(rows, settings.seed)}, notes, [item.id for item in items]

    source = {"data": _named(data), "data_dir": None if data_dir is None else str(data_dir), "split": split}
    return run_tasks(
        subject,
        [work],
        InferenceOptions(batch_tokens=batch_tokens, progress=progress),
        _record(subject, task, {**asdict(settings), **source, "version": task.version}, settings.seed),
        outcome,
        out=out,
        resume=resume,
        doctor=doctor,
    )


def judged_margins(
    model: LoadedModel,
    pairs: Sequence[Preference],
    settings: JudgeSettings | None = None,
    *,
    batch_tokens: str | int = "auto",
) -> list[float]:
    """The log-odds (nats) of each pair's chosen reply over its rejected one, mean of both orders; nothing is stored.

    Raises :class:`~workbench.errors.ModelError` for a model that predicts no text.

    Example:
        ```python
        import workbench
        from workbench.data.preferences import read_preferences
        from workbench.evaluate.judge import judged_margins

        rows = [{"prompt": "Two and two?", "chosen": " Four.", "rejected": " Fish."}]
        print(judged_margins(workbench.load("novels-decoder"), read_preferences(rows).pairs))
        ```
    """
    settings = settings or JudgeSettings()
    model = prompted(model, settings)
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="judging replies")
    asked = [both_orders(pair, settings.template) for pair in pairs]
    written = [as_replies(one) if settings.chat else one for one in asked]
    found: dict[int, Any] = {}
    options = InferenceOptions(batch_tokens=batch_tokens)
    for batch in stream_answers(model, [request for one in written for request in one], options):
        found.update(batch)
    fours = ([found[4 * number + k] for k in range(4)] for number in range(len(pairs)))
    return [sum(log_odds(answers)) / 2 for answers in fours]


def _task(
    data: PreferenceData | str | Path | Rows,
    settings: JudgeSettings,
    data_dir: Path | str | None,
    split: str | None,
) -> JudgeTask:
    if isinstance(data, PreferenceData):
        return JudgeTask(data=replace(data, pairs=data.pairs[: settings.limit]), template=settings.template)
    folder = None if data_dir is None else Path(data_dir)
    pairs, labelled = read_replies(data, folder, split=split, limit=settings.limit)
    return JudgeTask(data=pairs, labelled=labelled, template=settings.template)


def _named(data: PreferenceData | str | Path | Rows) -> str:
    if isinstance(data, PreferenceData):
        return data.name
    return str(data) if isinstance(data, str | Path) else "rows"


def _record(model: LoadedModel, task: JudgeTask, recipe: dict[str, Any], seed: int) -> RunRecord:
    first = str(resolve_first_token(model, "auto")) if model.kind is Kind.CAUSAL else ""
    return RunRecord.new(
        "judge",
        recipe={**recipe, "special_tokens": str(recipe["special_tokens"]), "labelled": task.labelled},
        model={**model.identity(), "first_token": first},
        data={task.name: asdict(task.data.identity)},
        seeds={"bootstrap": seed},
        device=str(model.device),
        label=f"{Path(model.name).name}-{task.name}",
    )


@reads_runs
def judged_pairs(run: Run, *, consistent: bool = False) -> tuple[Preference, ...]:
    """The judge's own preferences of a stored run: of each pair that is no tie, what it prefers as chosen.

    With ``consistent`` only pairs whose verdict survives the swap. Raises :class:`~workbench.errors.RunError` for
    another verb's run, :class:`~workbench.errors.DataError` where no pair is left.

    Example:
        ```python
        import workbench
        from workbench.evaluate.judge import judged_pairs

        rows = [{"prompt": "Two and two?", "first": " Four.", "second": " Fish."}]
        print(judged_pairs(workbench.judge("novels-decoder", rows, doctor=False)))
        ```
    """
    if run.record.verb != "judge":
        raise RunError(f"{run.path} was made by workbench {run.record.verb}, not by judge")
    rows = run.examples()
    rows = rows[(rows["prefers"] != TIE) & (rows["consistent"].astype(bool) | (not consistent))]
    if rows.empty:
        raise DataError(f"{run.path}: no pair has a verdict{' that survives the swap' if consistent else ''}")
    return tuple(
        Preference(
            row["id"], row["prompt"], row[row["prefers"]], row[SECOND if row["prefers"] == FIRST else FIRST]
        )
        for row in rows.to_dict("records")
    )


def write_judged(run: Run, path: Path, *, consistent: bool = False) -> int:
    """Write :func:`judged_pairs` as JSONL, which ``workbench align --data`` reads; returns how many there are.

    Raises as :func:`judged_pairs` does.

    Example:
        ```python
        from pathlib import Path

        import workbench
        from workbench.evaluate.judge import write_judged

        rows = [{"prompt": "Two and two?", "first": " Four.", "second": " Fish."}]
        print(write_judged(workbench.judge("novels-decoder", rows, doctor=False), Path("judged.jsonl")))
        ```
    """
    pairs = judged_pairs(run, consistent=consistent)
    lines = [
        json.dumps(
            {name: getattr(pair, name) for name in ("id", "prompt", "chosen", "rejected")}, ensure_ascii=False
        )
        for pair in pairs
    ]
    write_text(path, "\n".join(lines) + "\n")
    return len(pairs)
