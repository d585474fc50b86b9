"""Subject-verb agreement sets: Linzen et al. (2016), Marvin & Linzen (2018)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from challenge_sets._records import MinimalPair
from challenge_sets.readers import gulordava
from challenge_sets.readers._rows import Row, refuse_equal, table_rows
from workbench.data.files import find_file, read_lines
from workbench.data.tables import find_table
from workbench.errors import DataError

__all__ = ["MARVIN_LINZEN", "AgreementItem", "read_gold_text", "read_marvin_linzen"]

_END = "<eos>"
_GOLD = ("position", "correct", "wrong", "attractors")
MARVIN_LINZEN = ("construction", "case", "sentence_good", "sentence_bad")


class AgreementItem(NamedTuple):
    """A tokenised sentence from text, the place of a verb in it, and the verb's form of the other number.

    ``position`` counts words from 0; ``attractors`` is the number of nouns of the other number in between.
    """

    id: str
    words: tuple[str, ...]
    position: int
    correct: str
    wrong: str
    attractors: int

    @property
    def prefix(self) -> str:
        """The words in front of the verb."""
        return " ".join(self.words[: self.position])

    def pair(self, set_name: str = "linzen") -> MinimalPair:
        """The whole sentence with either form."""
        after = self.words[self.position + 1 :]
        good, bad = (
            " ".join((*self.words[: self.position], verb, *after)) for verb in (self.correct, self.wrong)
        )
        group = f"attractors_{self.attractors}"
        return MinimalPair(
            self.id,
            set_name,
            group,
            "subject_verb_agreement",
            good,
            bad,
            {"attractors": str(self.attractors)},
        )


def read_gold_text(path: Path | str) -> Iterator[AgreementItem]:
    """Items of a pair of files ``NAME.text`` and ``NAME.gold``; ``path`` is either, ``NAME``, or their folder.

    The gold file has four columns without header: word position, correct form, wrong form, attractors.
    A few rows of the published files have two equal forms; they are kept. Raises
    :class:`~workbench.errors.DataError` if the two files differ in length, or the position holds another word.
    """
    text_path, gold_path = _pair_of_files(Path(path))
    if gulordava.is_gold(gold_path):
        raise DataError(f"{gold_path} has the twelve columns of Gulordava et al.: use --set gulordava")
    sentences, gold = read_lines(text_path), list(table_rows(gold_path, _GOLD, header=False))
    if len(sentences) != len(gold):
        raise DataError(
            f"{text_path} has {len(sentences)} lines, {gold_path} {len(gold)}; they must go line by line"
        )
    for index, (sentence, row) in enumerate(zip(sentences, gold, strict=True)):
        words = tuple(sentence.split())
        words = words[:-1] if words[-1] == _END else words
        _check_target(words, row)
        yield AgreementItem(
            id=str(index),
            words=words,
            position=row.integer("position"),
            correct=row["correct"],
            wrong=row["wrong"],
            attractors=row.integer("attractors"),
        )


def _pair_of_files(path: Path) -> tuple[Path, Path]:
    if path.is_dir():
        texts = sorted(path.glob("*.text"))
        if not texts:
            raise DataError(f"no *.text with its *.gold in {path}")
        path = texts[0]
    stem = path.with_suffix("") if path.suffix in (".text", ".gold") else path
    folder, name = stem.parent, stem.name
    return find_file(folder, f"{name}.text"), find_file(folder, f"{name}.gold")


def _check_target(words: tuple[str, ...], row: Row) -> None:
    position, correct = row.integer("position"), row["correct"]
    if not 0 <= position < len(words):
        raise DataError(f"{row.where}: position {position} is outside the sentence of {len(words)} words")
    if words[position].lower() != correct.lower():
        raise DataError(
            f"{row.where}: word {position} of the sentence is {words[position]!r}, not {correct!r}"
        )


def _phenomenon(construction: str) -> str:
    if "npi" in construction:
        return "npi_licensing"
    return "reflexives" if "reflexive" in construction else "subject_verb_agreement"


def read_marvin_linzen(path: Path | str) -> Iterator[MinimalPair]:
    """Pairs of the table with columns construction, case, sentence_good, sentence_bad, sentence_bad2.

    A row with a second bad sentence (the polarity cases) gives two pairs with the same good one;
    ``metadata["bad"]`` says which, and ids end in ``a`` or ``b``.
    """
    file = find_table(path, MARVIN_LINZEN, "marvin_linzen.tsv", "marvin_linzen_first60_each.tsv")
    for index, row in enumerate(table_rows(file, MARVIN_LINZEN)):
        bad_members = [("a", row["sentence_bad"]), ("b", row.fields.get("sentence_bad2", ""))]
        for letter, bad in bad_members:
            if not bad:
                continue
            refuse_equal(row["sentence_good"], bad, row.where)
            yield MinimalPair(
                id=f"{index}{letter}",
                set="marvin_linzen",
                paradigm=row["construction"],
                phenomenon=_phenomenon(row["construction"]),
                good=row["sentence_good"],
                bad=bad,
                metadata={"case": row["case"], "bad": letter},
            )
