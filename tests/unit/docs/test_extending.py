"""The blocks of docs/extending.md, run in a process of their own so that what they register stays there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
_CHECKS = """
import numpy as np
from pathlib import Path
from challenge_sets.suite import load_suites
from probes import probe
from workbench import attribute
from workbench.evaluate import EvaluateSettings, evaluate
from tests.unit.tiny import tiny_causal

assert model(torch.tensor([[1, 2, 3]])).last_hidden_state.shape == (1, 3, model.config.hidden_size)
tiny = tiny_causal()
run = evaluate(tiny, EvaluateSettings(tasks=("capitals",)), out=Path(sys.argv[1]), doctor=False)
assert run.results["capitals"]["accuracy"].n == 2
(suite,) = load_suites(sys.argv[2])
assert [test.name for test in suite.tests] == ["good weather", "a name changes nothing"]
found = attribute(tiny, "the keys to the cabinet", target=" are", method="gradient_max")
assert len(found.scores) == len(found.tokens)
data = np.eye(2).repeat(3, 0)
assert PROBES.get("centroid").make().fit(data, [0, 0, 0, 1, 1, 1]).score(data, [0, 0, 0, 1, 1, 1]) == 1.0
report = probe(tiny, "pos", probe="centroid", limit=40, seeds=1, random_weights=False)
assert len(report.series[report.metric]) == 3
print("all blocks work")
"""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _PAGE, flags=re.M | re.S)


def test_every_way_to_extend_is_under_forty_lines():
    sections = re.split(r"^## ", _PAGE, flags=re.M)[1:]
    assert [s.splitlines()[0] for s in sections] == [
        "A position encoding",
        "A task",
        "A suite",
        "A probe",
        "A saliency method",
    ]
    for block in [*_blocks("python"), *_blocks("yaml")]:
        assert len(block.splitlines()) < 40, block


def test_every_block_runs_and_does_what_it_says(tmp_path):
    suite = tmp_path / "weather.yaml"
    suite.write_text("\n".join(_blocks("yaml")), encoding="utf-8")
    script = tmp_path / "blocks.py"
    script.write_text("import sys\n" + "\n".join(_blocks("python")) + _CHECKS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path / "runs"), str(suite)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.endswith("all blocks work\n"), done.stderr[-2000:]
