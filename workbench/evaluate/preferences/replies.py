"""Prompts, and what several models reply to them: decoded in batches, the same for every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.data import DataIdentity, content_hash
from workbench.data.tables import Rows, is_table, read_table, records_of, table_name
from workbench.errors import ConfigError, DataError
from workbench.models import Kind, LoadedModel
from workbench.records import check_fields
from workbench.scoring import GenerationRequest, collect, continuation, generate_texts

__all__ = ["Prompt", "PromptData", "Reply", "ReplySettings", "read_prompts", "reply_all"]

_PROMPTS = ("prompt", "instruction", "question", "text")


@dataclass(frozen=True)
class Prompt:
    """A text to reply to; ``id`` names it in results."""

    id: str
    text: str


@dataclass(frozen=True)
class Reply:
    """What a model wrote; ``finished`` is false where only the limit of tokens ended it."""

    text: str
    tokens: int
    finished: bool


@dataclass(frozen=True)
class PromptData:
    """Prompts, each once, and which data they are of."""

    prompts: tuple[Prompt, ...]
    identity: DataIdentity


@dataclass(frozen=True, kw_only=True)
class ReplySettings:
    """How replies are decoded, the same for every model; stored with the run.

    ``temperature`` 0 is greedy; above it tokens are sampled, of the likeliest that have ``top_p`` of the probability
    together (Holtzman et al. 2020). A reply ends before one of ``stop``, at the end of text, or after ``max_tokens``.
    ``limit`` takes the first prompts. Raises :class:`~workbench.errors.ConfigError` for a value out of range.
    """

    max_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        ranges = {
            "max_tokens": (self.max_tokens >= 1, "1 or more"),
            "temperature": (self.temperature >= 0, "0 or more"),
            "top_p": (0 < self.top_p <= 1, "above 0 to 1"),
            "stop": (all(self.stop), "texts of one character or more"),
        }
        for name, (fits, allowed) in ranges.items():
            if not fits:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: {allowed}")


def read_prompts(
    source: str | Path | Rows | Sequence[str], data_dir: Path | None = None, *, limit: int | None = None
) -> PromptData:
    """The first ``limit`` prompts, each once, of a table, a set of preferences, or texts and rows in memory.

    A table has a column ``prompt`` (or instruction, question, text); sets of preferences are named as in
    :func:`~workbench.data.preferences.read_preferences`, and tables of preferences need no prompt where the replies are
    whole dialogues. Raises :class:`~workbench.errors.DataError` for anything else, and where there is no prompt.

    Example:
        ```python
        from workbench.evaluate.preferences import read_prompts

        print(read_prompts(["Two and two?", "The capital of France?"]).prompts[1].text)
        ```
    """
    name, place, texts = _texts(source, data_dir)
    kept = list(dict.fromkeys(texts))[:limit]
    if not kept:
        raise DataError(f"{place} has no prompts; give a table with a column prompt, or a set of preferences")
    prompts = tuple(Prompt(f"{name}-{number:05d}", text) for number, text in enumerate(kept))
    return PromptData(prompts, DataIdentity(name, place, content_hash(kept), len(kept)))


def _texts(source: str | Path | Rows | Sequence[str], data_dir: Path | None) -> tuple[str, str, list[str]]:
    """What the data are called, where they are, and the texts."""
    if isinstance(source, str | Path):
        return _of_place(source, data_dir)
    listed = list(source) if not hasattr(source, "columns") else source
    if isinstance(listed, list) and all(isinstance(text, str) for text in listed):
        return "prompts", "prompts", [_checked(text, f"prompt {n}") for n, text in enumerate(listed, 1)]
    rows = records_of(listed, "prompts")  # type: ignore[arg-type]
    return "prompts", "prompts", [_of_row(row, f"prompts, row {n}") for n, row in enumerate(rows, 1)]


def _of_place(source: str | Path, data_dir: Path | None) -> tuple[str, str, list[str]]:
    from workbench.data.preferences import read_preferences

    place = str(source)
    if is_table(place):
        rows = list(read_table(place))
        if rows and not ({"chosen", "rejected"} <= set(rows[0][1]) and not set(_PROMPTS) & set(rows[0][1])):
            return table_name(place), place, [_of_row(row, where) for where, row in rows]
    found = read_preferences(source, data_dir)
    return found.name, found.identity.source, [pair.prompt for pair in found.pairs]


def _of_row(row: Mapping[str, object], where: str) -> str:
    column = next((name for name in _PROMPTS if name in row), None)
    if column is None:
        raise DataError(f"{where}: no column prompt (or {', '.join(_PROMPTS[1:])}); it has {', '.join(row)}")
    return _checked(row[column], where)


def _checked(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: the prompt is {value!r:.60}; a prompt is a text that is not empty")
    return value


def reply_all(
    model: LoadedModel, prompts: Sequence[str], settings: ReplySettings, *, seed: int, progress: bool = False
) -> list[Reply]:
    """The model's reply to each prompt; a sample depends on ``seed`` and on what else is in the list.

    A decoder's reply goes on from its prompt, also with the blank between both.
    """
    asked = [
        GenerationRequest(
            text, settings.stop, settings.max_tokens, settings.temperature, settings.top_p, number
        )
        for number, text in enumerate(prompts)
    ]
    written = collect(generate_texts(model, asked, seed=seed, progress=progress), len(asked))
    goes_on = model.kind is Kind.CAUSAL
    return [
        Reply(continuation(model, prompt, one) if goes_on else one.text, one.tokens, one.finished)
        for prompt, one in zip(prompts, written, strict=True)
    ]
