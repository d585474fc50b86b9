"""Objectives counted: what is hidden, how it is hidden, what is scored; no text is lost on the way."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConfigError
from workbench.training.objectives import (
    IGNORED,
    CausalLM,
    Denoising,
    Draw,
    GapSentences,
    MaskedLM,
    PrefixLM,
    SentencePairs,
    SpanCorruption,
    SpecialIds,
)
from workbench.training.objectives.gap_sentences import principal_sentences
from workbench.training.objectives.masked import choose_spans, hide, span_length
from workbench.training.objectives.span_corruption import noise_mask

# ids: 0 pad, 1 cls and bos, 2 sep and eos, 3 mask, 4 to 9 sentinels, 10 to 99 words; an even id opens a word
SPECIAL = SpecialIds(
    vocab_size=100,
    pad=0,
    bos=1,
    eos=2,
    cls=1,
    sep=2,
    mask=3,
    sentinels=(4, 5, 6, 7, 8, 9),
    reserved=frozenset(range(10)),
    pieces=tuple(f"w{i}" if i % 2 == 0 else f"##w{i}" for i in range(100)),
)
WORDS = np.arange(10, 50)


def draw(ids: np.ndarray = WORDS, seed: int = 0, sentences: tuple[int, ...] = (0,), **more: object) -> Draw:
    return Draw(ids, np.array(sentences), np.array([], dtype=np.int64), (0, seed), **more)  # type: ignore[arg-type]


def unpadded(row: np.ndarray) -> list[int]:
    return [int(i) for i in row if i not in (0, IGNORED)]


def test_causal_rows_open_with_bos_and_score_all_but_the_first() -> None:
    batch = CausalLM(SPECIAL, 41)([draw()])
    assert batch["input_ids"][0].tolist() == [1, *WORDS]
    assert batch["labels"][0].tolist() == [IGNORED, *WORDS]


def test_isolated_documents_restart_positions_and_do_not_predict_across() -> None:
    window = Draw(WORDS[:6], np.array([0, 3]), np.array([3]), (0, 0))
    batch = CausalLM(SPECIAL, 7, isolate_documents=True)([window])
    assert batch["position_ids"][0].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert batch["labels"][0].tolist() == [IGNORED, 10, 11, 12, IGNORED, 14, 15]


def test_masked_tokens_are_15_percent_of_a_row() -> None:
    objective = MaskedLM(SPECIAL, 102)
    rows = objective([draw(np.arange(100) % 90 + 10, seed) for seed in range(200)])
    ids, labels = rows["input_ids"].numpy(), rows["labels"].numpy()
    chosen = labels != IGNORED
    assert (chosen.sum(1) == 15).all()  # exactly 15 of 100
    assert not chosen[:, 0].any()  # never [CLS]
    assert not chosen[:, -1].any()  # never [SEP]
    assert (ids[~chosen] >= 0).all()
    assert (ids[chosen] >= 3).all()  # never replaced by a special id but the mask


def fates(objective: MaskedLM, ids: np.ndarray, rows: int) -> np.ndarray:
    """Of each chosen token: 0 masked, 1 replaced, 2 as it was; IGNORED where none was chosen. (rows, token)"""
    batch = objective([draw(ids, seed) for seed in range(rows)])
    shown, labels = batch["input_ids"].numpy()[:, 1:-1], batch["labels"].numpy()[:, 1:-1]
    fate = np.where(shown == SPECIAL.mask, 0, np.where(shown == labels, 2, 1))
    return np.where(labels == IGNORED, IGNORED, fate)


@pytest.mark.parametrize("size", [7, 14, 100])  # 1, 2 and 15 chosen tokens a row
@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_80_10_10_holds_for_rows_of_every_length(unit: str, size: int) -> None:
    """Devlin et al. 2019, section 3.1; a replacement is the true id once in 90, the ordinary ids."""
    found = fates(MaskedLM(SPECIAL, size + 2, unit=unit), np.arange(size) % 90 + 10, 1000)
    counts = np.array([(found == fate).sum() for fate in (0, 1, 2)])
    expected = np.array([0.8, 0.1 * 89 / 90, 0.1 + 0.1 / 90])
    alike = 3.8 * 1.5 if unit == "span" else 1.0  # tokens of a span are one draw
    error = np.sqrt(expected * (1 - expected) / counts.sum() * alike)
    assert (np.abs(counts / counts.sum() - expected) < 4 * error).all()


def test_all_tokens_of_a_span_meet_the_same_fate() -> None:
    """Joshi et al. 2020, section 3.1. Of the replaced tenth, a token is by chance its true id once in 90."""
    partly_masked = partly_kept = spans = 0
    ids = np.arange(80) + 10
    for seed in range(300):
        units = choose_spans(ids, np.ones(80, dtype=bool), 0.15, SPECIAL, np.random.default_rng(seed))
        hidden = hide(ids, units, SPECIAL, np.random.default_rng(seed))
        for span in set(units[units >= 0]):
            masked, kept = hidden[units == span] == SPECIAL.mask, hidden[units == span] == ids[units == span]
            spans += 1
            partly_masked += bool(masked.any() and not masked.all())
            partly_kept += bool(kept.any() and not kept.all())
    assert spans > 700
    assert partly_masked == 0
    assert partly_kept < 0.02 * spans  # 0.1 x 3.8 / 90 = 0.4 %


def test_masks_are_dynamic_by_seed_and_static_for_the_same_seed() -> None:
    objective = MaskedLM(SPECIAL, 42)
    first, again, other = (objective([draw(seed=s)])["labels"] for s in (0, 0, 1))
    assert first.equal(again)
    assert not first.equal(other)


def test_whole_words_are_hidden_whole() -> None:
    labels = MaskedLM(SPECIAL, 42, unit="word")([draw(seed=s) for s in range(50)])["labels"].numpy()
    chosen = (labels != IGNORED)[:, 1:-1].reshape(50, 20, 2)  # the 20 words have two pieces each
    assert (chosen[..., 0] == chosen[..., 1]).all()
    assert set(chosen.any(-1).sum(1)) == {3}  # 6 of 40 pieces


def test_spans_are_geometric_with_mean_3_8_and_cover_the_budget() -> None:
    """SpanBERT, section 3.1: geometric with p = 0.2 cut at 10 has mean 3.8."""
    rng = np.random.default_rng(0)
    assert np.mean([span_length(rng) for _ in range(20000)]) == pytest.approx(3.8, abs=0.05)
    objective = MaskedLM(SPECIAL, 82, unit="span")
    labels = objective([draw(np.arange(80) + 10, s) for s in range(100)])["labels"].numpy()
    assert (labels != IGNORED).sum(1).mean() == pytest.approx(12, abs=2)  # 15 % of 80


def test_next_sentences_come_from_elsewhere_half_of_the_time() -> None:
    elsewhere = np.arange(50, 90)
    objective = SentencePairs(SPECIAL, 43, task="next-sentence")
    spare = draw(elsewhere, sentences=(0, 20))
    draws = [draw(seed=s, sentences=(0, 20), spare=lambda: spare) for s in range(400)]
    batch = objective(draws)
    answers = batch["next_sentence_label"].numpy()
    assert answers.mean() == pytest.approx(0.5, abs=0.08)
    ids, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
    original = np.where(labels == IGNORED, ids, labels)
    assert (original[:, 22:42] == np.where(answers[:, None] == 1, elsewhere[20:], WORDS[20:])).all()
    assert batch["token_type_ids"][0].tolist() == [0] * 22 + [1] * 21


def test_sentence_order_swaps_the_halves() -> None:
    batch = SentencePairs(SPECIAL, 43, task="sentence-order")(
        [draw(seed=s, sentences=(0, 20)) for s in range(50)]
    )
    ids, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
    first = np.where(labels == IGNORED, ids, labels)[:, 1:21]
    assert (
        first == np.where(batch["next_sentence_label"].numpy()[:, None] == 1, WORDS[20:], WORDS[:20])
    ).all()


@given(length=st.integers(2, 200), seed=st.integers(0, 1000))
def test_noise_has_the_rate_and_starts_with_a_kept_token(length: int, seed: int) -> None:
    mask = noise_mask(length, 0.15, 3.0, np.random.default_rng(seed))
    assert mask.sum() == min(max(round(0.15 * length), 1), length - 1)
    assert len(mask) == length
    assert not mask[0]


def test_span_corruption_loses_nothing_and_uses_sentinels_in_order() -> None:
    """40 ids: 6 removed in 2 spans. Put back at their sentinels, the spans give the text."""
    objective = SpanCorruption(SPECIAL, 37)
    assert objective.window == 40  # 34 kept + 2 sentinels + </s> = 37
    batch = objective([draw(seed=s) for s in range(20)])
    for source, target in zip(batch["input_ids"].numpy(), batch["labels"].numpy(), strict=True):
        source_ids, target_ids = unpadded(source), unpadded(target)
        assert [i for i in source_ids if i in SPECIAL.sentinels] == [4, 5]
        assert [i for i in target_ids if i in SPECIAL.sentinels] == [4, 5]
        assert (len(source_ids), len(target_ids)) == (34 + 2 + 1, 6 + 2 + 1)
        second = target_ids.index(5)
        spans = {4: target_ids[1:second], 5: target_ids[second + 1 : -1]}
        restored = [i for token in source_ids[:-1] for i in spans.get(token, [token])]
        assert restored == WORDS.tolist()


def test_too_few_sentinels_are_told() -> None:
    with pytest.raises(ConfigError, match="needs 14 sentinels, the tokenizer has 6"):
        SpanCorruption(SPECIAL, 256)


def test_a_prefix_and_its_rest_are_the_text() -> None:
    batch = PrefixLM(SPECIAL, 41)([draw(seed=s) for s in range(20)])
    cuts = set()
    for source, target in zip(batch["input_ids"].numpy(), batch["labels"].numpy(), strict=True):
        assert unpadded(source)[:-1] + unpadded(target)[:-1] == WORDS.tolist()
        cuts.add(len(unpadded(source)))
    assert len(cuts) > 5


def damaged(noise: str, seed: int = 0, sentences: tuple[int, ...] = (0,), **options: float) -> list[int]:
    objective = Denoising(SPECIAL, 42, noise=[noise], **options)  # type: ignore[arg-type]
    batch = objective([draw(seed=seed, sentences=sentences)])
    assert unpadded(batch["labels"][0].numpy()) == [*WORDS, 2]  # the target is always the whole text
    return unpadded(batch["input_ids"][0].numpy())[1:-1]  # less BOS and EOS


def test_token_masking_and_deletion_touch_their_share() -> None:
    masked = damaged("masking")
    assert masked.count(3) == 12  # 30 % of 40
    assert len(masked) == 40
    deleted = damaged("deletion")
    assert len(deleted) == 28
    assert deleted == sorted(deleted)  # order is kept


def test_infilling_hides_its_share_in_spans_of_poisson_length() -> None:
    lengths = []
    for seed in range(200):
        filled = damaged("infilling", seed)
        kept = [i for i in filled if i != 3]
        assert len(kept) == 28  # 30 % of 40 are gone
        lengths.append(12 / max(1, filled.count(3)))
    assert 2.0 < np.mean(lengths) < 4.0  # Poisson(3), cut at the end of the budget


def test_permutation_and_rotation_keep_every_token() -> None:
    shuffled = damaged("permutation", 3, sentences=(0, 10, 25))
    assert sorted(shuffled) == WORDS.tolist()
    starts = [shuffled.index(i) for i in (10, 20, 35)]
    assert all(
        shuffled[s : s + n] == list(range(a, a + n))
        for s, a, n in zip(starts, (10, 20, 35), (10, 15, 15), strict=True)
    )
    turned = damaged("rotation", 3)
    cut = turned.index(10)
    assert turned[cut:] + turned[:cut] == WORDS.tolist()


def test_unknown_noise_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rotation'"):
        Denoising(SPECIAL, 42, noise=["rotatio"])


def test_the_principal_sentence_shares_most_words_with_the_rest() -> None:
    """F1 by hand: [1 2 3] shares 3 of 3 with the 7 others: 6/10; [1 9] shares 1: 2/10; [2 3 4 5 1]: 3: 6/10."""
    parts = [np.array([1, 2, 3]), np.array([1, 9]), np.array([2, 3, 4, 5, 1])]
    assert principal_sentences(parts, 1) == [0]
    assert principal_sentences(parts, 2) == [0, 2]


def test_gap_sentences_move_from_source_to_target() -> None:
    batch = GapSentences(SPECIAL, 41, rate=0.34, choice="lead")([draw(sentences=(0, 10, 25))])
    assert unpadded(batch["input_ids"][0].numpy()) == [3, *WORDS[10:], 2]
    assert unpadded(batch["labels"][0].numpy()) == [*WORDS[:10], 2]
    chosen = Counter(
        len(
            unpadded(
                GapSentences(SPECIAL, 41, choice="random")([draw(seed=s, sentences=(0, 10, 25))])["labels"][
                    0
                ].numpy()
            )
        )
        for s in range(60)
    )
    assert set(chosen) == {11, 16}  # each sentence is chosen at some time
