"""What the bundled translators reach on sentences that they were not trained on, in their cards.

``python -m workbench.report.translators [NAME ...]`` measures them as they ship, on the 500 pairs of the invented
language that come with the package: the share translated exactly, and the alignment error rate of each layer and head.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import workbench
from workbench.analysis.alignment_error import HeadAlignment, Step, alignment_error
from workbench.data.grammar.invented import invented_pairs
from workbench.data.pairs import read_linked_pairs
from workbench.evaluate import evaluate
from workbench.models import LoadedModel, load
from workbench.runs import write_atomically
from workbench.terminal import say

__all__ = ["measure_translator"]

_ROOT = Path(workbench.__file__).parent
_PAIRS = _ROOT / "data" / "samples" / "invented_language.jsonl"
_TASK = "invented_language"
_NAME = "unseen sentences"


def measure_translator(model: LoadedModel, card: dict[str, Any]) -> dict[str, Any]:
    """The card with exact match and alignment error, the latter for every head and of the best one.

    The best head, or mean of heads, and the step whose attention is read are chosen on the validation pairs.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = evaluate(model, tasks=_TASK, data_dir=str(_PAIRS.parent), out=folder).results[_TASK]
    pairs = read_linked_pairs(_PAIRS)
    choosing = [pair.linked() for pair in invented_pairs(2 * len(pairs))[len(pairs) :]]
    judged = {step: alignment_error(model, pairs, step=step).heads for step in Step}
    chosen = {step: alignment_error(model, choosing, step=step).heads for step in Step}
    step, place = min(
        ((step, place) for step, heads in chosen.items() for place in range(len(heads))),
        key=lambda at: chosen[at[0]][at[1]].error.value,
    )
    best = judged[step][place]
    found = {"exact_match": results["exact_match"], "alignment_error": best.error}
    alignment: dict[str, Any] = {str(step): _records(heads) for step, heads in judged.items()}
    alignment["chosen"] = {"step": step, "layer": best.layer, "head": best.head}
    held_out = {_NAME: {metric: estimate.to_dict() for metric, estimate in found.items()}}
    return {**card, "held_out": held_out, "alignment": alignment}


def _records(heads: Sequence[HeadAlignment]) -> list[dict[str, Any]]:
    return [
        {"layer": head.layer, "head": head.head, "alignment_error": head.error.to_dict()} for head in heads
    ]


def _is_translator(card: dict[str, Any]) -> bool:
    return bool(card["recipe"].get("objective", {}).get("name") == "translation")


def _main() -> None:
    parser = argparse.ArgumentParser(description="Measure the bundled translators and write their cards.")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for file in sorted((_ROOT / "models" / "bundled").glob("*/card.json")):
        card = json.loads(file.read_text(encoding="utf-8"))
        if not _is_translator(card) or (given.names and card["name"] not in given.names):
            continue
        card = measure_translator(load(str(file.parent), dtype="float32", device="cpu"), card)
        write_atomically(file, (json.dumps(card, indent=1) + "\n").encode())
        found = card["held_out"][_NAME]
        say(f"{card['name']}: " + ", ".join(f"{name} {value['value']:.4f}" for name, value in found.items()))


if __name__ == "__main__":
    _main()
