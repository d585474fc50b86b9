"""Stream sentences through a model once and keep the vectors of chosen places."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from probes._data import Place, Unit, Words, places_hash
from probes.features._stream import FeatureStream
from probes.features.capture import capturing_features
from probes.features.policy import Policy, chosen_layers, resolve_pool
from probes.features.store import Features, writing
from workbench.errors import DataError
from workbench.folders import cached_folder
from workbench.models import LoadedModel
from workbench.trace import Stack, stacks_of, structure_of

__all__ = ["extract", "with_random_weights", "words_of"]


def words_of(sentences: Sequence[str | Sequence[str] | Words]) -> list[Words]:
    """Sentences as :class:`Words`; a plain string is split at whitespace."""
    if isinstance(sentences, str):
        raise DataError(f"sentences must be a list, got one str {sentences[:40]!r}; write [sentence]")
    return [
        s if isinstance(s, Words) else Words(tuple(s.split() if isinstance(s, str) else s)) for s in sentences
    ]


def extract(
    model: LoadedModel,
    sentences: Sequence[str | Sequence[str] | Words],
    places: Sequence[Place] | None = None,
    *,
    layers: str | Sequence[int] = "all",
    pool: str = "auto",
    what: str = "residual",
    stack: str | None = None,
    out: Path | str | None = None,
    progress: bool = False,
) -> Features:
    """The vectors of ``places`` (default: every word of every sentence, in order) at each layer, from disk.

    One pass over the sentences writes a store, named by a hash of weights, data and settings, that is
    reused when it is there. See :class:`Policy` for ``pool`` and ``what``. An encoder-decoder is read at its
    encoder; with ``stack="decoder"`` both sides read the sentence. ``out`` is the store's folder (default:
    one in the cache, see :func:`workbench.folders.cached_folder`); one that was made from something else is refused.

    Raises:
        TaskError, TraceError: a layer or head out of range, a site that this architecture does not show.
        DataError: no sentence, or a store that cannot be read or written.

    Example:
        ```python
        from probes import extract
        import workbench

        features = extract(workbench.load("novels-encoder"), ["The keys are here."])
        print(features.layers)
        ```
    """
    words = words_of(sentences)
    if not words:
        raise DataError("no sentences to extract features from: give at least one")
    wanted = list(places) if places is not None else _every_word(words)
    policy, where = _policy(model, wanted, words, layers, pool, what, stack)
    key = policy.key(model, places_hash(words, wanted))
    folder = Path(out) if out is not None else cached_folder("features", key[:32])
    if (folder / "features.json").is_file():
        return Features.open(folder, key)
    reading = capturing_features(model, what, where, policy.layers)
    with model.lock, writing(folder, len(wanted)) as writer, reading as run:
        job = FeatureStream(model, words, wanted, policy, where, writer)
        job.run(run, progress)
        writer.finish(Features(folder, key, model.name, policy.layers, policy, job.dropped, job.truncated))
    return Features.open(folder, key)


def _every_word(words: Sequence[Words]) -> list[Place]:
    return [Place(s, w, w + 1) for s, sentence in enumerate(words) for w in range(len(sentence.forms))]


def _policy(
    model: LoadedModel,
    places: Sequence[Place],
    words: Sequence[Words],
    layers: str | Sequence[int],
    pool: str,
    what: str,
    stack: str | None,
) -> tuple[Policy, Stack]:
    structure = stacks_of(model.model) if what == "residual" else structure_of(model.model)
    both = model.config.is_encoder_decoder and stack is None
    where = Stack.ENCODER if both else structure.stack(stack)
    if not places:
        raise DataError("no places to extract features of: no sentence has a word")
    single = all(place.stop - place.start == 1 for place in places)
    pooled = resolve_pool(pool, model, Unit.WORD if single else Unit.SPAN)
    numbers = chosen_layers(layers if isinstance(layers, str) else tuple(layers), what, structure, where)
    return Policy(pooled, what, str(where), numbers), where


def with_random_weights(model: LoadedModel, seed: int = 0) -> LoadedModel:
    """A new model of the same class and configuration, initialised by its own rule with ``seed``.

    The tokenizer stays, so words become the same tokens. The caller's random state is left alone.
    """
    config = copy.deepcopy(model.config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = type(model.model)(config)
    return replace(
        model,
        model=fresh.to(device=model.device, dtype=model.dtype).eval(),
        name=f"{model.name} (random weights)",
        path=None,
    )
