"""The bridge beside lm-eval's own ``hf`` model, on a tiny model and files written here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model_folders import save_llama
from tests.unit.tiny import tiny_causal

lm_eval = pytest.importorskip("lm_eval", reason="pip install lm-eval==0.4.13")

pytestmark = pytest.mark.filterwarnings("ignore")  # lm-eval's and datasets' own

SHOTS = "the cat sat on the mat . the dogs ran to the table . the keys are on the cabinet . "
PAIRS = [
    ("the keys to the", " cabinet"),
    ("the cat sat on", " the mat"),
    ("the cat sat on", " a table ."),
    ("", "the dogs ran"),
    *((SHOTS + question, answer) for question in ("the cat is", "a key") for answer in (" on", " the mat")),
]


def instances(kind: str, arguments: list[tuple[object, ...]]) -> list[object]:
    from lm_eval.api.instance import Instance

    return [Instance(kind, {}, values, number) for number, values in enumerate(arguments)]


@pytest.fixture(scope="module")
def both():
    from lm_eval.models.huggingface import HFLM

    from workbench.evaluate.harness import WorkbenchLM

    model = tiny_causal(positions=32)  # shorter than the last prompts
    peer = HFLM(pretrained=model.model, tokenizer=model.tokenizer, max_length=32, batch_size=2)
    return WorkbenchLM(model), peer


def test_log_likelihoods_are_those_of_hf(both):
    ours, theirs = (lm.loglikelihood(instances("loglikelihood", PAIRS), disable_tqdm=True) for lm in both)
    assert [a[0] for a in ours] == pytest.approx([b[0] for b in theirs], abs=1e-4)
    assert [a[1] for a in ours] == [b[1] for b in theirs]


def test_rolling_log_likelihoods_are_those_of_hf(both):
    texts = [("the cat sat on the mat .",), (SHOTS * 3,)]  # the second in three windows
    ours, theirs = (
        lm.loglikelihood_rolling(instances("loglikelihood_rolling", texts), disable_tqdm=True) for lm in both
    )
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_generated_texts_are_those_of_hf(both):
    options = {"until": ["mat", "."], "max_gen_toks": 8, "do_sample": False}
    prompts = [("the cat sat on", options), ("dogs", options), ("the keys to the cabinet", options)]
    ours, theirs = (lm.generate_until(instances("generate_until", prompts), disable_tqdm=True) for lm in both)
    assert ours == theirs


def write_task(folder: Path) -> None:
    rows = [
        {"query": f"the {noun} sat on", "choices": ["the mat", "a key", "cats ran"], "gold": gold}
        for noun, gold in (("cat", 0), ("cats", 2), ("dogs", 1), ("key", 0))
    ]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        **{
            "task": "tiny_choice",
            "dataset_path": "json",
            "test_split": "test",
            "output_type": "multiple_choice",
        },
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        **{"doc_to_text": "{{query}}", "doc_to_choice": "{{choices}}", "doc_to_target": "gold"},
        "metric_list": [
            {"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("acc", "acc_norm")
        ],
        "metadata": {"version": 1.0},
    }
    (folder / "tiny_choice.yaml").write_text(json.dumps(task))


def test_a_task_of_lm_eval_becomes_a_run_with_its_numbers(both, tmp_path, monkeypatch):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    from workbench.evaluate import EvaluateSettings, evaluate

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    write_task(tmp_path)
    settings = EvaluateSettings(tasks=("harness:tiny_choice",), data_dir=str(tmp_path))
    run = evaluate(both[0].loaded, settings, out=tmp_path / "runs", doctor=False)
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    theirs = simple_evaluate(
        both[1], tasks=["tiny_choice"], task_manager=manager, bootstrap_iters=0, verbosity="ERROR"
    )["results"]["tiny_choice"]
    found = run.results["harness:tiny_choice"]
    assert {name: e.value for name, e in found.items()} == {
        m: theirs[f"{m},none"] for m in ("acc", "acc_norm")
    }
    assert len(run.examples()) == 4
    assert run.examples()["acc"].mean() == found["acc"].value
    assert len(run.record.data["harness:tiny_choice"]["sha256"]) == 64


def test_an_unknown_task_is_told_with_near_names(tmp_path):
    from workbench.errors import TaskError
    from workbench.evaluate.harness import harness_task

    with pytest.raises(TaskError, match="lm-eval has no task 'hellaswagg'; did you mean 'hellaswag'"):
        harness_task("harness:hellaswagg").load(None)


def test_the_command_line_of_lm_eval_knows_the_model(tmp_path):
    write_task(tmp_path)
    model = save_llama(tmp_path / "model")
    arguments = ["--model", "workbench", "--model_args", f"pretrained={model}", "--tasks", "tiny_choice"]
    done = subprocess.run(
        [sys.executable, "-m", "workbench.evaluate.harness", *arguments, "--include_path", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
    )
    assert "|tiny_choice|" in done.stdout, done.stderr[-2000:]
