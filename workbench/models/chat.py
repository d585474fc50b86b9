"""Preferences in a model's own chat template, of one turn or several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.data.rows import Preference, Turn
from workbench.errors import ModelError
from workbench.text.prompts import turns_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["chat_turn", "in_chat_template"]


def in_chat_template(
    pairs: Iterable[Preference], tokenizer: PreTrainedTokenizerBase
) -> tuple[Preference, ...]:
    """The pairs with their prompt written by the template, up to where the reply begins, and each reply to its end.

    A prompt that is not known to be a dialogue is one message of the user. Raises
    :class:`~workbench.errors.ModelError` for a tokenizer without a template, and for one that writes a reply
    elsewhere than behind the prompt.

    Example:
        ```python
        import workbench
        from workbench.data.preferences import read_preferences
        from workbench.models.chat import in_chat_template

        tokenizer = workbench.load("novels-decoder").tokenizer
        tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        rows = [{"prompt": "Two and two?", "chosen": "Four.", "rejected": "Five."}]
        print(in_chat_template(read_preferences(rows).pairs, tokenizer)[0].prompt)
        ```
    """
    return tuple(_written(pair, tokenizer) for pair in pairs)


def _written(pair: Preference, tokenizer: PreTrainedTokenizerBase) -> Preference:
    turns = pair.turns or (("user", pair.prompt),)
    prompt = turns_text(tokenizer, turns)
    chosen, rejected = (chat_turn(tokenizer, turns, reply) for reply in (pair.chosen, pair.rejected))
    return replace(pair, prompt=prompt, chosen=chosen, rejected=rejected)


def chat_turn(tokenizer: PreTrainedTokenizerBase, turns: tuple[Turn, ...], reply: str) -> str:
    """The assistant's ``reply`` to ``turns`` as the template writes it behind the prompt, with what ends it."""
    prompt = turns_text(tokenizer, turns)
    whole = turns_text(tokenizer, (*turns, ("assistant", reply.strip())), reply_follows=False)
    if not whole.startswith(prompt):
        raise ModelError(
            f"the chat template does not write the reply {reply.strip()!r:.40} behind its prompt; leave out --chat"
        )
    return whole.removeprefix(prompt)
