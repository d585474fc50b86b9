"""Every task whose data is public here, asked on real rows; with real weights, the numbers of lm-eval."""

from __future__ import annotations

import json
import math

import pytest

from tests.helpers import data_dir, needs_data, needs_smollm2
from tests.model_folders import save_llama
from workbench.cli import main
from workbench.evaluate import EvaluateSettings, evaluate, find_task
from workbench.models import load

pytestmark = needs_data

# task -> folder of its files, rows that a task of it has (data README, which compares them with the official sizes)
ROWS = {
    "glue/cola": ("glue", 1043),
    "glue/sst2": ("glue", 872),
    "glue/mrpc": ("glue", 408),
    "glue/stsb": ("glue", 1500),
    "glue/mnli": ("glue", 9815),
    "glue/qnli": ("glue", 5463),
    "glue/rte": ("glue", 277),
    "glue/wnli": ("glue", 71),
    "superglue/boolq": ("superglue", 3270),
    "superglue/cb": ("superglue", 56),
    "superglue/copa": ("superglue", 100),
    "superglue/multirc": ("superglue", 4848),
    "superglue/record": ("superglue", 32),
    "superglue/rte": ("superglue", 277),
    "superglue/wic": ("superglue", 638),
    "superglue/wsc": ("superglue", 104),
    "superglue/axb": ("superglue", 1104),
    "superglue/axg": ("superglue", 356),
    "snli": ("snli", 3000),
    "arc_easy": ("multiple_choice", 2376),
    "arc_challenge": ("multiple_choice", 1172),
    "piqa": ("multiple_choice", 1838),
    "winogrande": ("multiple_choice", 1267),
    "truthfulqa_mc1": ("truthfulqa", 817),
    "truthfulqa_mc2": ("truthfulqa", 817),
    "mmlu": ("mmlu", 285),
    "squad": ("squad", 1190),
    "squadv2": ("squad", 6078),
    "wikitext2": ("wikitext2", 60),  # articles; Merity et al. 2017, table 1
    "bbh/snarks": ("bbh", 178),
    "bbh/causal_judgement": ("bbh", 187),
    "multi30k/en-de": ("multi30k", 1000),
    "xsum": ("xsum", 500),
    "hh_rlhf": ("hh_rlhf", 499),  # of 500; in one nothing was replied
}
NER = {"ner/uner_ewt": 2077, "ner/wnut17": 1287}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(str(save_llama(tmp_path_factory.mktemp("llama"), positions=4096)), dtype="float32")


@pytest.mark.data
@pytest.mark.parametrize("name", ROWS)
def test_real_rows_are_read_and_answered(name, model, tmp_path):
    folder, rows = ROWS[name]
    settings = EvaluateSettings(tasks=(name,), data_dir=str(data_dir() / folder), limit=2)
    run = evaluate(model, settings, out=tmp_path, doctor=False)
    assert run.record.data[name]["rows"] == rows
    assert run.results[name]
    assert len(run.examples()) == 2


@pytest.mark.data
@pytest.mark.parametrize("name", NER)
def test_entity_files_are_read_whole(name):
    assert find_task(name).load(data_dir() / "ner").identity.rows == NER[name]


@pytest.mark.data
def test_quotes_in_glue_files_are_text():
    """The csv module's default quoting would lose 19 of MRPC's 408 rows (data README)."""
    data = find_task("glue/mrpc").load(data_dir() / "glue")
    quoted = [item for item in data.items if '"' in item.fields["text"]]
    assert len(data.items) == 408
    assert quoted


@pytest.mark.data
def test_a_group_leaves_out_what_has_no_files_and_says_so(model, tmp_path):
    """QQP, MNLI mismatched and the labelled diagnostic set are not in the folder (data README)."""
    settings = EvaluateSettings(tasks=("glue",), data_dir=str(data_dir() / "glue"), limit=2)
    run = evaluate(model, settings, out=tmp_path, doctor=False)
    assert run.notes["left_out_for_want_of_data"] == ["glue/qqp", "glue/mnli_mismatched", "glue/ax"]
    average = run.results["glue"]["average"]
    parts = {name: metrics for name, metrics in run.results.items() if name != "glue"}
    by_hand = [sum(e.value for e in m.values()) / len(m) for m in parts.values()]
    assert len(by_hand) == average.n == 8
    assert math.isnan(sum(by_hand))  # two items are of one class: no Matthews correlation
    assert "glue/cola" in average.undefined
    assert average.value == pytest.approx(sum(by_hand) / 8, nan_ok=True)
    assert "8 of 9" in average.method


# lm-eval 0.4.13, its hf model, float32, the same first 12 rows as local files with its own task definitions.
LM_EVAL = {
    "arc_easy": {"accuracy": 8 / 12, "accuracy_norm": 5 / 12},
    "winogrande": {"accuracy": 6 / 12},
}
FIRST_ROW = {"arc_easy": [-23.5434, -34.0630, -32.4486, -29.2241], "winogrande": [-27.4235, -25.0686]}


@pytest.mark.data
@pytest.mark.weights
@needs_smollm2
@pytest.mark.parametrize("name", LM_EVAL)
def test_real_weights_give_lm_evals_numbers(name, tmp_path):
    settings = EvaluateSettings(tasks=(name,), data_dir=str(data_dir() / "multiple_choice"), limit=12)
    run = evaluate(load("smollm2-135m", dtype="float32"), settings, out=tmp_path, doctor=False)
    for metric, value in LM_EVAL[name].items():
        assert run.results[name][metric].value == pytest.approx(value)
    assert list(run.examples()["log_probabilities"][0]) == pytest.approx(FIRST_ROW[name], abs=1e-3)


@pytest.mark.data
def test_the_command_line_evaluates_several_tasks(tmp_path, capsys):
    folder = save_llama(tmp_path / "llama", positions=512)
    arguments = ["evaluate", str(folder), "--task", "piqa,arc_easy,winogrande", "--limit", "2", "--no-doctor"]
    with pytest.raises(SystemExit, match="0"):
        main(
            [*arguments, "--data-dir", str(data_dir() / "multiple_choice"), "--out", str(tmp_path), "--json"]
        )
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["results"]) == {"piqa", "arc_easy", "winogrande"}


BAD = {
    "kind": (["--task", "ner/wnut17", "--data-dir", "ner"], "needs a classifier model"),
    "missing files": (["--task", "swag", "--data-dir", "ner"], "val.csv"),
    "no judge": (["--task", "realtoxicityprompts", "--data-dir", "ner"], "--judge MODEL"),
    "option": (["--task", "wikitext2", "--shots", "2", "--data-dir", "wikitext2"], "takes no --shots"),
    "no chat": (
        ["--task", "piqa", "--chat", "--data-dir", "multiple_choice", "--limit", "1"],
        "no chat template",
    ),
    "group name": (["--task", "superglu", "--data-dir", "superglue"], "did you mean 'superglue'"),
    "split": (
        ["--task", "piqa", "--split", "dev", "--data-dir", "multiple_choice"],
        "allowed: train, validation",
    ),
    "submission": (
        [
            "--task",
            "glue/rte",
            "--limit",
            "1",
            "--data-dir",
            "glue",
            "--submission",
            "out.zip",
            "--no-doctor",
        ],
        "--split test",
    ),
}


@pytest.mark.data
@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gives_one_line(case, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = save_llama(tmp_path / "llama", positions=512)
    arguments, message = BAD[case]
    arguments = [
        str(data_dir() / a) if i and arguments[i - 1] == "--data-dir" else a for i, a in enumerate(arguments)
    ]
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(folder), "--out", str(tmp_path / "runs"), *arguments])
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]
    assert printed[-1].startswith("workbench: ")
