"""The record that :func:`workbench.load` returns."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from workbench.choices import as_members
from workbench.errors import ModelError
from workbench.models.dispatched import parameter_count
from workbench.models.measured import longest_input, looks_ahead, takes_order
from workbench.models.weights import hash_of
from workbench.records import settings_of
from workbench.terminal import with_article
from workbench.text import Alignment, PromptFormat, SpecialTokens, align, align_words
from workbench.text.prompts import chat_alignment
from workbench.text.words import join_words

__all__ = ["Kind", "LoadedModel"]


class Kind(StrEnum):
    """What a model can be asked, decided from its configuration and the weights that are really there."""

    CAUSAL = "causal"
    MASKED = "masked"
    SEQ2SEQ = "seq2seq"
    ENCODER = "encoder"
    CLASSIFIER = "classifier"
    DETECTOR = "detector"  # ELECTRA's discriminator: which tokens of a text were replaced
    FUNCTION = "function"  # from texts to probabilities, without weights that can be seen: a TextFunction


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """A model in ``eval()`` with its tokenizer and everything needed to say which one it was.

    Immutable to callers: what changes ``model`` for a while is a context manager that puts it back.
    ``lock`` is held around forward passes by callers that share the model between threads.
    """

    model: Any  # a transformers PreTrainedModel
    tokenizer: Any  # a transformers PreTrainedTokenizerBase
    kind: Kind
    name: str
    revision: str | None
    dtype: torch.dtype
    device: torch.device
    implementation: str  # "hf" or "builtin"
    path: Path | None = None
    prompt: PromptFormat = field(default_factory=PromptFormat)  # see reads()
    lock: Any = field(default_factory=RLock)

    def __post_init__(self) -> None:
        as_members(self)

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"<LoadedModel {self.name}: {self.kind}, {self.num_parameters:,} parameters, {dtype}, {self.device}>"

    @property
    def config(self) -> Any:
        """The transformers configuration."""
        return self.model.config

    def reads(self, **options: Any) -> LoadedModel:
        """The same model, the weights shared, that reads texts as ``options`` say: fields of :class:`PromptFormat`.

        Raises :class:`~workbench.errors.ModelError` for ``chat`` without a chat template, and of a model that does not
        go on from a text.

        Example:
            ```python
            import workbench

            model = workbench.load("novels-decoder").reads(special_tokens="text")
            print(model.read("She said <s>.").tokens)
            ```
        """
        prompt = settings_of(PromptFormat, None, {**asdict(self.prompt), **options})
        if prompt == self.prompt:
            return self
        if prompt.chat:
            self.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="a chat format")
            if not self.tokenizer.chat_template:
                raise ModelError(f"{self.name} has no chat template; leave out --chat")
        tokenizer = copy.copy(self.tokenizer)
        tokenizer.split_special_tokens = prompt.special_tokens is SpecialTokens.TEXT
        return replace(self, prompt=prompt, tokenizer=tokenizer)

    def read(self, text: str) -> Alignment:
        """Tokens and words of ``text`` as the model reads it, with the special tokens that stand around it."""
        if self.prompt.chat:
            return chat_alignment(text, self.tokenizer, self.prompt.system)
        return align(text, self.tokenizer)

    def read_words(self, words: Sequence[str], space_after: Sequence[bool] | None = None) -> Alignment:
        """As :meth:`read`, for a sentence that is split into words; see :func:`~workbench.text.align_words`."""
        if self.prompt.chat:
            text, spans = join_words(words, space_after)
            return chat_alignment(text, self.tokenizer, self.prompt.system, words=spans)
        return align_words(words, self.tokenizer, space_after=space_after)

    @property
    def max_length(self) -> int:
        """Longest input in tokens: what the configuration states, or less where position tables hold less."""
        return self._longest(decoder=False)

    @property
    def max_target_length(self) -> int:
        """Most tokens that the decoder of an encoder-decoder reads; :attr:`max_length` for other models."""
        return self._longest(decoder=True) if self.config.is_encoder_decoder else self.max_length

    @property
    def looks_ahead(self) -> bool:
        """Whether what follows a token in a text changes what the model gives at the token; measured."""
        with self.lock:
            return looks_ahead(self.model)

    def _longest(self, *, decoder: bool) -> int:
        with self.lock:
            measured = longest_input(self.model, decoder=decoder)
        limits = [n for n in (_declared_length(self.config.get_text_config()), measured) if n is not None]
        if limits:
            return min(limits)
        limit = int(getattr(self.tokenizer, "model_max_length", 0) or 0)
        return limit if 0 < limit < 10**9 else 2048

    @property
    def content_hash(self) -> str:
        """SHA-256 over the weight files, or over the weights where those come from no file or were changed."""
        return hash_of(self.model)

    def identity(self) -> dict[str, Any]:
        """Which model this is, as ``run.json`` stores it: the same for every verb."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "implementation": self.implementation,
            "revision": self.revision,
            "dtype": str(self.dtype).removeprefix("torch."),
            "content_hash": self.content_hash,
            "parameters": self.num_parameters,
        }

    @property
    def num_parameters(self) -> int:
        """Number of weights, shared ones counted once."""
        return parameter_count(self.model)

    @property
    def mask_id(self) -> int:
        """Id of the mask token; raises :class:`~workbench.errors.ModelError` for a tokenizer without one."""
        found = self.tokenizer.mask_token_id
        if found is None:
            raise ModelError(
                f"{self.name} predicts masked words, but its tokenizer has no mask token; name one (mask_token) in "
                "its tokenizer_config.json"
            )
        return int(found)

    def require(self, *kinds: Kind, verb: str) -> None:
        """Raise :class:`~workbench.errors.ModelError` unless the model is one of ``kinds``, and really is what it is.

        A model loaded as causal whose predictions depend on what follows would be scored on tokens that it has seen.
        """
        if self.kind in kinds:
            if self.kind is Kind.CAUSAL and self.looks_ahead:
                raise ModelError(
                    f"{verb} reads a text from left to right; {self.name} ({type(self.model).__name__}) sees both "
                    "sides of each token: use it as a masked model (workbench.load finds out whether it is one)"
                )
            return
        allowed = with_article(" or ".join(kinds))
        if self.kind is Kind.ENCODER and takes_order(self.model):
            raise ModelError(
                f"{verb} needs {allowed} model; {self.name} is an encoder that predicts tokens in an order it is "
                "given: workbench surprisal and minimal pairs score it from left to right"
            )
        reason = {
            Kind.ENCODER: getattr(
                self.config, "no_scores", "it has no language-model or classification head"
            ),
            Kind.CLASSIFIER: "its head is a classifier",
            Kind.DETECTOR: "its head says which tokens were replaced (workbench.scoring.detect_replaced)",
        }.get(self.kind, f"it is a {self.kind} model")
        raise ModelError(f"{verb} needs {allowed} model; {self.name} is of kind {self.kind}: {reason}")


def _declared_length(config: Any) -> int | None:
    """Longest input that a configuration states, ``None`` if it states none (XLNet's says -1)."""
    names = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
    values = [getattr(config, name, None) for name in names]
    return next((int(value) for value in values if value and value > 0), None)
