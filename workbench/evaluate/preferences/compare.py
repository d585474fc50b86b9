"""Models compared by preference, as a run: replies to the same prompts, who prefers which, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workbench.data import DataIdentity, content_hash
from workbench.data.tables import Rows
from workbench.errors import ConfigError, DataError
from workbench.estimate import Estimate
from workbench.evaluate.preferences.analysis import PreferenceComparison, analyse_votes
from workbench.evaluate.preferences.choosers import Chooser, find_chooser
from workbench.evaluate.preferences.replies import Prompt, PromptData, ReplySettings, read_prompts
from workbench.evaluate.preferences.rows import Replies, generated, rows_of, stored_replies
from workbench.evaluate.preferences.votes import (
    Vote,
    as_row,
    display_names,
    of_models,
    read_votes,
    votes_of_run,
)
from workbench.models import LoadedModel, as_model
from workbench.records import settings_of, takes_fields_of
from workbench.runs import Run, RunFolder, RunRecord, as_run, reads_runs
from workbench.scoring.rewards import Reward
from workbench.statistics import Ties, bootstrap

__all__ = ["compare_preferences", "preferences_of"]

VERB = "compare"
_VOTES = "votes:"


@takes_fields_of(ReplySettings)
def compare_preferences(
    models: Sequence[LoadedModel | str],
    prompts: str | Path | Rows | Sequence[str] | None = None,
    by: str | Reward | Chooser | None = None,
    settings: ReplySettings | None = None,
    *,
    replies: Run | str | Path | None = None,
    ties: Ties | str = Ties.HALF,
    data_dir: Path | None = None,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Have two models or more reply to the same prompts, say whose replies are preferred, and store all of it.

    Args:
        models: loaded models or names; with ``votes:…`` names alone.
        prompts: what :func:`~workbench.evaluate.preferences.read_prompts` reads.
        by: who prefers: a reward or its name (``model:NAME``, ``python:module:function``, …), ``judge:MODEL``, or
            ``votes:FILE`` or ``votes:RUN``, which need no prompts. ``None`` stores the replies alone, to be voted on.
        settings: how replies are decoded, or the fields of it by keyword.
        replies: a stored run of this kind whose replies are taken instead of new ones.
        ties: what a tie means for strengths: ``half`` or ``davidson``.
        data_dir: folder of named sets of preferences.
        out: folder of runs; ``runs/`` if none.
        resume: a run of the same work to go on with.
        progress: show bars.
        **options: fields of :class:`~workbench.evaluate.preferences.ReplySettings`.

    Raises:
        ConfigError: fewer than two models, no prompts, an unknown ``by``.
        DataError: prompts or votes that cannot be read, votes about other models.
        ModelError: a model that does not generate.
        NumericsError: a reward that is not finite.

    Example:
        ```python
        from workbench.evaluate.preferences import compare_preferences

        models = ["novels-decoder", "grammar-transformer"]
        run = compare_preferences(models, ["She was very", "The old man"], by="pattern:(?i)the", max_tokens=8)
        print(run.notes["verdicts"])
        ```
    """
    chosen = settings_of(ReplySettings, settings, options)
    names = _names(models)
    recipe = {
        "models": [_name(model) for model in models],
        "by": by if by is None or isinstance(by, str) else by.name,
        "ties": str(Ties(ties)),
        **asdict(chosen),
    }
    place = {"out": out, "resume": resume}
    if isinstance(by, str) and by.startswith(_VOTES):
        return _of_votes(by, recipe, place)
    chooser = None if by is None else find_chooser(by)
    if replies is not None:
        return _of_replies(as_run(replies), names, chooser, recipe, place)
    if prompts is None:
        raise ConfigError(
            "no prompts; name a table with a column prompt, or a set of preferences: --prompts FILE"
        )
    asked = read_prompts(prompts, data_dir, limit=chosen.limit)
    loaded = dict(zip(names, map(as_model, models), strict=True))
    return _of_models(
        loaded, asked, chooser, chosen, {**recipe, "prompts": asked.identity.name}, place, progress
    )


def _name(model: LoadedModel | str) -> str:
    return model if isinstance(model, str) else model.name


def _names(models: Sequence[LoadedModel | str]) -> tuple[str, ...]:
    names = [_name(model) for model in models]
    if len(names) < 2:
        raise ConfigError(f"comparing by preference needs two models or more, got {len(names)}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{twice!r:.80} is named twice; a model is compared with others")
    return display_names(names)


def _begin(
    models: Mapping[str, Mapping[str, Any]],
    data: DataIdentity,
    recipe: Mapping[str, Any],
    place: Mapping[str, Any],
    device: str = "cpu",
) -> RunFolder:
    """The run's folder; ``models`` are the models' identities by name."""
    record = RunRecord.new(
        VERB,
        recipe=recipe,
        model={"name": " vs ".join(models), "models": dict(models)},
        data={"prompts": data.to_dict()},
        seeds={"sampling": recipe["seed"], "resampling": recipe["seed"]},
        device=device,
        label="-vs-".join(models),
    )
    folder = RunFolder.begin(record, **place)
    if not folder.complete:
        folder.examine(None)
    return folder


def _of_models(
    models: Mapping[str, LoadedModel],
    asked: PromptData,
    chooser: Chooser | None,
    settings: ReplySettings,
    recipe: Mapping[str, Any],
    place: Mapping[str, Any],
    progress: bool,
) -> Run:
    """New replies of the models."""
    known = {name: model.identity() for name, model in models.items()}
    device = str(next(iter(models.values())).device)
    folder = _begin(known, asked.identity, recipe, place, device)
    if not folder.complete:
        chunks = generated(models, asked.prompts, settings, folder.finished_ids(), progress)
        _finish(folder, recipe, _store(folder, chunks, chooser, len(asked.prompts)))
    return Run.open(folder.path)


def _store(
    folder: RunFolder,
    chunks: Iterator[tuple[Sequence[Prompt], Replies]],
    chooser: Chooser | None,
    prompts: int,
) -> dict[str, Any]:
    seconds = folder.append_all(rows_of(part, replies, chooser) for part, replies in chunks)
    return {"prompts": prompts, "seconds": seconds, "prompts_per_second": prompts / max(seconds, 1e-9)}


def _of_replies(
    source: Run,
    names: tuple[str, ...],
    chooser: Chooser | None,
    recipe: dict[str, Any],
    place: dict[str, Any],
) -> Run:
    """Stored replies of the models, rated anew."""
    if chooser is None:
        raise ConfigError(f"the replies of {source.path.name} are there already; say who prefers: --by")
    prompts, replies = stored_replies(source, names)
    data = DataIdentity(**source.record.data["prompts"])
    known = source.record.model.get("models", {})
    models = {name: known.get(name, {"name": name}) for name in names}
    folder = _begin(models, data, {**recipe, "replies": source.path.name}, place)
    if not folder.complete:
        _finish(folder, recipe, _store(folder, iter([(prompts, replies)]), chooser, len(prompts)))
    return Run.open(folder.path)


def _of_votes(by: str, recipe: Mapping[str, Any], place: Mapping[str, Any]) -> Run:
    """Votes that others have cast, on the models alone."""
    models: list[str] = recipe["models"]
    votes = of_models(read_votes(by.removeprefix(_VOTES), _root(place)), models)
    data = DataIdentity("votes", by.removeprefix(_VOTES), content_hash(map(repr, votes)), len(votes))
    known = {short: {"name": name} for short, name in zip(display_names(models), models, strict=True)}
    folder = _begin(known, data, recipe, place)
    if not folder.complete:
        rows = ({"id": f"vote-{number:05d}", **as_row(vote)} for number, vote in enumerate(votes))
        folder.append_all([list(rows)])
        _finish(folder, recipe, {"votes": len(votes)})
    return Run.open(folder.path)


def _root(place: Mapping[str, Any]) -> Path | None:
    return None if place["out"] is None else Path(place["out"])


def _finish(folder: RunFolder, recipe: Mapping[str, Any], throughput: Mapping[str, Any]) -> None:
    rows = folder.rows()
    if not rows:
        raise DataError("no prompt was replied to")
    results: dict[str, dict[str, Estimate]] = {}
    notes: dict[str, Any] = {}
    if "score" in rows[0]:
        votes = [Vote(**{name: row[name] for name in Vote.__dataclass_fields__}) for row in rows]
        found = analyse_votes(votes, by=str(recipe["by"]), ties=recipe["ties"], seed=recipe["seed"])
        results, notes = found.results(), {"verdicts": found.verdicts}
    for model, length in _lengths(rows).items():
        results[model] = {**results.get(model, {}), "reply_length": length}
    folder.finish(results, throughput, notes)


def _lengths(rows: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    """The mean number of characters of each model's replies; none where the replies are unknown."""
    lengths: dict[str, dict[str, int]] = {}
    for row in rows:
        for side in ("first", "second"):
            if row[f"reply_{side}"]:
                lengths.setdefault(row[side], {})[row["prompt"]] = len(row[f"reply_{side}"])
    found = {name: bootstrap(list(each.values()), seed=0) for name, each in lengths.items()}
    return {name: replace(estimate, higher_is_better=None) for name, estimate in found.items()}


@reads_runs
def preferences_of(run: Run) -> PreferenceComparison:
    """The comparison that ``run`` stores, of replies or of votes, computed anew from its rows.

    Raises :class:`~workbench.errors.RunError` for a run of something else, or without a vote.
    """
    recipe = run.record.recipe
    return analyse_votes(
        votes_of_run(run),
        by=str(recipe.get("by") or "votes"),
        ties=str(recipe.get("ties", Ties.HALF)),
        seed=int(recipe.get("seed", 0)),
    )
