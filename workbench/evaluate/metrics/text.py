"""Generated text against references: BLEU and chrF of sacreBLEU, ROUGE of rouge-score."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ConfigError, needs_extra
from workbench.evaluate.metrics._metric import Mean, OfSums
from workbench.shapes import Array

__all__ = ["BLEU", "CHRF", "ROUGE_METRICS", "ROUGE_NAMES", "rouge"]

_RESAMPLES = 500
ROUGE_NAMES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def _library(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(needs_extra("this metric", package, "text")) from error


@cache
def _scorer(name: str) -> Any:
    """sacreBLEU's metric with its defaults, so that numbers carry its standard signature."""
    return getattr(_library("sacrebleu.metrics", "sacrebleu"), name)()


def _statistics(name: str) -> Any:
    def of_rows(examples: pd.DataFrame) -> Array:
        references = [list(map(str, r)) for r in examples["references"]]
        depth = max(map(len, references))
        streams = [[r[k] if k < len(r) else "" for r in references] for k in range(depth)]
        # what sacreBLEU itself resamples in its significance tests
        found = _scorer(name)._extract_corpus_statistics([str(t) for t in examples["predicted"]], streams)
        return np.array(found, dtype=float)

    return of_rows


def _from_sums(name: str) -> Any:
    def of_sums(sums: Array) -> Any:
        flat = sums.reshape(-1, sums.shape[-1])
        scores = [_scorer(name)._compute_score_from_stats(list(map(int, row))).score for row in flat]
        return np.array(scores).reshape(sums.shape[:-1])

    return of_sums


BLEU = OfSums(
    "bleu",
    _statistics("BLEU"),
    _from_sums("BLEU"),
    "BLEU of the corpus, sacreBLEU's defaults (Papineni et al. 2002; Post 2018)",
    resamples=_RESAMPLES,
)
CHRF = OfSums(
    "chrf",
    _statistics("CHRF"),
    _from_sums("CHRF"),
    "chrF of the corpus, sacreBLEU's defaults (Popovic 2015)",
    resamples=_RESAMPLES,
)


@cache
def _rouge_scorer() -> Any:
    module = _library("rouge_score.rouge_scorer", "rouge-score")
    return module.RougeScorer(list(ROUGE_NAMES), use_stemmer=True)


def rouge(predicted: str, reference: str) -> dict[str, float]:
    """F-measures of ROUGE-1, -2, -L and -Lsum, stemmed; sentences of Lsum are separated by line breaks.

    Lin 2004 defines ROUGE-1 and -2 as recall; the F-measure is what papers report.
    """
    scores = _rouge_scorer().score(reference, predicted)
    return {name: float(scores[name].fmeasure) for name in ROUGE_NAMES}


ROUGE_METRICS = tuple(
    Mean(name, name, f"mean F-measure of {name} (Lin 2004), stemmed") for name in ROUGE_NAMES
)
