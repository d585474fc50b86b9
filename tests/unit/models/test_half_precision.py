"""Models whose layers add up probabilities or pool tokens, in bfloat16 and with autocast."""

from __future__ import annotations

import pytest
import torch

from tests.unit.models.tiny import VARIANTS, fresh
from workbench.models.size import language_model_class

NAMES = ["switch", "mixture of experts", "universal", "encoder, funnel"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("autocast", [True, False])
def test_losses_are_those_of_float32_within_rounding(name: str, autocast: bool) -> None:
    assert name in VARIANTS
    config = fresh(name)
    torch.manual_seed(0)
    model = language_model_class(config)(config).train()
    for module in model.modules():
        if hasattr(module, "capacity_factor"):  # routes may differ by rounding, noise does
            module.capacity_factor, module.noise = None, None
    ids = torch.arange(3, 15).view(2, 6)
    expected = float(model(input_ids=ids, labels=ids).loss.detach())
    if autocast:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
    else:
        loss = model.bfloat16()(input_ids=ids, labels=ids).loss
    loss.backward()
    assert float(loss.detach()) == pytest.approx(expected, rel=0.01)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
