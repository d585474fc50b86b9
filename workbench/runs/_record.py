"""The recipe of a run: what ``run.json`` holds."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from workbench.errors import RunError
from workbench.runs._environment import describe_environment
from workbench.runs._files import plain

__all__ = ["SCHEMA_VERSION", "RunRecord", "new_run_id"]

SCHEMA_VERSION = 1


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

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``run.json``."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "run.json") -> RunRecord:
        """The inverse of :meth:`to_dict`; raises :class:`~workbench.errors.RunError` for another schema."""
        version = values.get("schema_version")
        if version != SCHEMA_VERSION:
            raise RunError(
                f"{where} has schema version {version!r}, this workbench reads {SCHEMA_VERSION}; "
                "use the workbench version that wrote it, or run again"
            )
        missing = [f.name for f in fields(cls) if f.name not in values]
        if missing:
            raise RunError(f"{where} lacks {', '.join(missing)}; it was not written by this workbench")
        wrong = [name for name in _OBJECTS if not isinstance(values[name], dict)]
        if wrong:
            raise RunError(f"{where}: {wrong[0]} must be an object, is {values[wrong[0]]!r:.60}")
        return cls(**{f.name: values[f.name] for f in fields(cls)})


_OBJECTS = ("recipe", "model", "data", "packages", "seeds", "device")


def new_run_id(label: str) -> str:
    """Local date and time, then ``label`` with all but letters, digits and ``._-`` replaced, four hex."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:80].rstrip("-.")
    return "-".join(filter(None, [f"{datetime.now():%Y%m%d-%H%M%S}", slug, secrets.token_hex(2)]))
