"""What training changed: zero for a model against itself, exact where it can be computed in another way."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from probes.training_changes import expanded
from probes.training_changes.statistics import word_places
from tests.helpers import assert_near, run_command
from tests.unit.tiny import tiny_causal, word_tokenizer
from workbench.analysis.attention import attention_distance, attention_entropy
from workbench.analysis.final_tokens import change_of_final_tokens, final_tokens
from workbench.analysis.head_changes import head_changes
from workbench.analysis.head_clusters import attention_divergence
from workbench.analysis.lens import continuation_by_layer
from workbench.analysis.token_changes import token_divergence
from workbench.analysis.weight_changes import weight_distance
from workbench.errors import ConfigError, DataError, ModelError
from workbench.models import LoadedModel
from workbench.trace import trace

TEXTS = [
    "the keys to the cabinet are on the table",
    "a cat sat on the mat and the dogs ran",
    "the key is on the mat",
    "dogs ran to the cabinet .",
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


def changed(model: LoadedModel, part: str = "layers.1.", by: float = 0.3) -> LoadedModel:
    """A copy of which the weights with ``part`` in their name are moved."""
    other = copy.deepcopy(model.model)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in other.named_parameters():
            if part in name:
                weight.add_(by * torch.randn_like(weight))
    return replace(model, model=other, name="changed")


def test_a_model_against_itself_has_changed_nowhere():
    model = tiny_causal()
    found = workbench.changes([model, model], TEXTS)
    assert found.after == ("tiny (2)",)
    assert found["KL"].values == 0
    assert found["distance of weights"].at(model="tiny (2)", layer="whole model", part="all") == 0
    assert_near(found["CKA"].values, np.ones((1, 3)), 1e-12)
    assert (np.abs(found["CKA of random pairs"].values) < 0.5).all()
    for name in ("attention divergence", "change of attention entropy", "change of attention distance"):
        assert np.abs(found[name].values).max() == 0
    assert np.abs(found["change of log-probability of the final token"].values).max() == 0
    assert not found.notes


def test_what_lies_before_a_changed_layer_is_as_it_was():
    model = tiny_causal()
    found = workbench.changes([model, changed(model)], TEXTS)
    cka = found["CKA"].values[0]
    assert_near(cka[:2], np.ones(2), 1e-6)
    assert cka[2] < 0.99
    distances = found["distance of weights"]
    moved = {
        layer for layer in distances.labels["layer"] if distances.at(model="changed", layer=layer, part="all")
    }
    assert moved == {1, "whole model"}
    divergence = found["attention divergence"].values[0]
    assert np.abs(divergence[0]).max() == 0
    assert divergence[1].min() > 0
    lens = found["change of log-probability of the final token"].values[0]
    assert_near(lens[:2], np.zeros(2), least=1.0)
    assert lens[2] != 0
    assert found["KL"].low[0] > 0


def test_words_that_are_compared():
    _, places = word_places([TEXTS[0], "cat", "a cat"], 12)
    assert [(place.sentence, place.start) for place in places] == [
        (0, 1),
        (0, 3),
        (0, 6),
        (0, 8),
        (1, 0),
        (2, 1),
    ]


def test_relative_norm_of_weights_by_hand():
    model = tiny_causal()
    other = changed(model, "layers.1.mlp.up_proj")
    found = weight_distance(model, other)
    parameters, moved = model.model.state_dict(), other.model.state_dict()
    name = "model.layers.1.mlp.up_proj.weight"
    difference = float((moved[name] - parameters[name]).double().norm())
    whole = np.sqrt(sum(float(p.double().norm() ** 2) for p in parameters.values()))
    feed_forward = [p for n, p in parameters.items() if "layers.1.mlp" in n]
    of_part = np.sqrt(sum(float(p.double().norm() ** 2) for p in feed_forward))
    assert found.at(layer="whole model", part="all") == pytest.approx(difference / whole, rel=1e-9)
    assert found.at(layer=1, part="feed-forward") == pytest.approx(difference / of_part, rel=1e-9)
    assert found.at(layer=1, part="attention") == 0
    assert np.isnan(found.at(layer="embeddings", part="attention"))


def test_divergence_equals_a_direct_computation_in_float64():
    model = tiny_causal()
    model = replace(model, model=model.model.double(), dtype=torch.float64)
    other = changed(model, "", 0.05)
    found = token_divergence(model, other, TEXTS)
    expected = []
    for text in TEXTS:
        ids = torch.tensor([list(model.read(text).ids)])
        with torch.no_grad():
            before, after = (m.model(input_ids=ids).logits[0].log_softmax(-1) for m in (model, other))
        expected += (after.exp() * (after - before)).sum(-1).tolist()
    assert_near(found.tokens["kl"].to_numpy(), expected, 1e-9)
    assert found.mean().value == pytest.approx(np.mean(expected), rel=1e-9)
    first = found.tokens.iloc[0]
    assert (first["token"], first["next"]) == ("the", "keys")


def test_padding_changes_nothing():
    model = tiny_causal()
    other = changed(model)
    together = token_divergence(model, other, TEXTS).tokens["kl"].to_numpy()
    alone = np.concatenate([token_divergence(model, other, [t]).tokens["kl"] for t in TEXTS])
    assert_near(together, alone, 1e-5)
    heads = head_changes(model, other, TEXTS)["attention divergence"].values
    lengths = [len(model.read(text)) for text in TEXTS]
    each = [head_changes(model, other, [t])["attention divergence"].values for t in TEXTS]
    assert_near(heads, np.average(each, axis=0, weights=lengths), 1e-5)


def test_heads_equal_what_whole_maps_give():
    model = tiny_causal()
    other = changed(model)
    found = head_changes(model, other, TEXTS[:1])
    before, after = (trace(m, TEXTS[:1])[0].attention for m in (model, other))
    pairs = np.stack([before[1, 2], after[1, 2]])
    assert found["attention divergence"].at(layer=1, head=2) == pytest.approx(
        attention_divergence(pairs)[0, 1], rel=1e-4
    )
    for name, of in (("entropy", attention_entropy), ("distance", attention_distance)):
        assert_near(found[f"change of attention {name}"].values, of(after).values - of(before).values, 1e-4)
    of_layers = found["attention divergence of layers"].values
    assert_near(of_layers, found["attention divergence"].values.mean(1), 1e-9)


def test_the_final_token_by_layer():
    model, other = tiny_causal(), changed(tiny_causal())
    found, moved = (final_tokens(m, TEXTS) for m in (model, other))
    ids = model.read(TEXTS[0]).ids
    assert_near(found.log_probability[0], continuation_by_layer(model, ids, len(ids) - 1)[:, 0])
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([list(ids)])).logits[0, -2]
    assert found.rank[0, -1] == int((logits > logits[ids[-1]]).sum()) + 1
    change = change_of_final_tokens(found, moved)
    assert_near(change.values, (moved.log_probability - found.log_probability).mean(0), 1e-5)
    assert change.low[-1] < change.values[-1] < change.high[-1]


def test_several_models_and_what_is_drawn_of_them(tmp_path):
    model = tiny_causal()
    found = workbench.changes(
        [model, changed(model, by=0.1), changed(model, by=0.3)], TEXTS, parts=("kl", "weights")
    )
    assert found.after == ("changed", "changed (2)")
    values = found["KL"].values
    assert values[0] < values[1]
    assert set(found.summary()["model"]) == {"changed", "changed (2)"}
    assert found.to_frame()["quantity"].unique().tolist() == ["KL", "distance of weights"]
    assert found.tokens["kl"].is_monotonic_decreasing
    page = found.figure().save(tmp_path / "changes.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert found.figure().save(tmp_path / "changes.png").stat().st_size > 10_000


def test_foreign_text_stays_text():
    model = replace(tiny_causal(), name="<script>alert(1)</script>")
    found = workbench.changes([model, model], TEXTS, parts=("weights",))
    assert "<script>alert" not in found.figure().html


def test_other_tokenizers_leave_out_what_goes_by_token():
    model, other = tiny_causal(), tiny_causal(bos_token="the")
    other = replace(other, name="other", tokenizer=_shifted())
    found = workbench.changes([model, other], TEXTS)
    assert "KL" not in found.statistics
    assert "CKA" in found.statistics
    assert sum("different tokens" in note for note in found.notes) == 2
    assert all("\n" not in note for note in found.notes)


def _shifted() -> Any:
    """The same words with other numbers."""
    tokenizer = word_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": []})
    state = tokenizer.backend_tokenizer.to_str().replace('"the":4,"a":5', '"the":5,"a":4')
    return type(tokenizer)(
        tokenizer_object=type(tokenizer.backend_tokenizer).from_str(state),
        pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
    )  # fmt: skip


def test_bad_input_says_what_is_wrong():
    model = tiny_causal()
    for models in ([model], [], "novels-decoder"):
        with pytest.raises(ModelError, match=r"a comparison needs|models must be a list"):
            workbench.changes(models, TEXTS)
    with pytest.raises(DataError, match="text 1 is empty"):
        workbench.changes([model, model], ["the cat", " "])
    with pytest.raises(DataError, match="no texts"):
        workbench.changes([model, model], [])
    with pytest.raises(ConfigError, match="unknown part 'klx'"):
        workbench.changes([model, model], TEXTS, parts=("klx",))
    with pytest.raises(ConfigError, match="reward 'pattern:x' has no tokens"):
        workbench.changes([model, model], TEXTS, reward="pattern:x")
    with pytest.raises(ModelError, match="is an encoder-decoder"):
        workbench.changes([model, "grammar-transformer"], TEXTS)
    with pytest.raises(ModelError, match=r"2 layers and .* 4; each layer is compared with itself"):
        workbench.changes([model, "novels-decoder"], TEXTS)


def test_checkpoints_in_the_place_of_a_name(tmp_path):
    for step in (0, 2, 10):
        (tmp_path / f"step-{step}").mkdir()
        (tmp_path / f"step-{step}" / "config.json").write_text("{}")
    steps = [str(tmp_path / f"step-{step}") for step in (0, 2, 10)]
    assert expanded([f"{tmp_path}@step-*"]) == steps
    assert expanded([f"{tmp_path}@step-2", f"{tmp_path}@step-*"]) == [steps[1], steps[0], steps[2]]
    assert expanded([f"{tmp_path}@step-2", f"{tmp_path}@step-2"]) == [steps[1], steps[1]]


def test_command(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("She opened the letter.\nHe had left before dawn.\n")
    both = ("changes", "novels-decoder", "novels-decoder", "--texts", str(texts), "--parts", "kl,weights")
    said = run_command(*both)
    assert said.returncode == 0, said.stderr
    assert "from novels-decoder to novels-decoder (2) over 2 texts" in said.stdout
    for wrong, message in (
        (
            ("changes", "novels-decoder", "--texts", str(texts)),
            "a comparison needs a model before and one after",
        ),
        (both[:3], "give one of --texts FILE and --data NAME"),
        ((*both, "--over-steps"), "--over-steps takes one MODEL, got 2"),
        ((*both[:3], "--texts", str(tmp_path / "none.txt")), "none.txt"),
    ):
        refused = run_command(*wrong)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_words_that_a_reward_rests_on():
    model = tiny_causal()
    texts = [f"A wonderful film, {word}." for word in ("truly", "really", "surely")]
    found = workbench.changes([model, model], texts, parts=(), reward="model:sentiment-encoder#positive")
    words = found.reward_words().set_index("word")
    assert set(words.index) >= {"a", "wonderful", "film,"}
    assert words.loc["wonderful", "texts"] == 3
    scores = [
        float(one.scores[[token.lower() for token in one.tokens].index("wonderful")])
        for one in (attribution.words() for attribution in found.saliency)
    ]
    assert words.loc["wonderful", "value"] == pytest.approx(np.mean(scores))
    reach = 4.302652729749464 * np.std(scores, ddof=1) / np.sqrt(3)  # Student's t of two degrees of freedom
    assert words.loc["wonderful", "high"] == pytest.approx(np.mean(scores) + reach)
