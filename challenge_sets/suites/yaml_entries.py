"""YAML that remembers its lines, so that an error names file, line and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from workbench.errors import ConfigError, did_you_mean
from workbench.yaml_reader import read_nodes

__all__ = ["Entry", "read_yaml"]


@dataclass(frozen=True)
class Entry:
    """A value in a YAML file and where it stands."""

    node: yaml.Node
    file: str

    @property
    def where(self) -> str:
        """File and line (from 1)."""
        return f"{self.file}, line {self.node.start_mark.line + 1}"

    def fail(self, problem: str) -> ConfigError:
        """An error at this place."""
        return ConfigError(f"{self.where}: {problem}")

    def mapping(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Entry]:
        """Entries by key; raises :class:`~workbench.errors.ConfigError` for a wrong, repeated or missing key."""
        allowed = [*required, *optional]
        found: dict[str, Entry] = {}
        for key, value in self.items():
            if key not in allowed:
                near = did_you_mean(key, allowed)
                raise value.fail(f"unknown key {key!r}; {near} (allowed: {', '.join(allowed)})")
            found[key] = value
        missing = [key for key in required if key not in found]
        if missing:
            raise self.fail(f"no key {missing[0]!r}; allowed: {', '.join(allowed)}")
        return found

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Key and entry of each pair."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fail(f"a mapping of keys to values is expected, is {self._short()}")
        for key_node, value_node in self.node.value:
            key = str(key_node.value)
            # The mark of a value on lines of its own is below its key: errors name the key's line.
            value_node.start_mark = key_node.start_mark
            yield key, Entry(value_node, self.file)

    def list(self) -> list[Entry]:
        """The entries of a list; a single value is a list of one."""
        if isinstance(self.node, yaml.SequenceNode):
            return [Entry(node, self.file) for node in self.node.value]
        return [self]

    def text(self, *allowed: str) -> str:
        """A text (one of ``allowed`` if given)."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.fail(f"a text is expected, is {self._short()}")
        value = str(self.node.value)
        if allowed and value not in allowed:
            raise self.fail(f"{value!r} is not allowed; allowed: {', '.join(allowed)}")
        return value

    def texts(self) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        return tuple(entry.text() for entry in self.list())

    def number(self, low: float, high: float) -> float:
        """A number from ``low`` to ``high``."""
        try:
            value = float(self.text())
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise self.fail(f"a number from {low:g} to {high:g} is expected, is {self._short()}")
        return value

    def plain(self) -> Any:
        """The value as lists, dictionaries and texts; numbers and booleans stay texts, as written."""
        if isinstance(self.node, yaml.SequenceNode):
            return [entry.plain() for entry in self.list()]
        if isinstance(self.node, yaml.MappingNode):
            return {key: value.plain() for key, value in self.items()}
        return str(self.node.value)

    def _short(self) -> str:
        kinds: dict[type[yaml.Node], str] = {yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}
        return kinds.get(type(self.node), f"{self.node.value!r:.40}")


def read_yaml(path: Path) -> Entry:
    """The top entry of a file; only data, no tags that make objects.

    Raises what :func:`workbench.yaml_reader.read_nodes` raises.
    """
    return Entry(read_nodes(path), str(path))
