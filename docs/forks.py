"""Commands and programs, each run in a fork of this process, which has imported what they need (seconds each)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from typing import NoReturn

LIMIT = 300  # seconds of one
# what verbs and examples import as they run
_MODULES = (
    *("sklearn.linear_model", "scipy.stats", "pyarrow.parquet", "matplotlib.figure", "statsmodels.stats.api"),
    *("transformers.models.llama.modeling_llama", "transformers.generation", "captum.attr", "tokenizers"),
    *("accelerate", "datasets", "peft", "workbench.models.auto", "workbench.cli._shared"),
)


def run(words: list[str], place: Path) -> CompletedProcess[str]:
    """How ``workbench …`` or ``python -c CODE`` ends in ``place``, and what it prints."""
    _import()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(place)
            _run(words)
        _, ended = os.waitpid(child, 0)
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read().decode("utf-8", errors="replace"))
    return CompletedProcess(words, os.waitstatus_to_exitcode(ended), *printed)


@cache
def _import() -> None:
    import workbench
    from workbench.errors import WorkbenchError

    for name in workbench.__all__:
        with contextlib.suppress(ImportError, WorkbenchError):  # what an extra would bring
            getattr(workbench, name)
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            import_module(name)


def _run(words: list[str]) -> NoReturn:
    from workbench.cli import main

    signal.alarm(LIMIT)
    sys.argv, status = words, 1
    try:
        if words[0] == "workbench":
            main(words[1:])
        else:
            sys.path.insert(0, str(Path.cwd()))  # as ``python -c`` does
            exec(compile(words[-1], "example.py", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # what a process of its own would print
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
