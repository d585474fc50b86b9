"""A folder with what generated commands name: tiny models, small data files, and broken ones of every kind."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from tests.model_folders import SIZES, framed_tokenizer, save, save_bart, save_bert, save_llama
from tests.unit.tiny import WORDS

__all__ = ["World", "make_world"]

CONFIGURATION = """
model_type: workbench-decoder
hidden_size: 16
attention: {heads: 2, bias: false, output_bias: false}
positions: {kind: rotary, max_length: 32}
feed_forward: {activation: gelu, size: 32}
depth: {layers: 1}
"""
SUITE = """
suite: small
labels: {negative: [neg, LABEL_0], positive: [pos, LABEL_1]}
prompt: {text: "{0} It is", answers: {negative: " cat", positive: " dogs"}}
tests:
  - {name: t, capability: Vocabulary, kind: MFT, template: "the {n} ran", lexicons: {n: [cat, dogs]}, label: negative}
  - {name: i, capability: Robustness, kind: INV, template: "the {n} ran", lexicons: {n: [cat, dogs]}, perturb: [typos]}
"""
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
STEERING = "\x1b[31m\x07\u202e\x9b2J"
BROKEN_YAML = {
    "laughs.yaml": LAUGHS,
    "recursive.yaml": "a: &a {b: *a}\n",
    "surrogate.yaml": 'suite: "half \\ud83d"\nlabels: {}\ntests: []\n',
    "escapes.yaml": 'suite: "\\e[31mred\\u202e"\nlabels: {"\\x9b": [a]}\ntests: [{"\\e]0;x\\a": 1}]\n',
    "dates.yaml": "models: [2020-99-99]\ntasks: [2020-01-01]\nlimit: 2020-99-99\n",
    "list.yaml": "- 1\n- 2\n",
    "tags.yaml": "!!python/object/apply:os.system [true]\n",
    "deep.yaml": "[" * 2000,
    "half.yaml": "models: [a\n",
    "odd.yaml": "version: 1\ndefault: {epochs: .nan, method: [], lr: 1:30}\ntasks: {glue/sst2: 3}\n",
    "odd2.yaml": "models: [{name: 3, dtype: []}]\ntasks: [[]]\nseed: -1\nbatch_tokens: {}\n",
    "odd3.yaml": "model: {config: 3, set: x}\ndata: {corpus: [], length: 1e400}\noptimisation: {lr: fast, seed: -1}\n",
}
BROKEN_FILES = {
    "empty.txt": b"",
    "blank.txt": b"\n \n",
    "latin.txt": b"caf\xe9 cr\xe8me\n",
    "binary.txt": b"\x00\x01\x02PAR1",
    "steering.txt": f"the {STEERING} cat\n".encode(),
    "half.jsonl": b'{"text": "the cat"',
    "surrogate.jsonl": b'{"text": "the \\ud83d cat", "label": 1}\n',
    "list.jsonl": b"[1, 2]\n3\n",
    "ragged.tsv": b"sentence\tlabel\nthe cat\nthe dogs\t1\t2\n",
    "steering.tsv": f"sentence{STEERING}\tlabel\nthe {STEERING}\t{STEERING}\n".encode(),
    "half.parquet": b"PAR1 half",
    "half.conllu": b"1\tthe\n",
    "half.csv": b'sentence,label\n"the cat,1\n',
    "half.json": b'{"a": ',
    "half.gguf": b"GGUF\x03\x00",
    "old.bin": b"\x80\x04pickle",
    "config.json": b"[]",
}


@dataclass(frozen=True)
class World:
    """Names that a command may give, by what they are."""

    root: Path
    models: tuple[str, ...]
    broken_models: tuple[str, ...]
    texts: tuple[str, ...]
    tables: tuple[str, ...]
    broken: tuple[str, ...]
    runs: tuple[str, ...]


def make_world(root: Path) -> World:
    """Everything below ``root``."""
    files = {name: text.encode() for name, text in BROKEN_YAML.items()} | BROKEN_FILES
    for name, content in files.items():
        (root / name).write_bytes(content)
    _good_files(root)
    models = _models(root / "models")
    broken = _broken_models(root / "broken", Path(models[0]))
    return World(
        root=root,
        models=models,
        broken_models=broken,
        texts=(str(root / "texts.txt"), str(root / "trees.conllu")),
        tables=tuple(str(root / name) for name in ("table.tsv", "table.jsonl", "table.csv")),
        broken=(*(str(root / name) for name in files), str(root), str(root / "missing.txt"), "/dev/null"),
        runs=_runs(root / "runs"),
    )


def _good_files(root: Path) -> None:
    rows = [
        (f"the {a} {b} ran", n % 2) for n, (a, b) in enumerate((a, b) for a in WORDS[:6] for b in WORDS[:6])
    ]
    (root / "texts.txt").write_text("\n".join(text for text, _ in rows) + "\n")
    (root / "table.tsv").write_text("sentence\tlabel\n" + "".join(f"{t}\t{y}\n" for t, y in rows))
    (root / "table.csv").write_text("sentence,label\n" + "".join(f"{t},{y}\n" for t, y in rows))
    (root / "table.jsonl").write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows))
    tree = "1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\tNN\tNumber=Sing\t3\tnsubj\t_\t_\n"
    tree += "3\tran\trun\tVERB\tVBD\t_\t0\troot\t_\t_\n\n"
    (root / "trees.conllu").write_text(tree * 12)
    (root / "suite.yaml").write_text(SUITE)
    (root / "tiny.yaml").write_text(CONFIGURATION)
    (root / "grid.yaml").write_text(
        f"models: [{root / 'models' / 'llama'}]\ntasks: [lambada_sample]\nlimit: 2\n"
    )
    (root / "recipe.yaml").write_text("version: 1\ndefault: {epochs: 1}\ntasks: {}\n")
    (root / "train.yaml").write_text(
        f"model: {{config: {root / 'tiny.yaml'}}}\n"
        f"data: {{corpus: {root / 'texts.txt'}, tokenizer: bytes, length: 16}}\n"
        "optimisation: {steps: 2, batch_size: 2}\nloop: {report_to: []}\n"
    )


def _models(folder: Path) -> tuple[str, ...]:
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
    torch.manual_seed(0)
    made = [save_llama(folder / "llama"), save_bert(folder / "bert"), save_bart(folder / "bart")]
    config = BertConfig(**SIZES, **heads, initializer_range=0.3, pad_token_id=0)
    tokenizer = framed_tokenizer()
    tokenizer.mask_token = tokenizer.unk_token
    made.append(save(BertForMaskedLM(config), tokenizer, folder / "masked"))
    made.append(save(BertForMaskedLM(config), framed_tokenizer(), folder / "maskless"))
    made.append(save(BertForSequenceClassification(config), framed_tokenizer(), folder / "classifier"))
    return tuple(map(str, made))


def _broken_models(folder: Path, good: Path) -> tuple[str, ...]:
    changes = {
        "no config": {"config.json": None},
        "list": {"config.json": b"[]"},
        "half config": {"config.json": b'{"model_type": "llama"'},
        "unknown type": {"config.json": b'{"model_type": "\\u001b[31m\\u202e"}'},
        "no weights": {"model.safetensors": None},
        "empty weights": {"model.safetensors": b""},
        "half weights": {"model.safetensors": b"\xff" * 64},
        "pickle": {"model.safetensors": None, "pytorch_model.bin": b"\x80\x04"},
        "half tokenizer": {"tokenizer.json": b"{"},
    }
    for name, files in changes.items():
        place = folder / name
        shutil.copytree(good, place)
        for file, content in files.items():
            (place / file).unlink(missing_ok=True)
            if content is not None:
                (place / file).write_bytes(content)
    return tuple(str(folder / name) for name in changes)


def _runs(folder: Path) -> tuple[str, ...]:
    """Two complete runs, one unfinished, and one whose record is broken."""
    from workbench.estimate import Estimate
    from workbench.runs import RunFolder, RunRecord

    found = []
    for name in ("one", "two", "unfinished", "steering"):
        model = {"name": f"m{STEERING}" if name == "steering" else "m", "dtype": "float32", "parameters": 3}
        model |= {"revision": None, "implementation": "hf", "content_hash": "0", "kind": "causal"}
        recipe = {"tasks": ["t"], "data_dir": None, "limit": 2, "seed": 0, "first_token": "auto"}
        record = RunRecord.new("evaluate", recipe=recipe, model=model, data={}, seeds={}, label=name)
        run = RunFolder.create(folder, record)
        run.append(
            [{"id": str(n), "task": "t", "correct": n % 3 > 0, "text": f"x{STEERING}"} for n in range(30)]
        )
        if name != "unfinished":
            estimate = Estimate(value=0.5, standard_error=0.1, low=0.3, high=0.7, n=30)
            run.finish({f"t{STEERING if name == 'steering' else ''}": {"accuracy": estimate}}, {})
        found.append(str(run.path))
    half = folder / "half"
    half.mkdir()
    (half / "run.json").write_text('{"schema_version": 1')
    return (*found, str(half), Path(found[0]).name)
