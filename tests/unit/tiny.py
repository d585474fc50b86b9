"""Tiny models and tokenizers with random weights, for tests that need no download."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.models.gpt2 import GPT2LMHeadModel

from workbench.models import Kind, LoadedModel

_TEXT = "the a keys key to cabinet is are on table cats cat sat mat and dogs ran . ,"
WORDS = _TEXT.split()


def word_tokenizer(**special: Any) -> PreTrainedTokenizerFast:
    """One id per word of ``WORDS``; ids 0 to 3 are <pad>, <s>, </s>, <unk>."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    defaults = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{**defaults, **special})


def tiny_causal(positions: int = 64, tokenizer: Any = None, **special: Any) -> LoadedModel:
    """A two-layer Llama with random float32 weights; over words, unless a tokenizer is given."""
    tokenizer = tokenizer or word_tokenizer(**special)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.3,
    )
    return loaded(LlamaForCausalLM(config), Kind.CAUSAL, tokenizer)


def tiny_gpt2(positions: int = 64) -> LoadedModel:
    """A two-layer GPT-2 (learned positions) with random float32 weights."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=4 + len(WORDS),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=positions,
        initializer_range=0.3,
    )
    return loaded(GPT2LMHeadModel(config), Kind.CAUSAL, word_tokenizer())


def loaded(model: Any, kind: Kind, tokenizer: Any, name: str = "tiny") -> LoadedModel:
    """Wrap a transformers model as :func:`workbench.load` would."""
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        kind=kind,
        name=name,
        revision=None,
        dtype=torch.float32,
        device=torch.device("cpu"),
        implementation="hf",
    )
