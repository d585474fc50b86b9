"""A comparison under way: each model measured in turn, beside the one before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pandas as pd
from tqdm.auto import tqdm

from probes.directions import DirectionFeatures, direction_features, direction_statistics, read_groups
from probes.experiment import probe
from probes.features import Features, extract
from probes.report import ProbeReport
from probes.tasks import TASKS
from probes.training_changes.settings import ChangesPart, ChangesSettings
from probes.training_changes.statistics import (
    accuracy_of,
    change_of_accuracy,
    cka_statistics,
    mean_divergence,
    word_places,
)
from workbench.analysis.changes import Changes
from workbench.analysis.final_tokens import FinalTokens, change_of_final_tokens, final_tokens
from workbench.analysis.head_changes import head_changes
from workbench.analysis.saliency import Attribution, attribute
from workbench.analysis.token_changes import token_divergence
from workbench.analysis.weight_changes import weight_distance
from workbench.errors import ConfigError, DataError, ModelError, TaskError, TraceError
from workbench.models import LoadedModel
from workbench.scoring.rewards import ModelReward, find_reward
from workbench.statistics import Statistic, join_statistics
from workbench.terminal import counted
from workbench.trace import stacks_of
from workbench.trace.encoding import encode_all

__all__ = ["ChangesInProgress"]

_EXPLAINED = 20  # texts whose reward is attributed to tokens


@dataclass(eq=False)
class _Measured:
    """What one model gives by itself; ``None`` for what was not asked for or cannot be had."""

    features: Features | None = None
    final: FinalTokens | None = None
    report: ProbeReport | None = None
    direction: DirectionFeatures | None = None


@dataclass(eq=False)
class ChangesInProgress:
    """One comparison under way: statistics by name and model, and what could not be measured."""

    settings: ChangesSettings
    texts: list[str]
    open_model: Callable[[LoadedModel | str], LoadedModel]
    labels: list[str]
    found: dict[str, dict[str, Statistic]] = field(default_factory=dict)
    tokens: list[pd.DataFrame] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.probe_task is not None:
            TASKS.get(settings.probe_task)
        self.groups = None if settings.direction is None else read_groups(settings.direction, settings.seed)
        self.reward = None if settings.reward is None else _reward_model(settings.reward)
        self.words, self.places = word_places(self.texts, settings.places)

    def run(self, models: Sequence[LoadedModel | str], progress: bool) -> Changes:
        """Measure the first model, then each of the others beside it."""
        with tqdm(total=len(models), unit="model", disable=not progress, leave=False) as bar:
            before = self._opened(models[0])
            first = self._measure(before, self.labels[0])
            bar.update()
            for label, name in zip(self.labels[1:], models[1:], strict=True):
                after = self._opened(name)
                _check_depth(before, after)
                second = self._measure(after, label)
                self._compare(before, after, label)
                self._compare_measured(first, second, label)
                bar.update()
        return Changes(
            before=self.labels[0],
            after=tuple(self.labels[1:]),
            texts=len(self.texts),
            statistics={name: join_statistics(parts, "model") for name, parts in self.found.items()},
            tokens=self._tokens(),
            saliency=self._saliency(),
            notes=tuple(self.notes),
        )

    def _opened(self, name: LoadedModel | str) -> LoadedModel:
        model = self.open_model(name)
        if model.config.is_encoder_decoder:
            raise ModelError(
                f"{model.name} is an encoder-decoder; changes compares models of one stack: decoders, encoders and "
                "classifiers"
            )
        return model

    def _wants(self, part: ChangesPart) -> bool:
        return part in self.settings.parts

    @contextmanager
    def _left_out(self, what: str) -> Iterator[None]:
        """Note what cannot be measured, and go on."""
        try:
            yield
        except (ModelError, TraceError, DataError, TaskError) as error:
            self.notes[f"{what}: left out: {error}"] = None

    def _keep(self, label: str, *statistics: Statistic) -> None:
        for statistic in statistics:
            self.found.setdefault(statistic.name, {})[label] = statistic

    def _measure(self, model: LoadedModel, label: str) -> _Measured:
        found, settings = _Measured(), self.settings
        truncated = sum(bool(one.truncated) for one in encode_all(model, self.texts))
        if truncated:
            self.notes[
                f"{label} reads {counted(model.max_length, 'token')}: {counted(truncated, 'text')} truncated"
            ] = None
        if self._wants(ChangesPart.CKA):
            with self._left_out("CKA"):
                found.features = extract(model, self.words, self.places)
        if self._wants(ChangesPart.LENS):
            with self._left_out("logit lens"):
                found.final = final_tokens(model, self.texts)
                self._keep(label, *found.final.statistics(settings.seed).values())
        if settings.probe_task is not None:
            with self._left_out("probes"):
                found.report = self._probed(model)
                self._keep(label, accuracy_of(found.report))
        if self.groups is not None:
            with self._left_out("direction"):
                found.direction = direction_features(model, self.groups)
        return found

    def _probed(self, model: LoadedModel) -> ProbeReport:
        settings = self.settings
        assert settings.probe_task is not None
        return probe(
            model,
            settings.probe_task,
            data=settings.probe_data,
            limit=settings.probe_limit,
            seeds=1,
            random_weights=False,
            seed=settings.seed,
        )

    def _compare(self, before: LoadedModel, after: LoadedModel, label: str) -> None:
        """What needs both models at once."""
        if self._wants(ChangesPart.KL):
            with self._left_out("KL by token"):
                divergence = token_divergence(before, after, self.texts)
                self._keep(label, mean_divergence(divergence, self.settings.seed))
                self.tokens.append(divergence.tokens.assign(model=label))
        if self._wants(ChangesPart.WEIGHTS):
            with self._left_out("distance of weights"):
                self._keep(label, weight_distance(before, after))
        if self._wants(ChangesPart.HEADS):
            with self._left_out("attention heads"):
                self._keep(label, *head_changes(before, after, self.texts).values())

    def _compare_measured(self, first: _Measured, second: _Measured, label: str) -> None:
        """What needs only what each model gave."""
        seed = self.settings.seed
        if first.features is not None and second.features is not None:
            with self._left_out("CKA"):
                self._keep(label, *cka_statistics(first.features, second.features, self.places, seed))
        if first.final is not None and second.final is not None:
            with self._left_out("change of the final token"):
                self._keep(label, change_of_final_tokens(first.final, second.final, seed))
        if first.report is not None and second.report is not None:
            self._keep(label, change_of_accuracy(first.report, second.report, seed))
        if self.groups is not None and first.direction is not None and second.direction is not None:
            with self._left_out("direction"):
                found = direction_statistics(first.direction, second.direction, self.groups, seed)
                for name, one in (("AUC before", self.labels[0]), ("AUC after", label)):
                    self._keep(one, replace(found.pop(name), name="AUC of the direction"))
                self._keep(label, *found.values())

    def _tokens(self) -> pd.DataFrame:
        if not self.tokens:
            return pd.DataFrame()
        frame = pd.concat(self.tokens, ignore_index=True)
        return frame.sort_values("kl", ascending=False, kind="stable", ignore_index=True)

    def _saliency(self) -> tuple[Attribution, ...]:
        if self.reward is None:
            return ()
        if len(self.texts) > _EXPLAINED:
            self.notes[f"reward: attributed in the first {_EXPLAINED} of {len(self.texts)} texts"] = None
        model, label = self.reward.model, self.reward.label
        return tuple(
            attribute(model, text, target=label, seed=self.settings.seed) for text in self.texts[:_EXPLAINED]
        )


def _check_depth(before: LoadedModel, after: LoadedModel) -> None:
    depths = [(stacks := stacks_of(model.model)).layers[stacks.main] for model in (before, after)]
    if depths[0] != depths[1]:
        raise ModelError(
            f"{before.name} has {counted(depths[0], 'layer')} and {after.name} {depths[1]}; each layer is compared "
            "with itself, so both need the same depth"
        )


def _reward_model(spec: str) -> ModelReward:
    if not spec.startswith("model:"):
        raise ConfigError(
            f"reward {spec!r:.60} has no tokens to look at; allowed: model:NAME or model:NAME#LABEL"
        )
    found = find_reward(spec)
    assert isinstance(found, ModelReward)
    return found
