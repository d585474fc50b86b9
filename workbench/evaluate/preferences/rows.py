"""Rows of a comparison: replies of every model to every prompt, made or read again, and who is preferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from workbench.errors import RunError
from workbench.evaluate.preferences.choosers import Chooser
from workbench.evaluate.preferences.replies import Prompt, Reply, ReplySettings, reply_all
from workbench.models import LoadedModel
from workbench.runs import Run, reads_runs

__all__ = ["Replies", "generated", "rows_of", "stored_replies"]

CHUNK = 32  # prompts replied to, and stored, together

Replies: TypeAlias = "dict[str, list[Reply]]"
"""Model -> its reply to each prompt."""


def generated(
    models: Mapping[str, LoadedModel],
    prompts: Sequence[Prompt],
    settings: ReplySettings,
    finished: set[str],
    progress: bool,
) -> Iterator[tuple[Sequence[Prompt], Replies]]:
    """Replies to so many prompts at a time, whatever is stored, so that a resumed run samples the same texts."""
    for start in range(0, len(prompts), CHUNK):
        part = prompts[start : start + CHUNK]
        pairs = len(list(combinations(models, 2)))
        if {_id(prompt, number) for prompt in part for number in range(pairs)} <= finished:
            continue
        texts = [prompt.text for prompt in part]
        seed = settings.seed + start
        yield (
            part,
            {
                name: reply_all(model, texts, settings, seed=seed, progress=progress)
                for name, model in models.items()
            },
        )


def _id(prompt: Prompt, pair: int) -> str:
    return f"{prompt.id}/{pair}"


def rows_of(prompts: Sequence[Prompt], replies: Replies, chooser: Chooser | None) -> list[dict[str, Any]]:
    """A row for each prompt and every two models, with scores where somebody chooses."""
    texts = {name: [one.text for one in found] for name, found in replies.items()}
    scores = {} if chooser is None else chooser([prompt.text for prompt in prompts], texts)
    rows = []
    for number, prompt in enumerate(prompts):
        for pair, (first, second) in enumerate(combinations(replies, 2)):
            row: dict[str, Any] = {
                "id": _id(prompt, pair),
                "prompt": prompt.text,
                "first": first,
                "second": second,
            }
            for side, model in (("first", first), ("second", second)):
                one = replies[model][number]
                row |= {
                    f"reply_{side}": one.text,
                    f"tokens_{side}": one.tokens,
                    f"finished_{side}": one.finished,
                }
            if scores:
                a, b = scores[first, second][number]
                same = replies[first][number].text == replies[second][number].text
                row |= _preferred(first, second, a, a if same else b)  # whatever other texts of a batch round
            rows.append(row)
    return rows


def _preferred(first: str, second: str, a: float, b: float) -> dict[str, Any]:
    winner = "tie" if a == b else first if a > b else second
    score = 0.5 if a == b else float(a > b)
    return {"score_first": a, "score_second": b, "preferred": winner, "score": score}


@reads_runs
def stored_replies(run: Run, names: tuple[str, ...]) -> tuple[list[Prompt], Replies]:
    """The prompts of a run and each model's replies to them; raises :class:`~workbench.errors.RunError` without any."""
    examples = run.examples()
    if "tokens_first" not in examples:
        raise RunError(f"{run.path.name} holds no replies; make them: workbench compare A B --preferences")
    known = list(dict.fromkeys([*examples["first"], *examples["second"]]))
    missing = [name for name in names if name not in known]
    if missing:
        raise RunError(f"{run.path.name} has no replies of {missing[0]}; it has those of {', '.join(known)}")
    prompts = list(dict.fromkeys(examples["prompt"]))
    found: dict[str, dict[str, Reply]] = {name: {} for name in names}
    for row in examples.to_dict("records"):
        for side in ("first", "second"):
            if row[side] in found:
                cells = (row[f"{part}_{side}"] for part in ("reply", "tokens", "finished"))
                found[row[side]][row["prompt"]] = Reply(*cells)
    ids = dict(zip(examples["prompt"], examples["id"].str.rsplit("/", n=1).str[0], strict=True))
    return (
        [Prompt(ids[text], text) for text in prompts],
        {name: [of_model[text] for text in prompts] for name, of_model in found.items()},
    )
