"""Traces equal what the model itself returns in eager mode, and leave nothing behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import workbench
from tests.unit.trace import tiny
from workbench.errors import DataError, ModelError, TraceError
from workbench.trace import Stack, Target, trace

TEXTS = ["the cat sat on the mat .", "a dog ran", "the old house and the small red cat saw a dog"]
MODELS = {"bert": tiny.bert, "albert": tiny.albert, "llama": tiny.llama, "deberta": tiny.deberta}


def reference(model, text, **more):
    """The model's own output on one unpadded text, with eager attention."""
    network = model.model
    previous = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        inputs = model.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            return network(**inputs, output_attentions=True, output_hidden_states=True, **more)
    finally:
        network.set_attn_implementation(previous)


@pytest.mark.parametrize("name", MODELS)
def test_padded_batch_equals_eager_outputs_of_each_text(name):
    model = MODELS[name]()
    found = trace(model, TEXTS, {"attention", "hidden", "logits"})
    for text, record in zip(TEXTS, found, strict=True):
        expected = reference(model, text)
        np.testing.assert_allclose(record.attention, torch.cat(expected.attentions).numpy(), atol=1e-5)
        np.testing.assert_allclose(record.hidden, torch.cat(expected.hidden_states).numpy(), atol=1e-4)
        np.testing.assert_allclose(record.logits, expected.logits[0].numpy(), atol=1e-4)
        np.testing.assert_allclose(record.attention.sum(-1), 1, atol=1e-5)


def test_encoder_decoder_keeps_three_attentions_apart():
    model = tiny.t5()
    record = trace(model, ["the cat sat on the mat"], {"attention", "hidden"}, targets=["a dog ran"])[0]
    # The decoder reads its start token (id 0, the padding token here) and then the target.
    assert record.tokens == ("[PAD]", "a", "dog", "ran")
    assert record.source.tokens == ("the", "cat", "sat", "on", "the", "mat")
    expected = reference(
        model, "the cat sat on the mat", decoder_input_ids=torch.tensor([record.alignment.ids])
    )
    for ours, theirs in (
        (record.encoder_attention, expected.encoder_attentions),
        (record.decoder_attention, expected.decoder_attentions),
        (record.cross_attention, expected.cross_attentions),
        (record.hidden, expected.decoder_hidden_states),
        (record.encoder_hidden, expected.encoder_hidden_states),
    ):
        np.testing.assert_allclose(ours, torch.cat(theirs).numpy(), atol=1e-5)
    assert record.cross_attention.shape == (3, 4, 4, 6)


def test_encoder_decoder_generates_its_target():
    record = trace(tiny.t5(), ["the cat sat"])[0]
    assert record.tokens[0] == "[PAD]"
    assert record.decoder_attention.shape[-1] == len(record.tokens)


def test_queries_and_keys_give_the_attention():
    """softmax(q k / sqrt(d)) with a causal mask is the attention; 4 query heads share 2 key heads."""
    record = trace(tiny.llama(), TEXTS[:1], {"attention", "queries_keys"})[0]
    keys = record.keys.repeat(2, axis=1)
    scores = record.queries @ keys.swapaxes(-1, -2) / 2.0  # head width 4
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), record.attention, atol=1e-5)
    assert record.values.shape == record.keys.shape == (3, 2, 7, 4)


def test_mlp_is_what_the_block_adds():
    """In a pre-norm block the residual grows by attention and feed-forward; here attention adds nothing."""
    model = tiny.llama()
    with torch.no_grad():
        for layer in model.model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
    record = trace(model, TEXTS, {"mlp", "hidden"})[2]
    # The last hidden state is behind the final norm, so the first two layers are compared.
    np.testing.assert_allclose(record.mlp[:2], np.diff(record.hidden[:3], axis=0), atol=1e-5)


def test_chosen_layers_and_heads():
    model = tiny.bert()
    whole, part = trace(model, TEXTS)[0], trace(model, TEXTS, layers=[2, 0], heads=[3, 1])[0]
    np.testing.assert_allclose(part.attention, whole.attention[[2, 0]][:, [3, 1]], atol=1e-6)


def test_gradient_is_the_slope_of_the_target_score():
    """Central difference of the log-probability when one embedding coordinate moves by 1e-2, in float64."""
    model = tiny.llama()
    model.model.double()
    record = trace(model, TEXTS[:1], {"gradients", "hidden"}, gradient_of=Target(token=7))[0]
    embeddings = torch.tensor(record.hidden[0])[None]
    scores = []
    for step in (0.01, -0.01):
        moved = embeddings.clone()
        moved[0, 2, 5] += step
        with torch.no_grad():
            logits = model.model(inputs_embeds=moved).logits
        scores.append(torch.log_softmax(logits[0, -1], -1)[7].item())
    assert record.gradients[0, 2, 5] == pytest.approx((scores[0] - scores[1]) / 0.02, rel=1e-3)
    assert record.gradients.shape == record.hidden.shape


def test_pairs_have_segments():
    record = trace(tiny.bert(), [("the cat sat", "a dog")])[0]
    assert record.tokens == ("[CLS]", "the", "cat", "sat", "[SEP]", "a", "dog", "[SEP]")
    assert record.segment_ids == (0, 0, 0, 0, 0, 1, 1, 1)
    assert [record.alignment.word(w) for w in record.alignment.word_ids if w is not None] == [
        "the", "cat", "sat", "a", "dog",
    ]  # fmt: skip


def state(model):
    network = model.model
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules()]
    return network.config._attn_implementation, network.config.output_attentions, hooks, network.training


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_on_the_model(name):
    model = MODELS[name]()
    trace(model, TEXTS, {"hidden"})  # transformers installs its own capturing hooks once
    before = state(model)
    trace(model, TEXTS, {"attention", "hidden", "mlp"})
    assert state(model) == before


def test_nothing_is_left_after_an_error(monkeypatch):
    model = tiny.bert()
    trace(model, TEXTS, {"hidden"})
    before = state(model)
    block = model.model.bert.encoder.layer[1]
    monkeypatch.setattr(block, "forward", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        trace(model, TEXTS, {"attention", "mlp"})
    monkeypatch.undo()
    assert state(model) == before
    np.testing.assert_allclose(trace(model, TEXTS)[0].attention.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama", "deberta"])
def test_two_threads_never_mix(name):
    """Each thread traces its own text over and over; every trace must equal the one made alone."""
    model = MODELS[name]()
    alone = [trace(model, [text], {"attention", "mlp"})[0] for text in TEXTS]
    wrong = []

    def work(index):
        for _ in range(15):
            got = trace(model, [TEXTS[index]], {"attention", "mlp"})[0]
            if not (
                np.allclose(got.attention, alone[index].attention, atol=1e-6)
                and got.mlp.shape == alone[index].mlp.shape
            ):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert model.model.config._attn_implementation in ("sdpa", "eager")


def test_session_of_one_thread_is_unseen_by_a_plain_pass_in_another():
    """Without any lock: a second thread's forward pass neither feeds the observer nor changes its result."""
    from workbench.trace.attention_hook import Watcher
    from workbench.trace.observing import watching
    from workbench.trace.structure import call_model

    class Count(Watcher):
        calls = 0

        def on_weights(self, call):
            self.calls += 1
            return call.weights * 0  # would be noticed

    model = tiny.llama()
    inputs = model.tokenizer(TEXTS[0], return_tensors="pt")
    expected = call_model(model.model, **inputs).logits
    count, seen = Count(), []
    with watching(model.model, [count]):
        other = threading.Thread(target=lambda: seen.append(call_model(model.model, **inputs).logits))
        other.start()
        other.join()
    assert count.calls == 0
    torch.testing.assert_close(seen[0], expected, atol=1e-5, rtol=0)


def test_long_text_is_cut_counted_and_said():
    with pytest.warns(UserWarning, match=r"1 of 2 texts .* 32 tokens truncated"):
        found = trace(tiny.bert(), ["the cat " * 35, "a dog"])
    assert found.truncated == 32  # 70 words and 2 special tokens, of which 40 fit
    assert found[0].tokens[-2:] == ("cat", "[SEP]")
    assert len(found[0].tokens) == 40


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"texts": []}, DataError, "no texts"),
        ({"texts": [""]}, DataError, "text 0 is empty"),
        ({"texts": ["a", " \n"]}, DataError, "text 1 is empty"),
        ({"texts": ""}, DataError, "text 0 is empty"),
        ({"layers": [3]}, TraceError, "layer 3 is out of range: the encoder has layers 0 to 2"),
        ({"heads": [-1]}, TraceError, "head -1 is out of range: the encoder has heads 0 to 3"),
        ({"record": {"atention"}}, TraceError, "did you mean 'attention'"),
        ({"record": set()}, TraceError, "nothing to record"),
        ({"record": {"gradients"}, "gradient_of": Target(token=999)}, TraceError, "target token 999"),
        ({"record": {"gradients"}, "gradient_of": Target(position=50)}, TraceError, "target position 50"),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        trace(tiny.bert(), **{"texts": TEXTS, **arguments})


def test_one_text_is_a_list_of_one():
    alone, listed = (trace(tiny.bert(), texts) for texts in ("the cat", ["the cat"]))
    np.testing.assert_array_equal(alone[0].attention, listed[0].attention)


def test_missing_parts_are_explained():
    with pytest.raises(TraceError, match=r"record=\{'hidden'\} works"):
        trace(tiny.bert("AutoModel"), TEXTS, {"logits"})
    with pytest.raises(ModelError, match="no score to take gradients of"):
        trace(tiny.bert("AutoModel"), TEXTS, {"gradients"})
    with pytest.raises(TraceError, match="queries and keys cannot be recorded"):
        trace(tiny.deberta(), TEXTS, {"queries_keys"})
    with pytest.raises(TraceError, match=r"record=\{'hidden'\}"):
        trace(tiny.bert(), TEXTS)[0].get("hidden")


def test_the_room_can_be_called():
    """``workbench.trace`` is both the room and the function."""
    found = workbench.trace(tiny.bert(), TEXTS[:1])
    assert found.main is workbench.trace.Stack.ENCODER is Stack.ENCODER


def test_windowed_attention_is_put_back_in_its_place():
    """Longformer gives weights by offset; with a window over the whole text they are those of plain attention."""
    from workbench.trace.structure import _by_key

    weights = torch.rand(1, 2, 4, 4)
    by_offset = torch.zeros(1, 2, 4, 9)  # offsets -4 to 4
    for query in range(4):
        for key in range(4):
            by_offset[..., query, key - query + 4] = weights[..., query, key]
    torch.testing.assert_close(_by_key(by_offset), weights)
