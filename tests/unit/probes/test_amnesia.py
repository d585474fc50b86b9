"""Losses of amnesic probing against the ones that transformers computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from probes.amnesia import _losses, _masked, _random_directions, amnesic
from probes.estimators import INLPEraser, LeaceEraser
from probes.tasks import load_task
from tests.unit.tiny import tiny_causal
from tests.unit.trace.tiny import bert
from workbench.errors import ModelError, TaskError
from workbench.text import align_words

WORDS = ["the", "keys", "to", "the", "cabinet", "sat", "on", "a", "mat"]


def test_a_decoders_loss_is_that_of_transformers() -> None:
    model = tiny_causal()
    text = align_words(WORDS, model.tokenizer)
    ids = torch.tensor([text.ids])
    with torch.no_grad():
        expected = model.model(input_ids=ids, labels=ids).loss
    assert _losses(model, [text], 1, None, 0) == pytest.approx(float(expected), abs=1e-5)
    halved = _losses(model, [text], 1, lambda hidden: hidden / 2, 0)
    assert abs(halved[0] - float(expected)) > 1e-3


def test_an_encoders_loss_is_of_masked_words_alone() -> None:
    model = bert()
    text = align_words(WORDS, model.tokenizer)
    places = _masked(text, np.random.default_rng(5))
    assert 0 < len(places) < len(text) / 4
    assert all(text.word_ids[place] is not None for place in places)
    ids = torch.tensor([text.ids])
    labels = torch.full_like(ids, -100)  # what cross-entropy leaves out
    labels[0, places] = ids[0, places]
    ids[0, places] = model.tokenizer.mask_token_id
    with torch.no_grad():
        expected = model.model(input_ids=ids, labels=labels).loss
    assert _losses(model, [text], 1, None, 5) == pytest.approx(float(expected), abs=1e-5)


def test_the_random_directions_are_removed_as_the_eraser_removes_its_own() -> None:
    """Of one rank: an orthogonal projection beside INLP's, as in Elazar et al. 2021, an oblique one beside LEACE's."""
    draw = np.random.default_rng(0)
    labels = draw.integers(2, size=400)
    features = draw.normal(size=(400, 6)) * np.array([1, 2, 3, 4, 5, 6]) + 3 * labels[:, None]
    for eraser, symmetric in ((INLPEraser(), True), (LeaceEraser(), False)):
        fitted = eraser.fit(features, labels)
        for removed in (fitted.removed_, _random_directions(features, fitted, seed=1)):
            assert np.linalg.matrix_rank(removed) == fitted.rank_ > 0
            np.testing.assert_allclose(removed @ removed, removed, atol=1e-6)
            assert np.allclose(removed, removed.T, atol=1e-6) is symmetric


def test_what_cannot_be_asked_is_told_in_one_line() -> None:
    data = load_task("pos", "builtin", limit=20)
    with pytest.raises(ModelError, match="needs a causal or masked model"):
        amnesic(bert("AutoModel"), data, 1)
    with pytest.raises(TaskError, match="did you mean 'leace'"):
        amnesic(bert(), data, 1, eraser="leece")
    with pytest.raises(TaskError, match="needs a layer from 1"):
        amnesic(bert(), data, 0)
    with pytest.raises(TaskError, match="the items are sentences"):
        amnesic(bert(), load_task("length", "builtin", limit=20), 1)
