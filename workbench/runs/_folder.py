"""The writing side of a run folder: create or resume, append as results come, finish."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from workbench.errors import RunError
from workbench.estimate import Estimate
from workbench.runs import _chunks
from workbench.runs._chunks import RunLock
from workbench.runs._files import (
    TEMPORARY,
    check_run_id,
    default_root,
    digest,
    make_folder,
    plain,
    read_checked,
    reason,
    remove_file,
    write_atomically,
    write_json,
)
from workbench.runs._record import ARRAYS, EXAMPLES, SCHEMA_VERSION, RunRecord

__all__ = ["RunFolder", "same_work"]

SECONDS_PER_CHUNK = 2.0  # finished examples are stored at least this often

_CHUNKS = "chunks"
# What makes two runs of one recipe give different numbers; names and paths may differ between machines.
_IDENTITY = ("content_hash", "sha256", "dtype")


class RunFolder:
    """A run being written. Every file appears whole or not at all, so the process may be killed anywhere."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record
        self._finished: set[str] | None = None
        self._lock: RunLock | None = None

    @classmethod
    def begin(
        cls, record: RunRecord, *, out: Path | str | None, resume: Path | str | None, shared: bool = False
    ) -> RunFolder:
        """A new run under ``out`` (default: ``runs/``), or the one in ``resume``, if it is of the same work.

        Raises :class:`~workbench.errors.RunError` as :meth:`create` and :meth:`resume` do.
        """
        if resume is None:
            return cls.create(Path(out or default_root()), record)
        return cls.resume(Path(resume), record.recipe, model=record.model, data=record.data, shared=shared)

    @classmethod
    def create(cls, root: Path, record: RunRecord) -> RunFolder:
        """Make the folder ``root / record.id``; raises :class:`~workbench.errors.RunError` if it cannot."""
        path = Path(root) / check_run_id(record.id)
        staging = path.with_name(f".{path.name}.{uuid4().hex[:8]}{TEMPORARY}")
        try:
            (staging / _CHUNKS).mkdir(parents=True)
            write_json(staging / "run.json", record.to_dict())
            if path.exists():
                raise RunError(f"{path} exists already; resume it with --resume {path}")
            staging.rename(path)
        except OSError as error:
            raise RunError(f"cannot make the run folder {path}: {reason(error)}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        folder = cls(path, record)
        folder.hold()
        return folder

    @classmethod
    def resume(
        cls,
        path: Path,
        recipe: Mapping[str, Any],
        *,
        model: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        shared: bool = False,
    ) -> RunFolder:
        """Go on with a run: the recipe must be equal, model and data must have equal hashes and dtype.

        A finished run is returned as it is (``complete`` is true). ``shared`` is for the further processes of
        one evaluation, the first of which holds the run's lock. Raises
        :class:`~workbench.errors.RunError` naming the first field that differs, or the process that is writing
        the run.
        """
        folder = cls(Path(path), same_work(path, recipe, model=model, data=data))
        if not shared:
            folder.hold()
            folder._tidy()
        return folder

    def _tidy(self) -> None:
        """Remove what a killed process left half-written, or had not come to remove."""
        for part in self.path.glob(f"**/.*{TEMPORARY}"):
            remove_file(part)
        if self.complete:
            shutil.rmtree(self.path / _CHUNKS, ignore_errors=True)
            self.release()
        else:
            make_folder(self.path / _CHUNKS)
            _chunks.discard_broken_chunks(self.path / _CHUNKS)

    def hold(self) -> None:
        """Keep other processes from writing this run, until it is finished or this process ends.

        Raises :class:`~workbench.errors.RunError` naming the process that is writing it.
        """
        self._lock = RunLock.take(self.path)

    def remove(self) -> None:
        """Remove a run and all that is in its folder; raises :class:`~workbench.errors.RunError` as :meth:`hold`."""
        self.hold()
        shutil.rmtree(self.path)
        self.release()

    def release(self) -> None:
        """Let other processes have a run that is finished."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def complete(self) -> bool:
        """Whether the results have been written."""
        return (self.path / "results.json").is_file()

    def finished_ids(self) -> set[str]:
        """Ids of the examples that are stored (lone surrogates in an id are escaped, as in the file)."""
        if self._finished is None:
            merged = self.path / EXAMPLES
            done = self.complete and merged.is_file()
            self._finished = (
                set(_chunks.read_table(merged).column("id").to_pylist())
                if done
                else _chunks.read_ids(self.path / _CHUNKS)
            )
        return set(self._finished)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store finished examples, each with a unique ``id``; durable when this returns."""
        if self.complete:
            raise RunError(f"{self.path} is finished; start a new run to add examples")
        if rows:
            known = self.finished_ids()
            ids = _chunks.write_chunk(self.path / _CHUNKS, len(known), [dict(row) for row in rows])
            self._finished = known | set(ids)

    def append_all(self, batches: Iterable[Sequence[Mapping[str, Any]]]) -> float:
        """Store the examples of all ``batches`` as they come, but those that are stored; returns the seconds taken.

        A process that is killed loses the examples of the last :data:`SECONDS_PER_CHUNK` seconds at most.
        """
        finished = self.finished_ids()
        started = stored_at = time.perf_counter()
        rows: list[Mapping[str, Any]] = []
        for batch in batches:
            rows += [row for row in batch if row["id"] not in finished]
            if time.perf_counter() - stored_at > SECONDS_PER_CHUNK:
                self.append(rows)
                rows, stored_at = [], time.perf_counter()
        self.append(rows)
        return time.perf_counter() - started

    def examine(self, check: Callable[[], Mapping[str, Any]] | None) -> None:
        """Store the verdict of the numeric self-check ``check``, unless one is stored; ``None`` skips it."""
        if check is None:
            self.set_doctor({"verdict": "skipped", "checks": []})
        elif self.record.doctor is None:
            self.set_doctor(check())

    def set_doctor(self, verdict: Mapping[str, Any]) -> None:
        """Store the numeric self-check's verdict in ``run.json``."""
        self.record = replace(self.record, doctor=plain(dict(verdict)))
        write_json(self.path / "run.json", self.record.to_dict())

    def rows(self) -> list[dict[str, Any]]:
        """All examples stored so far, in item order, as plain dictionaries."""
        return _chunks.merge(self.path / _CHUNKS).to_pylist()

    def save_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Store named NumPy arrays in ``arrays.safetensors``."""
        from safetensors.numpy import save

        write_atomically(self.path / ARRAYS, save(dict(arrays)))

    def save_figure(self, name: str, content: bytes) -> Path:
        """Store a drawn figure as ``figures/name`` (``name`` with its ending, ``length.svg``)."""
        make_folder(self.path / "figures")
        target = self.path / "figures" / check_run_id(name)
        write_atomically(target, content)
        return target

    def finish(
        self,
        results: Mapping[str, Mapping[str, Estimate]],
        throughput: Mapping[str, Any],
        notes: Mapping[str, Any] | None = None,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        """Merge the examples, write the results, and mark the run complete.

        ``order`` gives the ids in item order; without it ids are sorted, numbers inside them as numbers.
        Calling it on a complete run changes nothing.
        """
        if self.complete:
            return
        chunks = self.path / _CHUNKS
        write_atomically(self.path / EXAMPLES, _chunks.merged_bytes(chunks, order))
        present = [name for name in (EXAMPLES, ARRAYS) if (self.path / name).is_file()]
        content = {
            "schema_version": SCHEMA_VERSION,
            "results": {t: {m: e.to_dict() for m, e in metrics.items()} for t, metrics in results.items()},
            "throughput": dict(throughput),
            "notes": dict(notes or {}),
            "files": {name: digest(read_checked(self.path / name)) for name in present},
            "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        write_json(self.path / "results.json", content)  # last: from here on the run is complete
        shutil.rmtree(chunks, ignore_errors=True)
        self.release()


def same_work(
    path: Path,
    recipe: Mapping[str, Any],
    *,
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> RunRecord:
    """The record of the run in ``path`` if it is of this recipe, model and data.

    Raises :class:`~workbench.errors.RunError` naming the first field that differs.
    """
    record = RunRecord.read(Path(path))
    stored = {k: v for k, v in record.recipe_in_force.items() if k in recipe or k in record.recipe}
    _refuse_difference("recipe", stored, plain(dict(recipe)), path)
    if model is not None:
        _refuse_difference("model", _model_identity(record.model), _model_identity(plain(dict(model))), path)
    if data is not None:
        _refuse_difference("data", _identity(record.data), _identity(plain(dict(data))), path)
    return record


def _model_identity(values: dict[str, Any]) -> Any:
    """What identifies the model's content; of a function that has no hash, its name and labels."""
    return _identity(values) or {name: values.get(name) for name in ("name", "labels")}


def _identity(values: Any) -> Any:
    """Only the fields that identify content, at any depth."""
    if not isinstance(values, dict):
        return None
    kept = {k: v if k in _IDENTITY else _identity(v) for k, v in values.items()}
    return {k: v for k, v in kept.items() if v not in (None, {})}


def _refuse_difference(name: str, stored: Any, given: Any, path: Path) -> None:
    if stored == given:
        return
    if isinstance(stored, dict) and isinstance(given, dict):
        for key in dict.fromkeys([*stored, *given]):
            _refuse_difference(f"{name}.{key}", stored.get(key), given.get(key), path)
    raise RunError(
        f"cannot resume {path}: {name} was {stored!r:.80} and is now {given!r:.80}; "
        "use the same settings, or start a new run without --resume"
    )
