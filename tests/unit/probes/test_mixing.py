"""A mixture of layers and its controls on planted features: the label in layer 3, the words in layer 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from probes._checkpoints import not_stored
from probes._data import Place, ProbeData, ProbeItem, Unit, Words
from probes._prepare import Prepared
from probes.controls import control_labels
from probes.features import Features
from probes.features.policy import Policy
from probes.features.store import writing
from probes.mixing import mix
from probes.settings import ProbeSettings
from probes.splits import split_items
from workbench.data import DataIdentity

LAYERS, WIDTH, TYPES, ITEMS = 5, 24, 200, 2000


def planted(folder: Path) -> Prepared:
    """One word a sentence, of 300 types with a vector each in layer 0; the two labels are drawn for each item."""
    draw = np.random.default_rng(0)
    types, labels = draw.integers(TYPES, size=ITEMS), draw.integers(2, size=ITEMS)
    values = draw.normal(size=(LAYERS, ITEMS, WIDTH)).astype(np.float32)
    values[0] = 2 * draw.normal(size=(TYPES, WIDTH))[types] + 0.1 * values[0]
    values[3, :, 0] += 6 * labels
    places = [Place(s, 0, 1) for s in range(ITEMS)]
    items = [
        ProbeItem((p,), "ab"[y], f"w{t}") for p, y, t in zip(places, labels.tolist(), types, strict=True)
    ]
    sentences = tuple(Words((item.type,), None, "", f"s{n}") for n, item in enumerate(items))
    data = ProbeData(
        "toy", Unit.WORD, sentences, tuple(items), DataIdentity("toy", "toy", "0" * 64, ITEMS), "a label"
    )
    features = Features(folder, "key", "toy", tuple(range(LAYERS)), Policy("first"), 0, 0)
    with writing(folder, ITEMS) as writer:
        writer.write("values", 0, values)
        writer.write("static", 0, values[:1])
        writer.valid[:] = True
        writer.finish(features)
    control = control_labels([item.type for item in items], labels, 0)[None]
    split = split_items(data, "sentence", 0.3, 0)
    return Prepared(data, split, ("a", "b"), labels, control, features, None, 0, torch.device("cpu"))


@pytest.mark.parametrize("kind", ["scalar_mix", "edge"])
def test_the_control_task_reads_the_mixture_of_the_task(tmp_path: Path, kind: str) -> None:
    settings = ProbeSettings(task="toy", probe=kind, seeds=2, random_weights=False)
    report = mix(planted(tmp_path / "features"), settings, not_stored)
    assert report.summary["accuracy of the mixture"].value > 0.98
    # layer 3 knows no word: random labels of two equal classes are guessed (600 test items: s.e. 0.02)
    assert report.summary["control task"].value == pytest.approx(0.5, abs=0.07)
    assert report.summary["selectivity"].value > 0.40
    assert any(line.startswith("Selectivity is 0.") for line in report.conclusions)
    # a control with a mixture of its own leans on layer 0, which knows the words: with a hidden layer all of them
    own = report.summary["control task, own mixture"].value
    gap = report.summary["selectivity, own mixture"].value
    assert own > (0.95 if kind == "edge" else 0.55)
    assert gap == pytest.approx(report.summary["accuracy of the mixture"].value - own)
