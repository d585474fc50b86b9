"""How a model reads a user's text: as it is, or as one message in its chat template; special tokens or characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from workbench.characters import check_text
from workbench.errors import ConfigError, ModelError
from workbench.records import check_fields
from workbench.text._offsets import RawEncoding, complete, raw_encoding, words_of_tokens
from workbench.text.alignment import Alignment
from workbench.text.words import Span, split_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "PromptFormat",
    "Rendered",
    "SpecialTokens",
    "chat_alignment",
    "chat_text",
    "render",
    "rendered_ids",
    "turns_text",
]

_STAND_IN = "\ue000text\ue001"  # private characters, which no template has


class SpecialTokens(StrEnum):
    """What a special token spelled out in a user's text is."""

    PARSE = "parse"  # that token, as in transformers
    TEXT = "text"  # its characters


@dataclass(frozen=True, kw_only=True)
class PromptFormat:
    """How a model reads a user's text.

    With ``chat`` the text is one user message in the chat template, behind a ``system`` message where one is given,
    and the generation prompt follows: what the model is asked about comes after it. Special tokens are the template's;
    the tokenizer adds none. ``special_tokens`` spelled out in the text are those tokens or, with "text", their
    characters; those of the template are always tokens.
    Settings of what reads texts extend it. Raises :class:`~workbench.errors.ConfigError`.
    """

    chat: bool = False
    system: str | None = None
    special_tokens: SpecialTokens = SpecialTokens.PARSE

    def __post_init__(self) -> None:
        check_fields(self)
        if self.system is not None and not self.chat:
            raise ConfigError("system is of a chat format; add chat, or leave it out")

    @property
    def prompt(self) -> dict[str, Any]:
        """These fields, of settings that have more; empty where all are as usual."""
        own = {field.name: getattr(self, field.name) for field in fields(PromptFormat)}
        return own if PromptFormat(**own) != PromptFormat() else {}


@dataclass(frozen=True)
class Rendered:
    """A message in a chat template; ``own`` are the spans of characters that the user wrote."""

    text: str
    own: tuple[Span, ...]

    def followed_by(self, continuation: str) -> Rendered:
        """With the beginning of the reply."""
        whole = self.text + continuation
        return Rendered(whole, (*self.own, (len(self.text), len(whole))))


def chat_text(tokenizer: PreTrainedTokenizerBase, text: str, system: str | None = None) -> str:
    """``text`` as one user message, and the generation prompt.

    Raises :class:`~workbench.errors.ModelError` as :func:`turns_text` does.
    """
    before = [] if system is None else [("system", system)]
    return turns_text(tokenizer, [*before, ("user", text)])


def turns_text(
    tokenizer: PreTrainedTokenizerBase,
    turns: Sequence[tuple[str, str]],
    *,
    reply_follows: bool = True,
    otherwise: str | None = None,
) -> str:
    """Messages, each a role and a text, in the chat template; the generation prompt where a reply follows.

    ``otherwise`` is the template for tokenizers that have none. Raises :class:`~workbench.errors.ModelError` for one
    without either, and for a template that refuses the messages (some take no system message).
    """
    from jinja2 import TemplateError

    messages = [{"role": role, "content": content} for role, content in turns]
    template = None if tokenizer.chat_template else otherwise
    if not (tokenizer.chat_template or template):
        raise ModelError("the tokenizer has no chat template; leave out --chat")
    try:
        return str(
            tokenizer.apply_chat_template(
                messages, chat_template=template, tokenize=False, add_generation_prompt=reply_follows
            )
        )
    except TemplateError as error:
        refused = "a system message" if turns[0][0] == "system" else "the message"
        refused = f"these {len(turns)} messages" if len(turns) > 2 else refused
        raise ModelError(f"the chat template refuses {refused}: {str(error)[:120]}") from None


def render(tokenizer: PreTrainedTokenizerBase, text: str, system: str | None = None) -> Rendered:
    """:func:`chat_text`, and where in it the user's text stands; templates may strip white space around it.

    Raises :class:`~workbench.errors.ModelError` for a template that changes the text in another way.
    """
    rendered = chat_text(tokenizer, check_text(text, f"text {text[:40]!r}"), system)
    before, found, after = chat_text(tokenizer, _STAND_IN, system).rpartition(_STAND_IN)
    if not (found and rendered.startswith(before) and rendered.endswith(after)):
        raise ModelError(
            "the chat template changes the text, so that its words cannot be found; leave out --chat"
        )
    return Rendered(rendered, ((len(before), len(rendered) - len(after)),))


def chat_alignment(
    text: str,
    tokenizer: PreTrainedTokenizerBase,
    system: str | None = None,
    *,
    punctuation: bool = False,
    words: Sequence[Span] | None = None,
) -> Alignment:
    """Tokens of the whole message; the words are those of ``text``, and tokens of the template are of no word.

    ``words`` are their spans in ``text``, where they are not those between its white space.
    """
    rendered = render(tokenizer, text, system)
    ((start, end),) = rendered.own
    own = rendered.text[start:end]
    if words is None:
        words = split_words(own, punctuation=punctuation)
    else:  # the template may have stripped the text
        lead = text.find(own)
        words = [(min(max(a - lead, 0), len(own)), min(max(b - lead, 0), len(own))) for a, b in words]
    words = tuple((start + a, start + b) for a, b in words)
    raw = _encoding(rendered, tokenizer)
    offsets = complete(rendered.text, raw.offsets, words)
    return Alignment(rendered.text, raw.tokens, raw.ids, offsets, words, words_of_tokens(offsets, words))


def rendered_ids(rendered: Rendered, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Token ids of a message; the template's special tokens are parsed, no others are added."""
    return _encoding(rendered, tokenizer).ids


def _encoding(rendered: Rendered, tokenizer: PreTrainedTokenizerBase) -> RawEncoding:
    whole = raw_encoding(rendered.text, tokenizer, add_special_tokens=False, parse_special=True)
    if not tokenizer.split_special_tokens:
        return whole
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    places = [place for place, number in enumerate(whole.ids) if number in special]
    of_user = [
        p for p in places if any(whole.offsets[p][0] < e and whole.offsets[p][1] > s for s, e in rendered.own)
    ]
    if not of_user:
        return whole
    if _by_parts(rendered.text, whole, places, tokenizer).ids != whole.ids:
        raise ModelError(
            "this tokenizer reads special tokens as text only outside a chat template; leave out --chat"
        )
    return _by_parts(rendered.text, whole, [p for p in places if p not in of_user], tokenizer)


def _by_parts(
    text: str, whole: RawEncoding, kept: Sequence[int], tokenizer: PreTrainedTokenizerBase
) -> RawEncoding:
    """The tokens at the places ``kept`` of ``whole``, and what is between them read as text."""
    found, begin = RawEncoding((), (), ()), 0
    for place in [*kept, None]:
        end = len(text) if place is None else whole.offsets[place][0]
        part = raw_encoding(text[begin:end], tokenizer, add_special_tokens=False, parse_special=False)
        moved = tuple((begin + a, begin + b) for a, b in part.offsets)
        found = _joined(found, replace(part, offsets=moved))
        if place is not None:
            one = slice(place, place + 1)
            found = _joined(found, RawEncoding(whole.tokens[one], whole.ids[one], whole.offsets[one]))
            begin = whole.offsets[place][1]
    return found


def _joined(first: RawEncoding, second: RawEncoding) -> RawEncoding:
    return RawEncoding(first.tokens + second.tokens, first.ids + second.ids, first.offsets + second.offsets)
