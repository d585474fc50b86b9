"""The texts that all tabs look at: fields that can be edited in place, and are kept in the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from workbench.dashboard.show import LONGEST, area
from workbench.models import LoadedModel
from workbench.trace import Text

__all__ = ["EXAMPLE", "Texts", "text_fields"]

EXAMPLE = "The animal didn't cross the street because it was too tired."


@dataclass(frozen=True)
class Texts:
    """What was typed. ``pair`` is the second segment, ``target`` what a decoder writes, ``other`` is compared.

    With ``chat`` each text is a user's message, behind a ``system`` message where one is given.
    """

    text: str
    pair: str = ""
    target: str | None = None
    other: str = ""
    chat: bool = False
    system: str | None = None

    @property
    def whole(self) -> Text:
        """The text, or the pair where there is a second segment."""
        return (self.text, self.pair) if self.pair.strip() else self.text


def text_fields(models: Sequence[LoadedModel], *, compared: bool) -> Texts:
    """The fields for these models; ``compared`` asks for another text instead of a second segment."""
    text = area("Text", "text", EXAMPLE)
    other = area("Other text", "other", "") if compared else ""
    target = None
    if any(model.config.is_encoder_decoder for model in models):
        target = area("Target (empty: the model writes it)", "target", "") or None
    pair = ""
    if not compared and not all(model.config.is_encoder_decoder for model in models):
        pair = st.text_input(
            "Second text (for a pair)",
            key="pair",
            bind="query-params",
            persist_state="session",
            max_chars=LONGEST,
        )
    return Texts(text, pair or "", target, other, *_chat_fields(models))


def _chat_fields(models: Sequence[LoadedModel]) -> tuple[bool, str | None]:
    """Whether texts are messages (a toggle, where a model has a chat template), and the system message."""
    if not any(model.tokenizer.chat_template for model in models):
        return False, None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chat = st.toggle(
            "Chat format",
            key="chat",
            bind="query-params",
            persist_state="session",
            help="The text is a user's message in the model's chat template, the generation prompt behind it.",
        )
        if not chat:
            return False, None
        system = st.text_input(
            "System message", key="system", bind="query-params", persist_state="session", max_chars=LONGEST
        )
    return True, system or None
