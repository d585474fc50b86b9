"""Checks of what a model reads and gives: text and tokens, probabilities, generation with its cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from transformers import GenerationConfig

from workbench.evaluate.doctor._records import Finding, NotApplicable, Status, agree, judge
from workbench.evaluate.doctor._subject import TEXTS, padded, real_outputs, sample_sequences
from workbench.models import Kind, LoadedModel
from workbench.models.problem import ProblemType, problem_of
from workbench.scoring import DetectionEngine, Engine, FirstToken, MaskedEngine, Request, Score, Seq2SeqEngine
from workbench.trace.decoder import generation_start
from workbench.trace.padding import cache_works

__all__ = [
    "bos_once",
    "cached_generation",
    "probabilities_sum",
    "round_trip",
    "scorer_log_probabilities",
    "vocabulary_fits",
]

# What tokenizers lose or change most often, by name.
HARD_TEXTS = {
    "emoji joined by ZWJ": "family \U0001f468\u200d\U0001f469\u200d\U0001f467, flag \U0001f3f3\ufe0f\u200d\U0001f308",
    "combining marks": "e\u0301cole, a\u0308o\u0308, Z\u0351a\u0352l\u0353g\u0354o",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0628\u0643",
    "CJK": "\u6771\u4eac\u90fd\u306b\u884c\u304f\u3001\ud55c\uad6d\uc5b4",
    "control characters": "a\u0001b\u0007c\u007fd",
    "no-break space": "10\u00a0km and 5\u202f%",
    "long white space": "a" + " " * 12 + "b\t\tc\n\n\nd  ",
    "ohm and omega signs": "\u2126 is \u03a9, \u212b is \u00c5",
    "curly quotes and dashes": "\u201cso\u201d \u2014 it\u2019s \u2026 5\u20136",
    "outside the basic plane": "\U0001d49c\U0001d4b7\U0001d4b8 \U00020000 \U00010348",
    "zero width": "zero\u200bwidth\ufeffspace",
    "tag-like text": "<b>not &amp; a tag</b> [x] {y} \\n %s",
}


def vocabulary_fits(loaded: LoadedModel) -> Finding:
    """Every id that the tokenizer can give has a row in the embeddings. Value: the largest id."""
    rows = loaded.model.get_input_embeddings().num_embeddings
    largest = max(loaded.tokenizer.get_vocab().values())
    return judge(largest, rows - 1, f"largest token id against {rows} embedding rows")


def bos_once(loaded: LoadedModel) -> Finding:
    """The token that starts a text stands there once. Value: the largest count at a beginning.

    Counted in the tokenizer's own encoding (at most once), and for causal models in what the scoring
    engine reads under its default policy: once with ``bos``; with ``prefix`` once before a text without
    context and never before one with.
    """
    tokenizer = loaded.tokenizer
    start = next((i for i in (tokenizer.bos_token_id, tokenizer.cls_token_id) if i is not None), None)
    own = 0 if start is None else _leading(tokenizer(TEXTS[0]).input_ids, start)
    if loaded.kind is not Kind.CAUSAL:
        if start is None:
            raise NotApplicable("the tokenizer has neither BOS nor CLS")
        return judge(own, 1, f"{own} start token in the tokenizer's own encoding")
    start = tokenizer.eos_token_id if start is None else start
    if start is None:
        raise NotApplicable(
            "the tokenizer has neither BOS nor EOS, so the first token of a text is not scored"
        )
    return _scored_start(loaded, own, start)


def _scored_start(loaded: LoadedModel, own: int, start: int) -> Finding:
    engine = Engine(loaded)
    # Short texts, so that nothing is truncated; the last one has the token written out, as chat templates do.
    contexts = ["", "It is", loaded.tokenizer.decode([start]) + "It is"]
    requests = [Request(context, " so") for context in contexts]
    alone, after_context, after_written = (_leading(s.ids, start) for s in engine.encode(requests))
    expected = 1 if engine.policy is FirstToken.BOS else 0
    right = alone == 1 and after_context == expected and after_written == 1 and own <= 1
    detail = (
        f"policy {engine.policy}, token {loaded.tokenizer.decode([start])!r}: {alone} before a text (1 expected), "
        f"{after_context} with a context ({expected}), {after_written} where it is written (1), "
        f"{own} by the tokenizer itself (at most 1)"
    )
    largest = max(alone, after_context, after_written, own)
    return Finding(Status.PASS if right else Status.FAIL, largest, 1, detail)


def _leading(ids: Sequence[int], start: int) -> int:
    """How many times ``start`` stands at the beginning of ``ids``."""
    return next((i for i, token in enumerate(ids) if token != start), len(ids))


def round_trip(loaded: LoadedModel) -> Finding:
    """Decoding gives back hard Unicode as the tokenizer's own normaliser leaves it. Value: texts that it does not.

    Many tokenizers lose something by design, so a loss warns and is named. Plain English that comes back
    as other letters, with no unknown token to explain it, fails.
    """
    tokenizer = loaded.tokenizer
    for text in TEXTS:
        ids, back, wanted = _back_and_forth(tokenizer, text)
        if "".join(back.split()) != "".join(wanted.split()) and tokenizer.unk_token_id not in ids:
            return Finding(Status.FAIL, 1, 0, f"plain English {text!r} comes back as {back!r}")
    losses = [f"{name} ({loss})" for name, text in HARD_TEXTS.items() if (loss := _loss(tokenizer, text))]
    if not losses:
        return Finding(Status.PASS, 0, 0, f"{len(HARD_TEXTS)} hard Unicode texts come back as they were")
    return Finding(
        Status.WARN, len(losses), 0, f"of {len(HARD_TEXTS)} texts come back changed: {', '.join(losses)}"
    )


def _back_and_forth(tokenizer: Any, text: str) -> tuple[list[int], str, str]:
    """Ids of ``text``, what they decode to, and what the tokenizer's own normaliser makes of ``text``."""
    ids = tokenizer(text, add_special_tokens=False).input_ids
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    normaliser = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    if back == text or normaliser is None:
        return ids, back, text
    return ids, back, normaliser.normalize_str(text).replace("\u2581", " ")  # SentencePiece's visible space


def _loss(tokenizer: Any, text: str) -> str:
    """What is lost on the way, in two words; empty if nothing is."""
    ids, back, wanted = _back_and_forth(tokenizer, text)
    if back == wanted or (back == wanted.lstrip(" ") and not text.startswith(" ")):
        return ""
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        return "unknown characters"
    return "white space" if "".join(back.split()) == "".join(wanted.split()) else "characters"


def probabilities_sum(loaded: LoadedModel) -> Finding:
    """exp of the float32 log-softmax sums to 1 at every position. Value: the largest deviation.

    A vocabulary of 10^5 float32 terms, added up in float64, is off by some 1e-6; 1e-4 is allowed.
    """
    if loaded.kind is Kind.ENCODER:
        raise NotApplicable("a model without a head has no probabilities")
    if loaded.kind is Kind.DETECTOR:
        raise NotApplicable(
            "one number a token says whether it was replaced: there are no classes to sum over"
        )
    if problem_of(loaded.model) is not ProblemType.ONE_LABEL:
        raise NotApplicable(f"problem_type {problem_of(loaded.model)}: the outputs are no alternatives")
    logits = real_outputs(loaded, padded(loaded, sample_sequences(loaded)[:1]))
    sums = logits.float().log_softmax(-1).exp().double().sum(-1)
    return judge(
        float((sums - 1).abs().max()), 1e-4, f"|sum of probabilities - 1| over {logits.shape[-1]} classes"
    )


def scorer_log_probabilities(loaded: LoadedModel) -> Finding:
    """The scores of texts, by the engine of the model's kind, are those of a plain log-softmax over all logits.

    The engines pad, batch and project only where they score; the reference does none of these.
    """
    scorers = {
        Kind.CAUSAL: _continuations,
        Kind.MASKED: _hidden_tokens,
        Kind.SEQ2SEQ: _targets,
        Kind.DETECTOR: _detected,
    }
    if loaded.kind not in scorers:
        raise NotApplicable(f"a model of kind {loaded.kind} gives no log-probabilities of text")
    plain, found, what = scorers[loaded.kind](loaded)
    return agree(plain, found, loaded.dtype, f"{what} against log-softmax of all logits, {len(plain)} tokens")


def _continuations(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of continuations."""
    has_start = (loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id) != (None, None)
    engine = Engine(loaded, "auto" if has_start else "unscored")
    requests = [
        Request("", TEXTS[3]),
        Request("The cat sat on the", " mat."),
        Request(TEXTS[2], " " + TEXTS[0]),
    ]
    plain = torch.cat([_plain(loaded, list(s.ids), s.start) for s in engine.encode(requests)])
    return plain, _scored(engine.score(requests)), "the scorer"


def _hidden_tokens(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of each token of two short texts, hidden in turn (Salazar et al. 2020)."""
    if loaded.tokenizer.mask_token_id is None:
        raise NotApplicable("the tokenizer names no mask token")
    engine, texts = MaskedEngine(loaded), [TEXTS[3], TEXTS[0]]
    rows = [row for text in engine.encode(texts) for row in engine.rows(text)]
    logits = torch.stack([real_outputs(loaded, padded(loaded, [list(r.ids)]))[r.position] for r in rows])
    plain = _of_targets(logits, [row.target for row in rows])
    return plain, _scored(engine.score(texts)), "pseudo-log-likelihood"


def _detected(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of "original" of each token of two texts."""
    engine = DetectionEngine(loaded)
    texts = engine.encode([TEXTS[3], TEXTS[0]])
    plain = [
        logsigmoid(-real_outputs(loaded, padded(loaded, [list(text.ids)]))[:, 0])[list(text.places)]
        for text in texts
    ]
    found = dict(entry for batch in engine.stream(texts) for entry in batch)
    return torch.cat(plain), _scored([found[n] for n in range(len(texts))]), "replaced-token detection"


def _targets(loaded: LoadedModel) -> tuple[Tensor, Tensor, str]:
    """Plain and scored log-probabilities of targets behind their sources."""
    engine = Seq2SeqEngine(loaded)
    requests = [Request(TEXTS[0], TEXTS[3]), Request(TEXTS[3], TEXTS[0]), Request(TEXTS[2], TEXTS[3])]
    parts = []
    for pair in engine.encode(requests):
        batch = replace(
            padded(loaded, [list(pair.source)]), decoder_ids=torch.tensor([pair.read], device=loaded.device)
        )
        logits = real_outputs(loaded, batch)[len(pair.prefix) - 1 :]
        parts.append(_of_targets(logits, list(pair.target)))
    return torch.cat(parts), _scored(engine.score(requests)), "scores of targets"


def _scored(scores: Sequence[Score]) -> Tensor:
    return torch.tensor([p for score in scores for p in score.token_log_probabilities])


def _plain(loaded: LoadedModel, ids: list[int], start: int) -> Tensor:
    """Log-probabilities (nats) of ``ids[start:]``, each given all ids before it."""
    logits = real_outputs(loaded, padded(loaded, [ids[:-1]]))
    return _of_targets(logits[start - 1 :], ids[start:])


def _of_targets(logits: Tensor, targets: list[int]) -> Tensor:
    """Log-probability (nats) of each target (N) under its row of logits (N, V)."""
    wanted = torch.tensor(targets, device=logits.device)
    return logits.double().log_softmax(-1).gather(1, wanted[:, None])[:, 0].float().cpu()


_NEW_TOKENS = 8


def cached_generation(loaded: LoadedModel) -> Finding:
    """Greedy decoding with and without cache. Value: the largest difference of the logits it chose from.

    Where rounding tips a tie the texts part; logits are compared up to there.
    """
    if loaded.kind not in (Kind.CAUSAL, Kind.SEQ2SEQ) or not loaded.model.can_generate():
        raise NotApplicable(f"a model of kind {loaded.kind} does not generate")
    if loaded.config.is_encoder_decoder and not cache_works(loaded.model):
        raise NotApplicable("the cache of transformers fails for this model; texts are generated without it")
    if getattr(loaded.config, "use_cache", True) is False:
        raise NotApplicable("its configuration says use_cache = false; texts are generated without a cache")
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
