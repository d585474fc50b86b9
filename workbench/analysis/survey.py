"""Everything that the heads of a model do over a corpus, measured once and stored as a run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from workbench.analysis.dependency import DependencyHeads, dependency_heads
from workbench.analysis.head_clusters import HeadClusters, head_clusters
from workbench.analysis.heads import HeadStatistics, head_statistics, repetition_scores
from workbench.analysis.importance import head_importance
from workbench.data.corpus import Corpus, read_corpus
from workbench.errors import ConfigError
from workbench.estimate import Estimate
from workbench.models import Kind, LoadedModel
from workbench.records import check_fields
from workbench.runs import Run, RunFolder, RunRecord, stored_work
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.text import align_words
from workbench.trace import AttentionCall, AttentionObserver, Stack, Text, observe_attention, structure_of

__all__ = ["SurveySettings", "survey"]

Results = dict[str, dict[str, Estimate]]

_REPEATED = 50  # random tokens of a copy, or as many as the model reads twice


@dataclass(frozen=True, kw_only=True)
class SurveySettings:
    """What the numbers of a survey depend on, beside the model. ``corpus`` is a text or CoNLL-U file."""

    corpus: str
    limit: int | None = None
    rare_count: int = 1
    min_words: int = 30  # of a relation, in each half
    subtypes: bool = False
    seed: int = 0  # of the random tokens for induction scores
    importance: bool = False  # of heads, by gradients of the loss; of causal models
    clusters: int | None = None  # groups of heads that attend alike

    def __post_init__(self) -> None:
        check_fields(self)
        if self.clusters is not None and self.clusters < 1:
            raise ConfigError(f"clusters is {self.clusters}; allowed: 1 or more")


def survey(
    model: LoadedModel,
    settings: SurveySettings,
    *,
    out: Path | None = None,
    doctor: Callable[[], Mapping[str, Any]] | None = None,
    progress: bool = False,
    again: bool = True,
) -> Run:
    """Measure every head over a corpus and store the run under ``out`` (default: ``runs/``).

    Without ``again`` the last stored run of the same settings, model and corpus is returned, if there is one.

    The run's examples are the heads, one row each; ``results`` hold, under the corpus's name, each statistic's
    mean over the heads, and for a treebank each dependency relation's best head (``NAME/dependency``), the
    best fixed offset (``NAME/fixed offset``) and their difference (``NAME/gain``), all on sentences that did
    not choose them. Decoders also get induction scores. ``doctor`` is stored with the run.

    Raises :class:`~workbench.errors.DataError` for a corpus that cannot be read, and
    :class:`~workbench.errors.ModelError` for ``importance`` of a model that is not causal.
    """
    if model.prompt.chat:
        raise ConfigError("a corpus is read as it stands, not as chat messages; leave out --chat")
    corpus = read_corpus(settings.corpus, settings.limit)
    if settings.importance:
        model.require(Kind.CAUSAL, verb="importance over a corpus")
    record = _record(model, settings, corpus)
    stored = None if again else stored_work(record, out)
    if stored is not None and Run.open(stored).complete:
        return Run.open(stored)
    structure_of(model.model)  # a model without attention is refused before a folder is made
    folder = RunFolder.begin(record, out=out, resume=None)
    folder.examine(doctor)
    try:
        _measure(model, settings, corpus, folder, progress)
    except BaseException:  # a survey is whole or not there
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return Run.open(folder.path)


def _measure(
    model: LoadedModel, settings: SurveySettings, corpus: Corpus, folder: RunFolder, progress: bool
) -> None:
    texts = [align_words(t.forms, model.tokenizer, space_after=t.space_after) for t in corpus.trees]
    passes = len(corpus) * (1 + bool(corpus.trees) + settings.importance + bool(settings.clusters))
    read = _with_tokens(texts) or corpus.lines
    scores: dict[str, Statistic] = {}
    with model.lock, _ticking(model, structure_of(model.model).main, passes, progress):
        if settings.importance:  # first, as it refuses a corpus without a token to predict
            scores["importance"] = head_importance(model, read)
        started = time.perf_counter()
        found = head_statistics(model, read, rare_count=settings.rare_count)
        seconds = time.perf_counter() - started
        groups = None if settings.clusters is None else head_clusters(model, read, settings.clusters)
        trees = _dependencies(model, corpus, settings)
        if model.kind is Kind.CAUSAL:
            length = min(_REPEATED, (model.max_length - 1) // 2)
            scores = {**repetition_scores(model, length=length, seed=settings.seed), **scores}
    _store(folder, corpus.identity.name, found, scores, trees, groups, seconds)


def _with_tokens(texts: Sequence[Text]) -> list[Text]:
    return [text for text in texts if len(text)]


def _record(model: LoadedModel, settings: SurveySettings, corpus: Corpus) -> RunRecord:
    return RunRecord.new(
        "attend",
        recipe={**asdict(settings), **asdict(model.prompt)},
        model=model.identity(),
        data={corpus.identity.name: corpus.identity.to_dict()},
        seeds={"random tokens": settings.seed},
        device=str(model.device),
        label=f"{Path(model.name).name}-attend-{corpus.identity.name}",
    )


def _dependencies(model: LoadedModel, corpus: Corpus, settings: SurveySettings) -> DependencyHeads | None:
    if not corpus.trees:
        return None
    return dependency_heads(model, corpus.trees, subtypes=settings.subtypes, min_words=settings.min_words)


class _Ticker(AttentionObserver):
    """Observes the first layer and counts the texts that pass it."""

    def __init__(self, stack: Stack, bar: Any) -> None:
        super().__init__(stack)
        self._bar = bar

    def wants(self, stack: Stack, layer: int) -> bool:
        """Only the first layer of the stack."""
        return layer == 0 and stack is self.stack

    def observe(self, call: AttentionCall) -> None:
        """Count the call's texts."""
        self._bar.update(len(call.weights))


@contextmanager
def _ticking(model: LoadedModel, stack: Stack, total: int, progress: bool) -> Iterator[None]:
    """A progress bar over texts, with the time to go."""
    if not progress:
        yield
        return
    with tqdm(total=total, unit="text", leave=False) as bar, observe_attention(model, _Ticker(stack, bar)):
        yield


def _store(
    folder: RunFolder,
    name: str,
    found: HeadStatistics,
    scores: Mapping[str, Statistic],
    trees: DependencyHeads | None,
    groups: HeadClusters | None,
    seconds: float,
) -> None:
    statistics = {**found.statistics, **{statistic.name: statistic for statistic in scores.values()}}
    folder.append(_rows(statistics))
    folder.save_arrays({**_arrays(statistics, trees), **({} if groups is None else groups.arrays())})
    notes = {
        "texts": found.texts,
        "tokens": found.tokens,
        "tokens cut": found.truncated,
        "stack": str(found.stack),
        "statistics": {
            key: {"unit": s.unit, "uniform": _mean_of_layers(found.uniform.get(key)), "note": s.note}
            for key, s in statistics.items()
        },
    }
    results: Results = {name: {key: _mean(s) for key, s in statistics.items()}}
    if trees is not None:
        results |= {
            f"{name}/dependency": {row.relation: row.accuracy for row in trees.rows},
            f"{name}/fixed offset": {row.relation: row.baseline for row in trees.rows},
            f"{name}/gain": {row.relation: row.difference for row in trees.rows},
        }
        notes["sentences"] = {"used": trees.sentences, "too long": trees.skipped}
        notes["best heads"] = {
            row.relation: {
                "layer": row.layer,
                "head": row.head,
                "direction": row.direction,
                "offset": row.offset,
                "words": row.words,
            }
            for row in trees.rows
        }
    rate = found.tokens / max(seconds, 1e-9)
    folder.finish(results, {"tokens": found.tokens, "seconds": seconds, "tokens_per_second": rate}, notes)


def _mean_of_layers(values: Array | None) -> float | None:
    return None if values is None else float(np.mean(values))


def _mean(statistic: Statistic) -> Estimate:
    """Mean over heads. Its standard error is at most the mean of theirs, whatever their correlation."""
    assert statistic.standard_error is not None
    assert statistic.count is not None
    value, error = float(np.mean(statistic.values)), float(np.mean(statistic.standard_error))
    return Estimate(
        value=value,
        standard_error=error,
        low=value - 1.96 * error,
        high=value + 1.96 * error,
        n=statistic.count,
        method="normal; mean of the heads' standard errors, an upper bound",
        undefined="one text has no spread" if statistic.count < 2 else None,
        higher_is_better=None,
    )


def _rows(statistics: Mapping[str, Statistic]) -> list[dict[str, Any]]:
    """One row a head: each statistic and its standard error."""
    layers, heads = next(iter(statistics.values())).values.shape
    rows = []
    for layer, head in np.ndindex(layers, heads):
        row: dict[str, Any] = {"id": f"{layer}-{head}", "layer": layer, "head": head}
        for name, statistic in statistics.items():
            assert statistic.standard_error is not None
            row[name] = float(statistic.values[layer, head])
            row[f"{name} (standard error)"] = float(statistic.standard_error[layer, head])
        rows.append(row)
    return rows


def _arrays(statistics: Mapping[str, Statistic], trees: DependencyHeads | None) -> dict[str, Array]:
    """(layer, head) values and standard errors by name, and the accuracies that chose the best heads."""
    arrays: dict[str, Array] = {}
    chosen = {} if trees is None else {trees.selection.name: trees.selection}
    for name, statistic in {**statistics, **chosen}.items():
        assert statistic.standard_error is not None
        arrays[name] = np.ascontiguousarray(statistic.values)
        arrays[f"{name} (standard error)"] = np.ascontiguousarray(statistic.standard_error)
    return arrays
