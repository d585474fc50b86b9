"""Values of settings records, checked against the types that their fields declare."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from workbench.characters import lone_surrogate
from workbench.choices import as_members
from workbench.errors import ConfigError, did_you_mean

__all__ = ["LARGEST_SEED", "check_fields", "check_value", "settings_of", "takes_fields_of"]

Settings = TypeVar("Settings")
Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST_SEED = 2**32 - 1
"""The largest seed that NumPy's, PyTorch's and scikit-learn's generators all take; the smallest is 0."""

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_LARGEST_WHOLE = 2**63 - 1


def check_fields(record: Any, where: str = "") -> None:
    """Check a dataclass instance, for its ``__post_init__``: recipes, grids and callers may give any value.

    Numbers must be finite, seeds (of fields ``seed`` and ``seeds``) from 0 to :data:`LARGEST_SEED`,
    limits 1 or more, texts without lone surrogates; names of an enum become its members. Raises
    :class:`~workbench.errors.ConfigError` naming ``where`` and the field, the value, and what is allowed.
    """
    hints = get_type_hints(type(record))
    for field in fields(record):
        value, name = getattr(record, field.name), f"{where}{field.name}"
        check_value(name, value, hints[field.name])
        if field.name in ("seed", "seeds"):
            _check_seeds(name, value)
        if field.name.startswith("limit") and value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; allowed: 1 or more, or leave it out for all")
    as_members(record)


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise :class:`~workbench.errors.ConfigError` unless ``value`` is of type ``hint``, as in :func:`check_fields`."""
    if not _fits(value, hint):
        raise ConfigError(f"{name} is {value!r:.60}; allowed: {_words(hint)}")


def _check_seeds(name: str, value: Any) -> None:
    for seed in value if isinstance(value, tuple) else (value,):
        if seed is not None and not 0 <= seed <= LARGEST_SEED:
            raise ConfigError(f"{name} is {seed}; allowed: from 0 to {LARGEST_SEED}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(part, inner[0]) for part in value)
    if origin is Mapping or hint is Mapping:
        return isinstance(value, Mapping)
    if hint is type(None):
        return value is None
    if isinstance(hint, type) and issubclass(hint, Enum):
        return isinstance(value, str)  # as_members says which ones
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_WHOLE
    if hint is str:
        return isinstance(value, str) and lone_surrogate(value) is None and "\0" not in value
    return not isinstance(hint, type) or hint is object or isinstance(value, hint)


def _words(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(option) for option in inner if option is not type(None))
    if origin is tuple:
        return f"a list, each {_words(inner[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(str(member) for member in hint)
    if hint is Path:
        return "a path"
    return _WORDS.get(hint, "a mapping" if origin is Mapping else getattr(hint, "__name__", str(hint)))


def settings_of(kind: type[Settings], settings: Settings | None, options: Mapping[str, Any]) -> Settings:
    """``settings``, or a ``kind`` of the keywords ``options``: lists as tuples, paths as text.

    Raises :class:`~workbench.errors.ConfigError` for both at once, or for a keyword that ``kind`` has no field for.
    """
    if settings is not None:
        if options:
            raise ConfigError(f"settings and {', '.join(options)} are both given; name all in one of them")
        return settings
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise ConfigError(f"unknown option {name!r}; {did_you_mean(name, known)}")
    return kind(**{name: _plain(value) for name, value in options.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return str(value) if isinstance(value, Path) else value


def takes_fields_of(kind: type) -> Callable[[Function], Function]:
    """For a function with ``**options``: its signature names the fields of ``kind`` that they are."""

    def named(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        further = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=field.type,
            )
            for field in fields(kind)
            if field.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *further])  # type: ignore[attr-defined]
        return function

    return named
