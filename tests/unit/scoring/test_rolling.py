"""Rolling log-likelihood: every token scored once, windows as stated, equal to one pass where it fits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scoring.test_engine import by_hand
from tests.unit.tiny import tiny_causal
from workbench.errors import ConfigError, DataError
from workbench.scoring import score_rolling
from workbench.scoring.engine import windows

TEXT = "the keys to the cabinet are on the table and the cats sat on the mat ."


@given(total=st.integers(2, 200), length=st.integers(1, 50), data=st.data())
def test_windows_score_each_id_once_and_keep_their_promises(total, length, data):
    stride = data.draw(st.integers(1, length))
    parts = windows(range(total), length, stride, 1)
    scored = [i for w in parts for i in w.ids[w.start :]]
    assert scored == list(range(1, total))
    assert all(w.length <= length for w in parts)
    for w in parts[1:]:  # every later id sees at least length - stride ids before it
        assert w.start >= min(length - stride + 1, w.ids[w.start])


def test_text_that_fits_equals_one_pass():
    model = tiny_causal()
    (got,) = score_rolling(model, [TEXT])
    expected = by_hand(model, "", TEXT, bos=False)
    assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)
    assert (got.tokens, got.words, got.bytes) == (17, 17, len(TEXT))


def test_disjoint_windows_by_hand():
    model = tiny_causal()
    (got,) = score_rolling(model, [TEXT], length=8, stride=8)
    words = TEXT.split()
    expected = by_hand(model, "", " ".join(words[:8]), bos=False)
    # The second window reads words 7 to 14 and predicts 8 to 15; the third ends the text.
    expected += by_hand(model, words[7], " ".join(words[8:16]), bos=False)
    expected += by_hand(model, " ".join(words[8:16]), " ".join(words[16:]), bos=False)
    assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)


def plain_losses(model, ids, start):
    """Log-probability of each id from ``start`` on, of one plain pass over the others."""
    with torch.no_grad():
        logits = model.model(torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
    return [float(logits[k - 1, ids[k]]) for k in range(start, len(ids))]


def test_every_window_begins_with_bos_on_request():
    model = tiny_causal()
    bos, ids = model.tokenizer.bos_token_id, model.tokenizer(TEXT, add_special_tokens=False).input_ids
    (got,) = score_rolling(model, [TEXT], length=8, stride=4, keep_bos=True)
    # windows read 8 ids, of which the first is BOS, and score their last 4; the first scores all 8
    expected = plain_losses(model, [bos, *ids[:8]], 1)
    for first in (8, 12, 16):
        expected += plain_losses(model, [bos, *ids[first + 4 - 8 : first + 4]], 5)[: len(ids) - first]
    expected[16:] = plain_losses(model, [bos, *ids[9:17]], 8)  # the last id, from as many before it
    assert got.token_log_probabilities == pytest.approx(expected, abs=1e-5)
    without = score_rolling(model, [TEXT], length=8, stride=4)[0]  # lm-eval's windows
    assert without.token_log_probabilities[:8] == pytest.approx(expected[:8], abs=1e-5)
    assert without.token_log_probabilities[8:12] == pytest.approx(plain_losses(model, ids[3:12], 5), abs=1e-5)


def test_windows_are_those_of_lm_eval():
    utils = pytest.importorskip("lm_eval.utils", reason="pip install lm-eval==0.4.13")
    ids = list(range(100, 137))
    theirs = utils.get_rolling_token_windows(ids, prefix_token=1, max_seq_len=10, context_len=1)
    pairs = [utils.make_disjoint_window(window) for window in theirs]
    ours = windows([1, *ids], 10, 10, 1)
    assert [(list(w.ids[: w.start]), list(w.ids[w.start :])) for w in ours] == [
        (list(context), list(scored)) for context, scored in pairs
    ]


def test_bad_stride_and_empty_text():
    with pytest.raises(ConfigError, match="stride is 9"):
        score_rolling(tiny_causal(), [TEXT], length=8, stride=9)
    with pytest.raises(DataError, match="no token to score"):
        score_rolling(tiny_causal(), [""])
