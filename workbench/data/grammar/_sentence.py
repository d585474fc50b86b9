"""What the grammar produces: sentences whose every word has its gold annotation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sentence", "Word"]


@dataclass(frozen=True)
class Word:
    """One word in Universal Dependencies terms: ``index`` counts from 1, the root's ``head`` is 0."""

    index: int
    form: str
    lemma: str
    upos: str
    feats: tuple[tuple[str, str], ...]
    head: int
    deprel: str
    space_after: bool = True

    def feature(self, name: str) -> str | None:
        """The value of a morphological feature such as ``Number``, or None where the word has none."""
        return dict(self.feats).get(name)

    @property
    def number(self) -> str | None:
        """``Sing`` or ``Plur``, on nouns, pronouns and finite verbs."""
        return self.feature("Number")

    @property
    def tense(self) -> str | None:
        """``Past`` or ``Pres``, on verbs."""
        return self.feature("Tense")

    @property
    def person(self) -> str | None:
        """``1``, ``2`` or ``3``, on personal pronouns and finite verbs."""
        return self.feature("Person")

    def to_conllu(self) -> str:
        """The ten columns of CoNLL-U; the language's own tag (XPOS) and the enhanced graph stay empty."""
        feats = "|".join(f"{key}={value}" for key, value in self.feats) or "_"
        misc = "_" if self.space_after else "SpaceAfter=No"
        columns = (
            self.index,
            self.form,
            self.lemma,
            self.upos,
            "_",
            feats,
            self.head,
            self.deprel,
            "_",
            misc,
        )
        return "\t".join(map(str, columns))


@dataclass(frozen=True)
class Sentence:
    """A generated sentence; ``construction`` names the rule that made it."""

    id: str
    words: tuple[Word, ...]
    construction: str

    @property
    def text(self) -> str:
        """The sentence as one would print it."""
        return "".join(word.form + " " * word.space_after for word in self.words).rstrip()

    @property
    def root(self) -> Word:
        """The word that depends on none."""
        return next(word for word in self.words if word.head == 0)

    def dependents(self, word: Word, deprel: str | None = None) -> list[Word]:
        """Words that depend on ``word``, those with one relation if given."""
        return [w for w in self.words if w.head == word.index and deprel in (None, w.deprel)]

    def to_conllu(self) -> str:
        """The sentence as a CoNLL-U block that ends in an empty line."""
        comments = [
            f"# sent_id = {self.id}",
            f"# text = {self.text}",
            f"# construction = {self.construction}",
        ]
        return "\n".join([*comments, *(word.to_conllu() for word in self.words)]) + "\n\n"
