"""Pseudo-log-likelihood against a hand loop, in both variants, with a tiny random BERT; seq2seq and cloze."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.unit.tiny import WORDS, loaded, tiny_causal, word_tokenizer
from workbench.errors import ConfigError, DataError
from workbench.models import Kind, LoadedModel
from workbench.scoring import (
    Blank,
    MaskedEngine,
    Request,
    Seq2SeqEngine,
    pseudo_log_likelihood,
    score,
    score_cloze,
)

TEXTS = ["the catsat ran", "cats", "a cat sat on the matcats and the dogs"]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "cat",
    "cats",
    "##s",
    "##at",
    "sat",
    "on",
    "mat",
]


def tiny_bert() -> LoadedModel:
    vocabulary = {piece: i for i, piece in enumerate([*PIECES, "##cats", "and", "dog", "ran", "##sat"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep", "mask")}
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    return loaded(BertForMaskedLM(config), Kind.MASKED, fast)


def by_hand(model: LoadedModel, text: str, within_word: bool) -> list[float]:
    encoded = model.tokenizer(text)
    ids, words = encoded.input_ids, encoded.word_ids()
    found = []
    for place in range(1, len(ids) - 1):
        masked = list(ids)
        masked[place] = 4
        if within_word:
            for later in range(place + 1, len(ids) - 1):
                if words[later] == words[place]:
                    masked[later] = 4
        with torch.no_grad():
            logits = model.model(input_ids=torch.tensor([masked])).logits[0, place].double()
        found.append(float(torch.log_softmax(logits, -1)[ids[place]]))
    return found


@pytest.mark.parametrize("masking", ["original", "within_word_l2r"])
@pytest.mark.parametrize("budget", [1, 40, 1000])
def test_equals_a_hand_loop(masking, budget):
    model = tiny_bert()
    for text, got in zip(
        TEXTS, pseudo_log_likelihood(model, TEXTS, masking=masking, batch_tokens=budget), strict=True
    ):
        expected = by_hand(model, text, masking == "within_word_l2r")
        assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)


def test_the_variants_differ_where_a_word_has_pieces_and_only_there():
    model = tiny_bert()
    whole, split = (MaskedEngine(model, m).score(["cats", "catsat"]) for m in ("original", "within_word_l2r"))
    assert whole[0] == split[0]
    assert whole[1].token_log_probabilities[0] != split[1].token_log_probabilities[0]


def test_bad_input():
    model = tiny_bert()
    with pytest.raises(DataError, match="no token to score"):
        pseudo_log_likelihood(model, [""])
    with pytest.raises(DataError, match="reads at most 32"):
        pseudo_log_likelihood(model, ["cat " * 40])
    with pytest.raises(ConfigError, match="allowed: original, within_word_l2r"):
        MaskedEngine(model, "l2r")


def test_cloze_of_a_masked_model_hides_the_pieces_to_come():
    model = tiny_bert()
    one, two = score_cloze(model, [Blank("the ", " ran", "cat"), Blank("the ", " ran", "catsat")])
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([[2, 5, 4, 17, 3]])).logits[0, 2].double()
    log_probabilities = torch.log_softmax(logits, -1)
    assert one.log_probability == pytest.approx(float(log_probabilities[7]), abs=1e-5)
    assert one.rank == int((log_probabilities > log_probabilities[7]).sum()) + 1
    assert two.pieces == 2
    assert two.log_probability == pytest.approx(sum(by_hand(model, "the catsat ran", True)[1:3]), abs=1e-5)


def test_cloze_of_a_causal_model_reads_what_is_before():
    model = tiny_causal()
    (got,) = score_cloze(model, [Blank("the cat sat on the ", " .", "mat")])
    (expected,) = score(model, [Request("the cat sat on the", " mat")])
    assert (got.log_probability, got.rank) == (expected.log_probability, expected.ranks[0])


def test_targets_of_an_encoder_decoder_equal_a_hand_loop():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=4 + len(WORDS),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = loaded(T5ForConditionalGeneration(config), Kind.SEQ2SEQ, word_tokenizer())
    asked = [
        Request("the cat sat", "on the mat"),
        Request("dogs", "ran"),
        Request("a cat", "and dogs ran to"),
    ]
    for request, got in zip(asked, Seq2SeqEngine(model, 12).score(asked), strict=True):
        source, target = (model.tokenizer(text).input_ids for text in (request.context, request.continuation))
        with torch.no_grad():
            logits = model.model(
                input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[0, *target[:-1]]])
            ).logits[0]
        expected = torch.log_softmax(logits.double(), -1)[range(len(target)), target].tolist()
        assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)
