"""The settings in which stored runs differ: what besides the model may have made their numbers differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.runs import Run, reads_runs

__all__ = ["differences_text", "run_differences"]

# What names the model itself, or follows from it.
_MODEL = ("name", "content_hash", "parameters", "tokens_seen")
_MISSING = "not stored"
_WIDEST = 40  # characters of a value


@reads_runs
def run_differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Setting -> its value in each run, of all settings that are not the same in every run.

    Settings are the whole recipe (options, limit, convention, ...), the model's precision, revision, implementation and
    token policy, the seeds, the hashes of the data, the device, and the versions of the packages.
    """
    stored = [dict(_settings(run)) for run in runs]
    names = dict.fromkeys(name for settings in stored for name in settings)
    values = {name: [settings.get(name, _MISSING) for settings in stored] for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def differences_text(differences: Mapping[str, Sequence[Any]]) -> list[str]:
    """One line a setting, with the runs' values in their order; or that there is none."""
    if not differences:
        return ["the runs have the same settings"]
    found = (f"{name} " + " | ".join(_shown(v) for v in values) for name, values in differences.items())
    return ["settings that differ:", *found]


def _settings(run: Run) -> Iterator[tuple[str, Any]]:
    record = run.record
    model = {key: value for key, value in record.model.items() if key not in _MODEL}
    yield "verb", record.verb
    for prefix, part in (
        ("", record.recipe),
        ("model", model),
        ("seed", record.seeds),
        ("data", record.data),
        ("device", record.device),
        ("package", record.packages),
    ):
        yield from _flat(prefix, part)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = f"{prefix} {key}".strip()
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, value


def _shown(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "none" if value in (None, "", []) else text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
