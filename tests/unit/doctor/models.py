"""Tiny random models of every kind with a byte-level tokenizer that loses nothing."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from workbench.models import Kind, LoadedModel

SPECIALS = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
VOCABULARY = {**SPECIALS, **{c: 5 + i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}}
SIZE = {"vocab_size": len(VOCABULARY), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
SIZE |= {
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def byte_tokenizer(template: str = "<s> $A") -> Any:
    """One token a byte; ``template`` says what stands around a text."""
    backend = Tokenizer(models.BPE(vocab=VOCABULARY, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = list(SPECIALS.items())
    backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    names["mask_token"] = "<mask>"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def loaded(model: Any, kind: Kind, tokenizer: Any = None) -> LoadedModel:
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer or byte_tokenizer(),
        kind=kind,
        name="tiny",
        revision=None,
        dtype=torch.float32,
        device=torch.device("cpu"),
        implementation="hf",
    )


def llama(model_class: Any = transformers.LlamaForCausalLM, tokenizer: Any = None) -> LoadedModel:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZE, num_key_value_heads=2, initializer_range=0.2)
    return loaded(model_class(config), Kind.CAUSAL, tokenizer)


def gpt2() -> LoadedModel:
    """Learned absolute positions, in a model that generates."""
    torch.manual_seed(0)
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.2}
    ids = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return loaded(transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **ids)), Kind.CAUSAL)


def bert(
    model_class: Any = transformers.BertForMaskedLM, kind: Kind = Kind.MASKED, labels: int = 3
) -> LoadedModel:
    torch.manual_seed(0)
    return loaded(
        model_class(transformers.BertConfig(**SIZE, initializer_range=0.2, num_labels=labels)), kind
    )


def roberta() -> LoadedModel:
    """Positions that the model counts itself, after the padding id."""
    torch.manual_seed(0)
    return loaded(transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZE)), Kind.MASKED)


def t5(model_class: Any = transformers.T5ForConditionalGeneration, kind: Kind = Kind.SEQ2SEQ) -> LoadedModel:
    """Relative positions: padding on either side. An end token after every text, which T5's classifier reads."""
    torch.manual_seed(0)
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    ids = {"vocab_size": len(VOCABULARY), "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2}
    return loaded(model_class(transformers.T5Config(**shape, **ids)), kind, byte_tokenizer("$A </s>"))


def bart() -> LoadedModel:
    """Absolute positions that cannot be given: padding on the right only."""
    torch.manual_seed(0)
    layers = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    }
    shape = {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64}
    ids = {"vocab_size": len(VOCABULARY), "decoder_start_token_id": 2, "pad_token_id": 0, "eos_token_id": 2}
    config = transformers.BartConfig(**layers, **shape, **ids, init_std=0.2, forced_eos_token_id=None)
    return loaded(transformers.BartForConditionalGeneration(config), Kind.SEQ2SEQ)
