"""Sentences of the grammar in an invented language, whose words and rules are known, and so is every alignment.

``python -m workbench.data.grammar.invented FOLDER`` writes ``train.jsonl``, ``validation.jsonl`` and ``test.jsonl``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

from workbench.data.files import write_text
from workbench.data.grammar._constructions import sentences
from workbench.data.grammar._lexicon import adjectives, nouns, read_lexicon, verbs
from workbench.data.grammar._tree import Sentence, Word
from workbench.data.pairs import LinkedPair
from workbench.data.word_links import Link, WordLinks
from workbench.errors import ConfigError
from workbench.terminal import say

__all__ = ["CONSTRUCTIONS", "InventedPair", "invented_pairs", "translate", "write_pairs"]

CONSTRUCTIONS = (
    "transitive", "intransitive", "ditransitive", "passive", "copular_adjective", "complement_clause",
)  # fmt: skip
"""What sentences are drawn from unless others are named."""

OBJECT_PARTICLE = "ka"
_PLURAL = "ri"
_ENDINGS = {("Fin", "Past"): "ta", ("Fin", "Pres"): "ne", ("Part", "Past"): "lo", ("Part", "Pres"): "mi"}
# Where dependents stand, by relation: smaller numbers first, in the order of the English words where numbers are equal.
_BEFORE, _HEAD = 1, 3
_PLACES = {
    "cc": 0, "mark": 0, "amod": 4, "nmod": 5, "acl:relcl": 5, "conj": 5, "case": 6,
    "aux": 7, "aux:pass": 7, "cop": 7, "ccomp": 8, "xcomp": 8, "advcl": 8, "punct": 9,
}  # fmt: skip
_CLAUSAL_CONJUNCT = 8
_OPENING = -1
_FUNCTION_WORDS = (
    "the a this that all both each every no some be have do can could may might must shall should will would not to "
    "I you he she we they my your his her our their who what which there and but or so because although when before "
    "after if at about behind beside by for from in near on under with of into "
    "everybody everyone somebody someone nobody nothing ago now never where why"
)
_CONTENT_WORDS = (
    "many several few most last next day week month year yesterday tomorrow two three four five six seven eight nine "
    "ten twelve"
)


@dataclass(frozen=True)
class InventedPair:
    """An English sentence and its translation, word by word, with the links between them.

    Links are sure from each source word to the word that stands for it; possible from an object's noun to the particle
    behind it, and from a plural noun to an adjective that agrees with it.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: WordLinks

    def linked(self) -> LinkedPair:
        """The pair as texts."""
        return LinkedPair(" ".join(self.source), " ".join(self.target), self.links)

    def to_dict(self) -> dict[str, str]:
        """Texts and alignment, as the rows of a table."""
        return {
            "source": " ".join(self.source),
            "target": " ".join(self.target),
            "alignment": str(self.links),
        }


def invented_pairs(
    count: int, seed: int = 0, *, language: int = 0, constructions: Sequence[str] = CONSTRUCTIONS
) -> list[InventedPair]:
    """``count`` pairs with distinct sources; equal seeds give equal pairs.

    Sources are sentences of :func:`~workbench.data.grammar.sentences` in lower case without proper names and years,
    their words and marks separated by spaces. ``seed`` draws them, ``language`` the invented words. Raises
    :class:`~workbench.errors.ConfigError` for a negative count or an unknown construction.

    Example:
        ```python
        from workbench.data.grammar.invented import invented_pairs

        for pair in invented_pairs(3):
            print(" ".join(pair.source), "|", " ".join(pair.target), "|", pair.links)
        ```
    """
    drawn = 2 * count + 20 if count > 0 else count  # about half have no names
    while True:
        kept = [s for s in sentences(drawn, seed, constructions=constructions) if _is_plain(s)]
        if len(kept) >= count:
            return [translate(sentence, language) for sentence in kept[:count]]
        drawn *= 2


def translate(sentence: Sentence, language: int = 0) -> InventedPair:
    """A sentence of the grammar in the invented language drawn from the seed ``language``.

    Every lemma has one invented stem, and no two share one. The rules: an adjective follows its noun and takes the
    ending of a plural noun; prepositions follow their phrase; the verb follows all of its clause but the clauses that
    depend on it, and auxiliaries follow the verb; the particle *ka* follows an object. Verbs show tense, nouns number;
    person and case are not shown. Raises :class:`~workbench.errors.ConfigError` for a word that the grammar's lexicons
    lack.

    Example:
        ```python
        from workbench.data.grammar import sentences
        from workbench.data.grammar.invented import translate

        (sentence,) = sentences(1, 0, constructions=["existential"])
        print(translate(sentence))
        ```
    """
    target: list[str] = []
    sure: set[Link] = set()
    possible: set[Link] = set()
    for word, is_particle in _ordered(sentence, sentence.root):
        link = (word.index - 1, len(target))
        if is_particle:
            target.append(OBJECT_PARTICLE)
            possible.add(link)
            continue
        noun = _plural_noun(sentence, word)
        target.append(_form(word, language, agrees=noun is not None))
        sure.add(link)
        if noun is not None:
            possible.add((noun.index - 1, link[1]))
    source = tuple(word.form.lower() for word in sentence.words)
    return InventedPair(source, tuple(target), WordLinks(frozenset(sure), frozenset(possible)))


def _is_plain(sentence: Sentence) -> bool:
    return not any(word.upos == "PROPN" or word.form.isdigit() for word in sentence.words)


def _ordered(sentence: Sentence, head: Word) -> Iterator[tuple[Word, bool]]:
    """The words of a phrase in the order of the language; particles as their noun, marked."""
    parts = [(_HEAD, head.index, head)]
    parts += [(_place(word, head), word.index, word) for word in sentence.dependents(head)]
    for _, _, part in sorted(parts, key=lambda entry: entry[:2]):
        if part is head:
            yield head, False
        else:
            yield from _ordered(sentence, part)
    if head.deprel == "obj":
        yield head, True


def _place(word: Word, head: Word) -> int:
    if word.deprel == "punct" and word.index < head.index:
        return _OPENING
    if word.deprel == "conj" and head.upos == "VERB":
        return _CLAUSAL_CONJUNCT
    if word.deprel == "advmod" and word.lemma == "not":
        return _PLACES["aux"]
    return _PLACES.get(word.deprel, _BEFORE)


def _plural_noun(sentence: Sentence, word: Word) -> Word | None:
    """The plural noun that an adjective agrees with."""
    if word.deprel != "amod":
        return None
    noun = sentence.words[word.head - 1]
    return noun if noun.number == "Plur" else None


def _form(word: Word, language: int, *, agrees: bool) -> str:
    if word.upos == "PUNCT":
        return word.form
    stems = _stems(language)
    if word.lemma not in stems:
        raise ConfigError(
            f"the invented language has no word for {word.lemma!r}; leave out names, years and words of your own"
        )
    ending = _PLURAL if agrees or (word.upos == "NOUN" and word.number == "Plur") else ""
    if word.upos in ("VERB", "AUX"):
        ending = _ENDINGS.get((str(word.feature("VerbForm")), str(word.tense)), "")
    return stems[word.lemma] + ending


@cache
def _stems(language: int) -> dict[str, str]:
    """An invented stem for each lemma: one closed syllable for function words, two open ones for others.

    Endings are open syllables, so that no two words of the language are spelled alike.
    """
    random = Random(f"invented language {language}")
    consonants, vowels = "bdfghjklmnprstvwz", "aeiou"
    open_syllables = ["".join(pair) for pair in product(consonants, vowels)]
    closed = ["".join(letters) for letters in product(consonants, vowels, "lmnrs")]
    longer = ["".join(pair) for pair in product(open_syllables, repeat=2)]
    function_words = sorted(set(_FUNCTION_WORDS.split()))
    content_words = sorted(_content_words() - set(function_words))
    stems = dict(zip(function_words, random.sample(closed, len(function_words)), strict=True))
    return stems | dict(zip(content_words, random.sample(longer, len(content_words)), strict=True))


def _content_words() -> set[str]:
    kinds: Iterable[str] = read_lexicon("adjectives")
    words = read_lexicon("words")
    return {
        *(noun.singular for noun in nouns()),
        *(verb.lemma for frame in read_lexicon("verbs") for verb in verbs(frame)),
        *(adjective.text for kind in kinds for adjective in adjectives(kind)),
        *words["manner"],
        *words["frequency"],
        *words["degree"],
        *_CONTENT_WORDS.split(),
    }


def write_pairs(
    folder: Path, *, train: int = 50_000, held_out: int = 500, seed: int = 0, language: int = 0
) -> list[Path]:
    """Write ``train.jsonl`` (``train`` pairs), ``validation.jsonl`` and ``test.jsonl`` (``held_out`` each).

    No source occurs in two of the files. Columns are ``source``, ``target`` and ``alignment``. Raises as
    :func:`invented_pairs`.

    Example:
        ```python
        from pathlib import Path

        from workbench.data.grammar.invented import write_pairs

        print(write_pairs(Path("pairs"), train=20, held_out=5))
        ```
    """
    pairs = invented_pairs(train + 2 * held_out, seed, language=language)
    parts = {
        "train": pairs[2 * held_out :],
        "validation": pairs[held_out : 2 * held_out],
        "test": pairs[:held_out],
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, rows in parts.items():
        lines = "".join(json.dumps(pair.to_dict()) + "\n" for pair in rows)
        written.append(write_text(folder / f"{name}.jsonl", lines))
    return written


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write pairs of the invented language as JSONL files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=50_000, help="pairs to train on")
    parser.add_argument("--held-out", type=int, default=500, help="pairs to validate and to test on, each")
    parser.add_argument("--seed", type=int, default=0, help="of the sentences")
    parser.add_argument("--language", type=int, default=0, help="seed of the invented words")
    given = parser.parse_args()
    for path in write_pairs(
        given.folder, train=given.train, held_out=given.held_out, seed=given.seed, language=given.language
    ):
        say(path)


if __name__ == "__main__":
    _main()
