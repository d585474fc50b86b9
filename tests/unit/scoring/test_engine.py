"""The engine against a plain loop: one request at a time, all logits, log_softmax written out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.unit.tiny import tiny_causal, tiny_gpt2
from workbench.errors import DataError, ModelError, NumericsError
from workbench.models import Kind, LoadedModel
from workbench.scoring import Engine, Request, _forward, score
from workbench.trace import ablate_heads

REQUESTS = [
    Request("the keys to the cabinet", " are on the table"),
    Request("the key", " is"),
    Request("a cat sat on the mat and the dogs ran to the", " cabinet ."),
    Request("", "the cats are on the mat"),
    Request("the key", " is"),
]


def by_hand(model: LoadedModel, context: str, continuation: str, bos: bool) -> list[float]:
    """log p of each continuation token, from the definition."""
    encode = lambda text: model.tokenizer(text, add_special_tokens=False).input_ids  # noqa: E731
    front = [model.tokenizer.bos_token_id] if bos or not context else []
    ids = front + encode(context) + encode(continuation)
    start = len(front) + len(encode(context))
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([ids])).logits[0].double()
    log_probabilities = torch.log_softmax(logits, -1)
    return [float(log_probabilities[i - 1, ids[i]]) for i in range(start, len(ids))]


@pytest.mark.parametrize("make", [tiny_causal, tiny_gpt2])
@pytest.mark.parametrize("batch_tokens", [1, 17, 1000])
def test_equals_plain_loop_at_any_batch_size(make, batch_tokens):
    model = make()
    scores = score(model, REQUESTS, batch_tokens=batch_tokens)
    for request, got in zip(REQUESTS, scores, strict=True):
        expected = by_hand(model, request.context, request.continuation, bos=False)
        assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)
        assert got.log_probability == pytest.approx(sum(expected), abs=1e-4)


def test_scores_while_heads_are_silent_are_those_of_the_changed_model():
    model, threads = tiny_causal(), torch.get_num_threads()
    plain = score(model, REQUESTS, batch_tokens=17)
    try:
        torch.set_num_threads(2)
        with ablate_heads(model, [(0, 0), (1, 1)]):
            got = score(model, REQUESTS, batch_tokens=17)
            for request, s in zip(REQUESTS, got, strict=True):
                expected = by_hand(model, request.context, request.continuation, bos=False)
                assert s.token_log_probabilities == pytest.approx(expected, abs=1e-5)
    finally:
        torch.set_num_threads(threads)
    assert max(abs(a.log_probability - b.log_probability) for a, b in zip(plain, got, strict=True)) > 1e-3


def test_bos_policy_puts_one_bos_before_every_request():
    model = tiny_causal()
    got = score(model, REQUESTS, first_token="bos")
    for request, s in zip(REQUESTS, got, strict=True):
        expected = by_hand(model, request.context, request.continuation, bos=True)
        assert s.token_log_probabilities == pytest.approx(expected, abs=1e-5)


def test_bos_already_written_in_the_text_is_not_added_again():
    model = tiny_causal()
    (sequence,) = Engine(model, "bos").encode([Request("<s> the key", " is")])
    assert sequence.ids.count(model.tokenizer.bos_token_id) == 1


def test_unscored_policy_leaves_out_the_first_token_only():
    model = tiny_causal()
    (with_prefix,) = score(model, [Request("", "the cats are")], first_token="prefix")
    (without,) = score(model, [Request("", "the cats are")], first_token="unscored")
    assert with_prefix.tokens == 3
    assert without.tokens == 2
    expected = by_hand(model, "the", " cats are", bos=False)
    assert without.token_log_probabilities == pytest.approx(expected, abs=1e-5)


def test_auto_policy_is_bos_only_for_tokenizers_that_add_it():
    from tokenizers.processors import TemplateProcessing

    model = tiny_causal()
    assert Engine(model).policy == "prefix"
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    assert Engine(model).policy == "bos"


def test_trailing_space_of_the_context_moves_to_the_continuation():
    model = tiny_causal()
    spaced, plain = score(model, [Request("the keys ", "are"), Request("the keys", " are")])
    assert spaced == plain


def test_greedy_and_rank_follow_the_logits():
    model = tiny_causal()
    ids = model.tokenizer("the keys to the", return_tensors="pt").input_ids
    with torch.no_grad():
        order = model.model(input_ids=ids).logits[0, -1].argsort(descending=True)
    best, third = (model.tokenizer.decode([order[i]]) for i in (0, 2))
    first, other = score(
        model, [Request("the keys to the", f" {best}"), Request("the keys to the", f" {third}")]
    )
    assert (first.is_greedy, first.ranks) == (True, (1,))
    assert (other.is_greedy, other.ranks) == (False, (3,))


def test_equal_requests_are_computed_once(monkeypatch):
    rows = []
    real = _forward.forward_batch
    monkeypatch.setattr(
        "workbench.scoring.engine.forward_batch",
        lambda model, batch: rows.extend(batch) or real(model, batch),
    )
    scores = score(tiny_causal(), REQUESTS)
    assert len(rows) == 4  # five requests, one of them twice
    assert scores[1] == scores[4]


def test_too_long_context_is_cut_from_the_left_and_counted():
    model = tiny_causal(positions=8)
    long = Request("the cats and the dogs and the cat sat on the", " mat")
    (cut,) = score(model, [long])
    assert cut.truncated == 12 - 1 - 8
    (same,) = score(model, [Request("the dogs and the cat sat on the".removeprefix("x"), " mat")])
    assert cut.token_log_probabilities == pytest.approx(same.token_log_probabilities, abs=1e-6)


def test_bos_stays_in_front_of_a_truncated_context_on_request():
    model = tiny_causal(positions=8)
    long = Request("the cats and the dogs and the cat sat on the", " mat")
    (kept,) = score(model, [long], first_token="bos", keep_bos=True)
    assert kept.truncated == 13 - 1 - 8
    # eight ids are read: BOS, and the context's last seven
    ids = model.tokenizer(long.context + long.continuation, add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = model.model(torch.tensor([[model.tokenizer.bos_token_id, *ids[-8:-1]]])).logits[0, -1]
    assert kept.log_probability == pytest.approx(float(logits.log_softmax(-1)[ids[-1]]), abs=1e-6)
    (lost,) = score(model, [long], first_token="bos")  # as lm-eval: the last eight, BOS or not
    with torch.no_grad():
        logits = model.model(torch.tensor([ids[-9:-1]])).logits[0, -1]
    assert lost.log_probability == pytest.approx(float(logits.log_softmax(-1)[ids[-1]]), abs=1e-6)


def test_out_of_memory_halves_the_batch_and_changes_nothing(monkeypatch):
    model = tiny_causal()
    expected = score(model, REQUESTS)
    real, sizes = _forward.forward_batch, []

    def small_memory(model, batch):
        sizes.append(len(batch))
        if len(batch) > 1:
            raise torch.OutOfMemoryError("no room")
        return real(model, batch)

    monkeypatch.setattr("workbench.scoring.engine.forward_batch", small_memory)
    got = score(model, REQUESTS)
    assert max(sizes) > 1
    for a, b in zip(got, expected, strict=True):
        assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-5)


def test_batches_left_out_leave_the_others_as_they_were():
    engine = Engine(tiny_causal(), batch_tokens=12)
    whole = dict(pair for batch in engine.stream(REQUESTS) for pair in batch)
    part = dict(pair for batch in engine.stream(REQUESTS, done={2}) for pair in batch)
    assert set(whole) == {0, 1, 2, 3, 4}
    assert set(part) == {0, 1, 3, 4}
    assert all(part[i] == whole[i] for i in part)


def test_nan_is_reported_never_averaged():
    model = tiny_causal()
    with torch.no_grad():
        model.model.lm_head.weight[5] = float("nan")
    with pytest.raises(NumericsError, match="NaN"):
        score(model, REQUESTS)


def test_nothing_is_left_on_the_model():
    model = tiny_causal()
    score(model, REQUESTS)
    assert not model.model.get_output_embeddings()._forward_pre_hooks


def test_continuation_longer_than_the_model_is_refused():
    with pytest.raises(DataError, match="reads at most 8"):
        score(tiny_causal(positions=8), [Request("the", " cat" * 20)])


@pytest.mark.parametrize(
    ("request_", "message"),
    [(Request("the", ""), "nothing to score"), (Request("a\ud800", " b"), "lone surrogate")],
)
def test_bad_text_gives_one_line(request_, message):
    with pytest.raises(DataError, match=message):
        score(tiny_causal(), [request_])


def test_unknown_policy_names_the_allowed_ones():
    with pytest.raises(ModelError, match="allowed: auto, bos, prefix, unscored"):
        Engine(tiny_causal(), "sometimes").policy  # noqa: B018


def test_encoder_is_refused():
    from dataclasses import replace

    with pytest.raises(ModelError, match="needs a causal model"):
        Engine(replace(tiny_causal(), kind=Kind.ENCODER))


def test_coarse_logits_do_not_make_answers_tie() -> None:
    # In bfloat16 a logit between 16 and 32 is a multiple of 0.125. The reference: hidden states in bfloat16 as the
    # model made them, projected in float64.
    model = tiny_causal()
    with torch.no_grad():
        model.model.lm_head.weight.mul_(60 / model.model.lm_head.weight.norm(dim=1, keepdim=True))
    coarse = replace(model, model=model.model.to(torch.bfloat16), dtype=torch.bfloat16)
    requests = [Request("the keys to the", f" {word}") for word in ("cabinet", "cat", "dogs", "table")]
    found = Engine(coarse).score(requests)
    sequence = Engine(coarse).encode(requests)
    ids = torch.tensor([sequence[0].ids[:-1]])
    with torch.no_grad():
        hidden = coarse.model.base_model(ids).last_hidden_state[0, -1]
        fine = torch.log_softmax(coarse.model.lm_head.weight.double() @ hidden.double(), -1)
        rounded = torch.log_softmax(coarse.model.lm_head(hidden).double(), -1)
    expected = [float(fine[s.ids[-1]]) for s in sequence]
    assert max(abs(e - float(rounded[s.ids[-1]])) for e, s in zip(expected, sequence, strict=True)) > 0.02
    relative = lambda values: [v - values[0] for v in values]  # noqa: E731
    got = relative([s.token_log_probabilities[-1] for s in found])
    assert got == pytest.approx(relative(expected), abs=0.01)
    shared = Engine(coarse).score_shared(sequence)
    got = relative([s.token_log_probabilities[-1] for s in shared])
    assert got == pytest.approx(relative(expected), abs=0.1)  # trees round hidden states otherwise


def test_a_refined_probability_is_that_of_the_softmax_with_one_logit_moved() -> None:
    logits = torch.tensor([[3.0, 1.0, -2.0], [20.0, 0.0, 0.0]])
    moved = torch.tensor([0.25, -0.5])
    changed = logits.clone()
    changed[:, 0] += moved
    found = _forward._refined(torch.log_softmax(logits, 1)[:, 0], moved)
    torch.testing.assert_close(found, torch.log_softmax(changed, 1)[:, 0])
    assert bool((found <= 0).all())
