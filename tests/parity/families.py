"""Tiny randomly initialised models of every imported family, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

VOCABULARY, PADDING = 61, 1


@dataclass(frozen=True)
class Case:
    """One transformers class with a tiny configuration; ``kind`` says what it reads and which loss it has."""

    model: type
    config: Callable[[], Any]
    kind: str

    def build(self) -> Any:
        """The model with weights large enough to matter, eager attention, without dropout."""
        torch.manual_seed(0)
        model = self.model(self.config())
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                assert module.p == 0.0, "parity is defined without dropout"
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                is_norm = "norm" in name.lower() or "ln_" in name
                noise = torch.randn_like(parameter) * (0.1 if parameter.ndim < 2 else 0.2)
                parameter.copy_(noise + 1 if is_norm and name.endswith("weight") else noise)
        model.set_attn_implementation("eager")
        return model


def _common(**settings: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "pad_token_id": PADDING,
        "bos_token_id": 2,
        "eos_token_id": 3,
        **settings,
    }


def _gpt2() -> hf.GPT2Config:
    return hf.GPT2Config(
        **_common(
            n_positions=32, n_embd=32, n_layer=3, n_head=4, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0
        )
    )


def _llama() -> hf.LlamaConfig:
    return hf.LlamaConfig(
        **_common(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=False,
        )
    )


def _smollm2() -> hf.LlamaConfig:
    config = _llama()
    config.tie_word_embeddings = True
    return config


def _mistral() -> hf.MistralConfig:
    return hf.MistralConfig(
        **_common(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=10,
            sliding_window=4,
        )
    )


def _bloom() -> hf.BloomConfig:
    return hf.BloomConfig(**_common(hidden_size=36, n_layer=3, n_head=6))


def _bert(kind: type = hf.BertConfig, **settings: Any) -> Any:
    return kind(
        **_common(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout=0.0,
            **settings,
        )
    )


def _roberta() -> Any:
    return _bert(hf.RobertaConfig, type_vocab_size=1)


def _electra() -> Any:
    return _bert(hf.ElectraConfig, embedding_size=16)


def _albert() -> Any:
    return _bert(hf.AlbertConfig, embedding_size=16, classifier_dropout_prob=0.0, num_hidden_groups=1)


def _distilbert() -> hf.DistilBertConfig:
    return hf.DistilBertConfig(
        **_common(
            dim=32,
            n_layers=3,
            n_heads=4,
            hidden_dim=48,
            max_position_embeddings=32,
            dropout=0.0,
            attention_dropout=0.0,
            seq_classif_dropout=0.0,
            qa_dropout=0.0,
        )
    )


def _t5(**settings: Any) -> hf.T5Config:
    return hf.T5Config(
        **_common(
            d_model=32,
            d_kv=6,
            d_ff=48,
            num_layers=3,
            num_decoder_layers=3,
            num_heads=4,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=10,
            dropout_rate=0.0,
            decoder_start_token_id=PADDING,
            **settings,
        )
    )


def _byt5() -> hf.T5Config:
    return _t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def _bart() -> hf.BartConfig:
    return hf.BartConfig(
        **_common(
            d_model=32,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            max_position_embeddings=32,
            dropout=0.0,
            decoder_start_token_id=3,
            scale_embedding=True,
            forced_eos_token_id=None,
        )
    )


CASES = {
    "gpt2": Case(hf.GPT2LMHeadModel, _gpt2, "causal"),
    "llama": Case(hf.LlamaForCausalLM, _llama, "causal"),
    "smollm2": Case(hf.LlamaForCausalLM, _smollm2, "causal"),
    "mistral": Case(hf.MistralForCausalLM, _mistral, "causal"),
    "bloom": Case(hf.BloomForCausalLM, _bloom, "causal"),
    "bert": Case(hf.BertForMaskedLM, _bert, "masked"),
    "bert-pretraining": Case(hf.BertForPreTraining, _bert, "pretraining"),
    "bert-body": Case(hf.BertModel, _bert, "body"),
    "roberta": Case(hf.RobertaForMaskedLM, _roberta, "masked"),
    "distilbert": Case(hf.DistilBertForMaskedLM, _distilbert, "masked"),
    "albert": Case(hf.AlbertForMaskedLM, _albert, "masked"),
    "electra-generator": Case(hf.ElectraForMaskedLM, _electra, "masked"),
    "electra-discriminator": Case(hf.ElectraForPreTraining, _electra, "detection"),
    "t5": Case(hf.T5ForConditionalGeneration, _t5, "seq2seq"),
    "byt5": Case(hf.T5ForConditionalGeneration, _byt5, "seq2seq"),
    "bart": Case(hf.BartForConditionalGeneration, _bart, "seq2seq"),
    "bert-texts": Case(hf.BertForSequenceClassification, _bert, "label"),
    "bert-tokens": Case(hf.BertForTokenClassification, _bert, "tokens"),
    "bert-questions": Case(hf.BertForQuestionAnswering, _bert, "span"),
    "roberta-texts": Case(hf.RobertaForSequenceClassification, _roberta, "label"),
    "distilbert-texts": Case(hf.DistilBertForSequenceClassification, _distilbert, "label"),
    "albert-texts": Case(hf.AlbertForSequenceClassification, _albert, "label"),
    "electra-texts": Case(hf.ElectraForSequenceClassification, _electra, "label"),
    "gpt2-texts": Case(hf.GPT2ForSequenceClassification, _gpt2, "label"),
    "llama-texts": Case(hf.LlamaForSequenceClassification, _llama, "label"),
}


def batch(kind: str, padding: str) -> dict[str, Tensor]:
    """Two texts of 9 tokens, the second shorter by 3 where padded ``left`` or ``right``; and labels."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCABULARY, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    if padding != "none":
        mask[1, slice(0, 3) if padding == "left" else slice(6, 9)] = 0
    ids = ids.masked_fill(mask == 0, PADDING)
    labels = torch.randint(4, VOCABULARY, (2, 9), generator=generator)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        **{
            # a token whose predecessor is padding has nothing to be predicted from
            "causal": lambda: {"labels": ids.masked_fill((mask * mask.roll(1, 1)) == 0, -100)},
            "masked": lambda: {"labels": labels.masked_fill(mask == 0, -100)},
            "pretraining": lambda: {
                "labels": labels.masked_fill(mask == 0, -100),
                "next_sentence_label": torch.tensor([0, 1]),
                "token_type_ids": (torch.arange(9) > 4).long().expand(2, 9),
            },
            "body": lambda: {},
            "detection": lambda: {"labels": labels % 2},
            "seq2seq": lambda: {"labels": labels[:, :7].contiguous()},
            "label": lambda: {"labels": torch.tensor([1, 0])},
            "tokens": lambda: {"labels": labels % 2},
            "span": lambda: {"start_positions": torch.tensor([3, 4]), "end_positions": torch.tensor([5, 40])},
        }[kind](),
    }
