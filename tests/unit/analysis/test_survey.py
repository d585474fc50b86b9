"""A survey's run: of how many draws each number is, and what is refused before the corpus is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trace import tiny
from workbench.analysis import survey as module
from workbench.analysis.survey import SurveySettings, survey
from workbench.errors import DataError


def _corpus(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_each_statistic_says_how_many_draws_it_is_the_mean_of(tmp_path: Path) -> None:
    """Three texts, of which one has no second token to predict; repetition scores are of 16 random sequences."""
    corpus = _corpus(tmp_path, "the cat sat", "dog", "a dog ran on")
    run = survey(tiny.llama(), SurveySettings(corpus=corpus, importance=True), out=tmp_path)
    found = {name: estimate.n for name, estimate in run.results["corpus"].items()}
    assert (found["entropy"], found["importance"], found["induction score"]) == (3, 2, 16)


def test_a_corpus_without_a_token_to_predict_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "head_statistics", lambda *_, **__: pytest.fail("the corpus was read"))
    settings = SurveySettings(corpus=_corpus(tmp_path, "dog", "cat"), importance=True)
    with pytest.raises(DataError, match="no text has a token to predict"):
        survey(tiny.llama(), settings, out=tmp_path / "runs")
    assert not any((tmp_path / "runs").glob("*"))
