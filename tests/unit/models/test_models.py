"""The built-in models as transformers models: every variant runs, saves, generates, compiles and is observed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import workbench
from tests.helpers import REPOSITORY
from tests.unit.models.tiny import VARIANTS, encoder, encoder_decoder, fresh
from workbench.errors import ConfigError
from workbench.models.auto import AUTO_CLASSES, auto_class
from workbench.models.encoder_decoder import shift_right
from workbench.models.size import language_model_class
from workbench.nn import eager_attention

GENERATING = [
    name for name in VARIANTS if not name.startswith("encoder") or name.startswith("encoder-decoder")
]


def build(name: str, backend: str = "eager") -> Any:
    torch.manual_seed(0)
    config = fresh(name)
    model = language_model_class(config)(config)
    model.set_attn_implementation(backend)
    return model.eval()


def inputs(model: Any, mask: list[list[int]] | None = None) -> dict[str, Tensor]:
    ids = torch.arange(3, 15).view(2, 6)
    batch = {"input_ids": ids, "attention_mask": torch.tensor(mask or [[1] * 6] * 2)}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = ids[:, :4]
    return batch


@pytest.mark.parametrize("name", VARIANTS)
def test_eager_and_fused_agree(name: str) -> None:
    mask = [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]]
    eager, fused = build(name), build(name, "sdpa")
    fused.load_state_dict(eager.state_dict())
    batch = inputs(eager, mask)
    kept = batch["attention_mask"].bool() if "decoder_input_ids" not in batch else torch.ones(2, 4).bool()
    torch.testing.assert_close(eager(**batch).logits[kept], fused(**batch).logits[kept], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_text_of_padding_only_gives_no_nan(name: str, backend: str) -> None:
    model = build(name, backend)
    assert model(**inputs(model, [[0] * 6, [1] * 6])).logits.isfinite().all()


@pytest.mark.parametrize("name", VARIANTS)
def test_backward_reaches_every_weight(name: str) -> None:
    """Except the branches behind ReZero's and Fixup's zeros, and BERT's unused second segment."""
    model = build(name).train()
    batch = inputs(model)
    batch["labels"] = batch.get("decoder_input_ids", batch["input_ids"])
    model(**batch).loss.backward()
    if model.config.norm.residual_scale == "none":
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", GENERATING)
def test_generation_with_a_cache_equals_without(name: str) -> None:
    model = build(name)
    batch = {
        k: v for k, v in inputs(model, [[0, 0, 1, 1, 1, 1], [1] * 6]).items() if k != "decoder_input_ids"
    }
    settings = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    with_cache = model.generate(**batch, use_cache=True, **settings)
    assert torch.equal(with_cache, model.generate(**batch, use_cache=False, **settings))


@pytest.mark.parametrize("name", ["learned", "encoder-decoder"])
def test_a_cache_by_its_older_name(name: str) -> None:
    """The last token after a cache of the others, given as ``past_key_values``, scores as in one pass."""
    model = build(name)
    batch = inputs(model)
    ids = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    rest = {k: v for k, v in batch.items() if k != ids}
    past = model(**rest, **{ids: batch[ids][:, :-1]}, use_cache=True).past_key_values
    step = {**rest, ids: batch[ids][:, -1:], "past_key_values": past}
    with pytest.raises(ConfigError, match="cache and past_key_values are two names"):
        model(**step, cache=past)
    after = model(**step, use_cache=True)
    torch.testing.assert_close(after.logits, model(**batch).logits[:, -1:], atol=1e-5, rtol=1e-5)
    assert after.past_key_values.get_seq_length() == batch[ids].shape[1]


@pytest.mark.parametrize(
    "name", ["learned", "rotary interleaved", "relative", "local and global", "encoder", "encoder-decoder"]
)
@pytest.mark.parametrize("padded", [False, True])
def test_compiles_without_graph_breaks(name: str, padded: bool) -> None:
    model = build(name, "sdpa")
    batch = inputs(model, [[1] * 6, [1, 1, 1, 1, 0, 0]] if padded else None)
    if not padded:
        del batch["attention_mask"]
    torch._dynamo.reset()  # models of one class share a limited number of compilations
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(**batch).logits, model(**batch).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["learned", "encoder", "encoder-decoder", "shared layers"])
def test_saved_and_loaded_by_the_auto_classes(name: str, tmp_path: Path) -> None:
    model = build(name)
    model.save_pretrained(tmp_path)
    assert [p.suffix for p in tmp_path.iterdir() if p.stat().st_size > 5000] == [".safetensors"]
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is type(model.config)
    loaded = type(model).from_pretrained(tmp_path, attn_implementation="eager")
    assert torch.equal(loaded(**inputs(model)).logits, model(**inputs(model)).logits)
    body = AutoModel.from_pretrained(tmp_path)
    assert type(body) is type(model.model)


@pytest.mark.parametrize("shape", AUTO_CLASSES, ids=lambda c: c.model_type)
def test_every_registered_class_is_built_from_its_config(shape: Any) -> None:
    transformer_shapes = ("encoder", "learned", "encoder-decoder")
    tiny = {type(fresh(name)): fresh(name) for name in transformer_shapes}
    config = tiny.get(shape) or shape(vocab_size=20, hidden_size=8)
    for auto, expected in AUTO_CLASSES[shape].items():
        assert type(auto_class(auto).from_config(config)) is expected


def test_an_observer_in_the_registry_sees_every_layer() -> None:
    """Each module names its layer; the mask carries the position bias; weights come back as attentions."""
    seen: list[tuple[int, bool, tuple[int, ...]]] = []

    def observer(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        seen.append((module.layer_idx, module.is_causal, tuple(query.shape)))
        return eager_attention(module, query, key, value, mask, **options)

    AttentionInterface.register("test-observer", observer)
    AttentionMaskInterface.register("test-observer", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    try:
        model, plain = build("shared layers", "test-observer"), build("shared layers")
        output = model(**inputs(model), output_attentions=True)
        expected = plain(**inputs(plain), output_attentions=True)
    finally:
        ALL_ATTENTION_FUNCTIONS._global_mapping.pop("test-observer")
        ALL_MASK_ATTENTION_FUNCTIONS._global_mapping.pop("test-observer")
    assert seen == [(layer, True, (2, 4, 6, 4)) for layer in range(4)]
    torch.testing.assert_close(output.attentions, expected.attentions)


def test_attention_that_is_asked_for_and_not_told_is_said() -> None:
    model = build("shared layers", "sdpa")
    with pytest.warns(UserWarning, match="'sdpa' tells no weights"):
        assert model(**inputs(model), output_attentions=True).attentions == ()


@pytest.mark.parametrize("name", ["learned", "encoder", "encoder-decoder"])
def test_embeddings_in_place_of_ids(name: str) -> None:
    model = build(name)
    batch = inputs(model)
    expected = model(**batch).logits
    batch["inputs_embeds"] = model.get_input_embeddings()(batch.pop("input_ids"))
    torch.testing.assert_close(model(**batch).logits, expected)
    with pytest.raises(ConfigError, match="exactly one"):
        model(input_ids=torch.ones(1, 2, dtype=torch.long), **batch)


@pytest.mark.parametrize("name", ["learned", "encoder-decoder"])
def test_recomputing_activations_changes_no_gradient(name: str) -> None:
    gradients = []
    for recompute in (False, True):
        model = build(name).train()
        if recompute:
            model.activation_checkpointing_enable()
        batch = inputs(model)
        batch["labels"] = batch.get("decoder_input_ids", batch["input_ids"])
        model(**batch).loss.backward()
        gradients.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_tuples_on_request() -> None:
    model = build("learned")
    output = model(**inputs(model), return_dict=False, use_cache=False)
    assert isinstance(output, tuple)
    assert torch.equal(output[0], model(**inputs(model)).logits)


def test_accumulated_loss_is_a_sum_over_the_count_given() -> None:
    model = build("learned")
    ids = inputs(model)["input_ids"]
    mean = model(input_ids=ids, labels=ids).loss  # 2 texts of 5 predicted tokens
    summed = model(input_ids=ids, labels=ids, num_items_in_batch=20).loss
    torch.testing.assert_close(summed, mean * 10 / 20)


def test_cross_attention_needs_a_source() -> None:
    config = encoder_decoder()
    decoder = AutoModel.from_config(config).decoder
    with pytest.raises(ConfigError, match="encoder_hidden_states = None"):
        decoder(input_ids=torch.ones(1, 2, dtype=torch.long))


def test_too_long_a_text_is_refused() -> None:
    model = build("learned")
    with pytest.raises(ConfigError, match="13 tokens"):
        model(input_ids=torch.ones(1, 13, dtype=torch.long))


def test_shifting_right() -> None:
    labels = torch.tensor([[5, 6, -100]])
    assert shift_right(labels, 1, 0).tolist() == [[1, 5, 6]]
    assert shift_right(torch.tensor([[5, -100, 7]]), 1, 0).tolist() == [[1, 5, 0]]
    with pytest.raises(ConfigError, match="decoder_start_token_id"):
        shift_right(labels, None, 0)


def test_multiple_choice_scores_each_choice_alone() -> None:
    model = AUTO_CLASSES[type(encoder())]["AutoModelForMultipleChoice"](encoder()).eval()  # type: ignore[call-arg]
    ids = torch.arange(3, 27).view(2, 3, 4)
    output = model(input_ids=ids, labels=torch.tensor([0, 2]))
    one = model(input_ids=ids[1:, 1:2])
    torch.testing.assert_close(output.logits[1, 1], one.logits[0, 0])
    expected = torch.nn.functional.cross_entropy(output.logits, torch.tensor([0, 2]))
    torch.testing.assert_close(output.loss, expected)


def test_what_ends_a_branch_starts_smaller() -> None:
    """0.02 / √(2 layers), layers = 2, over 256 weights of the two attention outputs."""
    layers = build("learned").model.stack.layers
    weights = torch.stack([layer.attention.output.weight for layer in layers])
    assert float(weights.std().detach()) == pytest.approx(0.01, rel=0.1)


def test_fixup_begins_branches_smaller() -> None:
    """0.02 / √(2 layers · 2 branches) for values and the first feed-forward matrix, 0 for what ends a branch."""
    for layer in build("post, no norm, fixup").model.stack.layers:
        for weight in (layer.attention.value.weight, layer.feed_forward.up.weight):
            assert float(weight.std().detach()) == pytest.approx(0.01, rel=0.15)
        assert float(layer.attention.query.weight.std().detach()) == pytest.approx(0.02, rel=0.15)
        assert not layer.attention.output.weight.any()
        assert not layer.feed_forward.down.weight.any()


def test_fixup_and_rezero_start_as_the_identity() -> None:
    """Hidden states leave each block as they entered it."""
    for name in ("sandwich, rezero", "post, no norm, fixup"):
        model = build(name)
        states = model.model(**inputs(model), output_hidden_states=True).hidden_states
        torch.testing.assert_close(states[1], states[0])


def test_the_documented_import_makes_the_auto_classes_know_our_models() -> None:
    """In a fresh process, for in this one other tests have registered them."""
    folder = Path(workbench.__file__).parent / "models" / "bundled" / "novels-decoder"
    code = (
        "import workbench.models.auto\n"
        "from transformers import AutoModelForCausalLM as M\n"
        f"print(type(M.from_pretrained({str(folder)!r})).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["TransformerDecoderForCausalLM"]
    documented = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    assert "after `import workbench.models.auto`\nso does `AutoModel….from_pretrained(DIR)`" in documented
