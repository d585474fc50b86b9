"""LAMBADA (Paperno et al., 2016): passages whose last word is predictable only from the whole passage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from workbench.characters import check_text
from workbench.data._dataset import DataIdentity, Dataset, content_hash
from workbench.data.files import find_file, read_jsonl, read_lines, text_field
from workbench.data.hub import HubName, hub_splits, reading
from workbench.errors import DataError, TaskError, did_you_mean

__all__ = ["LAMBADA_VARIANTS", "Passage", "read_lambada", "split_target"]


@dataclass(frozen=True)
class Passage:
    """One passage; ``id`` is the variant's name and the position in the file, from 0."""

    id: str
    text: str


@dataclass(frozen=True)
class _Source:
    """Where a variant comes from; ``folder_file`` is its name under ``--data-dir``."""

    folder_file: str
    hub: str
    configuration: str | None


_SOURCES = {
    "lambada_openai": _Source("lambada_test.jsonl", "EleutherAI/lambada_openai", "default"),
    "lambada_standard": _Source("lambada_test_plain_text.txt", "cimec/lambada", None),
}
_SAMPLE = "lambada_sample"
LAMBADA_VARIANTS = (*_SOURCES, _SAMPLE)


def read_lambada(variant: str, data_dir: Path | str | None = None) -> Dataset[Passage]:
    """The test passages of ``lambada_openai`` or ``lambada_standard``, or the bundled ``lambada_sample``.

    With ``data_dir`` they are read from ``lambada_test.jsonl`` or ``lambada_test_plain_text.txt`` there,
    else from the hub with the ``datasets`` package; the sample is in this package, whatever ``data_dir`` is.

    Raises :class:`~workbench.errors.TaskError` for another variant, :class:`~workbench.errors.DataError`
    for files that are missing or not in their format (naming file and line) and where there is no network.
    """
    if variant == _SAMPLE:
        with resources.as_file(
            resources.files("workbench.data") / "samples" / "lambada_sample.jsonl"
        ) as path:
            return _dataset(variant, "bundled with workbench", _from_jsonl(path))
    if variant not in _SOURCES:
        raise TaskError(
            f"unknown LAMBADA variant {variant!r}; {did_you_mean(variant, list(LAMBADA_VARIANTS))}"
        )
    source = _SOURCES[variant]
    if data_dir is None:
        return _dataset(variant, f"hub: {source.hub}", _from_hub(variant, source))
    path = find_file(data_dir, source.folder_file)
    texts = _from_jsonl(path) if path.suffix == ".jsonl" else _from_plain_text(path)
    return _dataset(variant, str(path), texts)


def split_target(text: str, where: str = "passage") -> tuple[str, str]:
    """Context and target: the target is the last ASCII space and what follows it, ``" " + last word``.

    Only the ASCII space (U+0020) separates; line breaks and non-breaking spaces stay inside the word, as in
    the published OpenAI variant's scoring. Raises :class:`~workbench.errors.DataError` if either is blank.
    """
    context, space, word = text.rpartition(" ")
    if not word.strip():
        raise DataError(f"{where} ends in a blank, so it has no last word: {text[-40:]!r}; strip it")
    if not space or not context.strip():
        raise DataError(f"{where} has one word only, so nothing to predict it from: {text!r:.60}")
    return context, " " + word


def _dataset(name: str, source: str, texts: Iterable[str]) -> Dataset[Passage]:
    passages = tuple(Passage(f"{name}-{number:04d}", text) for number, text in enumerate(texts))
    identity = DataIdentity(name, source, content_hash(p.text for p in passages), len(passages))
    return Dataset(passages, identity)


def _from_jsonl(path: Path) -> list[str]:
    return [
        _checked(text_field(record, "text", f"{path}, line {number}"), f"{path}, line {number}")
        for number, record in read_jsonl(path)
    ]


def _from_plain_text(path: Path) -> list[str]:
    return [_checked(line, f"{path}, line {number}") for number, line in enumerate(read_lines(path), 1)]


def _from_hub(variant: str, source: _Source) -> list[str]:
    help_line = f"give the folder that holds {source.folder_file} with --data-dir, or use --task {_SAMPLE}"
    name = HubName(source.hub, None, source.configuration, "test")
    try:
        with reading(name):
            texts = [str(text) for text in hub_splits(name, f"{variant} from the hub")["text"]]
    except DataError as error:
        raise DataError(f"{error}; or {help_line}") from error
    wheres = [f"{source.hub}, row {row}" for row in range(len(texts))]
    return [_checked(check_text(text, where), where) for text, where in zip(texts, wheres, strict=True)]


def _checked(text: str, where: str) -> str:
    """``text`` if it has a context and a target."""
    split_target(text, where)
    return text
