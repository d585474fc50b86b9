"""The recipe of a run: what ``run.json`` holds."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.runs._environment import describe_environment
from workbench.runs._files import plain, read_verified

__all__ = ["ARRAYS", "EXAMPLES", "SCHEMA_VERSION", "RunRecord", "new_run_id"]

SCHEMA_VERSION = 1
# Settings that a verb has got since runs of it were first stored, with what was in force before.
_PROMPT = {"system": None, "special_tokens": "parse"}
_BEFORE: dict[str, dict[str, Any]] = {
    "evaluate": {
        **_PROMPT,
        "boundary": "joint",
        "keep_bos": False,
        "limit_per_paradigm": None,
        "convention": "workbench",
        "reduction": "sum",
        "masking": "original",
    },
    "check": {"chat": False, **_PROMPT},
    "probe": {"chat": False, **_PROMPT},
    "context": {"chat": False, **_PROMPT},
    "attribute": {"chat": False, **_PROMPT},
    "attend": {"importance": False, "clusters": None, "chat": False, **_PROMPT},
    "finetune": {"schedule": "linear", "label_smoothing": 0.0, "gradient_checkpointing": False},
}
EXAMPLES, ARRAYS = "examples.parquet", "arrays.safetensors"  # files of a run beside its JSON


@dataclass(frozen=True)
class RunRecord:
    """Everything needed to run again and to say where a number came from.

    ``recipe`` is the verb's arguments after defaults were filled in; ``model`` and ``data`` hold names and
    content hashes; ``created`` is local time, ISO 8601 with offset; ``doctor`` is the numeric self-check's
    ``{"verdict": ..., "checks": [...]}`` or ``None`` before it ran.
    """

    schema_version: int
    id: str
    verb: str
    recipe: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    git_revision: str | None
    packages: dict[str, str]
    seeds: dict[str, Any]
    device: dict[str, Any]
    created: str
    doctor: dict[str, Any] | None = None

    @classmethod
    def new(
        cls,
        verb: str,
        *,
        recipe: Mapping[str, Any],
        model: Mapping[str, Any],
        data: Mapping[str, Any],
        seeds: Mapping[str, Any],
        device: str = "cpu",
        label: str = "",
    ) -> RunRecord:
        """A record of a run that starts now in this process; ``label`` names model and task in the id."""
        return cls(
            schema_version=SCHEMA_VERSION,
            id=new_run_id(label or verb),
            verb=verb,
            recipe=plain(dict(recipe)),
            model=plain(dict(model)),
            data=plain(dict(data)),
            seeds=plain(dict(seeds)),
            created=datetime.now().astimezone().isoformat(timespec="seconds"),
            **describe_environment(device),
        )

    @property
    def recipe_in_force(self) -> dict[str, Any]:
        """The recipe, with what was in force of settings that are younger than the run."""
        return {**_BEFORE.get(self.verb, {}), **self.recipe}

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``run.json``."""
        return asdict(self)

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The record in ``folder``; see :meth:`read_verified`."""
        return cls.read_verified(folder)[0]

    @classmethod
    def read_verified(cls, folder: Path) -> tuple[RunRecord, bool]:
        """The record in ``folder``, and whether its checksum says that it is as it was written.

        Raises :class:`~workbench.errors.RunError` if it is damaged or of another schema.
        """
        path = folder / "run.json"
        values, verified = read_verified(path, SCHEMA_VERSION)
        return cls.from_dict(values, where=str(path)), verified

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "run.json") -> RunRecord:
        """The inverse of :meth:`to_dict`; raises :class:`~workbench.errors.RunError` naming the first wrong field."""
        missing = [f.name for f in fields(cls) if f.name not in values]
        if missing:
            raise RunError(f"{where} lacks {', '.join(missing)}; it was not written by this workbench")
        for name, (kinds, allowed) in _SHAPES.items():
            if not isinstance(values[name], kinds):
                raise RunError(f"{where}: {name} must be {allowed}, is {values[name]!r:.60}")
        named = values["model"].get("name", "")
        if not isinstance(named, str):
            raise RunError(f"{where}: the model's name must be text, is {named!r:.60}")
        checks = (values["doctor"] or {}).get("checks", [])
        if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
            raise RunError(f"{where}: the doctor's checks must be a list of objects, are {checks!r:.60}")
        return cls(**{f.name: values[f.name] for f in fields(cls)})


_TEXT, _OBJECT = (str, "text"), (dict, "an object")
_SHAPES: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("id", "verb", "created"), _TEXT),
    **dict.fromkeys(("recipe", "model", "data", "packages", "seeds", "device"), _OBJECT),
    "git_revision": ((str, type(None)), "text or null"),
    "doctor": ((dict, type(None)), "an object or null"),
}


def new_run_id(label: str) -> str:
    """Local date and time, then ``label`` with all but letters, digits and ``._-`` replaced, four hex."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:80].rstrip("-.")
    return "-".join(filter(None, [f"{datetime.now():%Y%m%d-%H%M%S}", slug, secrets.token_hex(2)]))
