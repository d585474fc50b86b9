"""The reader of YAML: suites, recipes, grids and configurations. Data only; every mistake with file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from workbench.characters import without_surrogate_pairs
from workbench.errors import ConfigError, DataError

__all__ = ["compose", "parse", "read_nodes", "read_values"]

_ALIASED = 10_000
"""Nodes that aliases may add to those that are written; a few lines of nested aliases make billions."""

_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map", "merge")
}


class _Loader(yaml.SafeLoader):
    """YAML's plain data: texts, numbers, booleans, lists, mappings. A date is the text that it is written as."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_Loader.add_implicit_resolver(  # as in YAML 1.2; PyYAML wants a point in it
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def compose(text: str, file: str) -> yaml.Node:
    """The nodes of a document with their lines; ``file`` names it in errors.

    Raises :class:`~workbench.errors.ConfigError` for what is not YAML, aliases that contain themselves or multiply,
    a tag that is no plain data, a key that stands twice, and a lone surrogate (pairs are joined).
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}, line {line} is not valid YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{file}, line {line} is not valid YAML: character U+{error.character:04X} is not allowed; remove it"
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply; write it with fewer levels") from error
    if node is None:
        raise ConfigError(f"{file} is empty")
    _Check(file).check(node)
    return node


def parse(text: str, file: str) -> Any:
    """The document's values as plain Python; raises as :func:`compose` does, and for a number out of range."""
    node = compose(text, file)
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}, line {line}: {error.problem}") from error


def read_nodes(path: Path) -> yaml.Node:
    """:func:`compose` on a file; raises :class:`~workbench.errors.DataError` if it cannot be read."""
    return compose(_text(path), str(path))


def read_values(path: Path) -> Any:
    """:func:`parse` on a file; raises :class:`~workbench.errors.DataError` if it cannot be read."""
    return parse(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, byte {error.start + 1} is not valid UTF-8; save the file as UTF-8"
        ) from error


class _Check:
    """One walk over the nodes of a document, each visited once, however often aliases name it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.sizes: dict[int, int] = {}  # node -> nodes in it with all aliases written out
        self.open: set[int] = set()

    def check(self, root: yaml.Node) -> None:
        """Raise :class:`~workbench.errors.ConfigError` for the first node that is not allowed."""
        self._size(root)

    def _size(self, node: yaml.Node) -> int:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self.open:
            raise self._error(node, "an alias names what contains it; write the value out")
        if node.tag not in _TAGS:
            raise self._error(
                node, f"tag {node.tag!r:.60} is not allowed; write texts, numbers, lists, mappings"
            )
        self.open.add(id(node))
        size = 1 + sum(self._size(child) for child in self._children(node))
        self.open.remove(id(node))
        self.sizes[id(node)] = size
        if size > len(self.sizes) + _ALIASED:
            raise self._error(
                node, f"its aliases add up to more than {_ALIASED:,} values; write the values out"
            )
        return size

    def _children(self, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.ScalarNode):
            try:
                node.value = without_surrogate_pairs(node.value)
            except ValueError as error:
                raise self._error(node, f"the text has {error}") from None
            return []
        if isinstance(node, yaml.MappingNode):
            self._refuse_repeated(node)
            return [part for pair in node.value for part in pair]
        return list(node.value)

    def _refuse_repeated(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise self._error(key, f"key {key.value!r:.60} stands twice")
                seen.add(key.value)

    def _error(self, node: yaml.Node, problem: str) -> ConfigError:
        return ConfigError(f"{self.file}, line {node.start_mark.line + 1}: {problem}")


def _number(construct: Any) -> Any:
    """A number's constructor whose errors have a line: ``0b_`` and 5,000 digits match YAML's patterns too."""

    def constructed(loader: _Loader, node: yaml.ScalarNode) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, OverflowError):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{node.value!r:.40} is no number that can be read; quote it if it is a text",
                node.start_mark,
            ) from None

    return constructed


_Loader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))
