"""The tables that the bundled classifiers are trained and judged on.

``python -m workbench.training.classifier_data sentiment DATA OUT`` takes SST-2's first 20,000 training rows, of which
2,000 are to validate on, as they are (``plain``), and with phrases in which one known word decides, and phrases of
masks (``train``); to judge, SST-2's dev set and other such phrases. ``… nli DATA OUT`` takes SNLI's and MNLI's dev
sets, less a thousand pairs of each to judge, and pairs that the grammar generates: what follows from a sentence when
words are dropped, added or negated (monotonicity; van Benthem 1986, "Essays in Logical Semantics").
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.data.grammar import Noun, Sampler, Verb, adjectives, indefinite_article, nouns, verbs
from workbench.data.tables import Row, read_rows
from workbench.errors import ConfigError
from workbench.runs import write_atomically
from workbench.terminal import say

__all__ = [
    "generated_pairs",
    "masked_phrases",
    "nli_tables",
    "sentiment_tables",
    "synthetic_phrases",
    "write_tables",
]

HELD_OUT = 1000  # rows of each source that are not trained on
GENERATED = 12_000
VALIDATION, SYNTHETIC, MASKED = 2000, 3000, 2000  # rows

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"


@dataclass(frozen=True)
class _Clause:
    """Who did what to whom, of which quality, where; or did not."""

    subject: Noun
    verb: Verb
    object: Noun
    quality: str | None = None
    place: str | None = None
    negated: bool = False

    def __str__(self) -> str:
        thing = " ".join(filter(None, ("the", self.quality, self.object.singular)))
        done = f"did not {self.verb.lemma}" if self.negated else self.verb.past
        where = f" in the {self.place}" if self.place else ""
        return f"The {self.subject.singular} {done} {thing}{where}."

    @property
    def passive(self) -> str:
        """The same in the passive voice."""
        thing = " ".join(filter(None, ("The", self.quality, self.object.singular)))
        where = f" in the {self.place}" if self.place else ""
        done = "was not" if self.negated else "was"
        return f"{thing} {done} {self.verb.participle} by the {self.subject.singular}{where}."


def generated_pairs(count: int, seed: int = 0) -> list[Row]:
    """``count`` different pairs with ``premise``, ``hypothesis`` and ``label``, about as many of each label."""
    sampler = Sampler(seed)
    found: dict[tuple[str, str], Row] = {}
    while len(found) < count:
        row = _pair(sampler)
        found[row["premise"], row["hypothesis"]] = row
    return list(found.values())


def _clause(sampler: Sampler) -> _Clause:
    verb = sampler.pick([v for v in verbs("transitive") if "person" in v.subjects and not v.only])
    subject, thing = sampler.pick(nouns("person")), sampler.pick(nouns(*verb.objects))
    while thing == subject:
        thing = sampler.pick(nouns(*verb.objects))
    return _Clause(subject, verb, thing, negated=sampler.chance(0.3))


def _pair(sampler: Sampler) -> Row:
    """A clause with and without a detail: the one with it says more, unless both are denied."""
    plain = _clause(sampler)
    if sampler.chance(0.5) and not plain.object.animate:
        detailed = replace(plain, quality=sampler.pick(_QUALITIES))
    else:
        detailed = replace(plain, place=sampler.pick(nouns("building", "outdoors")).singular)
    stronger, weaker = (plain, detailed) if plain.negated else (detailed, plain)
    kind = sampler.pick((ENTAILMENT, NEUTRAL, CONTRADICTION))
    if kind == ENTAILMENT:
        premise, hypothesis = stronger, weaker
    elif kind == NEUTRAL:
        premise, hypothesis = weaker, stronger
    else:
        premise, hypothesis = stronger, replace(weaker, negated=not plain.negated)
    text = hypothesis.passive if sampler.chance(0.2) else str(hypothesis)
    return {"premise": str(premise), "hypothesis": text, "label": kind}


_QUALITIES = tuple(a.text for a in adjectives("general"))


def nli_tables(data: Path) -> dict[str, list[Row]]:
    """``train``, and ``snli``, ``mnli`` and ``generated`` to judge; raises :class:`~workbench.errors.DataError`."""
    columns = ("premise", "hypothesis", "label")
    snli = _only(read_rows(data / "snli" / "dev_first3000.jsonl"), columns)
    mnli = _only(read_rows(data / "glue" / "MNLI" / "dev_matched.jsonl"), columns)
    generated = generated_pairs(GENERATED + HELD_OUT)
    return {
        "train": [*snli[:-HELD_OUT], *mnli[:-HELD_OUT], *generated[:-HELD_OUT]],
        "snli": snli[-HELD_OUT:],
        "mnli": mnli[-HELD_OUT:],
        "generated": generated[-HELD_OUT:],
    }


def sentiment_tables(data: Path) -> dict[str, list[Row]]:
    """``plain``, or with made phrases ``train``; ``validation``; and ``sst2`` and ``synthetic`` to judge.

    The marks of what decides are in ``marked``.

    Raises :class:`~workbench.errors.DataError`.
    """
    names = {"0": "negative", "1": "positive"}
    first, dev = (
        [
            {"text": row["sentence"].strip(), "label": names[row["label"]]}
            for row in read_rows(data / "glue" / "SST-2" / file)
        ]
        for file in ("train_first20000.tsv", "dev.tsv")
    )
    synthetic = synthetic_phrases(SYNTHETIC + HELD_OUT)
    return {
        "plain": first[:-VALIDATION],
        "train": [*first[:-VALIDATION], *synthetic[:-HELD_OUT], *masked_phrases(MASKED)],
        "validation": first[-VALIDATION:],
        "sst2": dev,
        "synthetic": [{"text": row["text"], "label": row["label"]} for row in synthetic[-HELD_OUT:]],
    }


def _only(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    return [{name: row[name] for name in columns} for row in rows]


def write_tables(task: str, data: Path, out: Path) -> dict[str, int]:
    """Write the tables of ``sentiment`` or ``nli`` as ``TASK-NAME.jsonl``; returns their names and numbers of rows."""
    tables = sentiment_tables(data) if task == "sentiment" else nli_tables(data)
    for name, rows in tables.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomically(out / f"{task}-{name}.jsonl", lines.encode())
    return {f"{task}-{name}.jsonl": len(rows) for name, rows in tables.items()}


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of the bundled classifiers.")
    parser.add_argument("task", choices=("sentiment", "nli"))
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if given.out.exists() and not given.out.is_dir():
        raise ConfigError(f"{given.out} is a file; name a folder")
    given.out.mkdir(parents=True, exist_ok=True)
    for name, rows in write_tables(given.task, given.data, given.out).items():
        say(f"{name}: {rows:,} rows")


_KINDS = ("general", "text", "event", "idea")
_DECIDING = {
    label: tuple(sorted({a.text for kind in _KINDS for a in adjectives(kind) if a.polarity == label}))
    for label in ("negative", "positive")
}
_PLAIN = (
    "new", "second", "long", "first", "last", "short", "british", "other", "whole", "little", "old", "local", "italian",
    "same", "early", "late",
)  # fmt: skip
_THINGS = (
    "film", "movie", "story", "plot", "script", "picture", "play", "comedy", "drama", "ending", "cast", "music",
    "dialogue", "scene", "director", "actor", "performance", "book", "song", "evening",
)  # fmt: skip
_PLACES = (
    "in the city", "on the screen", "at the theatre", "in the evening", "with the children", "by the river",
    "for an hour", "from the beginning", "until the end", "about a doctor", "about two brothers", "of this year",
    "on television", "with my sister", "after the war",
)  # fmt: skip
_FRAMES = (
    "the {thing} {place} was {word}", "it is {a} {word} {thing}", "{word} {thing} {place}",
    "{an} {plain} {thing} , {word}", "the {plain} {thing} and the {other} were {word}", "they call it {word}",
    "that {thing} seemed {word} to us", "{a} {word} {plain} {thing}", "what {a} {word} {thing} {place}",
    "{thing} : {word}", "her {plain} {thing} {place} is {word} .", "everything {place} looks {word}",
    "his {word} {thing} {place}", "a {thing} {place} that is {word}", "the {plain} {thing} feels {word} .", "{word}",
    "for the {plain} {thing} they chose {a} {word} {other}", "some {word} {thing} {place} , and {an} {plain} {other}",
    "{place} we watched {an} {plain} and {word} {thing}",
)  # fmt: skip


def synthetic_phrases(count: int, seed: int = 0) -> list[Row]:
    """``count`` different phrases with ``text``, ``label`` and ``marked``: 1 for the word that decides, else 0."""
    sampler = Sampler(seed)
    found: dict[str, Row] = {}
    while len(found) < count:
        label = sampler.pick(("negative", "positive"))
        word, plain = sampler.pick(_DECIDING[label]), sampler.pick(_PLAIN)
        text = sampler.pick(_FRAMES).format(
            word=word,
            a=indefinite_article(word),
            thing=sampler.pick(_THINGS),
            other=sampler.pick(_THINGS),
            plain=plain,
            an=indefinite_article(plain),
            place=sampler.pick(_PLACES),
        )
        found[text] = {"text": text, "label": label, "marked": [int(w == word) for w in text.split()]}
    return list(found.values())


def masked_phrases(count: int, seed: int = 0) -> list[Row]:
    """``count`` phrases of masks only, as WordPiece tokenizers spell them, with random labels."""
    sampler = Sampler(seed)
    lengths = range(1, 21)
    return [
        {
            "text": " ".join(["[MASK]"] * sampler.pick(lengths)),
            "label": sampler.pick(("negative", "positive")),
        }
        for _ in range(count)
    ]


if __name__ == "__main__":
    _main()
