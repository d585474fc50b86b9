"""Attacks on the model whose one word decides: what has to be changed is known."""

from __future__ import annotations

import pytest

from tests.unit.analysis.saliency_models import TRIGGER, trigger_model, trigger_texts
from tests.unit.tiny import tiny_causal
from workbench.analysis.attacks import attack_all, hotflip, input_reduction, rewrites
from workbench.errors import ModelError

TEXT = f"the cat sat on the {TRIGGER} and dogs ran"


def test_hotflip_exchanges_the_trigger_and_nothing_else() -> None:
    found = hotflip(trigger_model(), TEXT)
    assert (found.before, found.after, found.words_changed, found.success) == (1, 0, 1, True)
    changed = [(a, b) for a, b in zip(TEXT.split(), found.changed.split(), strict=True) if a != b]
    assert [old for old, _ in changed] == [TRIGGER]


def test_hotflip_keeps_to_the_part_of_speech() -> None:
    found = hotflip(
        trigger_model(), TEXT, part_of_speech=lambda w: "noun" if w in (TRIGGER, "table") else "other"
    )
    assert found.changed == TEXT.replace(TRIGGER, "table")


def test_input_reduction_leaves_the_trigger_alone() -> None:
    found = input_reduction(trigger_model(), TEXT)
    assert found.changed == TRIGGER  # the only word that the class rests on
    assert found.words_changed == len(TEXT.split()) - 1
    assert found.after == found.before == 1


def test_rewrites_change_the_class_only_where_the_word_is_rewritten() -> None:
    rules = [("cat", "cats"), (TRIGGER, "key")]
    found = rewrites(trigger_model(), TEXT, rules=rules)
    assert (found.success, found.changed, found.words_changed) == (True, TEXT.replace(TRIGGER, "key"), 1)
    assert not rewrites(trigger_model(), TEXT, rules=rules[:1]).success


def test_over_texts_there_is_a_rate_and_a_number_of_words() -> None:
    texts = trigger_texts(10, seed=5)[0][1::2]  # those with the trigger
    results, found = attack_all(trigger_model(), texts, hotflip)
    assert len(results) == 5
    assert found["success_rate"].value == 1.0
    assert found["words_changed"].value == 1.0


def test_a_model_without_classes_is_refused() -> None:
    with pytest.raises(ModelError, match="classifier"):
        hotflip(tiny_causal(), TEXT)
