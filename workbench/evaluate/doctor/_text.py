"""Text in, token ids out, and back: vocabulary, BOS, round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.evaluate.doctor._compare import judge
from workbench.evaluate.doctor._records import Finding, NotApplicable, Status
from workbench.evaluate.doctor._subject import TEXTS
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, FirstToken, Request

__all__ = ["bos_once", "round_trip", "vocabulary_fits"]

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
    # Short texts, so that nothing is cut; the last one has the token written out, as chat templates do.
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
