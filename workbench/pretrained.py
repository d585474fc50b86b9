"""The one door to transformers' ``from_pretrained``: no code of a model's folder runs, nobody is prompted; silence."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import ModelError

__all__ = ["from_pretrained", "hub_answers", "quiet", "reason"]

# Errors whose text is a sentence; of any other the text means little without the error's name.
_SPEAKING = (OSError, ValueError, ImportError, RuntimeError)


def from_pretrained(auto: Any, location: Any, **options: Any) -> Any:
    """``auto.from_pretrained(location, **options)`` without remote code.

    ``auto`` is any class of transformers: an Auto class of configurations, tokenizers, models, processors, or
    a generation configuration. Without ``trust_remote_code=False`` transformers asks on the terminal, and a
    ``y`` on standard input runs the folder's Python.

    Raises :class:`~workbench.errors.ModelError` for a folder that needs its own code, or attention that would be
    fetched from a hub repository; whatever transformers raises otherwise.
    """
    try:
        found = auto.from_pretrained(location, trust_remote_code=False, **options)
    except Exception as error:
        if "trust_remote_code" in str(error) or "custom code" in str(error) or _own_tokenizer(auto, location):
            raise ModelError(
                f"{location} needs Python code from its own repository, which is never run here; convert it to a "
                "class of transformers, or choose another model"
            ) from error
        raise
    _refuse_hub_attention(found, location)
    _start_decoder(found[0] if isinstance(found, tuple) else found)
    return found


def _start_decoder(found: Any) -> None:
    """Give an encoder-decoder's head the padding id to start its decoder with, as T5 does, where nothing is configured.

    T5's default configuration has no ``decoder_start_token_id``, without which its classifiers cannot make their
    decoder's input. Where a model generates, :func:`workbench.trace.decoder_prefix` finds the token.
    """
    config = getattr(found, "config", None)
    if (
        config is None
        or not getattr(config, "is_encoder_decoder", False)
        or not hasattr(found, "can_generate")
    ):
        return
    if not found.can_generate() and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None)


def _own_tokenizer(auto: Any, location: Any) -> bool:
    """Whether a tokenizer that could not be opened is one of the folder's own making."""
    if "Tokenizer" not in auto.__name__:
        return False
    try:
        return "auto_map" in (Path(location) / "tokenizer_config.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _refuse_hub_attention(found: Any, location: Any) -> None:
    from transformers import PreTrainedConfig

    if not isinstance(found, PreTrainedConfig):
        return
    for part in (found, *vars(found).values()):  # the configuration, and those inside it
        kernel = getattr(part, "_attn_implementation", None)
        if isinstance(kernel, str) and "/" in kernel:  # "organisation/repository": compiled code from the hub
            raise ModelError(
                f"{location}: config.json takes its attention from the repository {kernel!r:.80}, whose code is "
                "never run here; remove attn_implementation from config.json"
            )


def reason(error: BaseException) -> str:
    """What an error of another package says, on one line of at most 200 characters."""
    text = " ".join(str(error).split())
    if "ignore_mismatched_sizes" in text:  # the details are in a report of many lines
        return "the weights have other shapes than config.json says; compare its sizes, heads and vocabulary"
    if not text or not isinstance(error, _SPEAKING):
        text = f"{type(error).__name__}: {text}".rstrip(": ")
    return text[:200]


@contextmanager
def quiet() -> Iterator[None]:
    """Only errors from transformers' own log, and no progress bars; restored afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def hub_answers() -> bool:
    """Whether the hub can be reached; without this question its client tries for a minute.

    The answer holds for the rest of the minute, as a command may read many data sets.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} & os.environ.keys():
        return True
    url = urlsplit(constants.ENDPOINT)
    return _connects(url.hostname or "", url.port or 443, int(time.monotonic() // 60))


@lru_cache(maxsize=1)
def _connects(host: str, port: int, minute: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False
