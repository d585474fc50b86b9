"""The one way to the terminal: what is printed is made harmless first."""

from __future__ import annotations

import json
import logging
import math
import sys
from typing import Any

from workbench.characters import neutral

__all__ = ["LOGGER", "counted", "say", "say_json", "shows_progress", "with_article"]

LOGGER = logging.getLogger("workbench")  # its level is what --quiet and --verbose set


def counted(number: int, noun: str) -> str:
    """The number with its noun, which is plural unless the number is 1: "1 text", "2,000 texts", "0 classes"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def with_article(noun: str) -> str:
    """The noun with "a" or, before a vowel, "an"."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def shows_progress() -> bool:
    """Whether bars are drawn: on a terminal, unless ``--quiet``."""
    return sys.stderr.isatty() and LOGGER.getEffectiveLevel() < logging.ERROR


def say(text: object = "", *, error: bool = False, end: str = "\n") -> None:
    r"""Print ``text`` to standard output (``error``: standard error); only line breaks keep their effect.

    Names, texts and messages may come from files of strangers: control characters, overrides of direction and the
    like are written as ``\uXXXX``, as is what the terminal's encoding lacks.
    """
    stream = sys.stderr if error else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    harmless = neutral(str(text), keep="\n").encode(encoding, "backslashreplace").decode(encoding)
    print(harmless, file=stream, end=end, flush=True)


def say_json(value: Any, indent: int | None = None, **how: Any) -> None:
    """Print ``value`` as JSON; ``how`` goes to :func:`json.dumps`. The escapes of :func:`say` are JSON's own.

    JSON has no NaN and no infinity: numbers that are not finite become ``null``.
    """
    say(json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False, **how))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
