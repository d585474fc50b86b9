"""``workbench attend --alignment``: the alignment error rate of every head that looks from target to source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli._shared import load_named, model_line, model_record
from workbench.cli._tables import table
from workbench.errors import WorkbenchError
from workbench.paths import check_output
from workbench.terminal import counted, say, say_json

if TYPE_CHECKING:
    from workbench.analysis.alignment_error import AlignmentScores, HeadAlignment

__all__ = ["measure_alignment"]


def measure_alignment(name: str, file: Path, options: dict[str, Any], as_json: bool) -> None:
    """Print the table, best head below; ``--out`` takes it as CSV."""
    from workbench.analysis.alignment_error import alignment_error
    from workbench.data.pairs import read_linked_pairs

    for option in (
        "pair",
        "target",
        "layer",
        "heads",
        "include_layers",
        "clusters",
        "importance",
        "over_steps",
    ):
        if options[option]:
            raise WorkbenchError(
                f"--{option.replace('_', '-')} does not go with --alignment; leave it out: every head is judged"
            )
    out = options["out"]
    if out is not None:
        check_output(out, (".csv",))
    pairs = read_linked_pairs(file, options["limit"])
    model = load_named(name, options)
    scores = alignment_error(
        model, pairs, step=options["step"], threshold=options["threshold"], seed=options["seed"]
    )
    if out is not None:
        scores.to_frame().to_csv(out, index=False)
    if as_json:
        say_json({"model": model_record(model), **_record(scores), "file": None if out is None else str(out)})
    else:
        say(f"{model_line(model)}: {counted(scores.pairs, 'pair')}, {_links(scores)}\n")
        say(_table(scores))
        say(f"\nbest: {_name(scores.best)}" + ("" if out is None else f"; stored in {out}"))


def _links(scores: AlignmentScores) -> str:
    made = (
        "each target word linked to the source word with most attention"
        if scores.threshold is None
        else f"words linked from an attention of {scores.threshold:g} on"
    )
    return f"{made}, of the step that {scores.step} it"


def _name(head: HeadAlignment) -> str:
    return f"layer {head.layer}, " + ("mean of heads" if head.head is None else f"head {head.head}")


def _table(scores: AlignmentScores) -> str:
    header = ("layer", "head", "alignment error", "95 % low", "95 % high", "precision", "recall")
    rows = scores.to_frame().itertuples(index=False)
    return table(header, [[f"{v:.3f}" if isinstance(v, float) else v for v in row] for row in rows])


def _record(scores: AlignmentScores) -> dict[str, Any]:
    heads = [
        {
            "layer": h.layer,
            "head": h.head,
            "alignment_error": h.error.to_dict(),
            "precision": h.precision.to_dict(),
            "recall": h.recall.to_dict(),
        }
        for h in scores.heads
    ]
    return {"pairs": scores.pairs, "step": scores.step, "threshold": scores.threshold, "heads": heads}
