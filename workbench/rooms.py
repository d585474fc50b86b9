"""Packages whose public names are imported when first used, and packages that can be called.

A package that has the name of its main function is called as that function: ``workbench.trace(model, texts)``
runs :func:`workbench.trace.trace`, and ``from workbench.trace import Trace`` works beside it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["callable_room", "lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, str], rooms: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``, whose names are imported when first used.

    Args:
        package: its ``__name__``.
        homes: public name -> the module that defines it, as ``module`` or, under another name there, ``module:name``.
        rooms: modules of the package that are its attributes too, such as ``figures``.
    """

    def find(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, inside = homes[name].partition(":")
        value = getattr(import_module(module), inside or name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*sys.modules[package].__all__, *rooms})

    return find, names


def callable_room(package: str, function: Callable[..., Any]) -> None:
    """Let the imported ``package`` be called as ``function``; its signature is that of the function."""

    class CallableRoom(ModuleType):
        """A module that runs its main function when called."""

        __call__ = staticmethod(function)
        __signature__ = inspect.signature(function)

    sys.modules[package].__class__ = CallableRoom
