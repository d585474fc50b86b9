"""Which of two replies was preferred: one record a comparison, read from stored runs and from tables of votes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.data.tables import Row, Rows, is_table, number_of, read_table, records_of
from workbench.errors import DataError, RunError
from workbench.runs import Run, default_root, find_run, reads_runs

__all__ = ["Vote", "display_names", "of_models", "read_votes", "votes_of_run"]

_COLUMNS = {
    "first": ("first", "model_a"),
    "second": ("second", "model_b"),
    "winner": ("winner", "preferred", "score"),
    "prompt": ("prompt", "instruction", "question", "question_id", "id"),
    "reply_first": ("reply_first", "response_a", "output_1"),
    "reply_second": ("reply_second", "response_b", "output_2"),
}
_NEEDED = ("first", "second", "winner")
_WINNERS = {
    **dict.fromkeys(("first", "model_a", "a", "left"), 1.0),
    **dict.fromkeys(("second", "model_b", "b", "right"), 0.0),
    **dict.fromkeys(("tie", "tie (bothbad)", "both", "neither"), 0.5),
}


@dataclass(frozen=True, kw_only=True)
class Vote:
    """Two models' replies to one prompt, and the ``score`` of the first: 1 if it is preferred, 0 if not, 0.5 for a tie.

    ``prompt`` is what comparisons that are not independent share. Replies are empty texts where a table has none.
    """

    prompt: str
    first: str
    second: str
    score: float
    reply_first: str = ""
    reply_second: str = ""

    @property
    def length_difference(self) -> int:
        """Characters of the first reply minus those of the second."""
        return len(self.reply_first) - len(self.reply_second)

    @property
    def same_reply(self) -> bool:
        """Whether both models wrote the same, and something."""
        return bool(self.reply_first) and self.reply_first == self.reply_second


def display_names(models: Sequence[str]) -> tuple[str, ...]:
    """What models are called in tables: the last part of a path, the whole where two have the same one."""
    last = [Path(name).name or name for name in models]
    return tuple(name if last.count(short) > 1 else short for name, short in zip(models, last, strict=True))


def read_votes(source: Run | str | Path | Rows, root: Path | None = None) -> tuple[Vote, ...]:
    """The votes of a run (its folder or id), of a table or of rows in memory; of several runs, with commas between.

    A table has a row for each vote with the columns ``first`` and ``second`` (or ``model_a`` and ``model_b``), names
    of models, and ``winner``: ``first``, ``second`` or ``tie``, ``model_a``, ``model_b``, or the winner's name. Further
    columns are ``prompt`` (or ``id``), which says what belongs together, and the texts ``reply_first`` and
    ``reply_second``. Raises :class:`~workbench.errors.DataError` naming file and line for anything else.

    Example:
        ```python
        from workbench.evaluate.preferences import read_votes

        rows = [{"prompt": "2 + 2?", "first": "base", "second": "tuned", "winner": "tuned"}]
        print(read_votes(rows)[0].score)
        ```
    """
    if isinstance(source, Run):
        return votes_of_run(source)
    if not isinstance(source, str | Path):
        listed = enumerate(records_of(source, "votes"), 1)
        return _of_rows(((f"votes, row {number}", row) for number, row in listed), "votes")
    if is_table(source):
        return _of_rows(read_table(source), str(source))
    names = [name for name in str(source).split(",") if name]
    runs = [Run.open(find_run(name, root or default_root())) for name in names]
    return tuple(vote for run in runs for vote in votes_of_run(run))


def _of_rows(rows: Iterable[tuple[str, Row]], source: str) -> tuple[Vote, ...]:
    found = tuple(_of_row(row, where) for where, row in rows)
    if not found:
        raise DataError(f"{source} has no votes; a row a vote with the columns {', '.join(_NEEDED)}")
    return found


def _of_row(row: Row, where: str) -> Vote:
    cells = {
        name: next((row[column] for column in columns if row.get(column) not in (None, "")), None)
        for name, columns in _COLUMNS.items()
    }
    missing = [f"{name} (or {', '.join(_COLUMNS[name][1:])})" for name in _NEEDED if cells[name] is None]
    if missing:
        raise DataError(f"{where}: no {' and no '.join(missing)}; it has {', '.join(row)}")
    first, second = str(cells["first"]), str(cells["second"])
    if first == second:
        raise DataError(f"{where}: {first!r:.60} is compared with itself; name two models")
    return Vote(
        prompt=where if cells["prompt"] is None else str(cells["prompt"]),
        first=first,
        second=second,
        score=_score(cells["winner"], first, second, where),
        reply_first=str(cells["reply_first"] or ""),
        reply_second=str(cells["reply_second"] or ""),
    )


def _score(winner: object, first: str, second: str, where: str) -> float:
    word = str(winner).strip()
    known = {**_WINNERS, first: 1.0, second: 0.0}
    if word in known or word.lower() in known:
        return known.get(word, known.get(word.lower(), 0.5))
    if not isinstance(winner, int | float):
        raise DataError(
            f"{where}: the winner is {word!r:.60}; allowed: first, second, tie, {first}, {second}"
        )
    number = number_of(winner, where, "score")
    if not 0 <= number <= 1:
        raise DataError(f"{where}: the score is {number:g}; allowed: 0 to 1")
    return number


@reads_runs
def votes_of_run(run: Run) -> tuple[Vote, ...]:
    """The votes, or the verdicts, that ``run`` stores: of a vote that was changed, the last one.

    Raises :class:`~workbench.errors.RunError` for a run of something else, and for one that has none yet.
    """
    examples = run.examples()
    if not {"first", "second", "prompt", "reply_first", "reply_second"} <= set(examples.columns):
        raise RunError(
            f"{run.path.name} was made by workbench {run.record.verb} and holds no votes; vote on the dashboard's page "
            "Preferences, or give a table"
        )
    if "score" not in examples or examples["score"].isna().all():
        raise RunError(
            f"{run.path.name} has replies but no votes; vote on them on the dashboard, or name --by"
        )
    if "item" in examples:
        examples = examples.sort_values("time", kind="stable").drop_duplicates("item", keep="last")
    names = ("prompt", "first", "second", "score", "reply_first", "reply_second")
    return tuple(Vote(**{name: row[name] for name in names}) for row in examples.to_dict("records"))


def of_models(votes: Sequence[Vote], models: Sequence[str]) -> tuple[Vote, ...]:
    """The votes between two of ``models``, by names or the last parts of paths.

    Raises :class:`~workbench.errors.DataError` for a model that no vote is about.
    """
    known = list(dict.fromkeys(name for vote in votes for name in (vote.first, vote.second)))
    wanted = dict(zip(models, display_names(models), strict=True))
    for name, short in wanted.items():
        if not {name, short} & set(known):
            raise DataError(f"no vote is about {name!r:.80}; the votes are about {', '.join(known[:12])}")
    among = {*wanted, *wanted.values()}
    found = tuple(vote for vote in votes if vote.first in among and vote.second in among)
    if not found:
        raise DataError(f"no vote compares {' and '.join(models)}; the votes are about {', '.join(known)}")
    return found


def as_row(vote: Vote) -> Mapping[str, Any]:
    """A vote as a row of a run's examples, but for its id."""
    return {name: getattr(vote, name) for name in vote.__dataclass_fields__}
