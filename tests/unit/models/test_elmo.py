"""ELMo: against PyTorch's LSTM run by hand, padding, what each direction may see, training, probing, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForPreTraining

import workbench
import workbench.models.auto
from probes.features import extract
from tests.unit.tiny import WORDS, word_tokenizer
from workbench.cli import cli
from workbench.errors import ConfigError, ModelError, TraceError
from workbench.models import Kind
from workbench.models.ancestors.elmo import ElmoLanguageModel, neighbour_labels
from workbench.models.ancestors.elmo_configuration import ElmoConfig, ElmoDepthConfig, ElmoRecurrenceConfig
from workbench.models.presets import preset
from workbench.trace import stacks_of
from workbench.training.objectives import BidirectionalLM, Draw, SpecialIds, terms_of

IDS = torch.arange(4, 16).view(2, 6)
STATE = 8  # width of one direction


def elmo(*, units: int | None = 12, residual: bool = True, layers: int = 2) -> Any:
    torch.manual_seed(0)
    config = ElmoConfig(
        vocab_size=24,
        hidden_size=2 * STATE,
        recurrence=ElmoRecurrenceConfig(units=units, residual=residual),
        depth=ElmoDepthConfig(layers=layers),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.5,
    )
    return ElmoLanguageModel(config).eval()


def by_hand(lstm: nn.LSTM, vectors: Tensor, *, back: bool) -> Tensor:
    """States of PyTorch's module over vectors (T, E), read from the end where ``back``."""
    states, _ = lstm((vectors.flip(0) if back else vectors)[None])
    return states[0].flip(0) if back else states[0]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("units", [None, 12])
@pytest.mark.parametrize("residual", [False, True])
def test_states_are_those_of_two_lstms_one_of_them_reversed(units: int | None, residual: bool) -> None:
    model = elmo(units=units, residual=residual)
    output = model.model(IDS, output_hidden_states=True)
    for row, ids in enumerate(IDS):
        onward = back = model.model.tokens(ids)
        expected = [torch.cat((onward, back), -1)]
        for number, layer in enumerate(model.model.layers):
            found = by_hand(layer.to_right.recurrence, onward, back=False)
            turned = by_hand(layer.to_left.recurrence, back, back=True)
            adds = residual and number > 0
            onward, back = (found + onward, turned + back) if adds else (found, turned)
            expected.append(torch.cat((onward, back), -1))
        for hidden, wanted in zip(output.hidden_states, expected, strict=True):
            torch.testing.assert_close(hidden[row], wanted, atol=1e-5, rtol=1e-5)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left: bool) -> None:
    model, short = elmo(), IDS[:1, :4]
    padding = torch.full((1, 2), 9)
    row = torch.cat((padding, short) if left else (short, padding), 1)
    mask = torch.ones(2, 6, dtype=torch.long)
    mask[0, : 2 if left else None] = 0
    if not left:
        mask[0] = torch.tensor([1, 1, 1, 1, 0, 0])
    own = slice(2, 6) if left else slice(0, 4)
    together = model(torch.cat((row, IDS[1:])), attention_mask=mask)
    alone, other = model(short), model(IDS[1:])
    for name in ("logits", "backward_logits"):
        torch.testing.assert_close(together[name][0, own], alone[name][0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together[name][1], other[name][0], atol=1e-5, rtol=1e-5)


def test_neither_direction_sees_what_it_predicts() -> None:
    model = elmo(layers=3)
    vectors = model.get_input_embeddings()(IDS[:1]).detach().requires_grad_()
    output = model(inputs_embeds=vectors)
    for place in range(6):
        (seen,) = torch.autograd.grad(output.logits[0, place].sum(), vectors, retain_graph=True)
        assert seen[0, place + 1 :].abs().sum() == 0
        assert seen[0, : place + 1].abs().sum(-1).min() > 0
        (seen,) = torch.autograd.grad(output.backward_logits[0, place].sum(), vectors, retain_graph=True)
        assert seen[0, :place].abs().sum() == 0
        assert seen[0, place:].abs().sum(-1).min() > 0


def test_the_loss_is_the_sum_of_both_cross_entropies() -> None:
    model, labels = elmo(), IDS.clone()
    labels[0, 4:] = -100
    mask = (labels != -100).long()
    output = model(IDS, attention_mask=mask, labels=labels)
    onward, back = output.logits.log_softmax(-1), output.backward_logits.log_softmax(-1)
    lengths, losses = (4, 6), [0.0, 0.0]
    for row, length in enumerate(lengths):
        for place in range(length - 1):
            losses[0] -= float(onward[row, place, IDS[row, place + 1]].detach())
            losses[1] -= float(back[row, place + 1, IDS[row, place]].detach())
    assert float(output.loss.detach()) == pytest.approx(sum(losses) / 8, rel=1e-5)
    batch = {"input_ids": IDS, "attention_mask": mask, "labels": labels}
    assert model.scored_counts(**batch).tolist() == [8, 8]
    parts = {term.name: term.losses[term.scored].mean().item() for term in terms_of(model, batch, "")}
    assert parts == pytest.approx({"forward": losses[0] / 8, "backward": losses[1] / 8}, rel=1e-5)
    halves = [
        model(
            IDS[n : n + 1], mask[n : n + 1], labels=labels[n : n + 1], num_items_in_batch=torch.tensor([8, 8])
        ).loss
        for n in range(2)
    ]
    assert float(sum(halves).detach()) == pytest.approx(sum(losses) / 8, rel=1e-5)


def test_labels_beside_padding_on_the_left_are_not_scored() -> None:
    onward, back = neighbour_labels(torch.tensor([[-100, 5, 6, 7]]))
    assert onward.tolist() == [[-100, 6, 7, -100]]
    assert back.tolist() == [[-100, -100, 5, 6]]


def test_rows_stand_between_bos_and_eos() -> None:
    special = SpecialIds(vocab_size=24, pad=0, bos=1, eos=2, reserved=frozenset(range(4)))
    objective = BidirectionalLM(special, 8)
    assert objective.window == 6
    draws = [Draw(ids.numpy(), IDS[0, :1].numpy(), IDS[0, :0].numpy()) for ids in (IDS[0], IDS[1, :3])]
    batch = objective(draws)
    assert batch["input_ids"].tolist() == [[1, *IDS[0].tolist(), 2], [1, *IDS[1, :3].tolist(), 2, 0, 0, 0]]
    assert batch["labels"][1].tolist() == [1, *IDS[1, :3].tolist(), 2, -100, -100, -100]
    assert batch["attention_mask"].sum(1).tolist() == [8, 5]


def test_saved_loaded_and_refused_what_it_cannot_do(tmp_path: Path) -> None:
    model = elmo()
    model.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    whole = AutoModelForPreTraining.from_pretrained(tmp_path)
    assert torch.equal(whole(IDS).backward_logits, model(IDS).backward_logits)
    body = AutoModel.from_pretrained(tmp_path)
    assert torch.equal(body(IDS).last_hidden_state, model.model(IDS).last_hidden_state)
    loaded = workbench.load(str(tmp_path), device="cpu")
    assert loaded.kind is Kind.ENCODER
    with pytest.raises(
        ModelError, match="one probability after what stands before it and one before what follows"
    ):
        workbench.score(loaded, "the cat", " sat")
    with pytest.raises(TraceError, match="ElmoModel returns no attention weights"):
        workbench.trace(loaded, "the cat sat")
    assert stacks_of(loaded.model).layers == {"encoder": 2}


def test_its_layers_are_traced_and_probed(tmp_path: Path) -> None:
    elmo().save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    loaded = workbench.load(str(tmp_path), device="cpu")
    ids = torch.tensor([loaded.tokenizer("the cat sat").input_ids])
    expected = torch.stack(loaded.model(ids, output_hidden_states=True).hidden_states)[:, 0].detach()
    traced = workbench.trace(loaded, "the cat sat", record={"hidden"})
    torch.testing.assert_close(torch.tensor(traced[0].hidden), expected, atol=1e-6, rtol=1e-5)
    features = extract(loaded, ["the cat sat", "a key"], out=tmp_path / "features")
    assert features.layers == (0, 1, 2)
    torch.testing.assert_close(torch.tensor(features.layer(2)[:3]), expected[2], atol=1e-5, rtol=1e-4)


def test_finetuned_with_pooled_states(tmp_path: Path) -> None:
    """It has no classifier of its own: one that pools its states is put around it, saved and loaded with it."""
    elmo().save_pretrained(tmp_path / "elmo")
    word_tokenizer().save_pretrained(tmp_path / "elmo")
    rows = [{"text": text, "label": text[-3:]} for text in ("the cat", "the key", "a cat", "a key")] * 6
    options: Any = {"epochs": 6, "lr": 0.02, "batch_size": 8, "precision": "float32", "device": "cpu"}
    with pytest.raises(
        ModelError, match=r"no head for class; .* or any encoder with --pooling mean or attention"
    ):
        workbench.finetune(str(tmp_path / "elmo"), rows, tmp_path / "no", **options)
    run = workbench.finetune(str(tmp_path / "elmo"), rows, tmp_path / "out", pooling="attention", **options)
    assert run.results["rows"]["accuracy"].value == 1.0
    loaded = workbench.load(str(tmp_path / "out"), device="cpu")
    assert loaded.kind is Kind.CLASSIFIER
    assert type(loaded.model.model).__name__ == "ElmoModel"


def test_impossible_settings_are_one_line() -> None:
    with pytest.raises(ConfigError, match=r"hidden_size = 7 is not allowed; allowed: even"):
        ElmoConfig(hidden_size=7)
    with pytest.raises(ConfigError, match=r"recurrence.units = 3 is not allowed; allowed: none, or 4 ="):
        ElmoConfig(hidden_size=8, recurrence={"units": 3})
    with pytest.raises(ConfigError, match=r"depth.layers = 0 is not allowed; allowed: 1 or more"):
        ElmoConfig(depth={"layers": 0})


def test_the_preset_has_the_papers_sizes() -> None:
    """Two layers of 4096 units, 512 wide in each direction: Peters et al. 2018, section 3.4."""
    config = preset("elmo")
    assert (config.recurrence.units, config.direction_size, config.num_hidden_layers) == (4096, 512, 2)


def test_trained_by_the_command(tmp_path: Path) -> None:
    """Nine words in one order: both directions get below half the loss of a uniform guess."""
    corpus, out = tmp_path / "corpus.txt", tmp_path / "elmo"
    corpus.write_text((" ".join(WORDS[:9]) + " ") * 300)
    options = "--preset elmo-tiny --set width=64 --set recurrence.units=none --objective bidirectional-lm"
    options += " --tokenizer byte-bpe --vocab-size 290 --length 24 --steps 60 --batch-size 8 --lr 0.02"
    arguments = [*options.split(), "--corpus", str(corpus), "--out", str(out)]
    run = CliRunner().invoke(cli, ["train", *arguments, "--device", "cpu", "--report-to", "none"])
    assert run.exit_code == 0, run.output
    found = workbench.load(str(out), device="cpu")
    assert type(found.model).__name__ == "ElmoModel"
    results = workbench.runs.Run.open(out).results["training"]
    for direction in ("forward", "backward"):
        assert results[f"{direction}_loss"].value < math.log(290) / 2
    total = results["forward_loss"].value + results["backward_loss"].value
    assert results["loss"].value == pytest.approx(total, rel=1e-5)
