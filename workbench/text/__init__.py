"""Tokenizers: train them, open them, and align their tokens with the words and characters of a text."""

from __future__ import annotations

from workbench.characters import display_width, printable
from workbench.text._pipelines import Role, TokenizerKind
from workbench.text.alignment import Alignment, align, align_words
from workbench.text.load import load_tokenizer, save_tokenizer
from workbench.text.pieces import Pieces, require_fast, split_texts
from workbench.text.prompts import PromptFormat, Rendered, SpecialTokens, chat_text, render, rendered_ids
from workbench.text.train import sentinel_ids, train_tokenizer
from workbench.text.words import Span, join_words, split_words

__all__ = [
    "Alignment",
    "Pieces",
    "PromptFormat",
    "Rendered",
    "Role",
    "Span",
    "SpecialTokens",
    "TokenizerKind",
    "align",
    "align_words",
    "chat_text",
    "display_width",
    "join_words",
    "load_tokenizer",
    "printable",
    "render",
    "rendered_ids",
    "require_fast",
    "save_tokenizer",
    "sentinel_ids",
    "split_texts",
    "split_words",
    "train_tokenizer",
]
