"""The judge of rewrites: against fillers given by hand, with tiny models, and with the package's own."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertModel

from challenge_sets import paraphrase_judge
from challenge_sets.paraphrase_judge import embedding_similarity, nearer_than_fillers
from challenge_sets.rewrites import Replacement
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded, tiny_causal
from tests.unit.trace.tiny import bert
from workbench.errors import ModelError
from workbench.models import Kind, load


def test_an_edit_must_be_nearer_than_every_filler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the fillers *book*, *film*, *play*, *idea* the second is the old word and the fourth is not asked."""
    monkeypatch.setattr(paraphrase_judge, "_likeliest", lambda *_: ["book", "film", "play", "idea"])
    near = {"book": 0.5, "play": 0.8, "idea": 0.99, "movie": 0.9, "scene": 0.8, "film": 1.0}
    judge = nearer_than_fillers(bert(), lambda pairs: [near[new.split()[1]] for _, new in pairs], fillers=2)
    edits = [Replacement("the film ran", 4, 8, new) for new in ("movie", "scene")]
    assert judge(edits) == [True, False]  # as near as a filler is not nearer
    assert judge([]) == []


@pytest.mark.weights
def test_the_models_of_the_package_accept_a_synonym_and_refuse_another_sense() -> None:
    """*director* and *manager* share a sense, which is not that of films."""
    judge = nearer_than_fillers(load("novels-encoder"), embedding_similarity(load("minilm-l6")))
    text = "the director of this film knows what he wants ."
    long = "and so on " * 200 + text  # *film* is behind what the similarity reads
    edits = [
        Replacement(text, 21, 25, "movie"),
        Replacement(text, 4, 12, "manager"),
        Replacement(long, 2021, 2025, "movie"),
    ]
    assert judge(edits) == [True, False, False]
    with pytest.raises(ModelError, match="what else could stand in a text needs"):
        nearer_than_fillers(tiny_causal(), lambda pairs: [])


def test_the_embedding_score_is_the_cosine_of_mean_states() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        **SIZES, num_hidden_layers=1, num_attention_heads=2, hidden_size=16, intermediate_size=16
    )
    model = loaded(BertModel(config), Kind.ENCODER, framed_tokenizer())
    score = embedding_similarity(model)
    same, other = score([("the cat", "the cat"), ("the cat", "the dogs ran on the mat")])

    def mean(text: str) -> torch.Tensor:
        with torch.inference_mode():
            return model.model(**model.tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)

    assert same == pytest.approx(1, abs=1e-6)
    expected = torch.cosine_similarity(mean("the cat"), mean("the dogs ran on the mat"), dim=0)
    assert other == pytest.approx(float(expected), abs=1e-5)
    with pytest.raises(ModelError, match="a paraphrase score needs an encoder or detector model"):
        embedding_similarity(tiny_causal())
