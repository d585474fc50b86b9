"""What a probing task is, finding one by name, and the treebanks that tasks are made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from probes._data import ProbeData, ProbeItem, Unit, Words
from workbench.choices import as_members
from workbench.data import DataIdentity, content_hash
from workbench.data.conllu import ConlluSentence, ConlluWord, read_conllu
from workbench.data.grammar import Sentence, sentences
from workbench.data.hub import is_hub_name
from workbench.errors import DataError, TaskError
from workbench.registry import Registry

__all__ = [
    "BUILTIN",
    "TASKS",
    "ProbeTask",
    "Treebank",
    "depths",
    "feature",
    "load_task",
    "read_treebank",
    "register",
    "subtree",
]

BUILTIN = "builtin"
_BUILTIN_COUNT = 2000


@dataclass(frozen=True)
class Treebank:
    """Sentences with trees, as words, and their identity."""

    trees: tuple[ConlluSentence, ...]
    words: tuple[Words, ...]
    name: str
    source: str

    def data(self, task: str, unit: Unit, items: list[ProbeItem], about: str) -> ProbeData:
        """The items of a task over these sentences; raises :class:`DataError` if there are none."""
        return probe_data(task, unit, self.words, items, (self.name, self.source), about)


def probe_data(
    task: str,
    unit: Unit,
    words: tuple[Words, ...],
    items: list[ProbeItem],
    named: tuple[str, str],
    about: str,
) -> ProbeData:
    """A task's data with its identity; raises :class:`DataError` if there are no items."""
    if not items:
        raise DataError(f"{named[1]} gives no items for the task {task}; the label is {about}")
    texts = [" ".join(w.forms) for w in words]
    labels = [f"{item.places}{item.label}" for item in items]
    identity = DataIdentity(named[0], named[1], content_hash([task, *texts, *labels]), len(items))
    return ProbeData(task, unit, words, tuple(items), identity, about)


def read_treebank(data: str | Path, limit: int | None = None, seed: int = 0) -> Treebank:
    """The first ``limit`` sentences of a CoNLL-U file, or of the grammar for ``builtin`` (2,000 by default).

    Multi-word tokens and empty nodes are skipped, as the format says. A sentence's document is what its
    ``sent_id`` is before the last number. Raises :class:`~workbench.errors.DataError` with file and line.
    """
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}; allowed: 1 or more sentences")
    if str(data) == BUILTIN:
        trees = [_tree(s) for s in sentences(limit or _BUILTIN_COUNT, seed)]
        documents = [tree.sent_id for tree in trees]
    else:
        if Path(data).is_dir():
            raise DataError(f"{data} is a folder; name a .conllu file, or builtin")
        trees = read_conllu(data, limit)
        documents = [re.sub(r"[-_.]?\d+$", "", tree.sent_id) for tree in trees]
    words = tuple(
        Words(tuple(t.forms), tuple(t.space_after), d, t.sent_id or f"{data}, sentence {n}")
        for n, (t, d) in enumerate(zip(trees, documents, strict=True), start=1)
    )
    return Treebank(tuple(trees), words, Path(data).stem, str(data))


def _tree(sentence: Sentence) -> ConlluSentence:
    words = tuple(
        ConlluWord(
            form=word.form,
            lemma=word.lemma,
            upos=word.upos,
            xpos="_",
            features="|".join(f"{k}={v}" for k, v in word.feats) or "_",
            head=word.head - 1 if word.head else None,
            relation=word.deprel,
            space_after=word.space_after,
        )
        for word in sentence.words
    )
    return ConlluSentence(sentence.id, sentence.text, words)


def feature(word: ConlluWord, name: str) -> str | None:
    """The value of a morphological feature, such as ``Number``; ``None`` where the word has none."""
    found = (pair.partition("=") for pair in word.features.split("|"))
    return next((value for key, _, value in found if key == name), None)


def depths(tree: ConlluSentence) -> list[int]:
    """Number of arcs from each word to the root; a cycle raises :class:`DataError` with the sentence."""
    found: list[int] = []
    for start in range(len(tree.words)):
        depth, word = 0, start
        while (head := tree.words[word].head) is not None:
            depth, word = depth + 1, head
            if depth > len(tree.words):
                raise DataError(f"{tree.sent_id or tree.text[:40]!r}: the heads of its words form a cycle")
        found.append(depth)
    return found


def subtree(tree: ConlluSentence, root: int) -> tuple[int, int] | None:
    """The words under ``root`` as a half-open range, or ``None`` where they are not one run of words."""
    inside = {root}
    grew = True
    while grew:
        more = {w for w, word in enumerate(tree.words) if word.head in inside} - inside
        grew = bool(more)
        inside |= more
    first, last = min(inside), max(inside) + 1
    return (first, last) if last - first == len(inside) else None


@dataclass(frozen=True)
class ProbeTask:
    """A task by name. ``build`` reads trees, or ``read`` a file of another format that ``formats`` names."""

    name: str
    unit: Unit
    about: str
    build: Callable[[Treebank, int], ProbeData] | None = None  # trees and a seed
    read: Callable[[Path, int | None], ProbeData] | None = None  # a file and a limit
    formats: str = "CoNLL-U, or builtin"

    def __post_init__(self) -> None:
        as_members(self)


TASKS: Registry[ProbeTask] = Registry("probing task")


def register(task: ProbeTask) -> ProbeTask:
    """Make a task known by its name."""
    return TASKS.register(task.name, task)


def load_task(name: str, data: str | Path = BUILTIN, limit: int | None = None, seed: int = 0) -> ProbeData:
    """The items of a task in ``data``, a file in the task's format or ``builtin``.

    Raises :class:`~workbench.errors.TaskError` for an unknown name or ``builtin`` where the task has no
    trees, :class:`~workbench.errors.DataError` with file and line for what cannot be read.

    Example:
        ```python
        from probes import load_task

        data = load_task("pos", limit=20)
        print(len(data.items), data.about)
        ```
    """
    task = TASKS.get(name)
    if task.build is not None:
        return task.build(read_treebank(data, limit, seed), seed)
    assert task.read is not None
    if str(data) == BUILTIN:
        raise TaskError(f"task {name} is not made from trees; give --data FILE: {task.formats}")
    path = Path(data)
    if not path.is_file() and not is_hub_name(path):
        raise DataError(f"no file {path}; task {name} reads {task.formats}")
    return task.read(path, limit)
