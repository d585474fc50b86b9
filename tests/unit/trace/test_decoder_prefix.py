"""What a decoder reads before a target is one thing for scores, traces, explanations, lenses and generation.

Expected values come from a loop over plain forward passes of transformers (tests/plain_scores.py), and the places of
language tokens from the formats that the models' documentation gives.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import workbench
from tests.plain_scores import plain_target_scores
from tests.unit.trace.tiny import SIZE, WORDS, build, loaded
from workbench.analysis.generation import generate_steps
from workbench.analysis.lens import logit_lens
from workbench.analysis.patching import patch_pair
from workbench.models import Kind, LoadedModel
from workbench.scoring import GenerationRequest, Request, Seq2SeqEngine, generate_texts
from workbench.trace import trace
from workbench.trace.decoder import decoder_prefix

SOURCE, TARGET = "the cat sat on the mat", "a dog ran"
START, FORCED = 3, 2  # ids of [SEP] and [CLS]


def bart(**changes: Any) -> LoadedModel:
    config = transformers.BartConfig(
        vocab_size=SIZE,
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=40,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        **changes,
    )
    model = loaded(build("AutoModelForSeq2SeqLM", config), Kind.SEQ2SEQ, special=True)
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.tokenizer.eos_token = "[SEP]"
    return model


def forced(model: LoadedModel | None = None) -> LoadedModel:
    model = model or bart()
    model.model.generation_config.forced_bos_token_id = FORCED
    return model


def ids_of(model: LoadedModel, text: str, special: bool = False) -> list[int]:
    found: list[int] = model.tokenizer(text, add_special_tokens=special).input_ids
    return found


def hand(model: LoadedModel, target: list[int], prefix: tuple[int, ...] = (START, FORCED)) -> list[float]:
    return plain_target_scores(model.model, ids_of(model, SOURCE, special=True), prefix, target)


def greedy(model: LoadedModel, count: int) -> list[int]:
    """What the loop over plain passes generates behind the prefix."""
    found: list[int] = []
    source = torch.tensor([ids_of(model, SOURCE, special=True)])
    for _ in range(count):
        read = torch.tensor([[START, FORCED, *found]])
        with torch.no_grad():
            logits = model.model(input_ids=source, decoder_input_ids=read, use_cache=False).logits
        found.append(int(logits[0, -1].argmax()))
        if found[-1] == model.tokenizer.eos_token_id:
            break
    return found


def from_folder(folder: Path) -> LoadedModel:
    """A checkpoint whose config.json names the token, as BART's do, and which has no generation_config.json."""
    model = bart()
    model.model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"forced_bos_token_id": FORCED}))
    return replace(model, model=type(model.model).from_pretrained(folder).eval())


@pytest.mark.parametrize("make", [lambda folder: forced(), from_folder], ids=["generation config", "config"])
def test_scores_are_conditioned_on_the_forced_token_and_do_not_score_it(make, tmp_path):
    model = make(tmp_path)
    target = ids_of(model, TARGET)
    (score,) = Seq2SeqEngine(model).score([Request(SOURCE, TARGET)])
    assert score.token_ids == tuple(target)
    assert score.token_log_probabilities == pytest.approx(hand(model, target), abs=1e-4)


def test_a_model_without_a_forced_token_starts_with_one_token():
    model = bart()
    (score,) = Seq2SeqEngine(model).score([Request(SOURCE, TARGET)])
    assert score.token_log_probabilities == pytest.approx(
        hand(model, ids_of(model, TARGET), (START,)), abs=1e-4
    )


def test_traces_explanations_lenses_and_patching_read_the_same_prefix():
    model = forced()
    target = ids_of(model, TARGET)
    expected = hand(model, target)
    traced = trace(model, [SOURCE], {"logits"}, targets=[TARGET])[0]
    assert traced.alignment.ids == (START, FORCED, *target)
    rows = torch.log_softmax(torch.from_numpy(np.asarray(traced.get("logits"))), -1)
    assert [float(rows[1 + i, t]) for i, t in enumerate(target)] == pytest.approx(expected, abs=1e-4)
    explained = workbench.attribute(model, SOURCE, method="occlusion", target=TARGET)
    # an explanation's target is a whole text, so its end is scored with it: [SEP] ends texts here
    assert explained.value == pytest.approx(sum(hand(model, [*target, 3])), abs=1e-3)
    lens = logit_lens(model, SOURCE, target_text=TARGET, target="dog")
    place = lens.positions[1 + 1]
    assert lens.target_log_probability[-1, place] == pytest.approx(expected[1], abs=1e-4)
    pair = patch_pair(model, SOURCE, "the dog sat on the mat", "cat", metric="log_probability")
    (cat,) = ids_of(model, "cat")
    assert pair.clean_value == pytest.approx(hand(model, [cat])[0], abs=1e-4)


def test_generation_begins_behind_the_prefix():
    model = forced()
    expected = greedy(model, 5)
    steps = generate_steps(model, SOURCE, 5)
    names = model.tokenizer.convert_ids_to_tokens
    assert list(steps.tokens) == names(expected)
    assert [step.candidates[0][0] for step in steps.steps] == names(expected)
    ((_, written),) = next(generate_texts(model, [GenerationRequest(SOURCE, max_tokens=5)]))
    assert written.text == model.tokenizer.decode(expected, skip_special_tokens=True)
    generated = trace(model, [SOURCE], {"logits"})[0]
    assert generated.alignment.ids[: 2 + len(expected)] == (START, FORCED, *expected)


def pieces() -> list[tuple[str, float]]:
    return [(f"▁{word}", -3.0) for word in WORDS.split()]


def multilingual(tokenizer: Any, **settings: Any) -> LoadedModel:
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=40,
        decoder_start_token_id=2,
        **settings,
    )
    return replace(
        loaded(build("AutoModelForSeq2SeqLM", config), Kind.SEQ2SEQ, special=True), tokenizer=tokenizer
    )


def mbart(**languages: str) -> Any:
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return transformers.MBartTokenizer(vocab=[*special, *pieces()], **languages)


def mbart50(**languages: str) -> Any:
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return transformers.MBart50Tokenizer(vocab=[*special, *pieces()], **languages)


def nllb(**languages: str) -> Any:
    """The format that M2M100 writes too: the language before the text."""
    return transformers.NllbTokenizer(**languages)


@pytest.mark.parametrize(
    ("make", "source", "language", "starts"),
    [
        (mbart, "en_XX", "ro_RO", False),  # mBART: decoder_input_ids begin with the language
        (mbart50, "en_XX", "ro_RO", True),  # mBART-50: </s> ro_RO X
        (nllb, "eng_Latn", "fra_Latn", True),  # M2M100, NLLB: </s> fra_Latn X
    ],
)
def test_the_target_language_begins_targets(make, source, language, starts):
    model = multilingual(make(src_lang=source, tgt_lang=language))
    number = model.tokenizer.convert_tokens_to_ids(language)
    prefix = (2, number) if starts else (number,)
    assert decoder_prefix(model) == prefix
    (score,) = Seq2SeqEngine(model).score([Request("the cat sat", "a dog")])
    target = model.tokenizer("a dog", add_special_tokens=False).input_ids
    assert score.token_ids == tuple(target)
    right = plain_target_scores(model.model, model.tokenizer("the cat sat").input_ids, prefix, target)
    assert score.token_log_probabilities == pytest.approx(right, abs=1e-4)


def test_without_a_target_language_the_configuration_decides():
    model = forced(multilingual(mbart50(src_lang="en_XX")))
    assert decoder_prefix(model) == (2, FORCED)
    assert model.tokenizer.tgt_lang is None  # asking must not set it


def test_a_model_without_a_start_token_is_refused():
    model = multilingual(mbart50(src_lang="en_XX"))
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        setattr(model.config, name, None)
        setattr(model.model.generation_config, name, None)
    with pytest.raises(workbench.errors.ModelError, match="decoder_start_token_id"):
        decoder_prefix(model)
