"""Conversations as token ids, and which of them the assistant's replies are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import ModelError
from workbench.text.prompts import turns_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["PLAIN_TEMPLATE", "conversation_ids"]

PLAIN_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}{{ message['content'] | trim }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token or '' }}{% else %}{{ '\\n' }}{% endif %}{% endfor %}"
)
"""For models without a chat template: BOS, messages of a system or user each with a line break, replies with EOS."""


def conversation_ids(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[tuple[str, str]]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids of a conversation up to the end of its last reply, and the places (first, after the last) of each reply.

    ``turns`` are roles and texts.

    A reply begins behind the generation prompt, and ends with the special token that ends its turn, where the template
    writes one. Ids before it are those that the model reads when it is asked to reply, which is checked: the
    conversation's beginnings are tokenized too.

    Raises :class:`~workbench.errors.ModelError` for a template that refuses the messages (a role that it does not
    know), writes an earlier turn otherwise once others follow, or whose tokens reach across the border of a turn.
    """
    added = tokenizer.added_tokens_decoder.items()
    special = {*tokenizer.all_special_ids, *(number for number, token in added if token.special)}
    ids: list[int] = []
    replies = []
    for number, (role, _) in enumerate(turns):
        if role != "assistant":
            continue
        asked = _ids(tokenizer, turns[:number], reply_follows=True)
        answered = _ids(tokenizer, turns[: number + 1], reply_follows=False)
        if asked[: len(ids)] != ids or answered[: len(asked)] != asked:
            raise ModelError(
                f"the chat template cannot be split at message {number + 1}: its beginning is other tokens alone than "
                "in the whole conversation; keep one prompt and one reply a row, or use another template"
            )
        ends = [place for place in range(len(asked), len(answered)) if answered[place] in special]
        ids = answered[: ends[-1] + 1] if ends else answered
        replies.append((len(asked), len(ids)))
    return ids, replies


def _ids(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[tuple[str, str]], *, reply_follows: bool
) -> list[int]:
    text = turns_text(tokenizer, turns, reply_follows=reply_follows, otherwise=PLAIN_TEMPLATE)
    found: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return found
