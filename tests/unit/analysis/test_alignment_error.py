"""The alignment error rate: by hand on made attention, and from a model's trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench
from tests.unit.training.test_pretraining import place
from tests.unit.training.test_translation import pairs, settings
from workbench.analysis import alignment_error as module
from workbench.analysis.alignment_error import alignment_error, attention_links, word_attention
from workbench.cli import main
from workbench.data.pairs import LinkedPair
from workbench.data.word_links import WordLinks
from workbench.errors import ConfigError, DataError, TraceError
from workbench.models import LoadedModel
from workbench.text import Alignment
from workbench.trace import TextTrace
from workbench.training import pretrain

__all__ = ["pairs", "place"]  # fixtures


def alignment(words: str, tokens: list[tuple[str, int | None]]) -> Alignment:
    """Tokens with the word that each is of."""
    spans, start = [], 0
    for word in words.split():
        spans.append((start, start + len(word)))
        start += len(word) + 1
    names, ids = zip(*tokens, strict=True)
    offsets = tuple((0, 0) if word is None else spans[word] for word in ids)
    return Alignment(words, names, tuple(range(len(tokens))), offsets, tuple(spans), ids)


def test_attention_between_words_is_summed_over_source_tokens_and_averaged_over_steps() -> None:
    """Two source words of 2 and 1 tokens and the end; target words of 1 and 2 tokens behind the start token."""
    weights = np.array(
        [
            [0.1, 0.2, 0.6, 0.1],  # reads the start, predicts x
            [0.5, 0.1, 0.3, 0.1],  # reads x, predicts y1
            [0.2, 0.6, 0.1, 0.1],  # reads y1, predicts y2
            [0.0, 0.1, 0.1, 0.8],  # reads y2, predicts the end
        ],
        dtype=np.float32,
    )
    text = TextTrace(
        alignment("x yy", [("<s>", None), ("x", 0), ("y", 1), ("y", 1)]),
        (0,) * 4,
        0,
        source=alignment("aa b", [("a", 0), ("a", 0), ("b", 1), ("</s>", None)]),
        cross_attention=weights[None, None],
    )
    predicts = word_attention(text, "predicts")[0, 0]
    np.testing.assert_allclose(predicts, [[0.3, 0.6], [(0.6 + 0.8) / 2, (0.3 + 0.1) / 2]], rtol=1e-6)
    reads = word_attention(text, "reads")[0, 0]
    np.testing.assert_allclose(reads, [[0.6, 0.3], [(0.8 + 0.1) / 2, (0.1 + 0.1) / 2]], rtol=1e-6)
    assert attention_links(predicts) == {(1, 0), (0, 1)}
    assert attention_links(predicts, 0.3) == {(0, 0), (1, 0), (0, 1)}
    assert attention_links(np.zeros((2, 2))) == set()


def test_counts_are_those_of_och_and_ney() -> None:
    """A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S + {1-1}: error 1 - (1 + 2) / (3 + 2)."""
    weights = np.eye(3)[None, None]
    counts = module._counts(weights, WordLinks.parse("0-0 1-2 1?1"), None)
    assert counts.shape == (1, 1, 4)  # of one head there is no mean
    assert counts[0, 0].tolist() == [1, 2, 3, 2]
    head = module._judged(0, None, np.stack([counts[0, 0]] * 3), seed=0)
    assert head.error.value == pytest.approx(1 - 3 / 5)
    assert head.precision.value == pytest.approx(2 / 3)
    assert head.recall.value == pytest.approx(1 / 2)


def trained(folder: Path) -> LoadedModel:
    pretrain.train(settings(folder), folder / "out", device="cpu")
    return workbench.load(str(folder / "out"), device="cpu")


GOLD = [LinkedPair("one cat", "chat un", WordLinks.parse("0-1 1-0"))] * 3 + [
    LinkedPair("black", "noir", WordLinks.parse("0-0"))
]


def test_every_head_of_a_model_is_judged(pairs: Path) -> None:
    """The mean over heads, counted by hand from the trace; one source word can only be linked rightly."""
    model = trained(pairs)
    scores = alignment_error(model, GOLD)
    assert [(h.layer, h.head) for h in scores.heads] == [(0, 0), (0, 1), (0, None)]
    traced = workbench.trace(model, ["one cat", "black"], targets=["chat un", "noir"])
    weights = [word_attention(text, "predicts")[0].mean(0) for text in traced]
    right = [len(attention_links(w) & p.links.sure) for w, p in zip(weights, GOLD[2:], strict=True)]
    assert scores.heads[-1].error.value == pytest.approx(1 - (3 * right[0] + 1) / 7)
    assert scores.best.error.value == min(h.error.value for h in scores.heads)
    frame = scores.to_frame()
    assert frame["head"].tolist() == [0, 1, "mean"]
    everything = alignment_error(model, GOLD, threshold=1e-9)
    assert everything.heads[0].recall.value == 1.0
    assert everything.heads[0].error.value == pytest.approx(1 - 2 * 7 / (13 + 7))


def test_the_command_prints_and_stores_the_table(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretrain.train(settings(pairs), pairs / "out", device="cpu")
    (pairs / "gold.jsonl").write_text(
        '{"source": "one cat", "target": "chat un", "alignment": "0-1 1-0"}\n' * 4
    )

    def run(*options: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["attend", str(pairs / "out"), "--alignment", str(pairs / "gold.jsonl"), *options])
        return ended.value.code

    assert not run("--device", "cpu", "--out", str(pairs / "table.csv"))
    printed = capsys.readouterr().out
    assert "alignment error" in printed
    assert "best: layer 0" in printed
    assert (pairs / "table.csv").read_text().startswith("layer,head,alignment_error")
    assert run("--layer", "1") == 2
    assert "--layer does not go with --alignment" in capsys.readouterr().err


def test_what_cannot_be_judged() -> None:
    with pytest.raises(TraceError, match="no attention from a decoder to an encoder"):
        alignment_error("novels-decoder", GOLD)
    with pytest.raises(ConfigError, match="threshold is 2; allowed: above 0"):
        alignment_error("novels-decoder", GOLD, threshold=2)
    with pytest.raises(DataError, match="no pairs"):
        alignment_error("novels-decoder", [])
