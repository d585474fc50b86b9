"""All that the loop needs, made from a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from workbench.errors import ConfigError, DataError
from workbench.models import load
from workbench.training._arguments import find_precision, rows_at_once
from workbench.training.blocks import Blocks
from workbench.training.building import build_model, build_pair, make_config
from workbench.training.corpora import Corpora, prepare_corpora
from workbench.training.objectives import Objective, ObjectiveName, SpecialIds, make_objective, role_of
from workbench.training.objectives.distillation import Distilled
from workbench.training.settings import TrainSettings

__all__ = ["TrainingWork", "prepare"]

DEFAULT_LENGTH = 256
_DISTILLED = ("AutoModelForCausalLM", "AutoModelForMaskedLM")


@dataclass(frozen=True)
class TrainingWork:
    """``rows`` are those of one forward pass, ``length`` the tokens of a row, ``recipe`` the hash of it all."""

    settings: TrainSettings
    corpora: Corpora
    objective: Objective
    training: Blocks
    validation: Blocks
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
        model = build_model(settings.model, self.objective.auto, tokenizer, seed)
        if choice.teacher is None:
            return model
        teacher = load(choice.teacher, dtype="float32", device="cpu").model
        return Distilled(model, teacher, temperature=choice.temperature)


def prepare(settings: TrainSettings, device: torch.device, *, show: bool) -> TrainingWork:
    """Tokenizer, token files, objective, and the order of reading; raises the package's errors for bad input."""
    role = role_of(settings.objective.name)
    given = settings.model.model or settings.objective.teacher
    corpora = prepare_corpora(settings.data, role, given, show=show)
    length = _length(settings, corpora)
    objective = make_objective(
        settings.objective,
        SpecialIds.of(corpora.tokenizer),
        length,
        isolate_documents=settings.data.isolate_documents,
    )
    is_pair = settings.objective.name == ObjectiveName.REPLACED_TOKENS
    if settings.objective.teacher is not None and (is_pair or objective.auto not in _DISTILLED):
        raise ConfigError(
            f"a teacher goes with causal and masked language models, not with {settings.objective.name}; "
            "leave out --teacher, or choose --objective clm or mlm"
        )
    training, validation = _blocks(settings, corpora, objective)
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


def _length(settings: TrainSettings, corpora: Corpora) -> int:
    if settings.model.model is not None:
        longest = load(settings.model.model, device="cpu").max_length
    else:
        longest = make_config(settings.model, corpora.tokenizer).max_position_embeddings
    length = settings.data.length or min(DEFAULT_LENGTH, longest)
    if not 8 <= length <= longest:
        raise ConfigError(f"length is {length}; allowed: 8 to {longest}, the model's longest input")
    return length


def _blocks(settings: TrainSettings, corpora: Corpora, objective: Objective) -> tuple[Blocks, Blocks]:
    window, optimisation = objective.window, settings.optimisation
    tokens = len(corpora.train) + len(corpora.validation)
    if settings.data.validation is None and tokens < 2 * window:
        raise DataError(
            f"the corpus has {tokens} tokens, fewer than two rows of {window}; shorten --length, or give more text"
        )
    training = Blocks(
        corpora.train,
        window,
        optimisation.steps * optimisation.batch_size,
        seed=optimisation.seed,
        static=settings.objective.static,
    )
    return training, Blocks(corpora.validation, window, shuffle=False, static=True)
