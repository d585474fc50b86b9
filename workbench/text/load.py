"""Open a tokenizer from a folder or a file on disk: no network, no remote code, no pickle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from workbench.errors import ModelError, WorkbenchError
from workbench.pretrained import from_pretrained, reason

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["holds_tokenizer", "load_tokenizer", "open_tokenizer", "save_tokenizer"]

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
)

# Names by which a bare tokenizer.json, which does not say what its special tokens are for, is understood.
CONVENTIONAL_NAMES = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "bos_token": ("<s>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos_token": ("</s>", "<|end_of_text|>", "<|endoftext|>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "mask_token": ("[MASK]", "<mask>"),
}


def load_tokenizer(path: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """Open the tokenizer in a folder, or in a single ``tokenizer.json`` or ``*.gguf`` file.

    A ``tokenizer.json`` beside a ``tokenizer_config.json`` is opened as that folder.

    Raises:
        ModelError: nothing is there, it holds no tokenizer, or the tokenizer cannot be opened.
    """
    path = Path(path).expanduser()
    if path.is_file() and path.name == "tokenizer.json" and (path.parent / "tokenizer_config.json").is_file():
        path = path.parent
    if path.is_dir():
        if not holds_tokenizer(path):
            raise ModelError(f"no tokenizer in {path}; expected one of {', '.join(TOKENIZER_FILES)}")
        return _open(path)
    if not path.is_file():
        raise ModelError(f"no tokenizer at {path}: no such file or folder")
    if path.suffix == ".gguf":
        from workbench.text.gguf import gguf_tokenizer, read_gguf  # takes a while to import

        return gguf_tokenizer(read_gguf(path))
    if path.suffix == ".json":
        return _bare_json(path)
    raise ModelError(f"cannot tell what {path} is; give a folder, a tokenizer.json or a .gguf file")


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: str | os.PathLike[str]) -> Path:
    """Write ``tokenizer`` as a plain folder, each file complete or absent; returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    staging = folder / f".tokenizer-{uuid4().hex[:8]}.part"
    try:
        tokenizer.save_pretrained(staging)
        for file in sorted(staging.iterdir()):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def holds_tokenizer(folder: Path) -> bool:
    """Whether a file of a tokenizer lies in ``folder``."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def _open(folder: Path) -> PreTrainedTokenizerBase:
    try:
        return open_tokenizer(folder, local_files_only=True)
    except WorkbenchError:
        raise
    except Exception as error:  # a broken file can raise anything, Rust panics aside
        raise ModelError(f"cannot open the tokenizer in {folder}: {reason(error)}") from error


def open_tokenizer(location: str | Path, **options: Any) -> PreTrainedTokenizerBase:
    """What ``AutoTokenizer.from_pretrained`` finds, without remote code.

    Raises :class:`~workbench.errors.ModelError` for a tokenizer without a vocabulary: transformers makes one
    of a folder that lacks the vocabulary's file, and then every word is unknown.
    """
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = from_pretrained(AutoTokenizer, location, **options)
    special = {str(token) for token in tokenizer.added_tokens_decoder.values()}
    special.update(tokenizer.all_special_tokens)
    if not any(token.strip("▁") for token in tokenizer.get_vocab().keys() - special):
        wanted = sorted(set(tokenizer.vocab_files_names.values())) or list(TOKENIZER_FILES)
        raise ModelError(
            f"the tokenizer of {location} has no vocabulary: every word would be unknown; add the missing file: "
            + " or ".join(wanted)
        )
    return tokenizer


def _bare_json(path: Path) -> PreTrainedTokenizerBase:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises the bare Exception
        raise ModelError(f"{path} is not a tokenizer.json: {' '.join(str(error).split())[:200]}") from error
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    roles = {
        role: next(name for name in names if name in known)
        for role, names in CONVENTIONAL_NAMES.items()
        if known.intersection(names)
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **roles)
