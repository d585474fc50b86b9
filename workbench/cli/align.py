"""``workbench align``: train a model on preferences or rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workbench.cli._shared import COUNT, NUMBER, PATH, SEEDS, report_option
from workbench.paths import check_folder
from workbench.terminal import say

__all__ = ["command"]


@click.command("align")
@click.argument("model")
@click.option(
    "--data",
    help="Name or file of pairs (prompt, chosen, rejected), prompts for rloo and grpo; or planted: drawn by a rule.",
)
@click.option("--data-dir", type=PATH, help="Folder with downloaded data files.")
@click.option("--split", help="Part of the data.  [default: its first]")
@click.option("--validation", type=PATH, help="File to validate on (default: a tenth of the prompts).")
@click.option("--limit", type=COUNT, help="Only the first N pairs to train on.")
@click.option("--method", default="dpo", show_default=True, help="reward, dpo, kto, rloo or grpo.")
@click.option("--loss", help="Of dpo: sigmoid, ipo, hinge, …; of kto: kto, apo_zero_unpaired.")
@click.option("--beta", type=NUMBER, default=0.1, show_default=True, help="Strength of the reference.")
@click.option(
    "--reference", metavar="MODEL", help="What the policy is held to (default: itself, before training)."
)
@click.option("--epochs", type=NUMBER, default=1.0, show_default=True)
@click.option("--steps", type=COUNT, help="Updates, instead of epochs.")
@click.option("--batch-size", type=COUNT, default=16, show_default=True)
@click.option("--lr", type=NUMBER, help="Learning rate (default: the method's own).")
@click.option(
    "--schedule", default="linear", show_default=True, help="linear, cosine or constant, after the warm-up."
)
@click.option("--warmup", type=NUMBER, default=0.1, show_default=True, help="Share of the steps.")
@click.option("--weight-decay", type=NUMBER, default=0.0, show_default=True, help="As in AdamW.")
@click.option(
    "--length", type=COUNT, help="Most tokens of prompt and reply (default: the model's, up to 1024)."
)
@click.option(
    "--long-prompts",
    default="refuse",
    show_default=True,
    help="Prompts without room for a reply: refuse, cut, drop.",
)
@click.option("--chat", is_flag=True, help="Put prompts into the model's chat format.")
@click.option("--lora", is_flag=True, help="Train low-rank updates, merged at the end.")
@click.option("--rank", type=COUNT, default=8, show_default=True, help="Of LoRA.")
@click.option("--label-smoothing", type=NUMBER, default=0.0, help="Share of wrong labels.  [default: none]")
@click.option("--margin", type=NUMBER, default=0.0, help="That reward models are asked for.  [default: none]")
@click.option("--centring", type=NUMBER, default=0.0, help="Keeps rewards around 0.  [default: none]")
@click.option(
    "--pooling", help="What a reward is read from: first, last, mean, attention.  [default: the model's own]"
)
@click.option(
    "--desirable-weight", type=NUMBER, default=1.0, show_default=True, help="Of chosen replies, in kto."
)
@click.option(
    "--undesirable-weight", type=NUMBER, default=1.0, show_default=True, help="Of rejected ones, in kto."
)
@click.option(
    "--reward", help="Of rloo, grpo: model:NAME[#LABEL], pattern:REGEX, python:module:function, suite:FILE."
)
@click.option("--gold-reward", metavar="REWARD", help="A second one that is logged and not learned from.")
@click.option("--generations", type=COUNT, default=4, show_default=True, help="Replies to each prompt.")
@click.option("--max-new-tokens", type=COUNT, default=48, show_default=True, help="Of a reply.")
@click.option("--temperature", type=NUMBER, default=1.0, show_default=True, help="Of replies in training.")
@click.option("--clip", type=NUMBER, default=0.2, show_default=True, help="PPO's bound on the ratio.")
@click.option("--iterations", type=COUNT, default=1, show_default=True, help="Updates from the same replies.")
@click.option("--reward-clip", type=NUMBER, help="Largest size of a reward (default: none).")
@click.option("--save-every", type=COUNT, help="Updates between checkpoints (default: an epoch).")
@click.option("--gradient-checkpointing", is_flag=True, help="Less memory, more time, the same weights.")
@click.option("--seeds", type=SEEDS, default="0", show_default=True, help="One or more, separated by commas.")
@click.option("--precision", default="auto", show_default=True, help="auto, float32 or bfloat16.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, mps.")
@report_option
@click.option("--out", type=PATH, help="Folder (default: runs/MODEL-DATA-METHOD).")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; give the same options.")
def command(model: str, data: str | None, **options: Any) -> None:
    """Train MODEL on preferences; the result opens in this workbench and in transformers.

    \b
    workbench align novels-decoder --method dpo --data planted
    workbench align novels-decoder --method rloo --data planted --reward pattern:!
    workbench align novels-encoder --data pairs.jsonl --method reward --seeds 0,1,2
    workbench align MODEL --data pairs.jsonl --method dpo --loss ipo --lora
    workbench align MODEL --data prompts.jsonl --method rloo --reward model:CLASSIFIER#LABEL
    workbench align MODEL --data FILE --out DIR --resume
    """
    from workbench.scoring import find_reward
    from workbench.training.preferences import AlignSettings, align
    from workbench.training.preferences.aligning import default_folder
    from workbench.training.preferences.prompts import load_rows

    settings = AlignSettings(**{name: options[name] for name in AlignSettings.__dataclass_fields__})
    reward, gold = (
        None if options[name] is None else find_reward(options[name]) for name in ("reward", "gold_reward")
    )
    taken = {name: options[name] for name in ("data_dir", "split", "validation", "limit")}
    rows = load_rows(data, settings, reward, writer=model, **taken)
    out: Path = options["out"] or default_folder(model, rows, settings)
    check_folder(out)
    run = align(
        model,
        rows,
        out,
        settings,
        reference=options["reference"],
        reward=reward,
        gold_reward=gold,
        resume=options["resume"],
        device=options["device"],
        progress=True,
        report_to=options["report_to"] or (),
    )
    _print(run)


def _print(run: Any) -> None:
    from workbench.cli._tables import results_table, training_line
    from workbench.training.preferences.results import remarks

    say(results_table(run.results))
    for remark in remarks(run.notes):
        say(f"note: {remark}", error=True)
    if "frontier" in run.notes:
        say(f"\nreward against KL along the training: {run.path / 'figures' / 'frontier.html'}")
    say(f"\n{training_line(run)}")
