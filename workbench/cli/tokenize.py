"""``workbench tokenize``: the pieces of a text, with their ids, characters and words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli._shared import prompt_of, prompt_options
from workbench.errors import DataError, WorkbenchError
from workbench.terminal import counted, say, say_json

if TYPE_CHECKING:
    from workbench.text import Alignment

__all__ = ["command"]


@click.command(name="tokenize")
@click.argument("text")
@click.option(
    "--model", required=True, help="A model (only its tokenizer is opened), or a tokenizer's folder."
)
@click.option(
    "--special/--no-special", default=True, show_default=True, help="Add the model's special tokens."
)
@click.option("--punctuation", is_flag=True, help="Punctuation marks are words of their own.")
@prompt_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def command(text: str, model: str, special: bool, punctuation: bool, as_json: bool, **options: Any) -> None:
    """Show the pieces of TEXT: id, spelling in the vocabulary, characters it stands for, word.

    TEXT "-" reads standard input. Characters count from 0 and spans are half-open.
    """
    from workbench.text import PromptFormat, SpecialTokens, align
    from workbench.text.prompts import chat_alignment

    checked = _checked(_standard_input() if text == "-" else text)
    prompt = PromptFormat(**prompt_of(options))
    if prompt.chat and not special:
        raise WorkbenchError("--no-special leaves out what a chat template is made of; leave out one of both")
    tokenizer = _tokenizer(model)
    tokenizer.split_special_tokens = prompt.special_tokens is SpecialTokens.TEXT
    if prompt.chat:
        alignment = chat_alignment(checked, tokenizer, prompt.system, punctuation=punctuation)
    else:
        alignment = align(checked, tokenizer, add_special_tokens=special, punctuation=punctuation)
    if as_json:
        say_json({"model": model, **_record(alignment)}, indent=2)
    else:
        say(_page(alignment))


def _standard_input() -> str:
    """All of standard input as UTF-8, less the line break that a shell adds."""
    content = sys.stdin.buffer.read()
    try:
        return content.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not UTF-8: {error.reason} at byte {error.start}") from None


def _checked(text: str) -> str:
    if not text.strip():
        raise DataError("the text is empty; give at least one visible character")
    if "\0" in text:
        raise DataError(f"the text has a NUL character at {text.index(chr(0))}, which is not text; remove it")
    return text


def _tokenizer(model: str) -> Any:
    """A model's tokenizer; a folder or file that holds a tokenizer without a model will do."""
    from workbench.models import load_tokenizer
    from workbench.text import load_tokenizer as open_tokenizer

    path = Path(model).expanduser()
    without_model = path.suffix == ".json" or (path.is_dir() and not (path / "config.json").is_file())
    return open_tokenizer(path) if without_model else load_tokenizer(model)


def _page(alignment: Alignment) -> str:
    from workbench.cli._tables import table
    from workbench.text import printable

    rows = [
        (
            t,
            token_id,
            printable(alignment.tokens[t]),
            printable(alignment.piece(t)),
            "{}:{}".format(*alignment.offsets[t]),
            "-" if (word := alignment.word_ids[t]) is None else f"{word} {printable(alignment.word(word))}",
        )
        for t, token_id in enumerate(alignment.ids)
    ]
    lines = [table(("token", "id", "piece", "text", "characters", "word"), rows)]
    sizes = {"character": len(alignment.text), "word": len(alignment.words), "token": len(alignment)}
    counts = ", ".join(counted(size, noun) for noun, size in sizes.items())
    dropped = ", ".join(printable(alignment.word(w)) for w in alignment.dropped)
    lines.append(counts + (f"; words without a token: {dropped}" if dropped else ""))
    return "\n".join(lines)


def _record(alignment: Alignment) -> dict[str, Any]:
    tokens = [
        {"index": t, "id": token_id, "piece": piece, "start": start, "end": end, "word": word}
        for t, (token_id, piece, (start, end), word) in enumerate(
            zip(alignment.ids, alignment.tokens, alignment.offsets, alignment.word_ids, strict=True)
        )
    ]
    words = [
        {"index": w, "text": alignment.word(w), "start": start, "end": end, "tokens": list(span)}
        for w, ((start, end), span) in enumerate(zip(alignment.words, alignment.token_spans, strict=True))
    ]
    return {"text": alignment.text, "tokens": tokens, "words": words}
