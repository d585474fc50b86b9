"""``workbench demo``: real models on real text, from self-check to report, with nothing configured."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli._shared import PATH
from workbench.terminal import counted, say

if TYPE_CHECKING:
    from workbench.models import LoadedModel
    from workbench.report import Picture
    from workbench.runs import Run

__all__ = ["command"]

_SENTENCE = "The keys to the old wooden cabinet are on the kitchen table."
_REVIEW = "The food was wonderful, but the service was slow and rude."


@dataclass
class _Found:
    """What the demo has made so far."""

    out: Path
    pairs: int  # minimal pairs of each paradigm
    sentences: int  # that the probe reads
    runs: list[Run] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)

    def add(self, run: Run) -> str:
        """Keep the run; returns its first results in a line."""
        self.runs.append(run)
        values = [(t, m, e) for t, metrics in run.results.items() for m, e in metrics.items()]
        return "; ".join(f"{task} {metric} {estimate}" for task, metric, estimate in values[:2])


def _doctor(model: LoadedModel, found: _Found) -> str:
    from workbench.evaluate.doctor import examine

    verdict = examine(model)
    return f"{verdict.verdict}, {counted(len(verdict.checks), 'check')}"


def _lambada(model: LoadedModel, found: _Found) -> str:
    from workbench.evaluate import EvaluateSettings, evaluate

    run = evaluate(model, EvaluateSettings(tasks=("lambada_sample",)), out=found.out)
    return f"doctor {(run.record.doctor or {}).get('verdict')}; {found.add(run)}"


def _pairs(model: LoadedModel, found: _Found) -> str:
    from challenge_sets import check

    limit = found.pairs
    return found.add(check(model, "pairs_builtin", limit_per_paradigm=limit, out=found.out, doctor=False))


def _suite(model: LoadedModel, found: _Found) -> str:
    from challenge_sets import check

    run = check(model, "sentiment", limit_per_paradigm=found.pairs, out=found.out, doctor=False)
    found.runs.append(run)
    wrong = run.examples()
    wrong = wrong[wrong["applied"].astype(bool)] if "applied" in wrong else wrong
    return f"{int((~wrong['correct'].astype(bool)).sum())} of {counted(len(wrong), 'case')} fail"


def _probe(model: LoadedModel, found: _Found) -> str:
    from probes import ProbeSettings, open_report
    from probes.run import read_inputs, run_probe

    settings = ProbeSettings(task="pos", limit=found.sentences, seeds=1)
    run = run_probe(model, settings, read_inputs(settings), out=found.out)
    found.runs.append(run)
    report = open_report(run)
    return f"{report.conclusions[0]} Selectivity there: {report.at('selectivity', report.best_layer)}."


def _attention(model: LoadedModel, found: _Found) -> str:
    from workbench.figures import head_view
    from workbench.figures.static import rendered
    from workbench.report import picture_of
    from workbench.trace import trace

    one = trace(model, [_SENTENCE])[0]
    view = head_view(one.attention, one.tokens, words=one.alignment.word_ids)
    view.save(found.out / f"attention-{model.name}.html")
    picture = picture_of(f"Attention of {model.name}", rendered(view.draw, "svg"), _SENTENCE)
    found.pictures.append(picture)
    return f"{found.out / f'attention-{model.name}.html'}"


def _saliency(model: LoadedModel, found: _Found) -> str:
    from workbench.analysis.saliency import attribute
    from workbench.figures import attribution_view
    from workbench.figures.static import rendered
    from workbench.report import picture_of

    scores = attribute(model, _REVIEW, words=True)
    caption = f"Integrated gradients for {scores.target}; scores sum to the difference from the baseline."
    picture = picture_of(f"Saliency in {model.name}", rendered(attribution_view(scores).draw, "svg"), caption)
    found.pictures.append(picture)
    order = sorted(zip(scores.scores, scores.tokens, strict=True), key=lambda pair: -abs(pair[0]))
    return f"for {scores.target}: " + ", ".join(f"{token} {score:+.3f}" for score, token in order[:3])


_Step = tuple[str, Callable[["LoadedModel", _Found], str]]
_LANGUAGE: tuple[_Step, ...] = (
    ("numeric self-check, and the last words of 60 passages", _lambada),
    ("minimal pairs", _pairs),
)
_ENCODER: tuple[_Step, ...] = (
    ("numeric self-check", _doctor),
    ("what its layers know of parts of speech", _probe),
    ("attention of a sentence", _attention),
)
_CLASSIFIER: tuple[_Step, ...] = (
    ("numeric self-check", _doctor),
    ("sentiment suite", _suite),
    ("saliency of a sentence", _saliency),
)
_FULL = (
    ("smollm2-135m", (*_LANGUAGE, ("sentiment suite", _suite))),
    ("minilm-l6", _ENCODER),
    ("sentiment-encoder", _CLASSIFIER),
)
_QUICK = (
    ("novels-decoder", _LANGUAGE),
    ("novels-encoder", _ENCODER),
    ("sentiment-encoder", _CLASSIFIER),
)


@click.command(name="demo")
@click.option("--quick", is_flag=True, help="Only the bundled models.")
@click.option("--out", type=PATH, help="Folder that gets runs and report (default: runs/).")
def command(quick: bool, out: Path | None) -> None:
    """Examine three models: self-check, word prediction, minimal pairs, a suite, a probe, attention, saliency.

    Takes under five minutes on two cores, needs no network, and ends with one report for all of it.
    """
    from workbench.models import load
    from workbench.report import write_report
    from workbench.runs import default_root, make_folder

    started = time.monotonic()
    found = _Found(out or default_root(), pairs=5 if quick else 10, sentences=150 if quick else 400)
    make_folder(found.out)
    for name, steps in _QUICK if quick else _FULL:
        model = load(name)
        say(f"\n{name}: {model.kind}, {model.num_parameters:,} parameters")
        for title, step in steps:
            _say(title, step(model, found))
    page = write_report(
        found.runs, found.out / "demo-report.html", title="Three models, examined", exhibits=found.pictures
    )
    say(f"\n{time.monotonic() - started:.0f} s; {counted(len(found.runs), 'run')} in {found.out}")
    say(f"report: {page.resolve()}")
    say("next, the same in the browser: make dashboard, or workbench dashboard")


def _say(title: str, result: str) -> None:
    say(f"  {title}: {result}")
    sys.stdout.flush()
