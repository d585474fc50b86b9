"""Blinded votes of a person: which of two replies is better, asked in random order, stored as a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from workbench.data import content_hash
from workbench.errors import RunError
from workbench.evaluate.preferences.analysis import analyse_votes
from workbench.evaluate.preferences.votes import votes_of_run
from workbench.records import LARGEST_SEED
from workbench.runs import Run, RunFolder, RunRecord, reads_runs

__all__ = ["VOTE", "Ballot", "BallotItem", "Choice", "has_replies"]

VOTE = "vote"
"""The verb of a run of votes."""

_REPLIES = {"id", "prompt", "first", "second", "reply_first", "reply_second"}


class Choice(StrEnum):
    """What a voter says of two replies."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"


@dataclass(frozen=True)
class BallotItem:
    """Two replies to a prompt as a voter sees them; ``row`` is where they come from, which a voter does not see."""

    prompt: str
    left: str
    right: str
    swapped: bool
    row: Mapping[str, Any]


def has_replies(run: Run) -> bool:
    """Whether there are replies in ``run`` that can be voted on."""
    return run.complete and run.record.verb == "compare" and set(run.examples().columns) >= _REPLIES


class Ballot:
    """Comparisons that one person votes on, in an order and on sides that a seed draws, without names of models.

    A vote is stored when it is cast. Equal replies are not asked about: they are ties.

    Example:
        ```python
        from workbench.evaluate.preferences import Ballot, compare_preferences

        models = ["novels-decoder", "grammar-transformer"]
        ballot = Ballot.begin(compare_preferences(models, ["She was very"], max_tokens=8), voter="me")
        ballot.cast(0, "left")
        print(ballot.finish().notes["verdicts"])
        ```
    """

    def __init__(self, folder: RunFolder, items: tuple[BallotItem, ...], same: list[dict[str, Any]]) -> None:
        self._folder, self.items, self._same = folder, items, same
        self.choices: dict[int, Choice] = {}
        """What was voted on each item so far, by its place."""

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self._folder.path

    @property
    def place(self) -> int | None:
        """The first item without a vote; ``None`` after the last."""
        return next((n for n in range(len(self.items)) if n not in self.choices), None)

    @classmethod
    def begin(
        cls,
        source: Run,
        *,
        voter: str = "",
        seed: int | None = None,
        limit: int | None = None,
        out: Path | None = None,
    ) -> Ballot:
        """Start voting on the replies of ``source``; ``limit`` takes so many comparisons, drawn by ``seed``.

        The run lies beside ``source`` unless ``out`` names another folder. Without a seed one is drawn and stored.
        Raises :class:`~workbench.errors.RunError` for a run without replies, and where all replies are the same.
        """
        if not has_replies(source):
            raise RunError(
                f"{source.path.name} holds no replies to vote on; make them: workbench compare A B --preferences "
                "--prompts FILE"
            )
        seed = int(np.random.default_rng().integers(LARGEST_SEED)) if seed is None else seed
        recipe = {"replies": source.path.name, "by": "votes", "voter": voter or "anonymous"}
        record = RunRecord.new(
            VOTE,
            recipe={**recipe, "seed": seed, "limit": limit, "models": source.record.recipe.get("models", [])},
            model=source.record.model,
            data={"replies": {"name": source.path.name, "sha256": _content(source)}},
            seeds={"order": seed, "sides": seed},
            label=VOTE,
        )
        items, same = _items(source, seed, limit)
        folder = RunFolder.create(out or source.path.parent, record)
        folder.examine(None)
        folder.release()
        return cls(folder, items, same)

    @classmethod
    def open(cls, run: Run) -> Ballot:
        """Go on with the votes of ``run``, also after those that it has.

        Raises :class:`~workbench.errors.RunError` for another kind of run, and where the replies that it is about
        are not beside it any more or were changed.
        """
        if run.record.verb != VOTE:
            raise RunError(f"{run.path.name} was made by workbench {run.record.verb} and holds no votes")
        recipe = run.record.recipe
        source = Run.open(run.path.parent / str(recipe["replies"]))
        if _content(source) != run.record.data["replies"]["sha256"]:
            raise RunError(
                f"the replies in {source.path.name} were changed after votes on them began; start anew"
            )
        ballot = cls(RunFolder(run.path, run.record), *_items(source, recipe["seed"], recipe["limit"]))
        ballot._recall(run)
        return ballot

    @reads_runs
    def _recall(self, run: Run) -> None:
        examples = run.examples()
        if "place" in examples:
            for row in examples.sort_values("time", kind="stable").to_dict("records"):
                if row["place"] >= 0:
                    self.choices[int(row["place"])] = Choice(row["choice"])

    def cast(self, place: int, choice: Choice | str) -> None:
        """Store the vote on an item; one that was voted on before is changed."""
        chosen = Choice(choice)
        self._append([self._row(place, self.items[place], chosen)])
        self.choices[place] = chosen

    def _row(self, place: int, item: BallotItem, choice: Choice) -> dict[str, Any]:
        score = {Choice.TIE: 0.5, Choice.LEFT: 1.0, Choice.RIGHT: 0.0}[choice]
        score = 1 - score if item.swapped else score
        names = {0.0: item.row["second"], 0.5: "tie", 1.0: item.row["first"]}
        return {
            "id": f"{item.row['id']}: {uuid4().hex[:8]}",
            "item": item.row["id"],
            **{name: item.row[name] for name in ("prompt", "first", "second", "reply_first", "reply_second")},
            "left": item.row["second" if item.swapped else "first"],
            "place": place,
            "choice": str(choice),
            "preferred": names[score],
            "score": score,
            "voter": self._folder.record.recipe["voter"],
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        }

    def _append(self, rows: list[dict[str, Any]]) -> None:
        folder = RunFolder(self.path, self._folder.record)  # sees what another page has stored meanwhile
        folder.hold()
        try:
            folder.append(rows)
        finally:
            folder.release()

    def finish(self) -> Run:
        """End the vote, and say whose replies were preferred; a finished run is returned as it is.

        Raises :class:`~workbench.errors.RunError` while items are left.
        """
        if self._folder.complete:
            return Run.open(self.path)
        left = len(self.items) - len(self.choices)
        if left:
            raise RunError(f"{left} of {len(self.items)} comparisons have no vote yet")
        if self._same:
            known = {row["item"] for row in self._folder.rows()}
            sides = [
                BallotItem(r["prompt"], r["reply_first"], r["reply_second"], False, r) for r in self._same
            ]
            self._append([self._row(-1, side, Choice.TIE) for side in sides if side.row["id"] not in known])
        votes = votes_of_run(Run.open(self.path))
        found = analyse_votes(votes, seed=self._folder.record.recipe["seed"])
        folder = RunFolder(self.path, self._folder.record)
        folder.hold()
        folder.finish(
            found.results(),
            {"votes": len(self.items)},
            {"verdicts": found.verdicts, "not asked, same replies": len(self._same)},
        )
        return Run.open(self.path)


@reads_runs
def _content(source: Run) -> str:
    examples = source.examples()
    columns = sorted(_REPLIES)
    return content_hash(str(cell) for row in examples[columns].itertuples(index=False) for cell in row)


@reads_runs
def _items(source: Run, seed: int, limit: int | None) -> tuple[tuple[BallotItem, ...], list[dict[str, Any]]]:
    """What is asked, in its order and on its sides; and the rows of equal replies, of the same draw."""
    rows: list[dict[str, Any]] = source.examples().to_dict("records")  # type: ignore[assignment]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))[:limit]
    swapped = rng.random(len(rows)) < 0.5  # of each row, whatever the limit
    items, same = [], []
    for number in order:
        row, turned = rows[number], bool(swapped[number])
        first, second = str(row["reply_first"]), str(row["reply_second"])
        if first == second:
            same.append(row)
        else:
            sides = (second, first) if turned else (first, second)
            items.append(BallotItem(str(row["prompt"]), *sides, turned, row))
    if not items:
        raise RunError(
            f"both replies are the same to every prompt of {source.path.name}; there is nothing to vote on"
        )
    return tuple(items), same
