"""A mistake that the arguments alone show is said before any model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.cli import main

LONG = "a" * 300
# What is wrong, and a part of the line that says so. M is a model's name, which must not be opened.
MISTAKES = [
    ("attend M cats", "name the file to write: --out head.html"),
    ("evaluate M --task sst2 --finetune --chat", "do not go with --finetune"),
    ("check M --suite sentiment --chat --explain 2", "do not go with --explain"),
    ("lens M cats --system x", "system is of a chat format"),
    ("tokenize cats --model M --chat --no-special", "leave out one of both"),
    ("generate M cats --special-tokens both", "unknown special tokens 'both'"),
    ("attend M cats --out x.exe", "suffix '.exe' is not one of .csv, .html, .pdf, .png, .svg"),
    ("attend M cats --out folder.html", "it is a folder"),
    ("attend M cats --out file.txt/x.html", "file.txt is a file"),
    (f"attend M cats --out {LONG}.html", "is too long"),
    ("attend M cats --out ''", "the path is empty"),
    ("card M --out .", "it is a folder"),
    ("report none --format md --out .", "it is a folder"),
    ("attend M cats --out x.html --limit 3", "--limit is of a corpus"),
    ("attend M cats --out x.html --seed -1", "-1 is out of range; allowed: 0 to 4294967295"),
    ("attend M --corpus none.txt", "none.txt"),
    ("attend M --corpus file.txt --out file.txt", "file.txt is a file"),
    ("attribute M cats --method salience", "did you mean 'saliency'"),
    ("attribute M cats --baseline zeros", "unknown baseline 'zeros'"),
    ("attribute M cats --output logits", "unknown output 'logits'"),
    ("attribute M cats --normalise total", "unknown normalisation 'total'"),
    ("attribute M cats --unit letter", "unknown unit 'letter'"),
    ("attribute M cats --out x.exe", "suffix '.exe'"),
    ("attribute M --data file.tsv", "--data needs --evaluate"),
    ("attribute M --data none.tsv --evaluate", "none.tsv"),
    ("attribute M --data file.tsv --evaluate --baseline zeros", "unknown baseline 'zeros'"),
    ("attribute M --data file.tsv --evaluate --out file.txt", "file.txt is a file"),
    ("attribute M cats --limit 3", "--limit is of --data"),
    ("check M --set blimpp", "did you mean 'blimp'"),
    ("check M --suite sentimen", "did you mean 'sentiment'"),
    ("check M --set pairs_builtin --convention none", "unknown convention"),
    ("check M --set pairs_builtin --batch-tokens many", "'--batch-tokens'"),
    ("check M --set pairs_builtin --out file.txt", "file.txt is a file"),
    ("check M --set pairs_builtin --dtype int3", "unknown dtype 'int3'"),
    ("check M --set pairs_builtin --device tpu", "device 'tpu' is not available here"),
    ("check M --set pairs_builtin --implementation c", "unknown implementation 'c'"),
    ("context M --task lambada", "unknown task 'lambada'; did you mean "),
    ("context M --task lambada_sample --first-token x", "unknown first-token policy 'x'"),
    ("context M --task lambada_sample --operations fly", "fly"),
    ("context M --task lambada_sample --distances -1", "-1"),
    ("context M --text-file none.txt", "none.txt"),
    ("context M --task lambada_sample --out file.txt", "file.txt is a file"),
    ("doctor M --dtype int3", "unknown dtype 'int3'"),
    ("evaluate M --task lambada", "'lambada_sample'"),
    ("evaluate M --task hans", "set hans reads"),
    ("evaluate M --task sentiment", "'sentiment' is a suite: workbench check MODEL --suite sentiment"),
    ("evaluate M --task lambada_sample --shots 3", "takes no --shots"),
    ("evaluate M --task lambada_sample --split dev", "split is 'dev'"),
    ("evaluate M --task lambada_sample --first-token x", "unknown first-token policy"),
    ("evaluate M --task lambada_sample --batch-tokens many", "'--batch-tokens'"),
    ("evaluate M --task lambada_sample --batch-tokens -3", "'--batch-tokens'"),
    ("evaluate M --task lambada_sample --submission s.zip", "--submission"),
    ("evaluate M --task lambada_sample --recipe file.txt", "--recipe is of --finetune"),
    ("evaluate M --task lambada_sample --train-limit 3", "--train-limit is of --finetune"),
    ("evaluate M --task lambada_sample --out file.txt", "file.txt is a file"),
    ("evaluate M --task lambada_sample --out ''", "the path is empty"),
    ("grid grid.yaml --out file.txt", "file.txt is a file"),
    ("evaluate M --task lambada_sample --seed 4294967296", "out of range"),
    ("finetune M --task none.csv", "none.csv"),
    ("finetune M --task file.tsv --method lora2", "unknown method 'lora2'; did you mean 'lora'"),
    ("finetune M --task file.tsv --seeds 0,x", "'x' is not a whole number"),
    ("finetune M --task file.tsv --seeds -1", "-1 is out of range"),
    ("finetune M --task file.tsv --precision int3", "unknown precision 'int3'"),
    ("finetune M --task file.tsv --device tpu", "device 'tpu' is not available here"),
    ("finetune M --task file.tsv --out file.txt", "file.txt is a file"),
    ("lens M cats --out x.exe", "suffix '.exe'"),
    ("lens M cats --train none.txt", "none.txt"),
    ("lens M cats --tuned --lens-folder nothing", "nothing"),
    ("lens M --neuron x", "'x' is no neuron"),
    ("lens M --neuron 0.1 --corpus none.txt", "none.txt"),
    ("lens M cats --view attribution --tuned", "direct attribution reads no tuned lens"),
    ("patch M --clean a --corrupted b --target c --out x.exe", "suffix '.exe'"),
    (
        "patch M --clean a --corrupted b --target c --sender 1.1",
        "--sender, --receiver and --mlps are of --method path",
    ),
    ("patch M --clean a --corrupted b --target c --method path --sender x", "'x'"),
    ("patch M --clean a --corrupted b --target c --method path --receiver x", "'x'"),
    ("patch M --clean a --corrupted b --target c --method path --sender 0.1 --out x.html", "not a grid"),
    ("probe M --task poss", "did you mean 'pos'"),
    ("probe M --task pos --probe liner", "did you mean 'linear'"),
    ("probe M --task pos --pool middle", "unknown pool 'middle'"),
    ("probe M --task pos --layers x", "layers 'x' are no numbers"),
    ("probe M --task pos --layers 0-99999999999", "more than any model has"),
    ("probe M --task pos --strengths nan", "strengths"),
    ("probe M --task pos --stack middle", "stack"),
    ("probe M --task pos --data none.conllu", "none.conllu"),
    ("probe M --task pos --out file.txt", "file.txt is a file"),
    ("tokenize --model M ' '", "the text is empty"),
    ("train --model M --corpus none.txt --out new", "no corpus at none.txt"),
    ("train --model M --corpus file.txt --out new --objective x", "unknown objective 'x'"),
    ("train --model M --corpus file.txt --out new --seed -1", "out of range"),
    ("train --preset llama-tiny --corpus file.txt --out new --set hidden_size=abc", "hidden_size is 'abc'"),
    ("train --preset llama-tiny --corpus file.txt --out new --set depth.layers=2020-99-99", "'2020-99-99'"),
    ("train --preset llama-tinny --corpus file.txt --out new", "did you mean 'llama-tiny'"),
    ("train --preset llama-tiny --corpus file.txt --out file.txt", "file.txt is a file"),
    ("train --preset llama-tiny --corpus file.txt --out new --report-to fax", "fax"),
    ("train --preset llama-tiny --corpus file.txt --out new --precision int3", "unknown precision 'int3'"),
    ("sweep --preset llama-tiny --corpus file.txt --out new --vary tokens=x", "tokens"),
    ("sweep --preset llama-tiny --corpus file.txt --out new --vary width=8 --seeds -1", "-1"),
    ("sweep --preset llama-tiny --corpus file.txt --out file.txt --vary width=8", "file.txt is a file"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("file.txt").write_text("the cat ran. " * 50)
    Path("file.tsv").write_text("text\tlabel\na\t0\nb\t1\n" * 1 + "c\t0\nd\t1\n" * 20)
    Path("folder.html").mkdir()

    def loaded(name: str, *_: object, **__: object) -> None:
        pytest.fail(f"{name} was opened")

    monkeypatch.setattr("workbench.models.loading._find", loaded)
    return tmp_path


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_a_mistake_is_said_before_a_model_is_opened(words, message, place, capsys):
    import shlex

    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words))
    out, err = capsys.readouterr()
    assert ended.value.code == 2, err
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
