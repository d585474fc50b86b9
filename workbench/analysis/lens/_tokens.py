"""The vocabulary entry that a user means by a target such as " are"."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import DataError
from workbench.models import Kind, LoadedModel

__all__ = ["TargetToken", "different_targets", "target_token"]


@dataclass(frozen=True)
class TargetToken:
    """A vocabulary entry. ``pieces`` is above 1 where ``text`` needs more and ``id`` is only the first of them."""

    text: str
    id: int
    token: str
    pieces: int = 1

    @property
    def note(self) -> str:
        """What the reader must know where the target has several pieces; empty otherwise."""
        if self.pieces == 1:
            return ""
        return f"{self.text!r} has {self.pieces} pieces; measured is its first, {self.token!r}"


def target_token(model: LoadedModel, text: str) -> TargetToken:
    """The token that ``text`` begins with: all of it, where the vocabulary has it in one piece.

    A leading space counts for vocabularies that mark it. Of a target of several pieces the first is taken, and
    :attr:`TargetToken.note` says so. Raises :class:`~workbench.errors.DataError` for a target that is empty or
    not in the vocabulary.
    """
    tokenizer = model.tokenizer
    ids = _pieces(model, text)
    if not ids or tokenizer.unk_token_id in ids:
        raise DataError(
            f"target {text!r} is not in the vocabulary of {model.name}; name a word or piece that its tokenizer "
            "knows (see: workbench tokenize)"
        )
    return TargetToken(text, ids[0], str(tokenizer.convert_ids_to_tokens(ids[0])), len(ids))


def _pieces(model: LoadedModel, text: str) -> list[int]:
    """The ids of ``text``; the vocabulary's own spelling ("Ġare", "##s") is understood too."""
    tokenizer = model.tokenizer
    if not text.strip() and text not in tokenizer.get_vocab():
        return []
    if text in tokenizer.get_vocab() and (text in tokenizer.all_special_tokens or text[0] in "Ġ▁#"):
        return [int(tokenizer.convert_tokens_to_ids(text))]
    found = [tokenizer(t, add_special_tokens=False).input_ids for t in (text, text.strip())]
    # A sentence-piece vocabulary puts a space of its own before a text that begins with one.
    marks_spaces = model.kind is not Kind.MASKED and len(found[0]) == 1
    return list(found[0] if marks_spaces or len(found[0]) <= len(found[1]) else found[1])


def different_targets(target: TargetToken, contrast: TargetToken | None) -> None:
    """Raise :class:`~workbench.errors.DataError` where target and contrast begin with the same piece."""
    if contrast is not None and contrast.id == target.id:
        raise DataError(
            f"target {target.text!r} and contrast {contrast.text!r} both begin with {target.token!r}, so nothing "
            "tells them apart at one position; choose targets that differ in their first piece"
        )
