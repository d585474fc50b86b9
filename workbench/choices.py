"""Options that are one of a few names: a string and the enum member act the same everywhere, others are refused."""

from __future__ import annotations

from collections.abc import Hashable
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from workbench.errors import ConfigError, WorkbenchError

__all__ = ["DEFAULT_DTYPE", "as_members", "member"]

DEFAULT_DTYPE = "float32"
"""The precision in which every command, page and function loads a model unless told otherwise."""

Choice = TypeVar("Choice", bound=StrEnum)


def member(enum: type[Choice], name: str, what: str, error: type[WorkbenchError] = ConfigError) -> Choice:
    """The member of ``enum`` that ``name`` is or names; else ``error``, in one line with what is allowed."""
    try:
        return enum(name)
    except ValueError:
        allowed = [choice.value for choice in enum]
        near = get_close_matches(str(name), allowed, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise error(f"unknown {what} {name!r}; {hint}allowed: {', '.join(allowed)}") from None


def as_members(record: Any) -> None:
    """In ``__post_init__`` of a frozen dataclass: each string in a field of an enum's type becomes the member.

    Raises :class:`~workbench.errors.ConfigError` for any other value.
    """
    for name, enum in _enums(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if value is not None:
            object.__setattr__(record, name, member(enum, value, name))


@cache
def _enums(record: Hashable) -> list[tuple[str, type[StrEnum]]]:
    """Fields of a dataclass that are an enum's members, or may also be ``None`` or a string."""
    hints = get_type_hints(record)
    return [
        (name, part)
        for name, hint in hints.items()
        for part in (get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,))
        if isinstance(part, type) and issubclass(part, StrEnum)
    ]
