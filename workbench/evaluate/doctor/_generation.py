"""Generation with the key/value cache gives what generation without it gives."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import GenerationConfig

from workbench.evaluate.doctor._compare import agree
from workbench.evaluate.doctor._records import Finding, NotApplicable
from workbench.evaluate.doctor._subject import padded, sample_sequences
from workbench.models import Kind, LoadedModel
from workbench.trace.decoder import generation_start
from workbench.trace.padding import cache_works

__all__ = ["cached_generation"]

_NEW_TOKENS = 8


def cached_generation(loaded: LoadedModel) -> Finding:
    """Greedy decoding with and without cache. Value: the largest difference of the logits it chose from.

    Where rounding tips a tie the texts part; logits are compared up to there.
    """
    if loaded.kind not in (Kind.CAUSAL, Kind.SEQ2SEQ) or not loaded.model.can_generate():
        raise NotApplicable(f"a model of kind {loaded.kind} does not generate")
    if loaded.config.is_encoder_decoder and not cache_works(loaded.model):
        raise NotApplicable("the cache of transformers fails for this model; texts are generated without it")
    prompt = sample_sequences(loaded)[0][: max(loaded.max_length // 2, 1)]
    (with_cache, cached), (without_cache, plain) = (
        _greedy(loaded, prompt, use_cache) for use_cache in (True, False)
    )
    same = [a == b for a, b in zip(with_cache, without_cache, strict=False)]
    steps = len(same) if all(same) else same.index(False) + 1
    detail = f"greedy decoding with against without cache, {steps} of {len(same)} tokens compared"
    return agree(plain[:steps], cached[:steps], loaded.dtype, detail)


def _greedy(loaded: LoadedModel, prompt: list[int], use_cache: bool) -> tuple[list[int], Tensor]:
    """The generated ids and the logits (steps, V) each was chosen from; it does not stop at the end of text."""
    batch = padded(loaded, [prompt])
    settings = GenerationConfig(
        max_new_tokens=min(_NEW_TOKENS, max(loaded.max_length - len(prompt), 1)),
        do_sample=False,
        use_cache=use_cache,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=loaded.tokenizer.pad_token_id or 0,
    )
    with torch.no_grad():
        answer = loaded.model.generate(
            batch.ids, attention_mask=batch.mask, generation_config=settings, **generation_start(loaded, 1)
        )
    logits = torch.cat(answer.logits).float()
    return answer.sequences[0, -len(logits) :].tolist(), logits
