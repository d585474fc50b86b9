"""XLNet: scores in the order of the text and its two streams, against passes of transformers written out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import challenge_sets
import workbench
from tests.helpers import assert_near
from tests.unit.trace import tiny
from workbench.errors import ModelError, TraceError, WorkbenchWarning
from workbench.models import LoadedModel
from workbench.scoring import PermutationEngine, Sequence
from workbench.trace import two_streams

TEXTS = ["the cat sat on the mat", "the dog ran"]


def tokenizer() -> Any:
    found = tiny.tokenizer(True)
    found.add_special_tokens({"bos_token": "[CLS]"})
    return found


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Saved and loaded, with weights that tell tokens apart."""
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}
    model = hf.XLNetLMHeadModel(hf.XLNetConfig(vocab_size=len(tiny.tokenizer(True)), **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    folder = tmp_path_factory.mktemp("xlnet")
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    with pytest.warns(WorkbenchWarning, match="scored from left to right"):
        return workbench.load(str(folder), device="cpu")


def plain(model: LoadedModel, text: str) -> list[float]:
    """One pass a token: behind BOS, the tokens before it and, in its place, one that nothing sees."""
    ids = [model.tokenizer.bos_token_id, *model.tokenizer(text, add_special_tokens=False).input_ids]
    found = []
    for place in range(1, len(ids)):
        inputs = torch.tensor([[*ids[:place], 0]])
        hidden = torch.zeros(1, place + 1, place + 1)
        hidden[:] = torch.ones(place + 1, place + 1).triu(1)
        hidden[:, :, place] = 1.0
        target = torch.zeros(1, 1, place + 1)
        target[0, 0, place] = 1.0
        with torch.no_grad():
            logits = model.model(inputs, perm_mask=hidden, target_mapping=target).logits[0, 0]
        found.append(float(logits.double().log_softmax(-1)[ids[place]]))
    return found


def test_each_token_is_predicted_from_those_before_it(xlnet: LoadedModel) -> None:
    """All in one padded pass, against a pass for each token that never read the tokens behind."""
    expected = [plain(xlnet, text) for text in TEXTS]
    assert np.std(expected[0]) > 0.05
    for score, logs in zip(PermutationEngine(xlnet).score(TEXTS), expected, strict=True):
        assert_near(score.token_log_probabilities, logs, 1e-5)
    for one, logs in zip(workbench.surprisal(xlnet, TEXTS), expected, strict=True):
        assert_near(one.bits, -np.array(logs) / np.log(2), 1e-5)
    scorer = challenge_sets.pair_scorer(xlnet)
    (pair,) = challenge_sets.score_pairs(scorer, [(TEXTS[0], TEXTS[1])])
    assert (pair.first, pair.second) == pytest.approx([sum(logs) for logs in expected], rel=1e-5)
    assert "in the order of the text" in scorer.policy


def test_probabilities_of_all_next_tokens_sum_to_one(xlnet: LoadedModel) -> None:
    """Behind the same three tokens: the query does not see the token that it predicts."""
    size = xlnet.config.vocab_size
    sequences = [Sequence((2, 5, 6, token), 3) for token in range(size)]
    scores = dict(entry for batch in PermutationEngine(xlnet).stream(sequences) for entry in batch)
    logs = [scores[token].log_probability for token in range(size)]
    assert np.std(logs) > 0.05
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("order", [None, (3, 1, 4, 0, 2)])
def test_both_streams_see_what_the_order_says(xlnet: LoadedModel, order: tuple[int, ...] | None) -> None:
    found = two_streams(xlnet, TEXTS[1], order)
    content, query = (trace.texts[0].attention for trace in (found.content, found.query))
    places = order or tuple(range(5))
    for turn, place in enumerate(places):
        earlier = set(places[:turn])
        for map_, seen in ((content, earlier | {place}), (query, earlier)):
            assert {key for key in range(5) if (map_[:, :, place, key] > 0).all()} == seen
            assert {key for key in range(5) if (map_[:, :, place, key] > 0).any()} == seen
            assert_near(map_[:, :, place].sum(-1), np.full((2, 2), bool(seen)), 1e-5, least=1.0)
    ids = torch.tensor([found.content.texts[0].alignment.ids])
    rank = np.argsort(places)
    hidden = torch.tensor([[float(rank[k] >= rank[q]) for k in range(5)] for q in range(5)])[None]
    with torch.no_grad():
        maps = xlnet.model.transformer(
            ids, perm_mask=hidden, target_mapping=torch.eye(5)[None], output_attentions=True
        ).attentions
    assert_near(content, torch.stack([layer[0][0] for layer in maps]), 1e-5)
    rest = [place for place in range(5) if place != places[0]]
    assert_near(query[:, :, rest], torch.stack([layer[1][0] for layer in maps])[:, :, rest], 1e-5)
    assert found.query.figure().html.startswith("<!doctype html>")


def test_what_does_not_fit_is_refused_in_one_line(xlnet: LoadedModel) -> None:
    cases = (
        (TraceError, "one stream", lambda: two_streams(tiny.bert(), TEXTS[0])),
        (TraceError, "no permutation", lambda: two_streams(xlnet, TEXTS[1], (0, 1, 2))),
        (ModelError, "takes no order", lambda: PermutationEngine(tiny.bert())),
        (ModelError, "order it is given", lambda: workbench.score(xlnet, TEXTS[0])),
    )
    for error, words, call in cases:
        with pytest.raises(error, match=words) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_a_set_of_minimal_pairs_is_checked(xlnet: LoadedModel, tmp_path: Path) -> None:
    run = workbench.check(xlnet, "pairs_builtin", limit_per_paradigm=1, out=tmp_path, doctor=False)
    assert run.results["pairs_builtin"]["accuracy"].n > 5


def test_the_self_check_passes(xlnet: LoadedModel) -> None:
    assert workbench.doctor(xlnet).verdict != "fail"
