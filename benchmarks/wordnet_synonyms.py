"""Make the lexicon of synonyms in the commonest sense from the ``dict`` folder of WordNet 3.1 (Miller 1995).

Two words are grouped where one synset has more than half of each one's uses in WordNet's sense-tagged texts (or is its
only sense), whatever the part of speech. Both are whole words of at least three letters in the vocabulary of
``minilm-l6``, and neither is a name or an inflected form of another word. Inflected forms of a group are grouped where
they are regular.

    python benchmarks/wordnet_synonyms.py DICT_FOLDER > workbench/data/grammar/lexicons/commonest_sense.json
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import workbench
from workbench.data.grammar import verbs
from workbench.data.grammar._morphology import gerund, past, plural, third_person

_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # 5: an adjective beside a head adjective
_INFLECTIONS: dict[str, tuple[Callable[[str], str], ...]] = {
    "n": (plural,),
    "v": (third_person, past, gerund),
}
_FRAMES = ("transitive", "intransitive", "ditransitive", "clausal", "control")


def tagged_uses(folder: Path) -> dict[str, Counter[str]]:
    """How often each word was tagged with each of its synsets (part of speech and offset)."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (folder / "index.sense").read_text(encoding="utf-8").splitlines():
        key, offset, _, count = line.split()
        word, kind = key.split("%")
        found[word][_TYPES[kind[0]] + offset] += int(count)
    return found


def names(folder: Path) -> set[tuple[str, str]]:
    """The words that are capitalised in a synset, in small letters, with the synset."""
    found = set()
    for letter, file in _FILES.items():
        for line in (folder / f"data.{file}").read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                fields = line.split(" | ")[0].split()
                words = (fields[4 + 2 * i].split("(")[0] for i in range(int(fields[3], 16)))
                found |= {(word.lower(), letter + fields[0]) for word in words if word != word.lower()}
    return found


def commonest(uses: Counter[str]) -> str | None:
    """The synset that has more than half of a word's uses."""
    synset = max(uses, key=lambda one: uses[one])
    return synset if len(uses) == 1 or 2 * uses[synset] > sum(uses.values()) else None


def inflected(uses: dict[str, Counter[str]]) -> set[str]:
    """The inflected forms of all words, regular, and irregular of the verbs of the package's lexicon."""
    regular = {
        form(word)
        for word, synsets in uses.items()
        for kind in {synset[0] for synset in synsets}
        for form in _INFLECTIONS.get(kind, ())
    }
    irregular = (verb for frame in _FRAMES for verb in verbs(frame))
    return regular | {form for v in irregular for form in (v.past, v.participle) if form != v.lemma}


def groups(folder: Path, vocabulary: set[str]) -> Iterator[list[str]]:
    """Words that mean the same in their commonest sense, and their inflected forms."""
    uses, capitals = tagged_uses(folder), names(folder)
    forms = inflected(uses)
    by_synset: dict[str, list[str]] = defaultdict(list)
    for word in sorted(vocabulary & uses.keys() - forms):
        synset = commonest(uses[word])
        if synset is not None and (word, synset) not in capitals:
            by_synset[synset].append(word)
    for synset, words in sorted(by_synset.items()):
        yield words
        for form in _INFLECTIONS.get(synset[0], ()):
            yield sorted({form(word) for word in words} & vocabulary - uses.keys())


def main(folder: Path) -> None:
    """Print the groups of two words or more as JSON, one a line."""
    tokens = workbench.load("minilm-l6").tokenizer.get_vocab()
    vocabulary = {token for token in tokens if re.fullmatch("[a-z]{3,}", token)}
    found = sorted(words for words in groups(folder, vocabulary) if len(words) > 1)
    print("[\n" + ",\n".join(json.dumps(words) for words in found) + "\n]")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
