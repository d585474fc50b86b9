"""Generation token by token: what was likely at each step, and what the model attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from workbench.drawn import Drawn
from workbench.errors import ConfigError, TraceError
from workbench.models import Kind, LoadedModel
from workbench.records import LARGEST_SEED
from workbench.shapes import Array
from workbench.trace import Record, Stack, trace
from workbench.trace.decoder import as_read, decoder_prefix, end_ids, generation_start, prompt_ids
from workbench.trace.encoding import encode_all, inputs_of
from workbench.trace.padding import cache_works

__all__ = ["Decoding", "Generation", "GenerationStep", "generate_all", "generate_steps"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How tokens are chosen: greedily, by beam search, or sampled.

    ``beams`` above 1 keeps so many beginnings and returns all of them, best first by log-probability per token (as
    transformers ranks them). ``samples`` above 0 draws so many texts instead, from the distribution at
    ``temperature``, of which ``top_k`` keeps the likeliest tokens (0: all) and ``top_p`` those that have this much
    probability together (Holtzman et al. 2020). Raises :class:`~workbench.errors.ConfigError` for a value out of range.
    """

    beams: int = 1
    samples: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "beams": (self.beams >= 1, "1 or more"),
            "samples": (self.samples >= 0, "0 or more"),
            "temperature": (self.temperature > 0, "above 0"),
            "top_k": (self.top_k >= 0, "0 or more"),
            "top_p": (0 < self.top_p <= 1, "above 0 to 1"),
            "seed": (0 <= self.seed <= LARGEST_SEED, f"0 to {LARGEST_SEED}"),
        }
        for name, (fits, allowed) in ranges.items():
            if not fits:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: {allowed}")
        if self.beams > 1 and self.samples:
            raise ConfigError(f"{self.beams} beams and {self.samples} samples: choose one of both")
        if not self.samples and (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0):
            raise ConfigError("temperature, top_k and top_p are of sampling; give samples, 1 or more")

    @property
    def texts(self) -> int:
        """How many texts come out."""
        return max(self.beams, self.samples)

    def arguments(self) -> dict[str, Any]:
        """Those of transformers' ``generate``."""
        found: dict[str, Any] = {
            "num_beams": self.beams,
            "num_return_sequences": self.texts,
            "do_sample": self.samples > 0,
        }
        if self.samples:
            found |= {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        else:
            found |= dict.fromkeys(("temperature", "top_k", "top_p"))
        return found


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
    """What a model generated after ``text``. An encoder-decoder's steps attend to the source (cross-attention)."""

    drawn_by = "generation_view"

    model: str
    text: str
    generated: str
    attention_of: str  # "self" or "cross"
    steps: tuple[GenerationStep, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The generated tokens."""
        return tuple(step.token for step in self.steps)

    @property
    def log_probability(self) -> float:
        """Of all generated tokens, in nats; an end of text counts where it was generated."""
        return float(np.sum(np.log([step.probability for step in self.steps])))

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
    model: LoadedModel, text: str, count: int = 12, *, top: int = 8, decoding: Decoding | None = None
) -> list[Generation]:
    """Generate up to ``count`` tokens after ``text`` (or, for an encoder-decoder, from it): a text for each beam or
    sample of ``decoding``, one without it.

    Generated tokens are read again in one pass, from which candidates and attention of every step come; the end of
    text ends it. Raises :class:`~workbench.errors.ModelError` for a model that does not generate,
    :class:`~workbench.errors.ConfigError` for a ``count`` or ``top`` below 1, and
    :class:`~workbench.errors.TraceError` where text and ``count`` do not fit into the model.

    Example:
        ```python
        import workbench
        from workbench.analysis.generation import Decoding, generate_all

        model = workbench.load("novels-decoder")
        for found in generate_all(model, "She was", 8, decoding=Decoding(beams=3)):
            print(found.generated, found.log_probability)
        ```
    """
    model.require(Kind.CAUSAL, Kind.SEQ2SEQ, verb="generation")
    decoding = decoding or Decoding()
    if min(count, top) < 1:
        raise ConfigError(f"count and top are {count} and {top}; allowed: 1 or more")
    if model.kind is Kind.SEQ2SEQ:
        return _from_source(model, text, count, top, decoding)
    begun = prompt_ids(model, text)
    if len(begun) + count > model.max_length:
        raise TraceError(
            f"{len(begun)} tokens and {count} more do not fit: {model.name} reads 1 to {model.max_length:,}"
        )
    inputs = torch.tensor([begun], device=model.device)
    cached = cache_works(model.model)
    start = {"input_ids": inputs, "attention_mask": torch.ones_like(inputs), "use_cache": cached}
    texts = []
    for found in _chosen(model, start, count, decoding, len(begun)):
        whole = as_read(model, [*begun, *found])
        traced = trace(model, [whole], {Record.ATTENTION, Record.LOGITS})[0]
        places = range(len(begun), len(begun) + len(found))
        steps = _steps(model, whole.tokens, found, places, traced.attention, traced.get("logits"), top)
        texts.append(Generation(model.name, text, str(model.tokenizer.decode(found)), "self", steps))
    return texts


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
