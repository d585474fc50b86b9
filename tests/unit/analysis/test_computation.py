"""Use of experts against the routers' own outputs, one text at a time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import workbench
from workbench.analysis.computation import expert_use, halting_steps, steps_of_tokens
from workbench.cli.models import command
from workbench.errors import TraceError
from workbench.models import LoadedModel, wrap
from workbench.models.presets import model_class, preset
from workbench.nn import Router

TEXTS = ["The boys at home were here.", "She was", "The keys to the cabinet are on the old table."]


def built(name: str) -> LoadedModel:
    torch.manual_seed(0)
    config = preset(name)
    config.hidden_size = 32
    config.vocab_size = 8192
    config.bos_token_id, config.eos_token_id = 1, 2
    return wrap(model_class(name)(config).eval(), workbench.load("novels-decoder").tokenizer, name=name)


def test_expert_use_is_what_the_routers_choose() -> None:
    model = built("mixture-tiny")
    chosen: dict[int, list[Counter[int]]] = {}
    sums: dict[int, torch.Tensor] = {}
    handles = []
    for layer, block in enumerate(model.model.model.stack.layers):

        def note(module: Router, given: object, found: object, layer: int = layer) -> None:
            chosen.setdefault(layer, []).append(Counter(found.experts.flatten().tolist()))  # type: ignore[attr-defined]
            sums[layer] = sums.get(layer, torch.zeros(8)) + found.probabilities.sum((0, 1))  # type: ignore[attr-defined]

        handles.append(block.router.register_forward_hook(note))
    tokens = 0
    with torch.no_grad():
        for text in TEXTS:
            ids = torch.tensor([model.read(text).ids])
            tokens += ids.shape[1]
            model.model(ids)
    for handle in handles:
        handle.remove()
    use = expert_use(model, TEXTS, batch_size=2)
    for layer in range(4):
        total = sum(chosen[layer], Counter())
        shares = np.array([total[n] / (2 * tokens) for n in range(8)])
        np.testing.assert_allclose(use.share.values[layer], shares)
        assert use.entropy.values[layer] == pytest.approx(-sum(p * np.log(p) for p in shares if p))
        expected = 8 * float((shares * (sums[layer].numpy() / tokens)).sum())
        assert use.balance_loss.values[layer] == pytest.approx(expected, rel=1e-5)
    assert use.share.standard_error is not None
    assert list(use.to_frame().columns[:3]) == ["layer", "entropy", "balance loss"]


def test_layers_without_experts_are_left_out_and_other_models_refused() -> None:
    assert expert_use(built("switch-tiny"), TEXTS[:1]).share.labels["layer"] == (1, 3)
    with pytest.raises(TraceError, match="novels-decoder has no experts"):
        expert_use(workbench.load("novels-decoder"), TEXTS)


def test_steps_of_halting_positions() -> None:
    """The steps that the body tells, one text at a time."""
    model = built("universal-tiny")
    halting = model.model.model.encoder.stack.halting
    torch.nn.init.normal_(halting.probability.weight, std=1.0)
    steps: list[int] = []
    for text in TEXTS:
        with torch.no_grad():
            output = model.model.model.encoder(torch.tensor([model.read(text).ids]))
        steps += output.steps[0].tolist()
        assert steps_of_tokens(model, text).values.tolist() == output.steps[0].tolist()
    found = halting_steps(model, TEXTS, batch_size=2)
    assert len(set(steps)) > 1
    np.testing.assert_allclose(found.values, [steps.count(n) / len(steps) for n in range(1, 7)])
    assert found.note == f"{np.mean(steps):.2f} steps on average"
    with pytest.raises(TraceError, match="no position of mixture-tiny halts early"):
        halting_steps(built("mixture-tiny"), TEXTS)


def test_the_command_prints_the_table(tmp_path: Path) -> None:
    model = built("switch-tiny")
    model.model.save_pretrained(tmp_path / "switch")
    model.tokenizer.save_pretrained(tmp_path / "switch")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    arguments = ["computation", str(tmp_path / "switch"), str(tmp_path / "texts.txt"), "--json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)["rows"]
    use = expert_use(model, TEXTS)
    assert [row["layer"] for row in rows] == [1, 3]
    assert [row["expert 5"] for row in rows] == pytest.approx(use.share.values[:, 5].tolist())
