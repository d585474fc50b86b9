"""How often the judge of rewrites accepts synonyms, antonyms and sister terms of WordNet 3.1 in sentences of SST-2.

Antonyms are WordNet's own; sister terms are nouns under one hypernym that share no synset; synonyms are those that
rewrites use. Words are whole words of the vocabulary of ``minilm-l6`` of at least three letters, no function words,
each at most five times among the 200 sentences of a kind.

    python benchmarks/rewrites.py DICT_FOLDER SST-2/train.tsv
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import workbench
from challenge_sets.paraphrase_judge import embedding_similarity, nearer_than_fillers
from challenge_sets.rewrites import Replacement, Rule, synonyms
from workbench.data.grammar import lexicon
from workbench.statistics import wilson

_SENTENCES = 200
_EACH = 5
Synset = tuple[list[str], list[tuple[str, str]], list[tuple[int, str, int]]]
Choose = Callable[[str], Collection[str]]


def synsets(folder: Path, file: str) -> dict[str, Synset]:
    """Words, pointers (kind, offset) and antonyms (place of the word, offset, place of the other) by offset."""
    found = {}
    for line in (folder / f"data.{file}").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split(" | ")[0].split()
        last = 4 + 2 * int(fields[3], 16)
        words = [field.split("(")[0].lower() for field in fields[4:last:2]]
        rest = fields[last + 1 : last + 1 + 4 * int(fields[last])]
        pointers = [tuple(rest[i : i + 4]) for i in range(0, len(rest), 4)]
        ends = [(int(both[:2], 16), to, int(both[2:], 16)) for kind, to, _, both in pointers if kind == "!"]
        found[fields[0]] = (words, [(kind, to) for kind, to, _, _ in pointers], ends)
    return found


def antonyms(folder: Path) -> dict[str, set[str]]:
    """Each word's antonyms, of any sense and part of speech."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in ("noun", "verb", "adj", "adv"):
        by_offset = synsets(folder, file)
        for words, _, ends in by_offset.values():
            for mine, offset, other in ends:
                if offset in by_offset:
                    found[words[mine - 1]].add(by_offset[offset][0][other - 1])
    return found


def sisters(folder: Path) -> Choose:
    """The nouns that have a direct hypernym in common with a noun, and no synset."""
    nouns = synsets(folder, "noun")
    of_word: dict[str, set[str]] = defaultdict(set)
    under: dict[str, set[str]] = defaultdict(set)
    for offset, (words, pointers, _) in nouns.items():
        for word in words:
            of_word[word].add(offset)
            for kind, to in pointers:
                if kind == "@":
                    under[to] |= {word}
    above = {w: {to for o in own for kind, to in nouns[o][1] if kind == "@"} for w, own in of_word.items()}
    return lambda word: {
        other for up in above.get(word, ()) for other in under[up] if not of_word[other] & of_word[word]
    }


def places(sentences: Sequence[str], choose: Choose, allowed: set[str]) -> list[Replacement]:
    """One edit in each of the first sentences that have a word with replacements."""
    chance, counts = random.Random(0), Counter[str]()
    found: list[Replacement] = []
    for sentence in sentences:
        words = [w for w in re.findall("[a-z]+", sentence) if w in allowed and counts[w] < _EACH]
        chance.shuffle(words)
        for word in words:
            if new := sorted(set(choose(word)) & allowed - {word}):
                edit = Rule.of_words((word, chance.choice(new))).edit(sentence)
                found += [edit] if edit else []
                counts[word] += 1
                break
        if len(found) == _SENTENCES:
            break
    return found


def main(folder: Path, file: Path) -> None:
    """Print the share that is accepted of each kind, with Wilson's interval."""
    encoder = workbench.load("minilm-l6")
    vocabulary = {token for token in encoder.tokenizer.get_vocab() if re.fullmatch("[a-z]{3,}", token)}
    allowed = vocabulary - set(map(str, lexicon("function_word")))
    rows = [line.split("\t")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    sentences = [row for row in dict.fromkeys(rows) if len(row.split()) >= 6]
    random.Random(0).shuffle(sentences)
    same: dict[str, set[str]] = defaultdict(set)
    for old, new in synonyms(allowed):
        same[old].add(new)
    opposite = antonyms(folder)
    judge = nearer_than_fillers(workbench.load("novels-encoder"), embedding_similarity(encoder))
    kinds: dict[str, Choose] = {
        "synonyms": lambda word: same[word],
        "antonyms": lambda word: opposite[word],
        "sister terms": sisters(folder),
    }
    for kind, choose in kinds.items():
        edits = places(sentences, choose, allowed)
        accepted = judge(edits)
        share = wilson(sum(accepted), len(accepted))
        print(f"{kind}: {share.value:.3f} [{share.low:.3f}, {share.high:.3f}] of {len(edits)}", flush=True)
        for keeps in (True, False):
            shown = [
                f"{e.text[e.start : e.end]} {e.new}"
                for e, k in zip(edits, accepted, strict=True)
                if k is keeps
            ]
            print(f"  {'accepted' if keeps else 'refused'}: {', '.join(dict.fromkeys(shown))}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
