"""The forms that benchmark items have. ``id`` is the task's name and the position in its file.

Rows of equal ``cluster`` share a text and are not independent of one another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Blanked",
    "Choices",
    "Document",
    "Preference",
    "Question",
    "RatedReply",
    "SpanPair",
    "TaggedWords",
    "TextPair",
    "ToxicPrompt",
    "Transfer",
    "Turn",
]

Turn: TypeAlias = tuple[str, str]
"""A message of a dialogue: the role of who wrote it (user, assistant, system), and its text."""


@dataclass(frozen=True)
class TextPair:
    """A text or a pair of texts with a label number or a score; ``gold`` is ``None`` in unlabelled test sets."""

    id: str
    text: str
    pair: str | None
    gold: float | None
    index: str = ""  # the row's own number, which submissions name
    cluster: str | None = None
    group: str | None = None  # rows that are right together or not at all
    slice: str = ""  # a part that results are also given for


@dataclass(frozen=True)
class SpanPair:
    """Two spans, by characters, each in its text (which may be the same), and whether they belong together."""

    id: str
    first: str
    second: str
    first_span: tuple[int, int]
    second_span: tuple[int, int]
    gold: int | None
    index: str = ""
    cluster: str | None = None

    @property
    def words(self) -> tuple[str, str]:
        """The spans' texts."""
        (a, b), (c, d) = self.first_span, self.second_span
        return self.first[a:b], self.second[c:d]


@dataclass(frozen=True)
class Choices:
    """A question with choices of which those in ``gold`` are right.

    ``contexts``, where given, are alternative beginnings of which ``question`` is the common end.
    """

    id: str
    question: str
    choices: tuple[str, ...]
    gold: tuple[int, ...]
    contexts: tuple[str, ...] = ()
    cluster: str | None = None
    subject: str = ""


@dataclass(frozen=True)
class Blanked:
    """A passage and a query with a gap, the candidates that may fill it, and the right ones among them."""

    id: str
    passage: str
    before: str
    after: str
    candidates: tuple[str, ...]
    answers: tuple[str, ...]
    cluster: str | None = None


@dataclass(frozen=True)
class Question:
    """A question, its context (empty if it has none) and the answers that are right."""

    id: str
    context: str
    question: str
    answers: tuple[str, ...]
    title: str = ""
    cluster: str | None = None


@dataclass(frozen=True)
class Transfer:
    """A source text and what it should become: a translation, a summary."""

    id: str
    source: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class TaggedWords:
    """Words and their IOB tags."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    cluster: str | None = None


@dataclass(frozen=True)
class Document:
    """A long text; ``words`` and ``bytes`` are counted in the text as it was published."""

    id: str
    text: str
    words: int
    bytes: int


@dataclass(frozen=True)
class Preference:
    """Two continuations of a prompt, the first preferred; the text of a dialogue is the prompt and a reply.

    ``turns`` are the prompt's messages, where it is known to be a dialogue. ``margin`` is by how much the first one is
    better, in the unit of the scores that the pair was made of, and 1 where none are known.
    """

    id: str
    prompt: str
    chosen: str
    rejected: str
    cluster: str | None = None
    turns: tuple[Turn, ...] = field(default=(), repr=False)
    margin: float = 1.0


@dataclass(frozen=True)
class RatedReply:
    """A continuation of a prompt and its score: higher is better, for two labels 1 and 0."""

    id: str
    prompt: str
    response: str
    score: float
    cluster: str | None = None
    turns: tuple[Turn, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ToxicPrompt:
    """The beginning of a sentence, and how toxic its author's own text was rated (0 to 1)."""

    id: str
    text: str
    toxicity: float | None
    challenging: bool
