"""``workbench finetune``: give a model a head and train it on a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workbench.cli._shared import COUNT, NUMBER, PATH, SEEDS, report_option
from workbench.paths import check_folder
from workbench.terminal import say

__all__ = ["command"]


@click.command("finetune")
@click.argument("model")
@click.option(
    "--task",
    required=True,
    help="A GLUE task (mrpc, …), a CSV, TSV, JSONL or Parquet file, or hub:NAME[@REVISION][:CONFIGURATION[:SPLIT]].",
)
@click.option("--data-dir", type=PATH, help="Folder of the GLUE files.")
@click.option("--validation", type=PATH, help="File to validate on (default: a tenth).")
@click.option("--kind", help="class, number, tokens, span, choice or response.  [default: class]")
@click.option("--text-column", help="Column of the text, question, words or prompt.")
@click.option("--pair-column", help="Column of the second text, context or choices.")
@click.option("--label-column", help="Column of the label, score, labels, answer or response.")
@click.option("--rationale-column", help="Column with 1 for each word that attention is led to, else 0.")
@click.option("--rationale-weight", type=NUMBER, default=0.1, show_default=True, help="Of that in the loss.")
@click.option(
    "--method", default="full", show_default=True, help="full, head, lora, adapter, prefix, prompt."
)
@click.option("--epochs", type=NUMBER, default=3.0, show_default=True)
@click.option("--batch-size", type=COUNT, default=32, show_default=True)
@click.option(
    "--lr",
    type=NUMBER,
    help="Learning rate (default: the method's own; twice as much in full tuning of under 50 M weights).",
)
@click.option(
    "--schedule", default="linear", show_default=True, help="linear, cosine or constant, after the warm-up."
)
@click.option("--warmup", type=NUMBER, default=0.1, show_default=True, help="Share of the steps.")
@click.option("--weight-decay", type=NUMBER, default=0.01, show_default=True, help="As in AdamW.")
@click.option("--length", type=COUNT, default=128, show_default=True, help="Most tokens of a row.")
@click.option(
    "--rank", type=COUNT, default=8, show_default=True, help="Of LoRA; adapters are 8 times as wide."
)
@click.option(
    "--virtual-tokens", type=COUNT, default=20, show_default=True, help="Of prefix and prompt tuning."
)
@click.option("--layers", type=COUNT, help="Keep only the model's first N layers.")
@click.option(
    "--pooling", help="What a label is read from: first, last, mean, attention.  [default: the model's own]"
)
@click.option("--aspects", type=COUNT, help="Queries of attention pooling (default: one for each label).")
@click.option("--patience", type=COUNT, help="Stop after so many epochs without a better result.")
@click.option("--class-weights", is_flag=True, help="Count each class as if all were equally frequent.")
@click.option(
    "--mixup", type=NUMBER, default=0.0, help="Mix rows by shares from Beta(x, x).  [default: none]"
)
@click.option(
    "--label-smoothing",
    type=NUMBER,
    default=0.0,
    help="Share of a label that all classes have.  [default: none]",
)
@click.option("--gradient-checkpointing", is_flag=True, help="Less memory, more time, the same weights.")
@click.option("--packing", is_flag=True, help="Several conversations in one row of --length, kept apart.")
@click.option("--seeds", type=SEEDS, default="0", show_default=True, help="One or more, separated by commas.")
@click.option("--limit", type=COUNT, help="Only the first N rows to train on.")
@click.option("--precision", default="auto", show_default=True, help="auto, float32 or bfloat16.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, mps.")
@report_option
@click.option("--out", type=PATH, help="Folder (default: runs/MODEL-TASK-METHOD).")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; give the same options.")
def command(model: str, task: str, **options: Any) -> None:
    """Fine-tune MODEL on a task; the result opens in this workbench and in transformers.

    Rows of --kind response are conversations: lists of messages in a column messages or conversations, or the columns
    prompt and response, or instruction, input and output. Only replies and what ends each are scored, in the model's
    chat template or, without one, a plain format that the result is stored with.

    \b
    workbench finetune minilm-l6 --task mrpc --data-dir DIR --method lora --seeds 0,1,2
    workbench finetune MODEL --task pairs.csv --text-column a --pair-column b --label-column same
    workbench finetune MODEL --task chats.jsonl --kind response --packing --length 512
    workbench finetune MODEL --task FILE --out DIR --resume
    """
    from workbench.runs import default_root
    from workbench.training.finetuning import FineSettings, Method, finetune, load_task

    rows = load_task(
        task,
        options["data_dir"],
        kind=options["kind"],
        text=options["text_column"],
        pair=options["pair_column"],
        label=options["label_column"],
        rationale=options["rationale_column"],
        validation=options["validation"],
        limit=options["limit"],
    )
    method = options["method"]
    settings = FineSettings(
        method=Method(method) if method in list(Method) else method,
        **{name: options[name] for name in FineSettings.__dataclass_fields__ if name != "method"},
    )
    out = options["out"] or default_root() / f"{Path(model).name}-{rows.task.name}-{settings.method}"
    check_folder(out)
    run = finetune(
        model,
        rows,
        out,
        settings,
        resume=options["resume"],
        device=options["device"],
        progress=True,
        report_to=options["report_to"] or (),
    )
    _print(run)


def _print(run: Any) -> None:
    from workbench.cli._tables import results_table, training_line

    say(results_table(run.results))
    say(f"\n{training_line(run)}")
