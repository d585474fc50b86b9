"""What classification heads say: of texts, words, spans, choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.errors import NumericsError, TaskError
from workbench.evaluate._requests import AskChoice, AskSpan, AskText, AskWords, HeadScores, Span, Tags
from workbench.evaluate.asking._how import How
from workbench.models import Kind, LoadedModel
from workbench.scoring._stream import Stream

__all__ = ["ask_choices", "ask_spans", "ask_texts", "ask_words"]

_LONGEST_ANSWER = 30  # tokens of a span
_OVERLAP = 128  # tokens that two windows of a long context share


@dataclass(frozen=True)
class _Unit:
    """Ids and segments of one or several rows that are answered together, and which request they are."""

    rows: tuple[tuple[int, ...], ...]
    segments: tuple[tuple[int, ...], ...]
    place: int

    @property
    def length(self) -> int:
        """Tokens that the model reads."""
        return sum(map(len, self.rows))


def ask_texts(
    model: LoadedModel, asks: list[AskText], done: Set[int], how: How
) -> Iterator[list[tuple[int, HeadScores]]]:
    """The scores of all labels, or one number for a regression head."""
    _require_head(model, "ForSequenceClassification")
    encode = lambda ask: _encode(model, ask.text, ask.pair)  # noqa: E731
    units = [_unit([encode(ask)], place) for place, ask in enumerate(asks)]
    yield from _stream(
        model, units, done, how, lambda unit, output, row: _label_scores(model, output.logits[row])
    )


def ask_choices(
    model: LoadedModel, asks: list[AskChoice], done: Set[int], how: How
) -> Iterator[list[tuple[int, HeadScores]]]:
    """One score a choice."""
    _require_head(model, "ForMultipleChoice")
    for place, ask in enumerate(asks):
        if place in done:
            continue
        encoded = [_encode(model, ask.text, choice) for choice in ask.choices]
        unit = _unit(encoded, place)
        inputs = {name: value[None] for name, value in _inputs(model, unit.rows, unit.segments).items()}
        with model.lock, torch.inference_mode():
            logits = model.model(**inputs).logits[0].float()
        yield [(place, HeadScores(_finite(model, logits), tuple(map(str, range(len(logits))))))]


def ask_words(
    model: LoadedModel, asks: list[AskWords], done: Set[int], how: How
) -> Iterator[list[tuple[int, Tags]]]:
    """The label of each word's first piece; words that the model cannot read any more get ``O``."""
    _require_head(model, "ForTokenClassification")
    encodings = [
        model.tokenizer(
            list(ask.words),
            is_split_into_words=True,
            truncation=True,
            max_length=model.max_length,
            verbose=False,
        )
        for ask in asks
    ]
    units = [_unit([encoding], place) for place, encoding in enumerate(encodings)]
    names = model.config.id2label

    def read(unit: _Unit, output: Any, row: int) -> Tags:
        best = output.logits[row].argmax(-1).tolist()
        labels = ["O"] * len(asks[unit.place].words)
        previous = None
        for position, word in enumerate(encodings[unit.place].word_ids()):
            if word is not None and word != previous:
                labels[word] = str(names[best[position]])
            previous = word
        return Tags(tuple(labels))

    yield from _stream(model, units, done, how, read)


def ask_spans(
    model: LoadedModel, asks: list[AskSpan], done: Set[int], how: How
) -> Iterator[list[tuple[int, Span]]]:
    """The best span of up to 30 tokens; long contexts are read in overlapping windows (Devlin et al. 2019, 4.2)."""
    _require_head(model, "ForQuestionAnswering")
    for place, ask in enumerate(asks):
        if place not in done:
            yield [(place, Span(_best_span(model, ask)))]


def _best_span(model: LoadedModel, ask: AskSpan) -> str:
    encoded = model.tokenizer(
        ask.question,
        ask.context,
        truncation="only_second",
        max_length=model.max_length,
        stride=min(_OVERLAP, model.max_length // 4),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )
    best, text = float("-inf"), ""
    for window, ids in enumerate(encoded["input_ids"]):
        segments = encoded["token_type_ids"][window] if "token_type_ids" in encoded else [0] * len(ids)
        with model.lock, torch.inference_mode():
            output = model.model(**_inputs(model, [tuple(ids)], [tuple(segments)]))
        start, end = output.start_logits[0].float(), output.end_logits[0].float()
        inside = torch.tensor([part == 1 for part in encoded.sequence_ids(window)], device=start.device)
        near = torch.ones(len(ids), len(ids), device=start.device).triu().tril(_LONGEST_ANSWER - 1).bool()
        scores = (start[:, None] + end[None, :]).masked_fill(
            ~(near & inside[:, None] & inside[None, :]), float("-inf")
        )
        value = float(scores.max())
        if value > best:
            first, last = divmod(int(scores.argmax()), len(ids))
            offsets = encoded["offset_mapping"][window]
            best, text = value, ask.context[offsets[first][0] : offsets[last][1]]
    return text


def _require_head(model: LoadedModel, ending: str) -> None:
    model.require(Kind.CLASSIFIER, verb=f"a {ending} head")
    name = type(model.model).__name__
    if not name.endswith(ending):
        raise TaskError(f"this task needs a model with a {ending} head; {model.name} is a {name}")


def _encode(model: LoadedModel, text: str, pair: str | None) -> Any:
    return model.tokenizer(text, pair, truncation=True, max_length=model.max_length, verbose=False)


def _unit(encoded: Sequence[Any], place: int) -> _Unit:
    rows = tuple(tuple(e["input_ids"]) for e in encoded)
    segments = tuple(tuple(e.get("token_type_ids") or (0,) * len(e["input_ids"])) for e in encoded)
    return _Unit(rows, segments, place)


def _stream(
    model: LoadedModel,
    units: list[_Unit],
    done: Set[int],
    how: How,
    read: Callable[[_Unit, Any, int], Any],
) -> Iterator[list[tuple[int, Any]]]:
    def forward(model: LoadedModel, batch: list[_Unit]) -> list[Any]:
        inputs = _inputs(model, [unit.rows[0] for unit in batch], [unit.segments[0] for unit in batch])
        with model.lock, torch.inference_mode():
            output = model.model(**inputs)
        return [read(unit, output, row) for row, unit in enumerate(batch)]

    yield from Stream(model, forward, how.batch_tokens, how.progress)(units, done)


def _inputs(
    model: LoadedModel, rows: Sequence[tuple[int, ...]], segments: Sequence[tuple[int, ...]]
) -> dict[str, Tensor]:
    """Ids, mask and segments (B, T), padded on the right."""
    width, pad = max(map(len, rows)), model.tokenizer.pad_token_id or 0
    padded = lambda values, filler: torch.tensor(  # noqa: E731
        [[*v, *[filler] * (width - len(v))] for v in values], device=model.device
    )
    inputs = {
        "input_ids": padded(rows, pad),
        "attention_mask": padded([(1,) * len(row) for row in rows], 0),
    }
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = padded(segments, 0)
    return inputs


def _label_scores(model: LoadedModel, logits: Tensor) -> HeadScores:
    names = model.config.id2label
    return HeadScores(_finite(model, logits.float()), tuple(str(names[i]) for i in range(len(logits))))


def _finite(model: LoadedModel, logits: Tensor) -> tuple[float, ...]:
    if not bool(torch.isfinite(logits).all()):
        raise NumericsError(
            f"{model.name} gave NaN or infinite scores; its weights are broken or the precision is too low: "
            "try --dtype float32"
        )
    return tuple(logits.tolist())
