"""Classification heads of every family: in batches, in any order, each text gives what it gives in a plain pass alone.

The truth is transformers' own: ``model(**tokenizer(text))``, one text at a time.
"""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from challenge_sets.suite import MFT, Suite, TestCase
from challenge_sets.suites.predict import Example, predictor_for
from tests.helpers import assert_near
from tests.model_folders import framed_tokenizer, save
from tests.unit.tiny import WORDS, loaded
from workbench.analysis.attacks import predictions
from workbench.analysis.saliency import attribute_all
from workbench.errors import ModelError
from workbench.evaluate._requests import ClassificationRequest
from workbench.evaluate.doctor._examine import _run
from workbench.evaluate.doctor._invariance import batch_size
from workbench.evaluate.inference import InferenceOptions, stream_answers
from workbench.models import Kind, batching, load
from workbench.models.batching import Padding, encode_row, head_outputs, padding_id, padding_of
from workbench.scoring.streams import head_scores
from workbench.training.finetuning import AnswerKind, FineTask
from workbench.training.finetuning.encoding import collate, encode
from workbench.training.finetuning.predict import pads_left

TEXTS = ["the cat", "a key to the cabinet is on the table", "dogs", "cats sat on the mat and the dogs ran"]
SIZES = {"vocab_size": 4 + len(WORDS), "num_labels": 3}
STACK = {
    **SIZES,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
BOTH = {
    **SIZES,
    "d_model": 32,
    "decoder_start_token_id": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SIDES = {f"{side}_{name}": 4 for side in ("encoder", "decoder") for name in ("attention_heads", "layers")}
GPT2 = {**SIZES, "n_embd": 32, "n_layer": 2, "n_head": 4}

FAMILIES = {
    "gpt2 with another padding id than its tokenizer": lambda: hf.GPT2Config(
        **GPT2, pad_token_id=7, eos_token_id=7
    ),
    "gpt2 without a padding id": lambda: hf.GPT2Config(**GPT2, pad_token_id=None, eos_token_id=2),
    "llama without a padding id": lambda: hf.LlamaConfig(**STACK, pad_token_id=None),
    "llama with a padding id outside its vocabulary": lambda: hf.LlamaConfig(**STACK, pad_token_id=-1),
    "llama": lambda: hf.LlamaConfig(**STACK, pad_token_id=0),
    "bert": lambda: hf.BertConfig(**STACK),
    "roberta": lambda: hf.RobertaConfig(**STACK, pad_token_id=0),
    "deberta": lambda: hf.DebertaConfig(**STACK),
    "deberta-v2": lambda: hf.DebertaV2Config(**STACK),
    "bart": lambda: hf.BartConfig(**BOTH, **SIDES, encoder_ffn_dim=48, decoder_ffn_dim=48),
    "t5": lambda: hf.T5Config(**BOTH, d_kv=8, d_ff=48, num_layers=2, num_heads=4),
    "xlnet": lambda: hf.XLNetConfig(**SIZES, d_model=32, n_layer=2, n_head=4, d_inner=48),
    "fnet": lambda: hf.FNetConfig(**{k: v for k, v in STACK.items() if k != "num_attention_heads"}),
    "bloom": lambda: hf.BloomConfig(**SIZES, hidden_size=32, n_layer=2, n_head=4, pad_token_id=3),
}


# refuse a batch without a padding id (fine-tuning gives them one), look for an end token, or mix padding in
UNPADDED = {"gpt2 without a padding id", "llama without a padding id", "bart", "t5", "fnet"}


def classifier(config, tokenizer=None):
    torch.manual_seed(0)
    model = hf.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.2)  # large enough for every difference to show
    return loaded(model, Kind.CLASSIFIER, tokenizer or framed_tokenizer())


def plain(model, texts):
    with torch.inference_mode():
        encoded = (model.tokenizer(text, return_tensors="pt") for text in texts)
        return torch.stack([model.model(**one).logits[0] for one in encoded])


@pytest.fixture(scope="module", params=FAMILIES)
def subject(request):
    model = classifier(FAMILIES[request.param]())
    return model, plain(model, TEXTS)


def close(found, expected):
    torch.testing.assert_close(
        torch.as_tensor(found), expected, atol=1e-4 * float(expected.abs().max()), rtol=0
    )


def test_batches_give_what_one_text_gives(subject):
    model, expected = subject
    rows = [encode_row(model, text) for text in TEXTS]
    for tokens in (1, 12, 10_000):
        close(torch.stack([output["logits"] for output in head_scores(model, rows, tokens)]), expected)
    backwards = head_scores(model, rows[::-1])[::-1]
    close(torch.stack([output["logits"] for output in backwards]), expected)


def test_evaluate_check_and_attacks_agree_with_it(subject):
    model, expected = subject
    found = {}
    for batch in stream_answers(model, [ClassificationRequest(text) for text in TEXTS], InferenceOptions()):
        found.update(batch)
    close(torch.tensor([found[i].values for i in range(len(TEXTS))]), expected)
    labels = {f"l{i}": (f"LABEL_{i}",) for i in range(3)}
    cases = tuple(TestCase(str(i), "t", ((text,),), ("l0",)) for i, text in enumerate(TEXTS))
    suite = Suite(name="s", labels=labels, tests=(MFT("t", "c", cases),))
    judged = predictor_for(model, suite).predict([Example(str(i), (text,)) for i, text in enumerate(TEXTS)])
    close(torch.tensor([list(p.probabilities.values()) for p in judged]), expected.softmax(-1))
    assert predictions(model, TEXTS) == expected.argmax(-1).tolist()


@pytest.mark.parametrize(
    "family", [*(name for name in FAMILIES if "gpt2" in name or "llama" in name), "bert"]
)
@pytest.mark.parametrize("method", ["input_x_gradient", "attention_rollout"])
def test_attribution_explains_that_number(family, method):
    """From embeddings; other families' heads read ids, or have attention in a form of their own.

    The padding is measured while attention is watched, and those passes are not part of what is seen.
    """
    model = classifier(FAMILIES[family]())
    found = attribute_all(model, TEXTS, method, targets=[1] * len(TEXTS))
    close(torch.tensor([one.value for one in found]), plain(model, TEXTS)[:, 1])


@pytest.mark.parametrize(
    ("family", "padding"),
    [
        ("bert", Padding.RIGHT),
        ("gpt2 with another padding id than its tokenizer", Padding.RIGHT),
        ("gpt2 without a padding id", Padding.SINGLE),  # transformers refuses a batch of them
        ("llama with a padding id outside its vocabulary", Padding.LEFT),  # the last place is read
        ("xlnet", Padding.LEFT),
        ("fnet", Padding.EQUAL),  # its Fourier transform mixes padding in
    ],
)
def test_the_padding_that_a_head_bears_is_measured(family, padding):
    assert padding_of(classifier(FAMILIES[family]())) is padding


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in UNPADDED])
def test_fine_tuning_pads_where_the_head_bears_it(family):
    """The loss of a training batch is the mean of the rows' own losses."""
    model = classifier(FAMILIES[family]())
    task = FineTask("texts", AnswerKind.CLASS, "text", "label", labels=("a", "b", "c"))
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, "abca", strict=True)]
    features = encode(rows, task, model.tokenizer, 64)
    left = pads_left(model.model, model.tokenizer, task)
    batch = collate(features, padding_id(model.tokenizer, model.config), left=left)
    with torch.inference_mode():
        own = [model.model(**collate([feature], 0)).loss for feature in features]
        close(model.model(**batch).loss, torch.stack(own).mean())


def test_the_id_that_the_head_looks_for_is_the_one_to_pad_with():
    tokenizer = framed_tokenizer()
    assert padding_id(tokenizer, hf.GPT2Config(**GPT2, pad_token_id=7)) == 7
    assert padding_id(tokenizer, hf.GPT2Config(**GPT2, pad_token_id=None)) == tokenizer.pad_token_id
    tokenizer.pad_token = None
    assert padding_id(tokenizer, hf.LlamaConfig(**STACK, pad_token_id=-1)) == tokenizer.eos_token_id


def test_rows_with_unequal_numbers_of_end_tokens_are_read_apart():
    """BART reads the last end token and refuses a batch whose rows have different numbers of them."""
    model = classifier(FAMILIES["bart"]())
    texts = ["the cat", "the </s> cat", "dogs ran </s> and sat </s>", "a key"]
    close(
        torch.stack([o["logits"] for o in head_outputs(model, [encode_row(model, t) for t in texts])]),
        plain(model, texts),
    )


def test_a_head_that_reads_no_text_is_refused_in_one_line():
    tokenizer = framed_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None  # no end token, which T5's head reads
    model = classifier(FAMILIES["t5"](), tokenizer)
    with pytest.raises(ModelError, match="cannot read a text") as caught:
        head_outputs(model, [encode_row(model, "the cat")])
    assert "\n" not in str(caught.value)


def test_t5_reads_texts_from_its_default_configuration(tmp_path):
    """Which has no token that the decoder starts with; transformers' T5 was trained with the padding id."""
    config = hf.T5Config(**SIZES, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, eos_token_id=2)
    assert getattr(config, "decoder_start_token_id", None) is None
    torch.manual_seed(0)
    save(hf.T5ForSequenceClassification(config), framed_tokenizer(), tmp_path)
    model = load(str(tmp_path), dtype="float32", device="cpu")
    assert model.kind is Kind.CLASSIFIER
    texts = ["the cat", "the dog ran and the cat sat"]
    found = torch.stack([out["logits"] for out in head_outputs(model, [encode_row(model, t) for t in texts])])
    reference = hf.T5ForSequenceClassification.from_pretrained(tmp_path)
    reference.config.decoder_start_token_id = 0
    with torch.inference_mode():
        expected = [reference(**model.tokenizer(text, return_tensors="pt")).logits[0] for text in texts]
    assert_near(found, torch.stack(expected))


@pytest.mark.parametrize(
    "family", ["gpt2 with another padding id than its tokenizer", "gpt2 without a padding id"]
)
def test_the_doctor_examines_the_batches_that_are_really_used(family, monkeypatch):
    model = classifier(FAMILIES[family]())
    assert batch_size(model).status == "pass"
    monkeypatch.setattr(batching, "padding_id", lambda tokenizer, config: tokenizer.pad_token_id)
    monkeypatch.setitem(batching._known, model.model, Padding.RIGHT)
    assert _run("batch_size", model).status == "fail"  # as batches were made before: by the tokenizer's id
