"""Small models with random weights and a word-level tokenizer, built in milliseconds without any file."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from workbench.models import Kind, LoadedModel

WORDS = "the a cat dog mat house sat saw ran on in big small red old and but . , because"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZE = len(SPECIAL) + len(WORDS.split())


def tokenizer(special: bool) -> Any:
    """One token a word or mark; with ``special``, [CLS] and [SEP] around each text."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *WORDS.split()])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        core.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if special:
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=core, **names)
    fast.model_input_names = ["input_ids", "attention_mask", *(["token_type_ids"] if special else [])]
    return fast


def loaded(model: Any, kind: Kind, special: bool) -> LoadedModel:
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer(special),
        kind=kind,
        name=f"tiny {model.config.model_type}",
        revision=None,
        dtype=torch.float32,
        device=torch.device("cpu"),
        implementation="hf",
    )


def build(auto: str, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        # The usual small initial weights would make attention nearly uniform.
        model = getattr(transformers, auto).from_config(config)
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower():
                torch.nn.init.normal_(parameter, std=0.25)
        return model


def bert(auto: str = "AutoModelForMaskedLM", **changes: Any) -> LoadedModel:
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
    config = transformers.BertConfig(vocab_size=SIZE, max_position_embeddings=40, **{**sizes, **changes})
    kind = {"AutoModelForMaskedLM": Kind.MASKED, "AutoModel": Kind.ENCODER}.get(auto, Kind.CLASSIFIER)
    return loaded(build(auto, config), kind, special=True)


def albert() -> LoadedModel:
    config = transformers.AlbertConfig(
        vocab_size=SIZE,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
    )
    return loaded(build("AutoModelForMaskedLM", config), Kind.MASKED, special=True)


DECODER = {
    "vocab_size": SIZE,
    "max_position_embeddings": 40,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 24,
    "pad_token_id": 0,
}


def llama(**changes: Any) -> LoadedModel:
    config = transformers.LlamaConfig(**DECODER, num_hidden_layers=3, **changes)
    return loaded(build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)


def gemma2() -> LoadedModel:
    """A window of 4 in layers 0 and 2, norms before and after each part, logits bounded by tanh."""
    config = transformers.Gemma2Config(**DECODER, num_hidden_layers=3, sliding_window=4)
    return loaded(build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)


def gpt_oss() -> LoadedModel:
    """A sink logit in each head's softmax, and a window of 4 in layer 0."""
    config = transformers.GptOssConfig(
        **DECODER, num_hidden_layers=2, sliding_window=4, num_local_experts=2, num_experts_per_tok=1
    )
    return loaded(build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)


def gpt2() -> LoadedModel:
    config = transformers.GPT2Config(
        vocab_size=SIZE, n_positions=40, n_embd=16, n_layer=3, n_head=4, n_inner=24, pad_token_id=0
    )
    return loaded(build("AutoModelForCausalLM", config), Kind.CAUSAL, special=False)


def deberta() -> LoadedModel:
    """A family whose attention is only seen in its outputs."""
    config = transformers.DebertaV2Config(
        vocab_size=SIZE,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
    )
    return loaded(build("AutoModelForMaskedLM", config), Kind.MASKED, special=True)


def t5() -> LoadedModel:
    config = transformers.T5Config(
        vocab_size=SIZE,
        d_model=16,
        d_kv=4,
        d_ff=24,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        decoder_start_token_id=0,
        n_positions=40,
    )
    return loaded(build("AutoModelForSeq2SeqLM", config), Kind.SEQ2SEQ, special=False)


def pointing_bert() -> LoadedModel:
    """One layer whose head 0 attends to the previous token and head 1 to [SEP], whatever the text.

    Positions are one-hot in dimensions 0 to 15 and [SEP] is marked in dimension 16. Layer norm keeps the
    order of a vector's entries, so the one-hot entry stays the largest. Head 0's query is its position's
    vector shifted by one and its key is the position's vector: their product is largest where
    query - 1 = key. Head 1's query is constant and its key is the mark of [SEP]. Scores are so far
    apart that the softmax is 1 to float precision.
    """
    model = bert("AutoModel", hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    network = model.model
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        network.embeddings.position_embeddings.weight[:16, :16] = torch.eye(16)
        network.embeddings.word_embeddings.weight[3, 16] = 1.0
        attention = network.encoder.layer[0].attention.self
        for position in range(15):
            attention.query.weight[position, position + 1] = 50.0  # head 0: dimensions 0 to 15
        attention.key.weight[:16, :16] = torch.eye(16)
        attention.query.bias[16] = 100.0  # head 1: dimensions 16 to 31
        attention.key.weight[16, 16] = 1.0
    return model
