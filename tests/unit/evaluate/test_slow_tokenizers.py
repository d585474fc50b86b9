"""A tokenizer in pure Python, which gives neither words nor offsets, wherever the words of tokens are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.unit.text.tokenizers_for_tests import slow_wordpiece
from tests.unit.tiny import loaded
from workbench.errors import ModelError
from workbench.evaluate._requests import SpanPairRequest, SpanRequest, TaggingRequest
from workbench.evaluate.inference.heads import find_spans, pair_features, tag_words
from workbench.evaluate.inference.likelihood import score_blanks
from workbench.evaluate.inference.options import InferenceOptions
from workbench.models import Kind, LoadedModel
from workbench.scoring import Blank, pseudo_log_likelihood, score_cloze
from workbench.training.finetuning.encoding import encode
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.objectives import IGNORED

WORDS = ("cat", "bat,", "tea!")  # [CLS] cat b ##a ##t , t ##e ##a ! [SEP]
TEXT, FIRSTS = " ".join(WORDS), (1, 2, 6)
MASK = 4


def bert(folder: Path, model_class: Any, kind: Kind, **changes: Any) -> LoadedModel:
    tokenizer = slow_wordpiece(folder)
    assert not tokenizer.is_fast
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, initializer_range=0.3, **changes,
    )  # fmt: skip
    return loaded(model_class(config), kind, tokenizer)


def masked(model: LoadedModel, hidden: dict[int, list[int]]) -> list[float]:
    """Log-probability of the token at each place, with the tokens at the listed places hidden; one pass each."""
    ids, found = model.tokenizer(TEXT).input_ids, []
    for place, places in hidden.items():
        row = torch.tensor([[MASK if i in places else token for i, token in enumerate(ids)]])
        with torch.no_grad():
            logits = model.model(row).logits[0, place].double()
        found.append(float(logits.log_softmax(-1)[ids[place]]))
    return found


def test_pseudo_log_likelihood_of_minimal_pairs(tmp_path: Path) -> None:
    """Words are cat, bat, the comma, tea, the exclamation mark; within a word the later pieces are hidden too."""
    model = bert(tmp_path, transformers.BertForMaskedLM, Kind.MASKED)
    (plain,) = pseudo_log_likelihood(model, [TEXT])
    expected = masked(model, {place: [place] for place in range(1, 10)})
    assert plain.token_log_probabilities == pytest.approx(expected, abs=1e-5)
    (within,) = pseudo_log_likelihood(model, [TEXT], masking="within_word_l2r")
    hidden = {1: [1], 2: [2, 3, 4], 3: [3, 4], 4: [4], 5: [5], 6: [6, 7, 8], 7: [7, 8], 8: [8], 9: [9]}
    assert within.token_log_probabilities == pytest.approx(masked(model, hidden), abs=1e-5)


def test_cloze_and_blanks(tmp_path: Path) -> None:
    """The pieces of "bat" are filled from left to right, those to come hidden."""
    model = bert(tmp_path, transformers.BertForMaskedLM, Kind.MASKED)
    expected = sum(masked(model, {2: [2, 3, 4], 3: [3, 4], 4: [4]}))
    blank = Blank("cat ", ", tea!", "bat")
    (cloze,) = score_cloze(model, [blank])
    ((_, score),) = [
        pair for batch in score_blanks(model, [blank], set(), InferenceOptions()) for pair in batch
    ]
    assert cloze.log_probability == pytest.approx(expected, abs=1e-5)
    assert score.log_probability == pytest.approx(expected, abs=1e-5)


def test_labels_of_words_are_those_of_their_first_pieces(tmp_path: Path) -> None:
    model = bert(tmp_path, transformers.BertForTokenClassification, Kind.CLASSIFIER, num_labels=5)
    with torch.no_grad():
        best = model.model(torch.tensor([model.tokenizer(TEXT).input_ids])).logits[0].argmax(-1).tolist()
    ((_, tags),) = next(tag_words(model, [TaggingRequest(WORDS)], set(), InferenceOptions()))
    assert tags.labels == tuple(f"LABEL_{best[place]}" for place in FIRSTS)


def test_fine_tuning_labels_the_first_pieces(tmp_path: Path) -> None:
    task = FineTask("ner", AnswerKind.TOKENS, text="tokens", label="tags", labels=("O", "A", "B"))
    row: Any = {"tokens": list(WORDS), "tags": ["A", "O", "B"]}
    (features,) = encode([row], task, slow_wordpiece(tmp_path), 32)
    expected = [IGNORED] * 11
    expected[1], expected[2], expected[6] = 1, 0, 2
    assert features["labels"] == expected
    (shorter,) = encode([row], task, slow_wordpiece(tmp_path), 5)  # [CLS] cat b ##a [SEP]
    assert shorter["labels"] == [*expected[:4], IGNORED]
    assert shorter["input_ids"] == [*features["input_ids"][:4], features["input_ids"][-1]]


def test_states_of_words(tmp_path: Path) -> None:
    """WiC: the mean of the last layer over the pieces 2 to 4 of "bat", and the state of "cat"."""
    model = bert(tmp_path, transformers.BertModel, Kind.ENCODER)
    with torch.no_grad():
        states = model.model(torch.tensor([model.tokenizer(TEXT).input_ids])).last_hidden_state[0]
    ((_, features),) = next(
        pair_features(model, [SpanPairRequest(TEXT, TEXT, (4, 7), (0, 3))], set(), InferenceOptions())
    )
    expected = torch.cat([states[2:5].mean(0), states[1]])
    assert features.values[:64] == pytest.approx(expected.tolist(), abs=1e-5)


def test_answers_in_long_texts_are_refused_in_one_line(tmp_path: Path) -> None:
    model = bert(tmp_path, transformers.BertForQuestionAnswering, Kind.CLASSIFIER)
    with pytest.raises(ModelError, match="needs a fast tokenizer") as refused:
        next(find_spans(model, [SpanRequest("cat?", TEXT)], set(), InferenceOptions()))
    assert "\n" not in str(refused.value)
