"""The file that says how each task is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError, did_you_mean
from workbench.training.finetuning import FineSettings, Method
from workbench.yaml_reader import parse, read_values

__all__ = ["Recipe", "read_recipe"]

_KNOWN = tuple(field.name for field in fields(FineSettings) if field.name != "seeds")


@dataclass(frozen=True)
class Recipe:
    """Settings for all tasks, and those of single ones that differ."""

    name: str
    default: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]

    def settings(self, task: str, seed: int) -> FineSettings:
        """How ``task`` is trained with ``seed``."""
        values = {**self.default, **self.tasks.get(task, {})}
        return FineSettings(**{**values, "method": Method(values.get("method", "full")), "seeds": (seed,)})


def read_recipe(path: Path | None = None) -> Recipe:
    """A recipe from YAML; the package's own without a path. Raises :class:`~workbench.errors.ConfigError`."""
    if path is None:
        text = (resources.files("workbench.evaluate") / "recipes" / "glue.yaml").read_text(encoding="utf-8")
        content, name = parse(text, "glue.yaml"), "glue.yaml"
    else:
        content, name = read_values(Path(path)), str(path)
    if not isinstance(content, dict) or content.get("version") != 1:
        raise ConfigError(f"{name} must start with 'version: 1' and hold 'default' and 'tasks'")
    default, tasks = _mapping(content, "default", name), _mapping(content, "tasks", name)
    for where, values in (("default", default), *tasks.items()):
        _check(values, f"{name}, {where}")
    return Recipe(name, default, tasks)


def _mapping(content: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {key} is {value!r:.40}; allowed: names with values")
    return value


def _check(values: Any, where: str) -> None:
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is {values!r:.40}; allowed: settings such as {{epochs: 3}}")
    for key in values:
        if key not in _KNOWN:
            raise ConfigError(f"{where}: unknown setting {key!r}; {did_you_mean(str(key), list(_KNOWN))}")
    try:
        FineSettings(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
