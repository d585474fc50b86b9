"""Asking tiny models: what is answered does not depend on batches or on what else is asked."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from tests.model_folders import SIZES, framed_tokenizer, save_bart
from tests.parity import defaults
from tests.unit.tiny import loaded, tiny_causal, tiny_gpt2
from workbench.errors import DataError, ModelError, TaskError
from workbench.evaluate._requests import (
    Blank,
    ClassificationRequest,
    GenerationRequest,
    Request,
    RollingRequest,
    SpanPairRequest,
    SpanRequest,
    TaggingRequest,
)
from workbench.evaluate.inference import InferenceOptions, stream_answers
from workbench.models import Kind, load
from workbench.scoring import Generated, continuation, score, score_cloze, score_rolling
from workbench.trace.decoder import generation_start

HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}


def bert(form, kind=Kind.CLASSIFIER, **more):
    torch.manual_seed(0)
    tokenizer = framed_tokenizer()
    tokenizer.mask_token = "<unk>"
    return loaded(form(BertConfig(**SIZES, **HEADS, initializer_range=0.3, **more)), kind, tokenizer)


def ask(model, requests, done=frozenset(), **how):
    answers = {}
    for batch in stream_answers(model, requests, InferenceOptions(**how), done):
        answers.update(batch)
    return [answers.get(i) for i in range(len(requests))]


def test_shared_contexts_are_scored_as_alone():
    """Trees (contexts shared, in part or whole) give what the engine gives one by one."""
    prefix = "the cat sat on the mat and dogs ran . " * 8
    contexts = [
        f"{prefix}a key",
        f"{prefix}a key",
        f"{prefix}the keys to the cabinet",
        "cats",
        "cats",
        "dogs ran",
    ]
    requests = [
        Request(c, f" {w}") for c, w in zip(contexts, ["is", "are", "are on", "sat", "ran", "."], strict=True)
    ]
    model = tiny_causal(positions=256)
    expected = [a.log_probability for a in score(model, requests)]
    for tokens in ("auto", 64):
        got = [a.log_probability for a in ask(model, requests, batch_tokens=tokens)]
        assert got == pytest.approx(expected, abs=1e-4)


def test_answers_keep_their_places_among_other_kinds_of_requests():
    model = tiny_causal()
    requests = [
        GenerationRequest("the cat", (), 2),
        Request("a", " key"),
        RollingRequest("cats sat on a mat"),
        Request("the", " dogs"),
    ]
    answers = ask(model, requests)
    (alone,) = score(model, [requests[3]])
    assert answers[3].log_probability == pytest.approx(alone.log_probability, abs=1e-5)
    assert answers[0].tokens <= 2
    assert answers[2].tokens == 5


@pytest.mark.parametrize("make", [tiny_causal, tiny_gpt2])
def test_generation_does_not_depend_on_the_batch(make):
    """Left padding and positions: each prompt decoded alone, by the model's own loop, gives the same tokens."""
    model = make()
    texts = ["the cat", "a key to the cabinet is on", "dogs", "cats sat on the mat and the"]
    together = [a.text for a in ask(model, [GenerationRequest(t, (), 6) for t in texts])]
    for text, written in zip(texts, together, strict=True):
        ids = model.tokenizer(text, return_tensors="pt").input_ids
        with torch.inference_mode():
            for _ in range(6):
                best = model.model(input_ids=ids).logits[0, -1].argmax()
                ids = torch.cat([ids, best.view(1, 1)], dim=1)
        new = ids[0, -6:].tolist()
        eos = model.tokenizer.eos_token_id
        new = new[: new.index(eos)] if eos in new else new
        assert written == model.tokenizer.decode(new, skip_special_tokens=True)


def test_a_stop_string_ends_a_text_and_the_limit_is_told():
    model = tiny_causal()
    texts = ["the cat", "dogs", "a key to", "cats sat on the mat and"]
    written = ask(model, [GenerationRequest(text, (), 8) for text in texts])
    text, free = next((t, w) for t, w in zip(texts, written, strict=True) if len(w.text.split()) > 1)
    stop = free.text.split()[1]
    (stopped,) = ask(model, [GenerationRequest(text, (stop,), 8)])
    assert stopped.finished
    assert stopped.text == free.text[: free.text.index(stop)]
    assert free.finished == (free.tokens < 8)


def test_a_continuation_has_the_blank_that_a_generated_text_lacks():
    model = load("novels-decoder", dtype="float32", device="cpu")
    prompts = ["She was very", "It was the", "They had never been", "He said nothing of"]
    written = ask(model, [GenerationRequest(prompt, max_tokens=8) for prompt in prompts])
    replies = [continuation(model, *pair) for pair in zip(prompts, written, strict=True)]
    for prompt, one, reply in zip(prompts, written, replies, strict=True):
        ids = [*model.tokenizer(prompt).input_ids, *one.ids]
        assert prompt + reply == model.tokenizer.decode(ids, skip_special_tokens=True)
    place = next(place for place, reply in enumerate(replies) if reply == f" {written[place].text}")
    (stopped,) = ask(model, [GenerationRequest(prompts[place], (written[place].text[9],), 8)])
    assert continuation(model, prompts[place], stopped) == f" {stopped.text}"
    assert continuation(model, "She was", Generated("", 0, True)) == ""


def test_samples_are_seeded():
    model = tiny_causal()
    prompts = [GenerationRequest("the cat", (), 6, 1.0, 0.9, number) for number in range(8)]
    first, again, other = ([a.text for a in ask(model, prompts, seed=s)] for s in (0, 0, 1))
    assert first == again
    assert first != other
    assert len(set(first)) > 1


def test_no_room_for_the_answer_is_told():
    with pytest.raises(DataError, match="99 new tokens leave no room"):
        ask(tiny_causal(positions=64), [GenerationRequest("the cat", (), 99)])


def test_passages_are_read_as_by_the_rolling_scorer():
    model = tiny_causal(positions=16)
    text = "the cat sat on the mat and dogs ran . " * 4
    for stride in (None, 4):
        (got,) = ask(model, [RollingRequest(text, stride)])
        (expected,) = score_rolling(model, [text], stride=stride)
        assert got.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
        assert (got.tokens, got.words, got.bytes) == (expected.tokens, expected.words, expected.bytes)


def test_finished_requests_are_not_asked_again():
    model = tiny_causal()
    requests = [Request("the", " cat"), Request("a", " key")]
    assert ask(model, requests, done={0, 1}) == [None, None]


def test_masked_models_fill_gaps_as_the_cloze_scorer_does():
    model = bert(BertForMaskedLM, Kind.MASKED)
    blanks = [Blank("the ", "key", " is on a table"), Blank("cats ", "sat on", " the mat")]
    expected = [c.log_probability for c in score_cloze(model, [_cloze(b) for b in blanks])]
    assert [a.log_probability for a in ask(model, blanks)] == pytest.approx(expected, abs=1e-5)
    (continued,) = ask(model, [Request("the key is", " on")])
    (as_gap,) = ask(model, [Blank("the key is ", "", "on")])
    assert continued.log_probability == pytest.approx(as_gap.log_probability, abs=1e-6)


def _cloze(blank):
    from workbench.scoring import Blank as ScoringBlank

    return ScoringBlank(blank.before, blank.after, blank.answer)


def test_masked_models_read_the_end_of_a_long_context():
    model = bert(BertForMaskedLM, Kind.MASKED)
    long = "the cat sat on the mat . " * 30
    (answer,) = ask(model, [Request(long, " dogs")])
    assert answer.tokens == 1


def test_encoder_decoders_score_targets(tmp_path):
    model = load(str(save_bart(tmp_path / "bart")), dtype="float32")
    answers = ask(model, [Request("the cat", " sat"), Blank("the ", "", "cat")])
    assert all(a.log_probability < 0 for a in answers)
    assert ask(model, [GenerationRequest("the cat", (), 4)])[0].tokens <= 4


def test_heads_answer_alone_as_together():
    model = bert(BertForSequenceClassification, num_labels=3)
    asks = [
        ClassificationRequest("the cat sat"),
        ClassificationRequest("a key", "the keys to the cabinet are on a table"),
        ClassificationRequest("dogs"),
    ]
    together = ask(model, asks)
    for one, answer in zip(asks, together, strict=True):
        assert ask(model, [one])[0].values == pytest.approx(answer.values, abs=1e-5)
    assert together[0].labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_words_get_the_label_of_their_first_piece():
    model = bert(BertForTokenClassification, num_labels=2, id2label={0: "O", 1: "B-X"})
    (tags,) = ask(model, [TaggingRequest(("the", "cat", "sat"))])
    ids = model.tokenizer("the cat sat", return_tensors="pt").input_ids
    with torch.inference_mode():
        best = model.model(input_ids=ids).logits[0].argmax(-1).tolist()[1:-1]
    assert tags.labels == tuple({0: "O", 1: "B-X"}[i] for i in best)


def test_a_span_stands_in_the_context_even_of_many_windows():
    model = bert(BertForQuestionAnswering)
    context = "the cat sat on the mat and dogs ran . " * 10
    (span,) = ask(model, [SpanRequest("keys are", context)])
    assert span.text
    assert span.text in context
    assert span.no_answer_probability == 0.0


def test_no_answer_is_as_likely_as_the_first_token_against_the_best_span():
    model = bert(BertForQuestionAnswering)
    (span,) = ask(model, [SpanRequest("keys are", "the cat sat on the mat", may_be_absent=True)])
    ids = model.tokenizer("keys are", "the cat sat on the mat", return_tensors="pt")
    with torch.inference_mode():
        output = model.model(**ids)
    start, end = output.start_logits[0].double(), output.end_logits[0].double()
    first = ids["input_ids"][0].tolist().index(model.tokenizer.sep_token_id) + 1  # of the context
    if start[first:].shape[0] > 7:
        first += 1  # a tokenizer that writes two marks between texts
    spans = [start[a] + end[b] for a in range(first, len(start) - 1) for b in range(a, len(start) - 1)]
    odds = float(start[0] + end[0] - max(spans))
    assert span.no_answer_probability == pytest.approx(1 / (1 + math.exp(-odds)), abs=1e-6)


def test_word_pairs_give_states_difference_and_product():
    model = loaded(bert(BertForMaskedLM).model.bert, Kind.ENCODER, framed_tokenizer())
    (answer,) = ask(model, [SpanPairRequest("the key is on", "the key is on", (4, 7), (4, 7))])
    u, v, difference, product = torch.tensor(answer.values).view(4, 32)
    assert torch.equal(u, v)
    assert not difference.any()
    assert torch.allclose(product, u * u)


def test_a_head_of_another_kind_is_refused():
    with pytest.raises(TaskError, match="needs a model with a ForTokenClassification head"):
        ask(bert(BertForSequenceClassification), [TaggingRequest(("the",))])
    with pytest.raises(ModelError, match="needs a causal"):
        ask(bert(BertForMaskedLM, Kind.MASKED), [RollingRequest("the cat")])


def test_tokens_of_generated_text_do_not_depend_on_the_batch():
    """A row that met its stop string is padded while others go on; padding is not generated."""
    model = tiny_gpt2()
    texts = ("the cat", "dogs ran on", "a key", "the keys to the cabinet", "cats sat")
    whole = ask(model, [GenerationRequest(text, max_tokens=12) for text in texts])
    stop = (whole[0].text.split()[3],)  # what the first row generates after a few tokens
    prompts = [GenerationRequest(text, stop=stop, max_tokens=12) for text in texts]
    alone = [ask(model, [prompt])[0] for prompt in prompts]
    assert ask(model, prompts) == alone
    assert alone[0].tokens <= 4 < max(answer.tokens for answer in alone)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [("t5", {"num_layers": 1, "num_decoder_layers": 3}), ("rwkv", {}), ("prophetnet", {})],
)
def test_several_texts_are_written_as_each_alone_is_without_padding_and_cache(model_type, changes):
    """Against transformers' own greedy generation of each text, without a cache.

    T5's decoder is deeper than the cache that transformers makes, RWKV takes no mask and reads padding as text, and
    ProphetNet's cache takes no prefix of two tokens.
    """
    family = next(family for family in defaults.FAMILIES if family.model_type == model_type)
    config = defaults.config_of(family, **changes)
    tokenizer = defaults.tokenizer_for(config, family.auto)
    model = defaults.loaded(defaults.build(config, family.auto), defaults.KINDS[family.auto], tokenizer)
    found = ask(model, [GenerationRequest(text, max_tokens=6) for text in defaults.TEXTS])
    for text, written in zip(defaults.TEXTS, found, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        start = generation_start(model, 1)
        ids = model.model.generate(**inputs, **start, max_new_tokens=6, do_sample=False, use_cache=False)
        skipped = start["decoder_input_ids"].shape[1] if start else inputs.input_ids.shape[1]
        assert written.text == tokenizer.decode(ids[0, skipped:], skip_special_tokens=True)
