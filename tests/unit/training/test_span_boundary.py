"""SpanBERT's boundary objective, beside a plain loop over its equations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch.nn import functional as F

import workbench
from tests.unit.training.test_pretraining import place, recipe
from tests.unit.training.test_two_models import config
from workbench.models.heads.masked import TransformerEncoderForMaskedLM
from workbench.models.heads.span_boundary import LONGEST_TARGET, span_boundaries
from workbench.training import pretrain
from workbench.training._work import prepare
from workbench.training.objectives import SpanBoundaries

__all__ = ["place"]  # the fixture


def test_boundaries_of_spans_by_hand() -> None:
    """Spans 2-3 and 5; one at the start of its row and one before padding have a single boundary."""
    hidden = torch.tensor([[0, 0, 1, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0, 0]]).bool()
    tokens = torch.tensor([[1] * 7, [1] * 5 + [0] * 2]).bool()
    left, right, place, scored = span_boundaries(hidden, tokens)
    assert scored.tolist() == [[False, False, True, True, False, True, False], [False] * 7]
    assert [values[scored].tolist() for values in (left, right, place)] == [[1, 1, 4], [4, 4, 6], [0, 1, 0]]


def test_places_after_the_twentieth_are_not_scored() -> None:
    hidden = torch.zeros(1, 30).bool()
    hidden[:, 2:27] = True
    *_, place, scored = span_boundaries(hidden, torch.ones_like(hidden))
    assert place[scored].tolist() == list(range(LONGEST_TARGET))


def batch() -> dict[str, torch.Tensor]:
    """Row 0 hides 2-3 and 5, row 1, which is padded on the right, 1."""
    ids = torch.tensor([[1, 5, 6, 7, 8, 9, 2], [1, 10, 11, 2, 0, 0, 0]])
    labels = torch.full_like(ids, -100)
    for row, column in ((0, 2), (0, 3), (0, 5), (1, 1)):
        labels[row, column] = ids[row, column]
    return {
        "input_ids": ids.masked_fill(labels != -100, 3),
        "attention_mask": (ids != 0).long(),
        "labels": labels,
    }


def bert() -> hf.BertForMaskedLM:
    return hf.BertForMaskedLM(
        hf.BertConfig(
            vocab_size=20,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=32,
            pad_token_id=0,
        )
    )


@pytest.mark.parametrize("make", [lambda: TransformerEncoderForMaskedLM(config()), bert])
def test_the_loss_is_that_of_equations_1_to_4(make: Any) -> None:
    torch.manual_seed(0)
    model, given = SpanBoundaries(make().eval()), batch()
    for parameter in model.parameters():  # layer norms and biases, too, so that each counts
        torch.nn.init.normal_(parameter, std=0.3)
    output = model.masked(
        input_ids=given["input_ids"], attention_mask=given["attention_mask"], output_hidden_states=True
    )
    states, head = output.hidden_states[-1], model.head
    masked, boundary = [], []
    # row, left boundary, right boundary, place in the span, hidden token
    for row, left, right, index, target in (
        (0, 1, 4, 0, 6),
        (0, 1, 4, 1, 7),
        (0, 4, 6, 0, 9),
        (1, 0, 2, 0, 10),
    ):
        inputs = torch.cat([states[row, left], states[row, right], head.places.weight[index]])
        first = F.gelu(head.first.weight @ inputs + head.first.bias)
        first = F.layer_norm(first, first.shape, head.first_norm.weight, head.first_norm.bias)
        second = F.gelu(head.second.weight @ first + head.second.bias)
        second = F.layer_norm(second, second.shape, head.second_norm.weight, head.second_norm.bias)
        scores = model.masked.get_output_embeddings().weight @ second + head.bias
        boundary.append(-F.log_softmax(scores, dim=-1)[target])
        masked.append(-F.log_softmax(output.logits[row, left + 1 + index], dim=-1)[target])
    expected = torch.stack(masked).mean() + torch.stack(boundary).mean()
    assert model(**given).loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert model.scored_counts(**given).tolist() == [4, 4]


def test_it_learns_what_only_boundaries_tell() -> None:
    """The head's weights get gradients, and so does the encoder through the boundaries alone."""
    torch.manual_seed(0)
    model, given = SpanBoundaries(TransformerEncoderForMaskedLM(config())), batch()
    boundary = model.terms(**given)[1]
    boundary.losses.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.head.parameters())
    embeddings = model.masked.get_input_embeddings().weight.grad
    assert embeddings is not None
    assert embeddings[[5, 8, 11]].abs().sum() > 0  # boundaries themselves


def test_a_run_keeps_the_head_and_goes_on_from_it(place: Path) -> None:
    run = pretrain.train(recipe(place, "encoder", "span-boundary"), place / "out", device="cpu")
    assert run.record.model["class"] == "TransformerEncoderForMaskedLM"
    assert run.record.model["span_boundary"]["class"] == "SpanBoundaryHead"
    assert workbench.load(str(place / "out"), dtype="float32", device="cpu").kind == "masked"
    settings = recipe(place, "encoder", "span-boundary")
    source = replace(settings.model, config=None, model=str(place / "out"))
    again = replace(settings, model=source, data=replace(settings.data, tokenizer=None))
    model = prepare(again, torch.device("cpu"), show=False).new_model()
    fresh = SpanBoundaries(model.masked, seed=0)
    changed = [not a.equal(b) for a, b in zip(model.head.parameters(), fresh.head.parameters(), strict=True)]
    assert all(changed)  # three steps of AdamW change each parameter
