"""Preferences in a chat template: several turns, the reply with what ends it, and models without a template."""

from __future__ import annotations

import pytest

from tests.unit.tiny import word_tokenizer
from workbench.data.preferences import read_preferences
from workbench.errors import ModelError
from workbench.models.chat import in_chat_template

_TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
_DIALOGUE = "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Two and two?\n\nAssistant:"


def test_all_turns_are_kept_and_the_reply_is_ended() -> None:
    """A dialogue of HH-RLHF, and a prompt that is no dialogue."""
    tokenizer = word_tokenizer()
    tokenizer.chat_template = _TEMPLATE
    rows = [
        {"chosen": _DIALOGUE + " Four.", "rejected": _DIALOGUE + " Five."},
        {"prompt": "Two?", "chosen": "2", "rejected": "3"},
    ]
    first, second = in_chat_template(read_preferences(rows).pairs, tokenizer)
    assert first.prompt == "[user]Hi[end][assistant]Hello[end][user]Two and two?[end][assistant]"
    assert (first.chosen, first.rejected) == ("Four.[end]", "Five.[end]")
    assert (second.prompt, second.chosen) == ("[user]Two?[end][assistant]", "2[end]")


def test_templates_that_cannot_write_it_are_refused() -> None:
    """None at all; one that writes the reply in front; one that takes one message only."""
    tokenizer = word_tokenizer()
    pairs = read_preferences([{"chosen": _DIALOGUE + " Four.", "rejected": _DIALOGUE + " Five."}]).pairs
    for template, said in (
        (None, "the tokenizer has no chat template"),
        ("{% for m in messages|reverse %}{{ m.content }}{% endfor %}", "does not write the reply 'Four.'"),
        ("{{ raise_exception('one message') }}", "the chat template refuses these 3 messages: one message"),
    ):
        tokenizer.chat_template = template
        with pytest.raises(ModelError, match=said):
            in_chat_template(pairs, tokenizer)
