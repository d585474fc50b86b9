"""What must not change: commands over every room on bundled models, and the numbers that they print.

``python -m tests.unchanged --out BEFORE.json`` runs them in one process, with fixed seeds, in float32, and stores what
they print. ``--against BEFORE.json`` runs them again and prints each value that moved by more than 1e-4 of its size, or
appeared, or vanished: run it before and after a change that should leave behaviour alone, and account for each line.
``--only TEXT`` takes the commands that contain it. The public data sets are read from ``WORKBENCH_DATA``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("WORKBENCH_DATA", ROOT.parent / "shared" / "data")).resolve()
TOLERANCE = 1e-4  # of a number's size
# what differs from run to run: names of runs and folders, times and rates
VARIES = re.compile(
    r"\d{8}-\d{6}[\w-]*|/\S*/tmp\w+|[\d.,]+ ?(s|ms|min|MiB|GiB|tokens/s)\b|[\d.,]+ a second|[\d.]+% of the peak"
)
LEFT_OUT = {"run", "throughput", "doctor", "seconds"}

DECODER, ENCODER, CLASSIFIER, SEQ2SEQ, PAIRS = (
    "novels-decoder", "novels-encoder", "planted-sentiment-encoder", "grammar-transformer", "nli-encoder",
)  # fmt: skip
TEXT = "The old man opened the letter and read it slowly."
EXACT = "--dtype float32 --no-doctor --json"
REVIEW = "The food was wonderful, but the service was slow and rude."


def commands(data: Path) -> list[str]:
    """Every command; those that read the public data sets need ``data``."""
    scoring = [f"evaluate {DECODER} --task lambada_sample --limit 40 {EXACT}"]
    public = [
        f"evaluate {model} --task {task} --data-dir {data / folder} --limit {limit} {EXACT}"
        for model, task, folder, limit in (
            (DECODER, "lambada_openai", "lambada", 40),
            (DECODER, "lambada_standard", "lambada", 40),
            (DECODER, "piqa", "multiple_choice", 20),
            (DECODER, "arc_easy", "multiple_choice", 20),
            (DECODER, "winogrande", "multiple_choice", 20),
            (DECODER, "superglue/copa", "superglue", 20),
            (DECODER, "superglue/boolq", "superglue", 10),
            (DECODER, "superglue/wic", "superglue", 20),
            (DECODER, "wikitext2", "wikitext2", 2),
            (DECODER, "truthfulqa_mc1", "truthfulqa", 10),
            (DECODER, "truthfulqa_mc2", "truthfulqa", 10),
            (DECODER, "mmlu", "mmlu", 10),
            (DECODER, "glue/rte", "glue", 20),
            (CLASSIFIER, "glue/sst2", "glue", 60),
            (ENCODER, "lama", "lama", 40),
        )
    ]
    checks = [
        f"check {DECODER} --set pairs_builtin --limit-per-paradigm 10 {EXACT}",
        f"check {ENCODER} --set pairs_builtin --limit-per-paradigm 4 {EXACT}",
        f"check {SEQ2SEQ} --set pairs_builtin --limit-per-paradigm 4 {EXACT}",
        f"check {CLASSIFIER} --suite sentiment --limit-per-paradigm 20 {EXACT}",
        f"check {DECODER} --suite sentiment --limit-per-paradigm 5 {EXACT}",
        f"check {DECODER} --set blimp --data-dir {data / 'blimp'} --limit-per-paradigm 3 {EXACT}",
        f"check {DECODER} --set blimp --data-dir {data / 'blimp'} --limit-per-paradigm 3 --convention lm-eval {EXACT}",
        f"check {DECODER} --set crows_pairs --data-dir {data / 'crows_pairs'} --limit 40 {EXACT}",
        f"check {ENCODER} --set crows_pairs --data-dir {data / 'crows_pairs'} --limit 20 {EXACT}",
    ]
    checks += [
        f"check {model} --set {name} --data-dir {data / folder} {limit} {EXACT}"
        for model, name, folder, limit in (
            (DECODER, "agreement", "agreement", "--limit-per-paradigm 3"),
            (ENCODER, "lm_diagnostics", "lm_diagnostics", "--limit 30"),
            (DECODER, "lm_diagnostics", "lm_diagnostics", "--limit 30"),
            (ENCODER, "lama", "lama", "--limit 40"),
            (DECODER, "wsc", "multiple_choice", "--limit 20"),
            (CLASSIFIER, "contrast_sets", "contrast_sets", "--limit 20"),
        )
    ]
    conllu = data / "ud" / "en_ewt-ud-dev.conllu"
    inside = [
        f"probe {ENCODER} --task pos --limit 200 --seeds 1 --dtype float32 --json",
        f"probe {DECODER} --task pos --limit 150 --seeds 2 --dtype float32 --json",
        f"probe {ENCODER} --task deprel --data {conllu} --limit 100 --seeds 1 --dtype float32 --json",
        f"attend {ENCODER} --corpus {conllu} --limit 60 {EXACT}",
        f"attend {DECODER} --corpus {conllu} --limit 60 {EXACT}",
        f'lens {DECODER} "{TEXT}" --json',
        f'lens {DECODER} "The old man opened the" --target " door" --contrast " letter" --json',
        f'lens {DECODER} "The old man opened the" --target " door" --view attribution --json',
        f'lens {ENCODER} "The old man [MASK] the letter." --json',
        f'patch {DECODER} --clean "The men near the door" --corrupted "The man near the door" --target " are" '
        '--contrast " is" --json',
        f"context {DECODER} --task lambada_sample --limit 10 --dtype float32 --json",
        f'tokenize "{TEXT}" --model {DECODER} --json',
        f'tokenize "{TEXT}" --model {ENCODER} --json',
        *(f"doctor {model} --json" for model in (DECODER, ENCODER, CLASSIFIER, SEQ2SEQ, PAIRS)),
    ]
    methods = (
        "saliency", "input_x_gradient", "integrated_gradients", "occlusion", "attention_rollout", "lime", "kernel_shap",
        "deeplift", "gradient_shap", "smoothgrad", "attention_gradient", "value_zeroing", "layer_integrated_gradients",
    )  # fmt: skip
    saliency = [
        *(
            f'attribute {CLASSIFIER} "{REVIEW}" --method {method} --dtype float32 --json'
            for method in methods
        ),
        f'attribute {DECODER} "The keys to the cabinet" --target " are" --contrast " is" --dtype float32 --json',
        f'attribute {ENCODER} "The old man [MASK] the letter." --target opened --dtype float32 --json',
        f'attribute {SEQ2SEQ} "{TEXT}" --target " the" --dtype float32 --json',
        f'attribute {DECODER} "{TEXT}" --method integrated_gradients --dtype float32 --json',
        f'attribute {CLASSIFIER} "{REVIEW}" --method random --dtype float32 --json',
    ]
    training = [
        "train --preset llama-tiny --objective clm --corpus novel.txt --steps 12 --seed 3 --out tiny-clm",
        "train --preset bert-tiny --objective mlm --corpus novel.txt --steps 12 --seed 3 --out tiny-mlm",
        *(
            f"finetune {ENCODER} --task reviews.csv --text-column text --label-column label --method {method} "
            f"--epochs 2 --seeds 1 --out tuned-{method}"
            for method in ("full", "lora")
        ),
        f"evaluate tiny-clm --task lambada_sample --limit 10 {EXACT}",
        f"card {DECODER} --out card.md",
    ]
    generated = [
        f"evaluate {model} --task {task} --data-dir {data / folder} --limit {limit} {EXACT}"
        for model, task, folder, limit in (
            (DECODER, "squad", "squad", 5),
            (SEQ2SEQ, "xsum", "xsum", 3),
            (SEQ2SEQ, "multi30k/en-de", "multi30k", 3),
            (DECODER, "bbh/navigate", "bbh", 5),
        )
    ]
    return [*scoring, *public, *generated, *checks, *inside, *saliency, *training]


def prepare() -> None:
    """The files that commands read, in the current folder."""
    from workbench.data.grammar import sentences

    Path("novel.txt").write_text("\n".join(s.text for s in sentences(3000, seed=0)), encoding="utf-8")
    words = (("good", "positive"), ("bad", "negative"), ("wonderful", "positive"), ("awful", "negative"))
    rows = [f'"The food was {word}.",{label}' for word, label in words for _ in range(20)]
    Path("reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")


def run(command: str) -> tuple[int, str]:
    """The exit code and what the command printed, without what varies from run to run."""
    from workbench.cli import main

    output, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main(shlex.split(command))
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception:
        code, errors = 99, io.StringIO(traceback.format_exc())
    printed = output.getvalue() if code in (0, 1) else errors.getvalue()[-2000:]
    return code, VARIES.sub("…", printed)


def values(printed: str) -> dict[str, Any]:
    """What was printed as values by their places: of JSON by keys, of text by lines."""
    try:
        found = json.loads(printed)
    except ValueError:
        found = printed.splitlines()
    return dict(_flat(found, ""))


def _flat(found: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in LEFT_OUT:
                yield from _flat(value, f"{place}/{key}")
    elif isinstance(found, list):
        for number, value in enumerate(found):
            yield from _flat(value, f"{place}[{number}]")
    else:
        yield place, found


def difference(before: str, after: str) -> list[str]:
    """Lines that say which values moved."""
    old, new = values(before), values(after)
    lines = [f"{place}: {old[place]} is gone" for place in old.keys() - new.keys()]
    lines += [f"{place}: {new[place]} is new" for place in new.keys() - old.keys()]
    for place in old.keys() & new.keys():
        if not _near(old[place], new[place]):
            lines.append(f"{place}: {old[place]} -> {new[place]}")
    return sorted(line[:200] for line in lines)


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE * max(abs(one), abs(other), 1e-3)
    return bool(one == other)


def main() -> None:
    """Run, store, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    out, against = (path and path.resolve() for path in (options.out, options.against))
    before = json.loads(against.read_text(encoding="utf-8")) if against else {}
    now, moved = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for command in commands(DATA):
            if options.only not in command:
                continue
            start = time.monotonic()
            key = command.replace(str(DATA), "DATA")
            code, printed = run(command)
            now[key] = {"code": code, "printed": printed}
            print(f"{code} {time.monotonic() - start:5.1f} s  {key[:120]}", flush=True)
            if code not in (0, 1):
                print(f"      {printed.strip()[-200:]}")
            if key in before:
                lines = difference(before[key]["printed"], printed)
                moved += bool(lines)
                print("\n".join(f"      {line}" for line in lines[:30]))
            if out:
                out.write_text(json.dumps(now, indent=1), encoding="utf-8")
        os.chdir("/")
    if against:
        sys.exit(f"{moved} of {len(now)} commands print other numbers" if moved else 0)


if __name__ == "__main__":
    main()
