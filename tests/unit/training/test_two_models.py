"""Objectives that train with a second model: replaced tokens, distillation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.errors import ConfigError
from workbench.models.configuration import EncoderConfig
from workbench.models.heads.masked import TransformerEncoderForMaskedLM, TransformerEncoderForPreTraining
from workbench.models.parts import AttentionConfig, DepthConfig, FeedForwardConfig
from workbench.training.objectives import DistillationWeights, Distilled, ReplacedTokens
from workbench.training.objectives.distillation import (
    attention_losses,
    hidden_state_losses,
    soft_target_losses,
)


def config(width: int = 16, vocabulary: int = 20) -> EncoderConfig:
    return EncoderConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        attention=AttentionConfig(heads=4),
        feed_forward=FeedForwardConfig(size=32),
        depth=DepthConfig(layers=1),
        pad_token_id=0,
    )


def batch() -> dict[str, torch.Tensor]:
    ids = torch.arange(4, 16).view(2, 6)
    labels = torch.full_like(ids, -100)
    labels[:, 2:4] = ids[:, 2:4]
    return {
        "input_ids": ids.masked_fill(labels != -100, 3),
        "attention_mask": torch.ones_like(ids),
        "labels": labels,
    }


def test_only_chosen_places_are_replaced_and_a_right_guess_is_not() -> None:
    torch.manual_seed(0)
    model, given = ReplacedTokens(config()), batch()
    outputs = [model(**given) for _ in range(60)]
    replaced = torch.stack([o.replaced for o in outputs])
    assert not replaced[:, given["labels"] == -100].any()
    # the untrained generator is about uniform over 20 ids: it is right once in 20 times
    share = replaced[:, given["labels"] != -100].float().mean()
    assert share == pytest.approx(0.95, abs=0.06)


def test_both_models_learn_and_share_the_token_table(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ReplacedTokens(config())
    table = model.discriminator.get_input_embeddings()
    assert model.generator.get_input_embeddings() is table
    assert model.generator.config.hidden_size == 4
    model(**batch()).loss.backward()
    assert all(
        p.grad is not None and p.grad.abs().sum() > 0
        for p in (table.weight, model.discriminator.output.weight)
    )
    model.save_pretrained(tmp_path)
    from workbench.models.encoder import TransformerEncoder

    opened = TransformerEncoder.from_pretrained(tmp_path, has_pooler=False)
    assert opened.get_input_embeddings().weight.equal(table.weight)


def test_soft_targets_by_hand() -> None:
    """Teacher (1/2, 1/2), student (3/4, 1/4) at T = 1: 1/2 ln(1/2 / 3/4) + 1/2 ln(1/2 / 1/4) = 0.1438."""
    teacher, student = torch.zeros(1, 2), torch.tensor([[math.log(3.0), 0.0]])
    expected = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert float(soft_target_losses(student, teacher, 1.0)) == pytest.approx(expected)
    assert float(soft_target_losses(3 * student, 3 * teacher, 3.0)) == pytest.approx(9 * expected, rel=1e-5)


def test_states_and_attention_by_hand() -> None:
    assert float(
        hidden_state_losses(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    ) == pytest.approx(1 - math.sqrt(0.5))
    student, teacher = torch.tensor([[[[0.75, 0.25]]]]), torch.tensor([[[[0.5, 0.5]]]])
    expected = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert float(attention_losses(student, teacher)) == pytest.approx(expected)


def test_a_student_comes_to_agree_with_its_teacher() -> None:
    torch.manual_seed(0)
    teacher, student = (TransformerEncoderForMaskedLM(config()) for _ in range(2))
    for parameter in teacher.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model = Distilled(student, teacher, weights=DistillationWeights(attention=1.0)).train()
    assert not teacher.training
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    before = [p.clone() for p in teacher.parameters()]
    losses = []
    for _ in range(30):
        loss = model(**batch()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(a.equal(b) for a, b in zip(before, teacher.parameters(), strict=True))


def uneven() -> dict[str, torch.Tensor]:
    """Four rows with 1 to 4 labels, the last two rows shorter than the others."""
    ids = torch.arange(4, 20).repeat(2)[:24].view(4, 6)
    labels = torch.full_like(ids, -100)
    mask = torch.ones_like(ids)
    for row in range(4):
        labels[row, : row + 1] = ids[row, : row + 1]
    mask[2, 5:] = mask[3, 4:] = 0
    return {"input_ids": ids.masked_fill(labels != -100, 3), "attention_mask": mask, "labels": labels}


def distilled() -> Distilled:
    teacher, student = (TransformerEncoderForMaskedLM(config()) for _ in range(2))
    return Distilled(student, teacher, weights=DistillationWeights(attention=1.0))


def sentence_pairs() -> TransformerEncoderForPreTraining:
    settings = config()
    settings.head = replace(settings.head, pooler="tanh")
    return TransformerEncoderForPreTraining(settings)


@pytest.mark.parametrize("make", [distilled, lambda: ReplacedTokens(config()), sentence_pairs])
def test_four_batches_of_one_row_have_the_gradient_of_one_of_four(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses over the places of the whole step add up to its own loss; means of means are another number."""
    monkeypatch.setattr(  # the generator's draw, the same however rows are batched
        torch.distributions.Categorical, "sample", lambda self: self.logits.argmax(-1)
    )
    torch.manual_seed(0)
    model, whole = make().eval(), uneven()
    for parameter in model.parameters():  # the usual small ones make all losses alike
        torch.nn.init.normal_(parameter, std=0.5)
    if make is sentence_pairs:
        whole["next_sentence_label"] = torch.tensor([0, 1, 1, 0])
    rows = [{name: values[[row]] for name, values in whole.items()} for row in range(4)]
    counts = sum(model.scored_counts(**row) for row in rows)
    assert counts.tolist() == model.scored_counts(**whole).tolist()
    learns = [p for p in model.parameters() if p.requires_grad]
    loss = model(**whole).loss
    gradients = torch.autograd.grad(loss, learns)
    parts = [model(**row, num_items_in_batch=counts).loss for row in rows]
    assert sum(part.item() for part in parts) == pytest.approx(loss.item(), rel=1e-5)
    for found, expected in zip(torch.autograd.grad(sum(parts), learns), gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    means = sum(model(**row).loss.item() for row in rows) / 4
    assert means != pytest.approx(loss.item(), rel=1e-3)


def test_another_vocabulary_is_refused() -> None:
    models = [TransformerEncoderForMaskedLM(config(vocabulary=v)) for v in (20, 21)]
    with pytest.raises(ConfigError, match="20 and 21 ids"):
        Distilled(*models)


def test_auxiliary_losses_of_experts_are_in_both_objectives() -> None:
    """A weight of 1000 makes them the most of the loss: one layer of the student, one of each of ELECTRA's models."""
    mixture = config()
    mixture.feed_forward = FeedForwardConfig(size=32, experts=2, balance=1000.0)
    torch.manual_seed(0)
    student, teacher = TransformerEncoderForMaskedLM(mixture), TransformerEncoderForMaskedLM(config())
    for model, layers in ((Distilled(student, teacher), 1), (ReplacedTokens(mixture), 2)):
        output = model.train()(**batch())
        expected = float(output.auxiliary_loss.detach())
        assert 900 * layers < expected < 2000 * layers
        assert expected < float(output.loss.detach()) < expected + 200
        assert float(model.eval()(**batch()).loss.detach()) < 200
