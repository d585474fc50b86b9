"""Generation token by token: what was likely at each step, and what the model attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from workbench.analysis.contrastive import contrastive_ids
from workbench.analysis.decoding import Decoding
from workbench.analysis.diversity import distinct
from workbench.drawn import Drawn
from workbench.errors import ConfigError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.scoring import CheckedReward, Generated, Reward, continuation, find_reward
from workbench.shapes import Array
from workbench.trace import Record, Stack, trace
from workbench.trace.decoder import as_read, decoder_prefix, end_ids, generation_start, prompt_ids
from workbench.trace.encoding import encode_all, inputs_of
from workbench.trace.padding import cache_works

__all__ = [
    "Decoding",
    "Generation",
    "GenerationStep",
    "generate_all",
    "generate_steps",
    "reply_text",
    "texts_frame",
]


@dataclass(frozen=True, eq=False)
class GenerationStep:
    """One generated token. ``attention`` is that of the place which predicts it, over the tokens ``read`` so far.

    ``probability``, ``rank`` (from 1) and the ``entropy`` in bits are those of the model's own distribution, before
    temperature, top-k and top-p change it.
    """

    token: str
    token_id: int
    candidates: tuple[tuple[str, float], ...]  # likeliest tokens with their probabilities, best first
    read: tuple[str, ...]
    attention: Float[Array, "layer head key"]
    probability: float
    entropy: float
    rank: int


@dataclass(frozen=True, eq=False, repr=False)
class Generation(Drawn):
    """What a model generated after ``text``. An encoder-decoder's steps attend to the source (cross-attention).

    ``reward`` is that of the best of several samples.
    """

    drawn_by = "generation_view"

    model: str
    text: str
    generated: str
    attention_of: str  # "self" or "cross"
    steps: tuple[GenerationStep, ...]
    reward: float | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """The generated tokens."""
        return tuple(step.token for step in self.steps)

    @property
    def log_probability(self) -> float:
        """Of all generated tokens, in nats; an end of text counts where it was generated."""
        return float(np.sum(np.log([step.probability for step in self.steps])))

    @property
    def mean_log_probability(self) -> float:
        """Of a token, in nats; NaN where nothing was generated."""
        return self.log_probability / len(self.steps) if self.steps else float("nan")

    @property
    def repetition(self) -> float:
        """The share of runs of four tokens that the text had before (Welleck et al. 2020); NaN below four tokens."""
        return 1 - self.distinct(4)

    def distinct(self, size: int) -> float:
        """See :func:`~workbench.analysis.diversity.distinct`."""
        return distinct([step.token_id for step in self.steps], size)

    def to_frame(self) -> pd.DataFrame:
        """One row a generated token: probability, entropy (bits), rank, and what else was likely."""
        return pd.DataFrame(
            {
                "token": self.tokens,
                "probability": [step.probability for step in self.steps],
                "entropy": [step.entropy for step in self.steps],
                "rank": [step.rank for step in self.steps],
                "likeliest": [
                    ", ".join(f"{token} {probability:.3f}" for token, probability in step.candidates)
                    for step in self.steps
                ],
            }
        )

    def __repr__(self) -> str:
        return (
            f"<Generation of {len(self.steps)} tokens by {self.model}: {self.generated[:60]!r}, "
            f"log-probability {self.log_probability:.2f}>"
        )


def generate_steps(
    model: LoadedModel, text: str, count: int = 12, *, top: int = 8, decoding: Decoding | None = None
) -> Generation:
    """The best, or only, text of :func:`generate_all`."""
    return generate_all(model, text, count, top=top, decoding=decoding)[0]


def generate_all(
    model: LoadedModel,
    text: str,
    count: int = 12,
    *,
    top: int = 8,
    decoding: Decoding | None = None,
    reward: Reward | str | None = None,
) -> list[Generation]:
    """Generate up to ``count`` tokens after ``text`` (or, for an encoder-decoder, from it): a text for each beam or
    sample of ``decoding``, one without it.

    Generated tokens are read again in one pass, from which candidates and attention of every step come; the end of
    text ends it. ``reward`` (or its name, see :func:`~workbench.scoring.find_reward`) goes with ``best_of``: it reads
    ``text`` and what follows, and the texts are returned best first. Raises :class:`~workbench.errors.ModelError` for a
    model that does not generate, :class:`~workbench.errors.ConfigError` for a ``count`` or ``top`` below 1 and for
    settings that do not go together, and :class:`~workbench.errors.TraceError` where text and ``count`` do not fit into
    the model.

    Example:
        ```python
        import workbench
        from workbench.analysis.generation import Decoding, generate_all

        model = workbench.load("novels-decoder")
        for found in generate_all(model, "She was", 8, decoding=Decoding(beams=3)):
            print(found.generated, found.log_probability)
        best = generate_all(model, "She was", 8, decoding=Decoding(best_of=4), reward="pattern:,")[0]
        print(best.generated, best.reward)
        ```
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="generation")
    decoding = decoding or Decoding()
    if min(count, top) < 1:
        raise ConfigError(f"count and top are {count} and {top}; allowed: 1 or more")
    if bool(decoding.best_of) != (reward is not None):
        raise ConfigError("best_of and a reward go together; give both, or none of them")
    judge = None if reward is None else CheckedReward(find_reward(reward))
    if model.kind is Kind.SEQ2SEQ:
        texts = _from_source(model, text, count, top, decoding)
    else:
        texts = _after(model, text, count, top, decoding)
    return texts if judge is None else _ranked(model, texts, judge)


def _ranked(model: LoadedModel, texts: Sequence[Generation], reward: Reward) -> list[Generation]:
    """The texts with their rewards, best first; those of equal reward in the order in which they were drawn."""
    replies = [one.generated if model.kind is Kind.SEQ2SEQ else reply_text(model, one) for one in texts]
    values = reward([one.text for one in texts], replies)
    judged = [replace(one, reward=value) for one, value in zip(texts, values, strict=True)]
    return sorted(judged, key=lambda one: -float(one.reward or 0.0))


def reply_text(model: LoadedModel, found: Generation) -> str:
    """What a decoder wrote as it goes on from the prompt, with the blank between them and without an end of text.

    Example:
        ```python
        import workbench
        from workbench.analysis.generation import generate_steps, reply_text

        model = workbench.load("novels-decoder")
        print("She was" + reply_text(model, generate_steps(model, "She was", 8)))
        ```
    """
    ends = end_ids(model)
    ids = tuple(step.token_id for step in found.steps if step.token_id not in ends)
    text = str(model.tokenizer.decode(ids, skip_special_tokens=True))
    return continuation(model, found.text, Generated(text, len(ids), len(ids) < len(found.steps), ids))


def texts_frame(found: Sequence[Generation]) -> pd.DataFrame:
    """One row a text: its reward where it has one, log-probability (nats; mean of a token), and how much it repeats.

    ``distinct_1`` and ``distinct_2`` are shares of different tokens and pairs of tokens, ``repetition`` is the share of
    runs of four that came before.

    Example:
        ```python
        import workbench
        from workbench.analysis.generation import Decoding, generate_all, texts_frame

        model = workbench.load("novels-decoder")
        print(texts_frame(generate_all(model, "She was", 12, decoding=Decoding(penalty=0.6))))
        ```
    """
    rows = [
        {
            "generated": one.generated,
            "reward": one.reward,
            "log_probability": one.log_probability,
            "mean_log_probability": one.mean_log_probability,
            "distinct_1": one.distinct(1),
            "distinct_2": one.distinct(2),
            "repetition": one.repetition,
        }
        for one in found
    ]
    frame = pd.DataFrame(rows)
    return frame.drop(columns="reward") if all(one.reward is None for one in found) else frame


def _after(model: LoadedModel, text: str, count: int, top: int, decoding: Decoding) -> list[Generation]:
    begun = prompt_ids(model, text)
    if len(begun) + count > model.max_length:
        raise TraceError(
            f"{len(begun)} tokens and {count} more do not fit: {model.name} reads 1 to {model.max_length:,}"
        )
    texts = []
    for found in _continued(model, begun, count, decoding):
        whole = as_read(model, [*begun, *found])
        traced = trace(model, [whole], {Record.ATTENTION, Record.LOGITS})[0]
        places = range(len(begun), len(begun) + len(found))
        steps = _steps(model, whole.tokens, found, places, traced.attention, traced.get("logits"), top)
        texts.append(Generation(model.name, text, str(model.tokenizer.decode(found)), "self", steps))
    return texts


def _continued(model: LoadedModel, begun: list[int], count: int, decoding: Decoding) -> list[list[int]]:
    """The generated ids of each text."""
    if decoding.penalty:
        candidates = decoding.candidates
        return [contrastive_ids(model, begun, count, penalty=decoding.penalty, candidates=candidates)]
    inputs = torch.tensor([begun], device=model.device)
    cached = cache_works(model.model)
    start = {"input_ids": inputs, "attention_mask": torch.ones_like(inputs), "use_cache": cached}
    return _chosen(model, start, count, decoding, len(begun))


def _chosen(
    model: LoadedModel, inputs: dict[str, Any], count: int, decoding: Decoding, prefix: int
) -> list[list[int]]:
    """The generated ids of each text behind ``prefix`` ids, an end of text included."""
    ends = end_ids(model)
    devices = [model.device] if model.device.type == "cuda" else []
    with model.lock, torch.inference_mode(), torch.random.fork_rng(devices):
        torch.manual_seed(decoding.seed)
        rows = model.model.generate(
            **inputs,
            **decoding.arguments(),
            max_new_tokens=count,
            pad_token_id=model.tokenizer.pad_token_id or 0,
        )
    found = []
    for row in rows.tolist():
        own = row[prefix:]
        end = next((i for i, token in enumerate(own) if token in ends), len(own))
        found.append(own[: end + 1])
    return found


def _from_source(model: LoadedModel, text: str, count: int, top: int, decoding: Decoding) -> list[Generation]:
    if decoding.penalty:
        raise ConfigError(
            f"contrastive search goes with decoders; {model.name} is an encoder-decoder: use beams or samples"
        )
    # without a cache, which transformers sizes wrongly where encoder and decoder differ in depth
    inputs = inputs_of(model, encode_all(model, [text])) | generation_start(model, 1) | {"use_cache": False}
    prefix = len(decoder_prefix(model))
    texts = []
    for found in _chosen(model, inputs, count, decoding, prefix):
        target = as_read(model, found)  # the prefix is put in front again
        traced = trace(model, [text], {Record.ATTENTION, Record.LOGITS}, targets=[target])[0]
        assert traced.source is not None
        tokens = (
            *traced.tokens[:prefix],
            *target.tokens,
        )  # an end of text is not read again, but was predicted
        cross = traced.get(f"{Stack.CROSS}_attention")
        steps = _steps(
            model,
            tokens,
            found,
            range(prefix, len(tokens)),
            cross,
            traced.get("logits"),
            top,
            source=traced.source.tokens,
        )
        generated = str(model.tokenizer.decode(found, skip_special_tokens=True))
        texts.append(Generation(model.name, text, generated, "cross", steps))
    return texts


def _steps(
    model: LoadedModel,
    tokens: Sequence[str],
    ids: Sequence[int],
    places: range,
    attention: Float[Array, "layer head query key"],
    logits: Float[Array, "token vocabulary"],
    top: int,
    source: Sequence[str] | None = None,
) -> tuple[GenerationStep, ...]:
    """A step for each place of ``places``, which the place before it predicts; ``ids`` stand there."""
    steps = []
    for place, chosen in zip(places, ids, strict=True):
        logs = torch.from_numpy(np.asarray(logits[place - 1], np.float32)).log_softmax(-1)
        scores = logs.exp()
        best = scores.topk(min(top, len(scores)))
        names = model.tokenizer.convert_ids_to_tokens(best.indices.tolist())
        read = tuple(source if source is not None else tokens[:place])
        steps.append(
            GenerationStep(
                token=tokens[place],
                token_id=chosen,
                candidates=tuple(zip(map(str, names), best.values.tolist(), strict=True)),
                read=read,
                attention=attention[:, :, place - 1, : len(read)],
                probability=float(scores[chosen]),
                entropy=float(-(scores * logs).nan_to_num(0.0).sum() / np.log(2)),
                rank=int((logs > logs[chosen]).sum()) + 1,
            )
        )
    return tuple(steps)
