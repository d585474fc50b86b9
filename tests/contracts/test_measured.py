"""Whether models look ahead and how long a text they take, over all families, against plain forward passes."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
import torch
import transformers

import workbench
from tests.parity import defaults
from workbench.errors import DataError, ModelError, WorkbenchWarning
from workbench.models import Kind
from workbench.scoring import Engine, Request, Seq2SeqEngine, pseudo_log_likelihood
from workbench.trace import trace
from workbench.trace.structure import call_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

# Every table of positions in a configuration, made small; windows must fit into it.
_TABLES = {
    "max_position_embeddings": 40, "n_positions": 40, "max_seq_len": 40, "attention_window": 8,
    "max_encoder_position_embeddings": 40, "max_decoder_position_embeddings": 32,
}  # fmt: skip


def _short(family: defaults.Architecture) -> Any:
    default = transformers.AutoConfig.for_model(family.model_type)
    known = {*vars(default), *type(default).attribute_map}
    tables: dict[str, Any] = {name: size for name, size in _TABLES.items() if name in known}
    tables |= {"attention_window": [8, 8]} if "attention_window" in tables else {}
    return defaults.config_of(family, **tables)


def _reads(model: Any, length: int, target: int = 2) -> bool:
    """Whether the body reads so many tokens, ids 5, 6, 5, … (none of them padding)."""
    ids = torch.tensor([[5 + i % 2 for i in range(length)]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[5 + i % 2 for i in range(target)]])
    try:
        with torch.no_grad():
            call_model(model.base_model, **inputs)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("family", defaults.FAMILIES, ids=lambda family: family.model_type)
def test_the_longest_text_is_read_and_a_longer_one_is_not_where_a_table_ends(
    family: defaults.Architecture,
) -> None:
    config = _short(family)
    model = defaults.loaded(
        defaults.build(config, family.auto),
        defaults.KINDS[family.auto],
        defaults.tokenizer_for(config, family.auto),
    )
    longest, longest_target = model.max_length, model.max_target_length
    assert longest >= 32
    assert _reads(model.model, longest)
    assert _reads(model.model, 5, longest_target)
    stated = config.get_text_config()
    stated = getattr(stated, "max_position_embeddings", None) or getattr(stated, "n_positions", None) or 0
    if longest < stated:
        assert not _reads(model.model, longest + 1)
    if longest_target < longest:
        assert not _reads(model.model, 5, longest_target + 1)


# Positions of these start after the padding id 1, those of BART and OPT in the third row of a table that has two more.
@pytest.mark.parametrize(
    ("model_type", "longest"),
    [
        ("roberta", 38), ("xlm-roberta", 38), ("camembert", 38), ("mpnet", 38), ("longformer", 38), ("luke", 38),
        ("data2vec-text", 38), ("ibert", 38), ("bert", 40), ("gpt2", 40), ("gptj", 40), ("ctrl", 40), ("opt", 40),
        ("bart", 40), ("pegasus", 40), ("marian", 40), ("deberta-v2", 40), ("llama", 40), ("led", 40),
    ],
)  # fmt: skip
def test_lengths_by_hand(model_type: str, longest: int) -> None:
    family = next(family for family in defaults.FAMILIES if family.model_type == model_type)
    config = _short(family)
    model = defaults.loaded(defaults.build(config, family.auto), defaults.KINDS[family.auto], None)
    assert model.max_length == longest


def test_a_text_of_exactly_the_longest_length_is_scored_and_a_longer_one_refused_or_truncated() -> None:
    """MPNet with 40 rows of positions reads 38 tokens, [CLS] and [SEP] among them; GPT-2 reads 40."""
    mpnet, gpt2 = (_loaded(name) for name in ("mpnet", "gpt2"))
    (score,) = pseudo_log_likelihood(mpnet, ["cat " * 36])
    assert score.tokens == 36
    with pytest.raises(DataError, match="has 39 tokens; mpnet reads at most 38"):
        pseudo_log_likelihood(mpnet, ["cat " * 37])
    exact, longer = Engine(gpt2).score([Request("cat " * 40, "dog"), Request("dog " + "cat " * 40, "dog")])
    assert (exact.truncated, longer.truncated) == (0, 1)
    assert exact.log_probability == pytest.approx(longer.log_probability, abs=1e-6)
    with pytest.warns(WorkbenchWarning, match="1 token truncated"):
        recorded = trace(mpnet, ["cat " * 37], {"hidden"})
    assert len(recorded.texts[0].tokens) == 38


def test_an_encoder_decoder_refuses_sources_and_targets_beyond_its_tables() -> None:
    """LED with 40 rows for sources and 32 for targets: 39 words and </s>; a start token and 31 words."""
    led = _loaded("led")
    source, target = "cat " * 39, "cat " * 32
    (score,) = Seq2SeqEngine(led).score([Request(source, target)])
    assert score.tokens == 32
    with pytest.raises(DataError, match=r"source .* has 41 tokens to read; led reads at most 40"):
        Seq2SeqEngine(led).score([Request(source + "cat", target)])
    with pytest.raises(DataError, match=r"target .* has 33 tokens to read; led reads at most 32"):
        Seq2SeqEngine(led).score([Request(source, target + "cat")])


def _loaded(model_type: str) -> Any:
    family = next(family for family in defaults.FAMILIES if family.model_type == model_type)
    config = _short(family)
    tokenizer = defaults.tokenizer_for(config, family.auto)
    return defaults.loaded(defaults.build(config, family.auto), defaults.KINDS[family.auto], tokenizer)


@pytest.mark.parametrize(
    "family",
    [family for family in defaults.FAMILIES if family.auto != "AutoModelForSeq2SeqLM"],
    ids=lambda family: family.model_type,
)
def test_masked_families_look_ahead_and_causal_ones_do_not(family: defaults.Architecture) -> None:
    """The class says which is which, but for XLNet and BERT's generator, which see the whole text."""
    model = defaults.build(defaults.config_of(family), family.auto)
    both_sides = family.auto == "AutoModelForMaskedLM" or family.model_type in {"xlnet", "bert-generation"}
    assert defaults.loaded(model, Kind.CAUSAL, None).looks_ahead is both_sides


# What is saved, and what it is: XLM's language-model class serves both of its kinds of training.
@pytest.mark.parametrize(
    ("model_type", "auto", "changes", "kind"),
    [
        ("xlm", "AutoModelForMaskedLM", {}, Kind.MASKED),
        ("xlm", "AutoModelForMaskedLM", {"causal": True}, Kind.CAUSAL),
        ("flaubert", "AutoModelForMaskedLM", {}, Kind.MASKED),
        ("flaubert", "AutoModelForMaskedLM", {"causal": True}, Kind.CAUSAL),
        ("bert", "AutoModelForCausalLM", {}, Kind.MASKED),
        ("bert", "AutoModelForCausalLM", {"is_decoder": True}, Kind.CAUSAL),
        ("electra", "AutoModelForCausalLM", {}, Kind.MASKED),
        ("roberta", "AutoModelForCausalLM", {}, Kind.MASKED),
        ("gpt2", "AutoModelForCausalLM", {}, Kind.CAUSAL),
    ],
)
def test_the_kind_of_a_loaded_model_is_measured(
    model_type: str, auto: str, changes: dict[str, Any], kind: Kind
) -> None:
    model = _saved_and_loaded(model_type, auto, changes)
    assert model.kind is kind
    if kind is Kind.MASKED:
        assert len(pseudo_log_likelihood(model, ["the cat sat"])[0].token_ids) == 3


@pytest.mark.parametrize(
    ("model_type", "auto"),
    [("big_bird", "AutoModelForMaskedLM"), ("bigbird_pegasus", "AutoModelForSeq2SeqLM")],
)
def test_a_short_text_does_not_change_how_a_long_one_is_read(model_type: str, auto: str) -> None:
    """Against transformers' model with the same weights that has read nothing else."""
    changes = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}
    short, long = (torch.arange(n)[None] % 7 + 4 for n in (6, 40))
    read = _saved_and_loaded(model_type, auto, changes).model
    fresh = type(read)(read.config).eval()
    fresh.load_state_dict(read.state_dict())
    with torch.no_grad():
        expected = _first_output(fresh, long)
        _first_output(read, short)
        found = _first_output(read, long)
    assert torch.equal(found, expected)


def test_xlnet_is_loaded_as_an_encoder_and_refused_as_a_causal_model_in_one_line() -> None:
    with pytest.warns(WorkbenchWarning, match="XLNetLMHeadModel sees the whole text"):
        model = _saved_and_loaded("xlnet", "AutoModelForCausalLM", {})
    assert (model.kind, model.max_length) == (Kind.ENCODER, 2048)
    assert trace(model, ["the cat sat"], {"attention"}).texts[0].attention.shape[0] == 2
    with pytest.raises(ModelError, match=r"needs a causal model.*in an order it is given") as refused:
        Engine(model)
    assert "\n" not in str(refused.value)


def test_prophetnets_targets_are_refused() -> None:
    """A later token of the target moves its logits at earlier ones; no other encoder-decoder's."""
    with pytest.raises(ModelError, match="changes with later tokens of the target"):
        Seq2SeqEngine(_loaded("prophetnet"))
    assert not any(_loaded(name).looks_ahead for name in ("bart", "t5", "led", "m2m_100", "bigbird_pegasus"))


def test_a_model_wrapped_as_causal_that_sees_both_sides_is_refused() -> None:
    bert = _loaded("bert")
    wrapped = defaults.loaded(bert.model, Kind.CAUSAL, bert.tokenizer)
    with pytest.raises(ModelError, match="sees both sides"):
        Engine(wrapped)


def _first_output(model: Any, ids: torch.Tensor) -> torch.Tensor:
    target = {"decoder_input_ids": ids[:, :3]} if model.config.is_encoder_decoder else {}
    logits: torch.Tensor = model(input_ids=ids, **target).logits
    return logits


def _saved_and_loaded(model_type: str, auto: str, changes: dict[str, Any]) -> Any:
    family = next(family for family in defaults.FAMILIES if family.model_type == model_type)
    config = defaults.config_of(family, **changes)
    with tempfile.TemporaryDirectory() as folder:
        defaults.build(config, auto).save_pretrained(folder)
        defaults.tokenizer_for(config, "AutoModelForMaskedLM").save_pretrained(folder)
        return workbench.load(folder, device="cpu", dtype="float32")
