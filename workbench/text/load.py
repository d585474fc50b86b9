"""Open a tokenizer from a folder or a file on disk: no network, no remote code, no pickle."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["load_tokenizer", "save_tokenizer"]

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
        if not any((path / name).is_file() for name in TOKENIZER_FILES):
            raise ModelError(f"no tokenizer in {path}; expected one of {', '.join(TOKENIZER_FILES)}")
        return _open(path)
    if not path.is_file():
        raise ModelError(f"no tokenizer at {path}: no such file or folder")
    if path.suffix == ".gguf":
        return _open(path.parent, gguf_file=path.name)
    if path.suffix == ".json":
        return _bare_json(path)
    raise ModelError(f"cannot tell what {path} is; give a folder, a tokenizer.json or a .gguf file")


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: str | os.PathLike[str]) -> Path:
    """Write ``tokenizer`` as a plain folder, each file complete or absent; returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".tokenizer-", dir=folder))
    try:
        tokenizer.save_pretrained(staging)
        for file in sorted(staging.iterdir()):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _open(folder: Path, gguf_file: str | None = None) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    options = {} if gguf_file is None else {"gguf_file": gguf_file}
    try:
        return AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # a broken file can raise anything, Rust panics aside
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"cannot open the tokenizer in {folder / (gguf_file or '')}: {reason}") from error


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
