"""Runs verbs where neither the home nor the current folder can be written: each works, or ends with 2 and one line.

That line names a folder and the option or variable that changes it. Run as a user for whom permissions hold.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKBENCH = str(Path(sys.executable).with_name("workbench"))
MUST_WORK = (
    ["models"],
    ["tokenize", "The keys are here.", "--model", "novels-decoder"],
    ["doctor", "novels-decoder"],
    ["attribute", "novels-decoder", "The keys to the cabinet", "--target", " are"],
)
MAY_REFUSE = (
    ["demo", "--quick"],
    ["evaluate", "novels-decoder", "--task", "lambada_sample", "--limit", "5"],
    ["check", "sentiment-encoder", "--suite", "sentiment", "--limit-per-paradigm", "5"],
    ["probe", "novels-encoder", "--task", "pos", "--limit", "60", "--seeds", "1"],
    ["attend", "novels-encoder", "The old man.", "--view", "head", "--out", "head.html"],
    ["lens", "novels-decoder", "The old man", "--out", "lens.html"],
    ["context", "novels-decoder", "--task", "lambada_sample", "--limit", "5"],
    ["card", "novels-decoder", "--out", "card.md"],
    ["doctor", "smollm2-135m"],
    ["runs"],
)  # fmt: skip


def main() -> None:
    """Print a line a command; exit with 1 where one ends in another way."""
    try:
        Path("written").touch()
    except OSError:
        pass
    else:
        sys.exit("the current folder can be written, so this proves nothing")
    wrong = 0
    for words in [*MUST_WORK, *MAY_REFUSE]:
        done = subprocess.run([WORKBENCH, *words], capture_output=True, text=True, check=False)
        lines = done.stderr.strip().splitlines()
        refused = (
            done.returncode == 2 and len(lines) == 1 and any(s in lines[0] for s in ("--", "WORKBENCH_"))
        )
        is_right = done.returncode == 0 or (refused and words in MAY_REFUSE)
        wrong += not is_right
        print(
            f"{' '.join(words)[:60]}: {'works' if done.returncode == 0 else done.stderr.strip()}", flush=True
        )
    if wrong:
        sys.exit(f"{wrong} commands neither work nor name the folder and what to change")


if __name__ == "__main__":
    main()
