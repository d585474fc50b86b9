"""Each check catches the fault that it is there for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from tokenizers import decoders
from transformers.models.llama import modeling_llama

from tests.unit.doctor import models
from workbench.evaluate.doctor import Check, examine
from workbench.models import Kind, LoadedModel


def failures(subject: LoadedModel) -> dict[str, Check]:
    return {check.name: check for check in examine(subject).checks if check.status == "fail"}


class PaddingBlindLlama(transformers.LlamaForCausalLM):
    """Reads padding as text."""

    def forward(self, attention_mask: Any = None, **inputs: Any) -> Any:
        return super().forward(**inputs)


class PaddingBlindBert(transformers.BertForMaskedLM):
    """Reads padding as text."""

    def forward(self, attention_mask: Any = None, position_ids: Any = None, **inputs: Any) -> Any:
        return super().forward(position_ids=position_ids, **inputs)


class ForgetfulLlama(transformers.LlamaForCausalLM):
    """Believes that every cached step is at position 0."""

    def forward(self, cache: Any = None, position_ids: Any = None, **inputs: Any) -> Any:
        if cache is not None and cache.get_seq_length():
            position_ids = torch.zeros(1, 1, dtype=torch.long)
        return super().forward(cache=cache, position_ids=position_ids, **inputs)


def test_padding_read_as_text_on_the_left() -> None:
    # On the right a causal model never sees the padding.
    assert set(failures(models.llama(PaddingBlindLlama))) == {"left_padding"}


def test_padding_read_as_text_by_a_two_sided_model() -> None:
    """Nothing that is used fails: padding is seen to matter, and texts are read with others of their length only."""
    subject = models.bert(PaddingBlindBert)
    assert set(failures(subject)) == set()
    checks = {check.name: check for check in examine(subject).checks}
    for name in ("left_padding", "right_padding"):
        assert checks[name].status == "skip"
        assert "only texts of one length share a batch" in checks[name].detail


def test_look_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_llama, "create_causal_mask", lambda **inputs: None)
    subject = models.llama()
    for layer in subject.model.model.layers:
        layer.self_attn.is_causal = False
    found = failures(subject)
    assert {"causal_attention", "causal_outputs", "cached_generation", "left_padding"} <= set(found)
    assert 0 < found["causal_attention"].value <= 1  # an attention weight


def test_rows_of_one_batch_influence_each_other() -> None:
    subject = models.llama()
    subject.model.lm_head.register_forward_hook(lambda module, inputs, out: out + out.mean(0, keepdim=True))
    assert "batch_size" in failures(subject)


def test_eager_with_another_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = modeling_llama.eager_attention_forward

    def twice_the_scale(module: Any, *states: Any, scaling: float, **options: Any) -> Any:
        return eager(module, *states, scaling=2 * scaling, **options)

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", twice_the_scale)
    assert set(failures(models.llama())) == {"eager_equals_sdpa"}


def test_attention_rows_of_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = modeling_llama.eager_attention_forward

    def heavier(*states: Any, **options: Any) -> Any:
        output, weights = eager(*states, **options)
        return output, 1.25 * weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", heavier)
    found = failures(models.llama())
    assert set(found) == {"attention_rows"}
    assert found["attention_rows"].value == pytest.approx(0.25, abs=1e-5)


def test_tokenizer_that_adds_bos_twice() -> None:
    found = failures(models.llama(tokenizer=models.byte_tokenizer("<s> <s> $A")))
    assert set(found) == {"bos_once"}
    assert found["bos_once"].value == 2


def test_tokenizer_that_adds_cls_twice() -> None:
    sound = models.bert()
    found = failures(models.loaded(sound.model, Kind.MASKED, models.byte_tokenizer("<s> <s> $A")))
    assert set(found) == {"bos_once"}


def test_tokenizer_with_ids_beyond_the_embeddings() -> None:
    tokenizer = models.byte_tokenizer()
    tokenizer.add_tokens(["<new>"])
    found = failures(models.llama(tokenizer=tokenizer))
    assert set(found) == {"vocabulary_fits"}
    assert found["vocabulary_fits"].value == len(models.VOCABULARY)
    assert found["vocabulary_fits"].tolerance == len(models.VOCABULARY) - 1


def test_tokenizer_that_gives_back_other_letters() -> None:
    tokenizer = models.byte_tokenizer()
    swap = decoders.Replace("a", "e")
    tokenizer.backend_tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), swap])
    found = failures(models.llama(tokenizer=tokenizer))
    assert set(found) == {"round_trip"}
    assert "'The cet set on the met.'" in found["round_trip"].detail


def test_broken_cache() -> None:
    assert set(failures(models.llama(ForgetfulLlama))) == {"cached_generation"}


def test_nan_weights_fail_in_one_line_and_the_other_checks_still_run() -> None:
    subject = models.llama()
    torch.nn.init.constant_(subject.model.lm_head.weight, float("nan"))
    report = examine(subject)
    statuses = {check.name: check.status for check in report.checks}
    detail = {check.name: check.detail for check in report.checks}
    assert report.verdict == "fail"
    assert detail["finite_outputs"] == "the model gives NaN or infinite outputs"
    assert (
        statuses["probabilities_sum"]
        == statuses["gradient"]
        == statuses["scorer_log_probabilities"]
        == "fail"
    )
    # None of these looks at logits.
    assert statuses["attention_rows"] == statuses["causal_attention"] == statuses["round_trip"] == "pass"
    assert not any("Traceback" in line or "\n" in line for line in detail.values())
    assert next(c for c in report.to_dict()["checks"] if c["name"] == "finite_outputs")["value"] is None


def test_head_that_depends_on_where_it_is_applied() -> None:
    """The scorer projects single positions, so a head that counts them gives it other logits."""
    subject = models.llama()

    def count_positions(module: Any, inputs: Any, out: torch.Tensor) -> torch.Tensor:
        return out * torch.arange(1, out.shape[-2] + 1)[:, None]

    subject.model.lm_head.register_forward_hook(count_positions)
    assert "scorer_log_probabilities" in failures(subject)


@pytest.mark.parametrize("make", [models.bert, models.t5])
def test_scores_of_other_kinds_are_those_of_the_head_where_the_token_stands(make: Any) -> None:
    """The same fault in a masked model and in a decoder behind an encoder."""
    subject = make()

    def count_positions(module: Any, inputs: Any, out: torch.Tensor) -> torch.Tensor:
        return out * torch.arange(1, out.shape[-2] + 1)[:, None]

    subject.model.get_output_embeddings().register_forward_hook(count_positions)
    assert "scorer_log_probabilities" in failures(subject)


@pytest.mark.parametrize("make", [models.roberta, models.gpt2, models.bart])
def test_length_that_the_position_table_does_not_hold(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of all three hold at most 64 tokens."""
    monkeypatch.setattr(LoadedModel, "max_length", 65)
    found = failures(make())
    assert set(found) == {"longest_text"}
    assert "Error: " in found["longest_text"].detail


def test_gradient_cut_at_the_embeddings() -> None:
    subject = models.llama()
    subject.model.model.embed_tokens.register_forward_hook(lambda module, inputs, out: out.detach())
    found = failures(subject)
    assert set(found) == {"gradient"}
    assert found["gradient"].detail == "no gradient reaches the embeddings: the graph is broken"


def test_gradient_cut_in_one_layer() -> None:
    subject = models.llama()
    subject.model.model.layers[1].mlp.register_forward_hook(lambda module, inputs, out: out.detach())
    found = failures(subject)
    assert set(found) == {"gradient"}
    assert found["gradient"].value > found["gradient"].tolerance
