"""A run in lm-eval's layout: its keys, its numbers, and its own table of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench
from tests.helpers import run_command
from tests.unit.evaluate.test_harness import write_task
from tests.unit.tiny import tiny_causal
from workbench.evaluate.lm_eval_files import lm_eval_results, lm_eval_samples, write_lm_eval
from workbench.runs import Run, RunFolder, RunRecord

pytest.importorskip("lm_eval", reason="pip install lm-eval==0.4.13")
pytestmark = pytest.mark.filterwarnings("ignore")  # lm-eval's and datasets' own

# what lm-eval says of its own process and tokenizer, which a stored run does not hold
_OF_ITS_PROCESS = {"pretty_env_info", "upper_git_hash", "samples"}


def test_keys_numbers_and_samples_are_those_that_lm_eval_writes(tmp_path, monkeypatch):
    """The reference is lm-eval's own run on the same model and four rows, in its multiple-choice form."""
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    write_task(tmp_path)
    model = tiny_causal(positions=32)
    run = workbench.evaluate(model, tasks=str(tmp_path / "rows.jsonl"), out=tmp_path / "runs", doctor=False)
    ours = lm_eval_results(run)
    theirs = simple_evaluate(
        HFLM(pretrained=model.model, tokenizer=model.tokenizer, max_length=32, batch_size=2),
        tasks=["tiny_choice"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        bootstrap_iters=0,
        verbosity="ERROR",
    )
    assert set(theirs) - set(ours) <= _OF_ITS_PROCESS
    assert set(theirs["config"]) - set(ours["config"]) == set()
    assert ours["n-samples"]["rows"] == theirs["n-samples"]["tiny_choice"]
    assert ours["n-shot"]["rows"] == theirs["n-shot"]["tiny_choice"] == 0
    for name, value in theirs["results"]["tiny_choice"].items():
        if name in ("acc,none", "acc_norm,none", "sample_len"):
            assert ours["results"]["rows"][name] == pytest.approx(value), name
        assert name in ours["results"]["rows"]
    for metric in ("acc", "acc_norm"):
        assert ours["higher_is_better"]["rows"][metric] == theirs["higher_is_better"]["tiny_choice"][metric]
    mine, reference = lm_eval_samples(run)["rows"], theirs["samples"]["tiny_choice"]
    assert set(reference[0]) <= set(mine[0])
    for sample, other in zip(mine, reference, strict=True):
        assert (sample["acc"], sample["acc_norm"]) == (other["acc"], other["acc_norm"])
        assert [float(answer[0]) for answer in sample["filtered_resps"]] == pytest.approx(
            [answer[0] for answer in other["filtered_resps"]], abs=1e-4
        )
        asked = [(a["arg_0"], a["arg_1"]) for a in sample["arguments"].values()]
        assert asked == [tuple(arguments) for arguments in other["arguments"]]


def test_its_table_prints_the_written_file(tmp_path: Path) -> None:
    from lm_eval.utils import get_results_filenames, make_table

    done = run_command(
        *(
            "evaluate",
            "novels-decoder",
            "--task",
            "lambada_sample,pairs_builtin",
            "--limit",
            "6",
            "--no-doctor",
        ),
        *("--out", str(tmp_path), "--export", "lm-eval"),
    )
    assert done.returncode == 0, done.stderr
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (results,) = get_results_filenames([str(path) for path in run.rglob("*.json*")])
    written = json.loads(Path(results).read_text())
    table = make_table(written)
    opened = Run.open(run)
    accuracy = opened.results["lambada_sample"]["accuracy"].value
    assert f"{accuracy:.4f}" in table
    assert "lambada_sample" in table
    assert "pairs_builtin" in table
    samples = sorted(path.name for path in run.rglob("samples_*.jsonl"))
    assert [name.split("_2")[0] for name in samples] == ["samples_lambada_sample", "samples_pairs_builtin"]
    rows = [json.loads(line) for line in (Path(results).parent / samples[0]).read_text().splitlines()]
    assert len(rows) == written["n-samples"]["lambada_sample"]["effective"] == 6
    assert sum(row["acc"] for row in rows) / 6 == pytest.approx(accuracy)
    again = run_command("report", str(run), "--format", "lm-eval", "--out", str(tmp_path / "again"))
    assert Path(again.stdout.strip()).read_bytes() == Path(results).read_bytes()


def test_a_run_of_another_verb_is_refused(tmp_path: Path) -> None:
    record = RunRecord.new("probe", recipe={}, model={"name": "m"}, data={}, seeds={})
    folder = RunFolder.create(tmp_path, record)
    done = run_command("report", str(folder.path), "--format", "lm-eval")
    assert (done.returncode, "lm-eval's layout is of evaluations" in done.stderr) == (2, True)


def test_a_check_has_its_set_as_task(tmp_path: Path) -> None:
    run = workbench.check(tiny_causal(), "pairs_builtin", limit=4, out=tmp_path, doctor=False)
    written = json.loads(write_lm_eval(run, tmp_path / "out").read_text())
    assert written["n-samples"] == {"pairs_builtin": {"original": 4, "effective": 4}}
    (sample, *_) = lm_eval_samples(run)["pairs_builtin"]
    assert sample["arguments"]["gen_args_0"] == {"arg_0": "", "arg_1": sample["doc"]["good"]}
