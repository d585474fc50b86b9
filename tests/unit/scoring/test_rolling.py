"""Rolling log-likelihood: every token scored once, windows as stated, equal to one pass where it fits."""

from __future__ import annotations

import pytest
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


def test_bad_stride_and_empty_text():
    with pytest.raises(ConfigError, match="stride is 9"):
        score_rolling(tiny_causal(), [TEXT], length=8, stride=9)
    with pytest.raises(DataError, match="no token to score"):
        score_rolling(tiny_causal(), [""])
