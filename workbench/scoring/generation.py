"""Batched decoding up to a stop string, the end token, or a stated limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import StoppingCriteria, StoppingCriteriaList

from workbench.errors import ConfigError, DataError
from workbench.models import Kind, LoadedModel, as_model
from workbench.models.batching import HeadRow, padded, padding_id
from workbench.records import takes_fields_of
from workbench.scoring._requests import leading_bos
from workbench.scoring.streams import collect, token_budget
from workbench.text import PromptFormat
from workbench.trace.decoder import decoder_prefix, end_ids, generation_start, prompt_ids
from workbench.trace.padding import cache_works, together

__all__ = ["Generated", "GenerationRequest", "continuation", "generate", "generate_texts"]

_MOST_ROWS = 64
# A decoding step costs little more for eight rows than for one, so a batch holds more tokens than a scoring batch.
_TOKENS_PER_BUDGET = 8
_TAIL = 24  # tokens looked at for a stop string


@dataclass(frozen=True)
class GenerationRequest:
    """Go on from ``text``, up to one of ``stop`` or ``max_tokens``; greedy at temperature 0, else nucleus sampling."""

    text: str
    stop: tuple[str, ...] = ()
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    number: int = 0  # tells samples of one prompt apart


@dataclass(frozen=True)
class Generated:
    """What was written; ``finished`` is false where only the limit of tokens ended it.

    ``ids`` are the tokens before the end of text, also those of a stop string.
    """

    text: str
    tokens: int
    finished: bool
    ids: tuple[int, ...] = field(default=(), repr=False)


@takes_fields_of(PromptFormat)
def generate(
    model: LoadedModel | str,
    text: str | Sequence[str],
    *,
    max_tokens: int = 40,
    stop: str | Sequence[str] = (),
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    **prompt: Any,
) -> Generated | list[Generated]:
    """Continue a text (causal models), or generate from it (encoder-decoders), as tasks do.

    Args:
        model: a model that generates, or its name.
        text: a prompt, or several, for which a list is returned; one that is too long loses its beginning.
        max_tokens: the most that are generated.
        stop: a text, or several, before which the generated text ends.
        temperature: 0 is greedy; above it tokens are sampled.
        top_p: sample from the likeliest tokens that have this much probability together (Holtzman et al. 2020).
        seed: of sampling.
        **prompt: how the model reads the text: fields of :class:`~workbench.text.PromptFormat`.

    Raises:
        ModelError: a model that does not generate.
        ConfigError: a number out of range.

    Example:
        ```python
        import workbench

        print(workbench.generate("novels-decoder", "She was very", max_tokens=12).text)
        ```
    """
    if max_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        raise ConfigError(
            f"max_tokens {max_tokens}, temperature {temperature}, top_p {top_p}; allowed: 1 or more, 0 or more, "
            "above 0 to 1"
        )
    ends = (stop,) if isinstance(stop, str) else tuple(stop)
    texts = [text] if isinstance(text, str) else list(text)
    prompts = [
        GenerationRequest(one, ends, max_tokens, temperature, top_p, number)
        for number, one in enumerate(texts)
    ]
    batches = generate_texts(as_model(model, **prompt), prompts, seed=seed)
    found = collect(batches, len(prompts))
    return found[0] if isinstance(text, str) else found


def continuation(model: LoadedModel, prompt: str, generated: Generated) -> str:
    """The generated text as it goes on from ``prompt`` in a causal model: both together are what was written.

    Many tokenizers leave out a blank at the beginning of what they decode, so that ``generated.text`` may lack it.

    Example:
        ```python
        import workbench
        from workbench.scoring import GenerationRequest, collect, continuation, generate_texts

        model = workbench.load("novels-decoder")
        requests = [GenerationRequest(text, max_tokens=8) for text in ("She was very", "The captain")]
        for asked, written in zip(requests, collect(generate_texts(model, requests), len(requests))):
            print(asked.text + continuation(model, asked.text, written))
        ```
    """
    decode = model.tokenizer.decode
    before = prompt_ids(model, prompt)
    whole = decode([*before, *generated.ids], skip_special_tokens=True)
    start = whole[len(decode(before, skip_special_tokens=True)) :]
    return start[: start.index(generated.text) + len(generated.text)] if generated.text in start else start


def generate_texts(
    model: LoadedModel,
    prompts: Sequence[GenerationRequest],
    done: Set[int] = frozenset(),
    *,
    seed: int = 0,
    batch_tokens: str | int = "auto",
    keep_bos: bool = False,
    progress: bool = False,
) -> Iterator[list[tuple[int, Generated]]]:
    """What the model generates after each prompt. Prompts too long are truncated at their beginning, or behind BOS.

    Greedy decoding computes equal prompts once. Sampling is seeded by batch, so it depends on the batch size.

    Raises :class:`~workbench.errors.ModelError` for a model that does not generate, and
    :class:`~workbench.errors.DataError` where ``max_tokens`` leave no room for a prompt.

    Example:
        ```python
        import workbench
        from workbench.scoring import GenerationRequest, collect, generate_texts

        model = workbench.load("novels-decoder")
        requests = [GenerationRequest(text, max_tokens=8) for text in ("She was very", "The captain")]
        for asked, written in zip(requests, collect(generate_texts(model, requests), len(requests))):
            print(asked.text, "|", written.text)
        ```
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="generation")
    ids = [_encode(model, prompt, keep_bos) for prompt in prompts]
    places: dict[GenerationRequest, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(prompt, []).append(place)
    order = sorted(places, key=lambda p: (-p.max_tokens, p.stop, p.temperature, -len(ids[places[p][0]])))
    budget = token_budget(model, batch_tokens) * _TOKENS_PER_BUDGET
    with tqdm(total=len(order), unit="text", disable=not progress, leave=False) as bar:
        start = 0
        while start < len(order):
            batch = _next(
                order, start, budget, [len(ids[places[p][0]]) for p in order[start : start + _MOST_ROWS]]
            )
            start += len(batch)
            bar.update(len(batch))
            if all(place in done for prompt in batch for place in places[prompt]):
                continue
            texts = _generate_alike(model, batch, [ids[places[p][0]] for p in batch], seed + start)
            yield [
                (place, text) for prompt, text in zip(batch, texts, strict=True) for place in places[prompt]
            ]


def _next(
    order: Sequence[GenerationRequest], start: int, budget: int, lengths: list[int]
) -> list[GenerationRequest]:
    """Prompts decoded alike that fit the budget together, at least one."""
    first = order[start]
    rows = max(1, min(_MOST_ROWS, budget // (lengths[0] + first.max_tokens)))
    alike = (first.max_tokens, first.stop, first.temperature, first.top_p)
    batch = []
    for prompt in order[start : start + rows]:
        if (prompt.max_tokens, prompt.stop, prompt.temperature, prompt.top_p) != alike:
            break
        batch.append(prompt)
    return batch


def _encode(model: LoadedModel, prompt: GenerationRequest, keep_bos: bool) -> list[int]:
    room = model.max_length - (prompt.max_tokens if model.kind is Kind.CAUSAL else 0)
    if room < 1:
        raise DataError(
            f"{prompt.max_tokens} new tokens leave no room for a prompt; {model.name} reads at most {model.max_length}"
        )
    ids = prompt_ids(model, prompt.text)
    kept = leading_bos(model.tokenizer, ids) if keep_bos and len(ids) > room else ()
    return [*kept, *ids[len(ids) - room + len(kept) :]] if len(ids) > room else ids


class _StopAt(StoppingCriteria):
    """Ends a row as soon as a stop string stands in what was generated.

    ``ended`` says after how many tokens: behind them a row is padded while others of its batch go on.
    """

    def __init__(self, tokenizer: Any, stop: tuple[str, ...], prompt: int) -> None:
        self.tokenizer = tokenizer
        self.stop = stop
        self.prompt = prompt
        self.ended: dict[int, int] = {}

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """True for rows (B,) that are done."""
        generated = input_ids[:, self.prompt :]
        for row, tail in enumerate(self.tokenizer.batch_decode(generated[:, -_TAIL:])):
            if row not in self.ended and any(stop in tail for stop in self.stop):
                self.ended[row] = generated.shape[1]
        return torch.tensor([row in self.ended for row in range(len(generated))], device=input_ids.device)


def _generate_alike(
    model: LoadedModel, batch: list[GenerationRequest], ids: list[list[int]], seed: int
) -> list[Generated]:
    """Texts for prompts; where padding changes what a model generates, those of one length share a pass."""
    side = "right" if model.config.is_encoder_decoder else "left"
    alike = _groups(model, [len(row) for row in ids], side)
    found: dict[int, Generated] = {}
    for places in alike:
        texts = _generate(model, [batch[i] for i in places], [ids[i] for i in places], seed)
        found.update(zip(places, texts, strict=True))
    return [found[i] for i in range(len(ids))]


def _groups(model: LoadedModel, lengths: list[int], side: str) -> list[list[int]]:
    """Places of the rows that may be padded to one length.

    A source's n-grams that are not to be repeated are read with its padding.
    """
    settings = getattr(model.model, "generation_config", None)
    if getattr(settings, "encoder_no_repeat_ngram_size", None):
        return [
            [place for place, each in enumerate(lengths) if each == size] for size in sorted(set(lengths))
        ]
    return together(model.model, lengths, side)


def _generate(
    model: LoadedModel, batch: list[GenerationRequest], ids: list[list[int]], seed: int
) -> list[Generated]:
    # An encoder's learned positions count padding on the left; a decoder goes on where a text ends.
    side = "right" if model.config.is_encoder_decoder else "left"
    first, inputs = batch[0], padded(model, [HeadRow(tuple(row)) for row in ids], side)
    started = max(map(len, ids)) if model.kind is Kind.CAUSAL else len(decoder_prefix(model))
    room = first.max_tokens if model.kind is Kind.CAUSAL else model.max_target_length - started
    decoding: dict[str, Any] = {
        "max_new_tokens": min(first.max_tokens, room),
        "num_beams": 1,
        "use_cache": cache_works(model.model),
        "pad_token_id": padding_id(model.tokenizer, model.config),
    }
    if first.temperature > 0:
        decoding |= {"do_sample": True, "temperature": first.temperature, "top_p": first.top_p, "top_k": 0}
    else:
        decoding |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    stop = _StopAt(model.tokenizer, first.stop, started)
    if first.stop:
        decoding["stopping_criteria"] = StoppingCriteriaList([stop])
    devices = [model.device] if model.device.type == "cuda" else []
    with model.lock, torch.inference_mode(), torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        rows = model.model.generate(**inputs, **generation_start(model, len(ids)), **decoding)
    generated = [row[started:].tolist()[: stop.ended.get(n)] for n, row in enumerate(rows)]
    return [_read(model, ids, first) for ids in generated]


def _read(model: LoadedModel, ids: list[int], prompt: GenerationRequest) -> Generated:
    """The text before the end token and the first stop string."""
    ends = end_ids(model)
    end = next((i for i, token in enumerate(ids) if token in ends), None)
    kept = ids if end is None else ids[:end]
    text = model.tokenizer.decode(kept, skip_special_tokens=True)
    stops = [text.find(s) for s in prompt.stop if s in text]
    finished = end is not None or bool(stops)
    return Generated(text[: min(stops)] if stops else text, len(kept), finished, tuple(kept))
