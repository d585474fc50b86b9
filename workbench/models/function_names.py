"""Functions by name on the command line: ``module:function``, as servers and test runners take them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench.errors import ModelError, did_you_mean
from workbench.models.functions import TextFunction, in_a_line, wrap_function

__all__ = ["import_named", "is_function_name", "load_function"]

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME = re.compile(f"({_DOTTED}):({_DOTTED})")


def is_function_name(name: str) -> bool:
    """Whether ``name`` reads ``module:function`` and is no file or folder."""
    return _NAME.fullmatch(name) is not None and not Path(name).exists()


def load_function(name: str) -> TextFunction:
    """Import ``module:function``, from the current folder first, which runs the module's code.

    Only for names that the user gives to a command: never for one that stands in a file, a link or a page. Raises
    :class:`~workbench.errors.ModelError` for a module that cannot be imported, and for what is no such function.
    """
    return wrap_function(import_named(name), name=name)


def import_named(name: str) -> Any:
    """What ``module:function`` names, imported as :func:`load_function` does.

    Raises :class:`~workbench.errors.ModelError` for another form of name, and for what cannot be imported.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ModelError(f"{name!r:.80} is no name of a function; write module:function")
    module = _imported(match[1])
    try:
        return reduce(getattr, match[2].split("."), module)
    except AttributeError:
        public = [word for word in vars(module) if not word.startswith("_")]
        raise ModelError(f"module {match[1]} has no {match[2]!r}; {did_you_mean(match[2], public)}") from None


def _imported(name: str) -> Any:
    try:
        with _current_folder():
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or f"{name}.".startswith(f"{error.name}."):
            known = [path.stem for path in Path.cwd().glob("*.py")]
            near = f"; {did_you_mean(name, known)}" if known else ""
            raise ModelError(f"no module {error.name or name!r} in this folder or installed{near}") from None
        raise ModelError(f"importing {name} raised {in_a_line(error)}") from error
    except (Exception, SystemExit) as error:  # the module is the user's: it can raise anything
        raise ModelError(f"importing {name} raised {in_a_line(error)}") from error


@contextmanager
def _current_folder() -> Iterator[None]:
    """The current folder first on the path, and last afterwards: what is imported later is not shadowed by it."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
