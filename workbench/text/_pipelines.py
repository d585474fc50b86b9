"""What each kind of tokenizer is made of: normaliser, pre-tokenizer, model, decoder, trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

__all__ = [
    "BYTE_NAMES",
    "SPECIAL_TOKENS",
    "Role",
    "SpecialTokenSet",
    "TokenizerKind",
    "byte_tokenizer",
    "template",
    "trainer",
    "untrained",
    "wordpiece_model",
]


class TokenizerKind(StrEnum):
    """How text is split into pieces."""

    WORDPIECE = "wordpiece"  # Schuster & Nakajima 2012, Devlin et al. 2019; pieces learned as BPE's
    BPE = "bpe"  # Sennrich et al. 2016, over characters; marks the start of a word, theirs the end
    BYTE_BPE = "byte-bpe"  # Radford et al. 2019, over bytes
    UNIGRAM = "unigram"  # Kudo 2018
    BYTES = "bytes"  # Xue et al. 2022 (ByT5): one token a byte, nothing is learned


class Role(StrEnum):
    """What the model that reads the tokens is; it decides the special tokens and where they go."""

    ENCODER = "encoder"  # [CLS] text [SEP], and [MASK]
    DECODER = "decoder"  # <s> text; </s> ends a document
    SEQ2SEQ = "seq2seq"  # text </s>, and the sentinels <extra_id_0>, <extra_id_1>, ...


@dataclass(frozen=True)
class SpecialTokenSet:
    """Special tokens of one role: transformers' name of each, and the templates that place them."""

    names: dict[str, str]  # "pad_token" -> "[PAD]", in the order of their ids
    single: str  # tokenizers' template for one text
    pair: str  # ... and for two
    model_inputs: tuple[str, ...]

    @property
    def tokens(self) -> list[str]:
        """The tokens in the order of their ids, which start at 0."""
        return list(self.names.values())


SPECIAL_TOKENS = {
    Role.ENCODER: SpecialTokenSet(
        names={
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        model_inputs=("input_ids", "token_type_ids", "attention_mask"),
    ),
    Role.DECODER: SpecialTokenSet(
        names={"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"},
        single="<s> $A",
        pair="<s> $A $B",
        model_inputs=("input_ids", "attention_mask"),
    ),
    Role.SEQ2SEQ: SpecialTokenSet(
        names={"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        single="$A </s>",
        pair="$A </s> $B </s>",
        model_inputs=("input_ids", "attention_mask"),
    ),
}


def untrained(kind: TokenizerKind, special: SpecialTokenSet, *, lowercase: bool) -> Tokenizer:
    """A tokenizer of this kind with an empty vocabulary."""
    unknown = special.names["unk_token"]
    if kind is TokenizerKind.WORDPIECE:
        return _wordpiece(unknown, lowercase=lowercase)
    if kind is TokenizerKind.BYTE_BPE:
        return _byte_level(models.BPE(), lowercase=lowercase)
    # The unigram trainer sets its unknown token; a BPE model without one drops what it cannot spell.
    model = (
        models.Unigram() if kind is TokenizerKind.UNIGRAM else models.BPE(unk_token=unknown, fuse_unk=True)
    )
    return _metaspace(model, lowercase=lowercase)


def trainer(
    kind: TokenizerKind,
    special: SpecialTokenSet,
    *,
    vocab_size: int,
    min_frequency: int,
    alphabet: Sequence[str] = (),
    forced: Sequence[str] = (),
) -> Any:
    """The trainer of a kind; special tokens get the first ids, then the ``forced`` pieces.

    ``alphabet`` is for WordPiece, which takes no other characters; the others find theirs.
    """
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": [*special.tokens, *forced],
        "show_progress": False,
    }
    if kind is TokenizerKind.UNIGRAM:
        return trainers.UnigramTrainer(unk_token=special.names["unk_token"], **common)
    if kind is TokenizerKind.WORDPIECE:
        return trainers.WordPieceTrainer(
            min_frequency=min_frequency,
            initial_alphabet=list(alphabet),
            limit_alphabet=len(alphabet),
            **common,
        )
    if kind is TokenizerKind.BYTE_BPE:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        return trainers.BpeTrainer(min_frequency=min_frequency, initial_alphabet=alphabet, **common)
    # Rare characters are dropped, so that the vocabulary never exceeds the requested size.
    limit = max(1, vocab_size - len(special.tokens))
    return trainers.BpeTrainer(min_frequency=min_frequency, limit_alphabet=limit, **common)


def wordpiece_model(vocabulary: dict[str, int], unknown: str) -> Any:
    """The WordPiece model over a vocabulary; a word of over 100 characters is unknown, as in BERT."""
    return models.WordPiece(vocab=vocabulary, unk_token=unknown)


def byte_tokenizer(special: SpecialTokenSet) -> Tokenizer:
    """One token a byte with ByT5's numbering: <pad> 0, </s> 1, <unk> 2, byte b is 3 + b (Xue et al. 2022).

    The seq2seq role is ByT5's; for another role its own first three special tokens take ids 0 to 2, and any
    further ones follow the bytes.
    """
    first, rest = special.tokens[:3], special.tokens[3:]
    # The pre-tokenizer spells byte b as a printable character, BYTE_NAMES[b].
    names = first + [BYTE_NAMES[value] for value in range(256)] + rest
    model = models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special.tokens)
    return tokenizer


def template(tokenizer: Tokenizer, special: SpecialTokenSet) -> Any:
    """The post-processor that places the role's special tokens around one text or two."""
    ids = [(token, tokenizer.token_to_id(token)) for token in special.tokens]
    return processors.TemplateProcessing(single=special.single, pair=special.pair, special_tokens=ids)


def _byte_names() -> list[str]:
    """GPT-2's printable character for each byte (Radford et al. 2019): itself if visible, else U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(value if value in visible else next(spare)) for value in range(256)]


BYTE_NAMES = _byte_names()


def _wordpiece(unknown: str, *, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


def _byte_level(model: Any, *, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if lowercase:
        tokenizer.normalizer = _lowercased()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _metaspace(model: Any, *, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    steps = [normalizers.NFKC()] + ([_lowercased()] if lowercase else [])
    tokenizer.normalizer = normalizers.Sequence(steps)
    # Metaspace splits at spaces only; without the first step "end\nnext" could become one piece.
    line_breaks = pre_tokenizers.Split(Regex(r"[^\S ]"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [line_breaks, pre_tokenizers.Metaspace(prepend_scheme="first")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


def _lowercased() -> Any:
    return normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
