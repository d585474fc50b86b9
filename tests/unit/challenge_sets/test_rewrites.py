"""Equivalent rewrites: rules by hand, kept by the score, and the suite that they make."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertModel

from challenge_sets.rewrites import RULES, Rule, embedding_similarity, equivalent_rewrites, rewritten
from challenge_sets.suite import MFT, Suite, TestCase
from tests.model_folders import SIZES, framed_tokenizer
from tests.unit.tiny import loaded, tiny_causal
from workbench.errors import ConfigError, DataError, ModelError
from workbench.models import Kind


def by_rule(text: str) -> dict[str, str]:
    (found,) = equivalent_rewrites([text], lambda pairs: [1.0] * len(pairs))
    return {rewrite.rule: rewrite.text for rewrite in found}


@pytest.mark.parametrize(
    ("text", "rule", "expected"),
    [
        ("The film was long.", "film -> movie", "The movie was long."),
        ("Film is an art.", "film -> movie", "Movie is an art."),
        ("What is the best way to cook?", "what is -> what's", "What's the best way to cook?"),
        ("Which films are good?", "which -> what, in questions", "What films are good?"),
        ("It was not good.", "was not -> wasn't", "It wasn't good."),
        ("How do I learn to ski?", "how do I -> how can I", "How can I learn to ski?"),
        ("It begins now.", "begin -> start", "It starts now."),
        ("Is it long?", "? -> ??", "Is it long??"),
    ],
)
def test_a_rule_applies_where_its_pattern_matches(text: str, rule: str, expected: str) -> None:
    assert by_rule(text)[rule] == expected


@pytest.mark.parametrize(
    "text", ["A filmmaker.", "I thought so, but it was not", "He wondered which it was."]
)
def test_a_rule_leaves_alone_what_it_does_not_match(text: str) -> None:
    assert by_rule(text) == {}


def test_rules_have_different_names() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) >= 30


def test_only_what_the_score_allows_is_kept() -> None:
    score = {"the movie": 0.95, "the film!": 0.2}
    rules = (Rule("word", "film", "movie"), Rule("mark", "$", "!"))
    (found,) = equivalent_rewrites(["the film"], lambda pairs: [score[new] for _, new in pairs], rules=rules)
    assert [(rewrite.rule, rewrite.score) for rewrite in found] == [("word", 0.95)]
    with pytest.raises(ConfigError, match="gave 0 numbers for 1 pairs"):
        equivalent_rewrites(["a film"], lambda pairs: [])


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
    with pytest.raises(ModelError, match="a paraphrase score needs a encoder model"):
        embedding_similarity(tiny_causal())


def test_a_suite_becomes_an_invariance_test_a_rule() -> None:
    cases = (
        TestCase("1", "t", (("The film ran.",),), ("good",)),
        TestCase("2", "u", (("It sat.",),), ("good",)),
    )
    suite = Suite(name="s", labels={"good": ()}, tests=(MFT("m", "c", cases),))
    found = rewritten(suite, lambda pairs: [1.0] * len(pairs))
    (test,) = found.tests
    assert (found.name, test.name, str(test.kind)) == ("rewrites_s", "film -> movie", "INV")
    assert test.cases[0].examples == (("The film ran.",), ("The movie ran.",))
    assert test.cases[0].template == "t"
    with pytest.raises(DataError, match="no rewrite of a text of suite s reaches"):
        rewritten(suite, lambda pairs: [0.0] * len(pairs))
