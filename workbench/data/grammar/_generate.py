"""Seeded sentences and their export."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from workbench.data.grammar._constructions import CONSTRUCTIONS
from workbench.data.grammar._sentence import Sentence
from workbench.data.grammar._tree import Sampler, linearise
from workbench.errors import ConfigError, did_you_mean

__all__ = ["CONSTRUCTION_NAMES", "sentences", "to_conllu", "write_conllu"]

CONSTRUCTION_NAMES = tuple(CONSTRUCTIONS)


def sentences(count: int, seed: int = 0, *, constructions: Sequence[str] | None = None) -> list[Sentence]:
    """``count`` sentences with distinct texts and gold annotation; the same seed gives the same sentences.

    ``constructions`` limits the rules to some of :data:`CONSTRUCTION_NAMES`. Raises
    :class:`~workbench.errors.ConfigError` for a negative count or an unknown construction.
    """
    if count < 0:
        raise ConfigError(f"count must be 0 or more, got {count}")
    chosen = CONSTRUCTION_NAMES if constructions is None else tuple(constructions)
    for name in chosen:
        if name not in CONSTRUCTIONS:
            raise ConfigError(
                f"unknown construction {name!r}; {did_you_mean(name, list(CONSTRUCTION_NAMES))}"
            )
    weights = {name: CONSTRUCTIONS[name][1] for name in chosen}
    sampler = Sampler(seed)
    found: dict[str, Sentence] = {}
    while len(found) < count:
        name = sampler.weighted(weights)
        root = CONSTRUCTIONS[name][0](sampler)
        sentence = linearise(root, sentence_id=f"builtin-{seed}-{len(found) + 1}", construction=name)
        found.setdefault(sentence.text, sentence)
    return list(found.values())


def to_conllu(corpus: Iterable[Sentence]) -> str:
    """The sentences as one CoNLL-U document."""
    return "".join(sentence.to_conllu() for sentence in corpus)


def write_conllu(corpus: Iterable[Sentence], path: str | os.PathLike[str]) -> Path:
    """Write the sentences to ``path``; a temporary file is renamed at the end, so no half file is left."""
    target = Path(path)
    with NamedTemporaryFile("w", encoding="utf-8", newline="\n", dir=target.parent, delete=False) as file:
        file.write(to_conllu(corpus))
    Path(file.name).replace(target)
    return target
