"""Writes docs/verbs/: one page a verb with its help and an example with its real output.

``python docs/write_verbs.py`` runs every example on bundled models in a folder of its own, in this order; examples
may read what earlier ones made. ``python docs/write_verbs.py VERB …`` keeps the pages of the others, and
``python docs/write_verbs.py --check`` writes nothing: each example must work in the environment at hand, or end with
exit code 2 and one line that names the extra to install.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from forks import run

from workbench.cli import COMMANDS

DOCS = Path(__file__).parent
MOST_LINES = 40
WIDEST = 150

# {verb} stands for the last run that the verb made, {verb:2} for the one before it
EXAMPLES: dict[str, tuple[str, ...]] = {
    "models": ("workbench models",),
    "tasks": ("workbench tasks", "workbench tasks reviews.csv", "workbench tasks preferences.jsonl"),
    "sets": ("workbench sets",),
    "tokenize": ('workbench tokenize "The keys to the cabinet are here." --model novels-decoder',),
    "doctor": ("workbench doctor novels-decoder",),
    "evaluate": (
        "workbench evaluate novels-decoder --task lambada_sample",
        "workbench evaluate novels-decoder --task lambada_sample --dtype bfloat16",
    ),
    "surprisal": ('workbench surprisal novels-decoder "The horse raced past the barn fell."',),
    "compare": (
        "workbench compare {evaluate:2} {evaluate}",
        "workbench compare novels-decoder smollm2-135m --preferences --prompts preferences.jsonl "
        "--by model:sentiment-encoder#positive --max-tokens 16",
    ),
    "generate": (
        'workbench generate novels-decoder "She was" --beams 3 --max-tokens 8 --out beams.html',
        'workbench generate novels-decoder "She was" --contrastive 0.6 --top-k 5 --max-tokens 8',
        'workbench generate novels-decoder "She was" --best-of 4 --reward model:sentiment-encoder#positive '
        "--max-tokens 8",
    ),
    "check": (
        "workbench check novels-decoder --set pairs_builtin --limit-per-paradigm 20",
        "workbench check sentiment-encoder --suite sentiment --limit-per-paradigm 20",
    ),
    "probe": ("workbench probe novels-encoder --task pos --limit 300 --seeds 1",),
    "attend": (
        'workbench attend novels-encoder "The old man opened the letter." --view head --out head.html',
        "workbench attend grammar-bahdanau --alignment pairs.jsonl",
    ),
    "attribute": (
        'workbench attribute novels-decoder "The keys to the cabinet" --target " are" --contrast " is"',
    ),
    "lens": ('workbench lens novels-decoder "The old man opened the" --out lens.html',),
    "patch": (
        'workbench patch novels-decoder --clean "The men near the door" --corrupted "The man near the door" '
        '--target " are" --contrast " is" --out patch.html',
    ),
    "context": ("workbench context novels-decoder --task lambada_sample --limit 20",),
    "train": (
        "workbench train --preset llama-tiny --objective clm --corpus novel.txt --steps 20 --keep-steps 0,5,10,20 "
        "--out tiny",
    ),
    "changes": ("workbench changes novels-encoder sentiment-encoder --texts novel.txt",),
    "sweep": (
        "workbench sweep --preset llama-tiny --objective clm --vary positions=rope,alibi --corpus novel.txt "
        "--steps 10 --out sweep",
    ),
    "align": ("workbench align novels-decoder --data preferences.jsonl --epochs 2 --out aligned",),
    "judge": ("workbench judge novels-decoder --data preferences.jsonl --pairs judged.jsonl",),
    "finetune": (
        "workbench finetune novels-encoder --task reviews.csv --text-column text --label-column label "
        "--method full --epochs 6 --lr 0.001 --out reviews",
    ),
    "grid": ("workbench grid grid.yaml --out grid",),
    "report": (
        "workbench report {evaluate} --format md",
        "workbench report {evaluate} {check} --out both.html",
    ),
    "card": ("workbench card novels-decoder --out README.md",),
    "runs": ("workbench runs",),
    "demo": ("workbench demo --quick",),
    "dashboard": (),
}


def main(verbs: list[str]) -> None:
    """Write the pages of ``verbs``, or of all."""
    missing = sorted(set(COMMANDS) - set(EXAMPLES))
    if missing:
        sys.exit(f"no example for {', '.join(missing)}; add one to EXAMPLES")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _prepare(place)
        for verb, commands in EXAMPLES.items():
            if verb in COMMANDS and (not verbs or verb in verbs or (commands and _is_read(verb, verbs))):
                outputs = [_run(_filled(command, place), place) for command in commands]
                if not verbs or verb in verbs:
                    _page(verb, [*zip(commands, outputs, strict=True)], place)
    _index()


def check() -> None:
    """Run every example and README's Python; exit with 1 where one neither works nor names an extra."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _prepare(place)
        commands = [shlex.split(command) for examples in EXAMPLES.values() for command in examples]
        programs = [["python", "-c", code] for code in _python_of_readme()]
        for command in [*commands, *programs]:
            words = [_filled(word, place) for word in command]
            done = run(words, place)
            says_extra = done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "[" in done.stderr
            wrong += not (done.returncode == 0 or says_extra)
            shown = done.stderr.strip() if done.returncode else "works"
            print(f"{shlex.join(words)[:100]}: {shown}".replace("\n", "\n    "), flush=True)
    if wrong:
        sys.exit(f"{wrong} documented examples neither work nor name an extra")


def _python_of_readme() -> list[str]:
    return re.findall(
        r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )


def _is_read(verb: str, verbs: list[str]) -> bool:
    return any(f"{{{verb}" in command for other in verbs for command in EXAMPLES[other])


def _prepare(place: Path) -> None:
    from workbench.data.grammar import sentences as generate
    from workbench.data.grammar.invented import invented_pairs

    sentences = [sentence.text for sentence in generate(3000, seed=0)]
    pairs = "".join(json.dumps(pair.to_dict()) + "\n" for pair in invented_pairs(100))
    (place / "pairs.jsonl").write_text(pairs, encoding="utf-8")
    (place / "novel.txt").write_text("\n".join(sentences), encoding="utf-8")
    rows = [f'"The food was {word}.",{label}' for word, label in _WORDS for _ in range(20)]
    (place / "reviews.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    wishes = [
        {"prompt": f"Once upon a time there was {who}", "chosen": good, "rejected": bad}
        for who in ("a king", "a queen", "an old man", "a young woman", "a soldier", "a child", "a fisherman")
        for good, bad in ((" who was happy.", " who was sad."), (" with many friends.", " with no friends."))
    ]
    (place / "preferences.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in wishes), encoding="utf-8"
    )
    (place / "grid.yaml").write_text(
        "models: [novels-decoder, smollm2-135m]\ntasks: [lambada_sample]\n", encoding="utf-8"
    )


_WORDS = (("good", "positive"), ("bad", "negative"), ("wonderful", "positive"), ("awful", "negative"))


def _filled(command: str, place: Path) -> str:
    def path(match: re.Match[str]) -> str:
        verb, back = match[1], int(match[2] or 1)
        made = sorted(p for p in (place / "runs").iterdir() if f'"verb": "{verb}"' in _record(p))
        return str(made[-back].relative_to(place))

    return re.sub(r"\{(\w+)(?::(\d))?\}", path, command)


def _record(run: Path) -> str:
    path = run / "run.json"
    return re.sub(r'"verb":\s*', '"verb": ', path.read_text(encoding="utf-8")) if path.is_file() else ""


def _run(command: str, place: Path) -> str:
    done = run(shlex.split(command), place)
    if done.returncode:
        sys.exit(f"{command}\n{done.stderr}")
    text = done.stdout.replace(f"{place.resolve()}/", "").replace(f"{place}/", "")
    lines = [f"{line[:WIDEST]}…" if len(line) > WIDEST else line for line in text.rstrip().splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… ({len(lines) - MOST_LINES} more lines)"]
    print(f"$ {command}\n{chr(10).join(lines[:3])}", flush=True)
    return "\n".join(lines)


def help_of(verb: str) -> str:
    """What ``workbench VERB --help`` prints."""
    return run(["workbench", verb, "--help"], DOCS).stdout.rstrip()


def _page(verb: str, examples: list[tuple[str, str]], place: Path) -> None:
    parts = [f"# workbench {verb}\n\n{COMMANDS[verb][1]}\n"]
    for command, output in examples:
        parts.append(f"```text\n$ {_filled(command, place)}\n{output}\n```\n")
    parts.append(f"## Options\n\n```text\n{help_of(verb)}\n```\n")
    (DOCS / "verbs" / f"{verb}.md").write_text("\n".join(parts), encoding="utf-8")


def _index() -> None:
    rows = [f"| [`{verb}`]({verb}.md) | {COMMANDS[verb][1]} |" for verb in sorted(COMMANDS)]
    lines = [
        "# Commands\n",
        "`workbench VERB --help` says the same. Every verb that measures stores a run; `--json` prints one object for",
        "scripts, where a verb has it. A user's mistake prints one line and exits with 2.\n",
        "`workbench --quiet VERB` prints results and errors alone, `--verbose` also the log of other packages and",
        "where a refused input was found; `workbench --install-completion` completes verbs and options in bash, zsh,",
        "fish.\n",
        "| verb | |\n|---|---|",
        *rows,
    ]
    (DOCS / "verbs" / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "110"
    check() if sys.argv[1:] == ["--check"] else main(sys.argv[1:])
