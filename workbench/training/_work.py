"""All that the loop needs, made from a recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from workbench.data.corpus_tokens import TokenFile
from workbench.errors import ConfigError, DataError
from workbench.models import load
from workbench.text import Role
from workbench.training._arguments import find_precision, rows_at_once
from workbench.training.blocks import Blocks
from workbench.training.building import build_model, build_pair, make_config
from workbench.training.corpora import Corpora, prepare_corpora
from workbench.training.objectives import (
    Objective,
    ObjectiveName,
    SpecialIds,
    make_objective,
    needs_counts,
    role_of,
)
from workbench.training.objectives.distillation import Distilled
from workbench.training.objectives.span_boundary import SpanBoundaries
from workbench.training.pair_corpora import PairRows, TokenPairs, prepare_pairs
from workbench.training.settings import TrainSettings

__all__ = ["TrainingWork", "prepare"]

DEFAULT_LENGTH = 256
_COUNTED_AT_ONCE = 1 << 24  # tokens
_LONGEST = 2**20  # tokens of a row, where a model has no limit of its own
_DISTILLED = ("AutoModelForCausalLM", "AutoModelForMaskedLM")
_OWN_HEADS = (ObjectiveName.REPLACED_TOKENS, ObjectiveName.SPAN_BOUNDARY)


@dataclass(frozen=True)
class TrainingWork:
    """``rows`` are those of one forward pass, ``length`` the tokens of a row, ``recipe`` the hash of it all."""

    settings: TrainSettings
    corpora: Corpora
    objective: Objective
    training: Blocks | PairRows
    validation: Blocks | PairRows
    device: torch.device
    precision: torch.dtype
    recipe: str
    rows: int
    length: int

    def new_model(self) -> Any:
        """The model before its first step, the same each time."""
        settings, tokenizer = self.settings, self.corpora.tokenizer
        seed, choice = settings.optimisation.seed, settings.objective
        if choice.name == ObjectiveName.REPLACED_TOKENS:
            return build_pair(settings.model, tokenizer, seed)
        trains = getattr(self.objective, "trains", None)
        model = build_model(settings.model, self.objective.auto, tokenizer, seed, trains)
        if choice.name == ObjectiveName.SPAN_BOUNDARY:
            return SpanBoundaries(model, seed=seed, folder=settings.model.model)
        if choice.teacher is None:
            return model
        teacher = load(choice.teacher, dtype="float32", device="cpu").model
        return Distilled(model, teacher, temperature=choice.temperature)


def prepare(settings: TrainSettings, device: torch.device, *, show: bool) -> TrainingWork:
    """Tokenizer, token files, objective, and the order of reading; raises the package's errors for bad input."""
    role = role_of(settings.objective.name)
    given = settings.model.model or settings.objective.teacher
    corpora = _corpora(settings, role, given, show=show)
    length = _length(settings, corpora)
    objective = make_objective(
        settings.objective,
        _special_ids(settings, corpora),
        length,
        isolate_documents=settings.data.isolate_documents,
    )
    has_head = settings.objective.name in _OWN_HEADS
    if settings.objective.teacher is not None and (has_head or objective.auto not in _DISTILLED):
        raise ConfigError(
            f"a teacher goes with causal and masked language models, not with {settings.objective.name}; "
            "leave out --teacher, or choose --objective clm or mlm"
        )
    training, validation = _rows(settings, corpora, objective)
    vocabulary = len(corpora.tokenizer)
    return TrainingWork(
        settings=settings,
        corpora=corpora,
        objective=objective,
        training=training,
        validation=validation,
        device=device,
        precision=find_precision(settings.loop.precision, device),
        recipe=settings.digest(*corpora.hashes),
        rows=rows_at_once(
            settings.loop.micro_batch, settings.optimisation.batch_size, length, vocabulary, device
        ),
        length=length,
    )


def _special_ids(settings: TrainSettings, corpora: Corpora) -> SpecialIds:
    """Those of the tokenizer; counted in the training corpus where the objective draws by frequency."""
    special = SpecialIds.of(corpora.tokenizer)
    if not needs_counts(settings.objective.name):
        return special
    assert isinstance(corpora.train, TokenFile)
    counts = np.zeros(special.vocab_size, dtype=np.int64)
    for start in range(0, len(corpora.train), _COUNTED_AT_ONCE):
        part = corpora.train.ids[start : start + _COUNTED_AT_ONCE]
        counts += np.bincount(part, minlength=special.vocab_size)
    return replace(special, counts=counts)


def _length(settings: TrainSettings, corpora: Corpora) -> int:
    if settings.model.model is not None:
        longest = load(settings.model.model, device="cpu").max_length
    else:
        longest = make_config(settings.model, corpora.tokenizer).max_position_embeddings or _LONGEST
    length = settings.data.length or min(DEFAULT_LENGTH, longest)
    if not 8 <= length <= longest:
        raise ConfigError(f"length is {length}; allowed: 8 to {longest}, the model's longest input")
    return length


def _corpora(settings: TrainSettings, role: Role, given: str | None, *, show: bool) -> Corpora:
    data, name = settings.data, settings.objective.name
    if name == ObjectiveName.TRANSLATION:
        return prepare_pairs(data, given)
    if data.target_column is not None:
        raise ConfigError(
            f"a target column goes with --objective translation, not with {name}; leave out --target-column"
        )
    return prepare_corpora(data, role, given, show=show)


def _rows(
    settings: TrainSettings, corpora: Corpora, objective: Objective
) -> tuple[Blocks | PairRows, Blocks | PairRows]:
    """What is trained on, in its order, and what is held out."""
    window, optimisation = objective.window, settings.optimisation
    train, validation = corpora.train, corpora.validation
    count, seed = optimisation.steps * optimisation.batch_size, optimisation.seed
    if isinstance(train, TokenPairs) and isinstance(validation, TokenPairs):
        training = PairRows(train, window, count, seed=seed, batch=optimisation.batch_size)
        return training, PairRows(validation, window, shuffle=False)
    assert isinstance(train, TokenFile)
    assert isinstance(validation, TokenFile)
    tokens = len(train) + len(validation)
    if settings.data.validation is None and tokens < 2 * window:
        raise DataError(
            f"the corpus has {tokens} tokens, fewer than two rows of {window}; shorten --length, or give more text"
        )
    blocks = Blocks(train, window, count, seed=seed, static=settings.objective.static)
    return blocks, Blocks(validation, window, shuffle=False, static=True)
