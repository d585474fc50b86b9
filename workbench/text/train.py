"""Train a sub-word vocabulary with the ``tokenizers`` library; the result is a transformers tokenizer.

Every kind works with every role: a byte-level BPE for an encoder has [CLS] and [MASK], a WordPiece for a
decoder has <s> and </s>. ``tokenizer.save_pretrained(folder)`` writes a plain folder that
``transformers.AutoTokenizer`` and :func:`workbench.text.load_tokenizer` open.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from workbench.choices import member
from workbench.errors import ConfigError
from workbench.text import _pipelines
from workbench.text._fit import fit
from workbench.text._pipelines import SPECIAL_TOKENS, Role, SpecialTokenSet, TokenizerKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["sentinel_ids", "train_tokenizer"]

Choice = TypeVar("Choice", bound=StrEnum)

BYTE_VALUES = 256
BYT5_SENTINELS = 125  # 3 special tokens + 256 bytes + 125 sentinels = 384 rows, a multiple of 128


def train_tokenizer(
    texts: Iterable[str],
    kind: TokenizerKind | str,
    vocab_size: int | None = None,
    *,
    role: Role | str = Role.ENCODER,
    lowercase: bool = False,
    sentinels: int | None = None,
    min_frequency: int = 2,
    max_length: int | None = None,
) -> PreTrainedTokenizerBase:
    """Learn a vocabulary of at most ``vocab_size`` pieces from ``texts`` and return the tokenizer.

    Args:
        texts: the corpus, read once (WordPiece keeps it in memory); not read at all for raw bytes.
        kind: ``wordpiece``, ``bpe``, ``byte-bpe``, ``unigram`` or ``bytes``.
        vocab_size: number of ids in all, special tokens and sentinels included. A small corpus may
            support fewer. Raw bytes have a fixed size, so it is left out there.
        role: decides the special tokens; see :class:`Role`.
        lowercase: lower-case and strip accents before cutting (bytes: not allowed, they are lossless).
        sentinels: number of ``<extra_id_n>`` tokens; by default 100 (bytes: 125) for seq2seq, else 0.
        min_frequency: pairs seen less often are not merged (WordPiece and BPE).
        max_length: stored as the tokenizer's ``model_max_length``.

    Raises:
        ConfigError: an option is unknown or out of range.
        DataError: the corpus is empty or holds something that is not text.

    Example:
        ```python
        import workbench

        texts = ["the cat sat on the mat", "a dog sat on the cat"] * 20
        tokenizer = workbench.text.train_tokenizer(texts, "bpe", 60, role="decoder")
        print(tokenizer.tokenize("the dog sat"))
        ```
    """
    kind, role = member(TokenizerKind, kind, "tokenizer kind"), member(Role, role, "role")
    special = SPECIAL_TOKENS[role]
    count = _sentinel_count(kind, role, sentinels)
    if kind is TokenizerKind.BYTES:
        if vocab_size is not None or lowercase:
            raise ConfigError(
                "kind 'bytes' has a fixed vocabulary and keeps case; leave out vocab_size and lowercase"
            )
        tokenizer = _pipelines.byte_tokenizer(special)
        return _wrap(tokenizer, special, [f"<extra_id_{n}>" for n in range(count)], max_length)
    learned = _learned_size(kind, vocab_size, reserved=count, special=special)
    tokenizer = fit(
        kind, special, texts, vocab_size=learned, min_frequency=min_frequency, lowercase=lowercase
    )
    # T5 numbers its sentinels down from the end: <extra_id_0> is the last id (Raffel et al. 2020).
    return _wrap(tokenizer, special, [f"<extra_id_{n}>" for n in reversed(range(count))], max_length)


def sentinel_ids(tokenizer: PreTrainedTokenizerBase, *, reuse_bytes: bool = False) -> tuple[int, ...]:
    """Ids of the sentinels ``<extra_id_0>``, ``<extra_id_1>``, ... that mark removed spans, in that order.

    ``reuse_bytes`` gives the numbering that the published ByT5 models were trained with instead: they have no
    sentinels of their own and reuse the final 100 byte ids, 258, 257, ... (Xue et al. 2022, section 3.1).
    Empty for a tokenizer without sentinels.
    """
    if reuse_bytes:
        return tuple(range(258, 158, -1))
    vocabulary = tokenizer.get_vocab()
    ids: list[int] = []
    while (name := f"<extra_id_{len(ids)}>") in vocabulary:
        ids.append(vocabulary[name])
    return tuple(ids)


def _sentinel_count(kind: TokenizerKind, role: Role, sentinels: int | None) -> int:
    if sentinels is None:
        default = BYT5_SENTINELS if kind is TokenizerKind.BYTES else 100
        return default if role is Role.SEQ2SEQ else 0
    if sentinels < 0:
        raise ConfigError(f"sentinels is {sentinels}; allowed: 0 or more")
    return sentinels


def _learned_size(
    kind: TokenizerKind, vocab_size: int | None, *, reserved: int, special: SpecialTokenSet
) -> int:
    """Pieces left to the trainer (special tokens included) once the sentinels have their rows."""
    if vocab_size is None:
        raise ConfigError(f"vocab_size is missing; kind {kind.value!r} needs one, such as 8000")
    # A WordPiece character takes two rows: at the start of a word, and after "##".
    alphabet = {TokenizerKind.BYTE_BPE: BYTE_VALUES, TokenizerKind.WORDPIECE: 2}.get(kind, 1)
    smallest = len(special.tokens) + alphabet + reserved
    if vocab_size < smallest:
        raise ConfigError(
            f"vocab_size is {vocab_size}; kind {kind.value!r} with {reserved} sentinels needs {smallest}"
        )
    return vocab_size - reserved


def _wrap(
    tokenizer: Tokenizer, special: SpecialTokenSet, sentinels: list[str], max_length: int | None
) -> PreTrainedTokenizerBase:
    from transformers import PreTrainedTokenizerFast

    tokenizer.post_processor = _pipelines.template(tokenizer, special)
    tokenizer.add_special_tokens(sentinels)
    limit = {} if max_length is None else {"model_max_length": max_length}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=list(special.model_inputs),
        additional_special_tokens=sentinels,
        clean_up_tokenization_spaces=False,
        **special.names,
        **limit,
    )
