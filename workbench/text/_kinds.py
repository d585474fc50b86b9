"""The kinds of tokenizer, and the special tokens that each role of model needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["SPECIAL_TOKENS", "Role", "SpecialTokenSet", "TokenizerKind"]


class TokenizerKind(StrEnum):
    """How text is split into pieces."""

    WORDPIECE = "wordpiece"  # Schuster & Nakajima 2012; Devlin et al. 2019
    BPE = "bpe"  # Sennrich et al. 2016, over characters
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
