"""Translation by three generations of encoder-decoders of one size: BLEU on Multi30k, and their alignments.

python benchmarks/translation.py --out DIR [--only bahdanau] [--steps 1000] [--source en] [--target fr] [--picture FILE]

All train on the same pairs in the same order with one tokenizer; what is trained already is read from DIR.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._frame import machine, parser


@dataclass(frozen=True)
class Candidate:
    """A preset, made small, with the learning rate that suits it."""

    title: str
    preset: str
    lr: float
    changes: tuple[str, ...]


CANDIDATES = {
    "bahdanau": Candidate(
        "Bahdanau et al. 2015", "bahdanau-tiny", 0.002, ("hidden_size=192", "tie_word_embeddings=true")
    ),
    "convs2s": Candidate(
        "ConvS2S, Gehring et al. 2017", "convs2s-tiny", 0.002, ("tie_word_embeddings=true",)
    ),
    "transformer": Candidate(
        "Transformer, Vaswani et al. 2017",
        "transformer-base",
        0.001,
        (
            *("hidden_size=128", "attention.heads=4", "feed_forward.size=512"),
            *("depth.layers=2", "depth.decoder_layers=2", "positions.max_length=128"),
        ),
    ),
}


def train_one(name: str, options: Namespace) -> Any:
    """The finished run of one candidate; trained now where it is not there yet."""
    from workbench.training.pretrain import train
    from workbench.training.settings import (
        DataSource,
        LoopSettings,
        ModelSource,
        ObjectiveChoice,
        Optimisation,
        Schedule,
        TrainSettings,
    )

    chosen, folder = CANDIDATES[name], options.data_dir / "multi30k"
    settings = TrainSettings(
        model=ModelSource(preset=chosen.preset, set=chosen.changes),
        data=DataSource(
            corpus=str(folder / "train_first10000"),
            validation=str(folder / "val"),
            text_column=options.source,
            target_column=options.target,
            tokenizer="bpe",
            vocab_size=4096,
            length=64,
        ),
        objective=ObjectiveChoice(name="translation"),
        optimisation=Optimisation(
            steps=options.steps, batch_size=64, lr=chosen.lr, schedule=Schedule.COSINE, beta2=0.98
        ),
        loop=LoopSettings(precision="float32", save_every=500, log_every=50, report_to=()),
    )
    return train(settings, options.out / name, resume=True, progress=sys.stderr.isatty())


def judge(name: str, run: Any, options: Namespace) -> dict[str, Any]:
    """Size, time, and what it reaches on the test sentences."""
    from workbench import evaluate

    task = f"multi30k/{options.source}-{options.target}"
    folder = str(options.data_dir / "multi30k")
    found = evaluate(_opened(run), tasks=task, data_dir=folder, out=options.out / "evaluations")
    scores = found.results[task]
    return {
        "name": CANDIDATES[name].title,
        "parameters": run.record.model["parameters"],
        "minutes": run.throughput["seconds"] / 60,
        "perplexity": run.results["training"]["perplexity"],
        "bleu": scores["bleu"],
        "chrf": scores["chrf"],
    }


def _opened(run: Any) -> Any:
    from workbench import load

    return load(str(run.path), dtype="float32", device="cpu")


def picture(runs: dict[str, Any], sentence: str, file: Path) -> None:
    """Where each word of each model's own translation looks, side by side, mean of the heads of the last layer."""
    import matplotlib.pyplot as plt

    from workbench import trace
    from workbench.analysis.alignment_error import word_attention

    figure, axes = plt.subplots(1, len(runs), figsize=(5 * len(runs), 5.2), layout="constrained")
    for axis, (name, run) in zip(axes, runs.items(), strict=True):
        text = trace(_opened(run), sentence)[0]
        weights = word_attention(text, "predicts")[-1].mean(0)
        target = [text.alignment.word(i) for i in range(len(text.alignment.words))]
        axis.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        axis.set_xticks(range(len(sentence.split())), sentence.split(), rotation=90)
        axis.set_yticks(range(len(target)), target)
        axis.set_title(CANDIDATES[name].title)
    figure.savefig(file, dpi=110)


def show(rows: list[dict[str, Any]]) -> None:
    """The table, as docs/findings.md has it."""
    print("| model | parameters | minutes | perplexity | BLEU | chrF |\n|---|--:|--:|---|---|---|")
    for row in rows:
        numbers = " | ".join(
            f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]"
            for e in (row["perplexity"], row["bleu"], row["chrf"])
        )
        print(f"| {row['name']} | {row['parameters']:,} | {row['minutes']:.1f} | {numbers} |")


def main() -> None:
    """Train, judge, print, draw."""
    options = parser(__doc__ or "")
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--only", nargs="*", choices=list(CANDIDATES), default=list(CANDIDATES))
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--source", default="en")
    options.add_argument("--target", default="fr")
    options.add_argument(
        "--sentence", default="A man in a blue shirt is standing on a ladder cleaning a window."
    )
    options.add_argument("--picture", type=Path, help="file for the alignments side by side")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    runs = {name: train_one(name, given) for name in given.only}
    show([judge(name, run, given) for name, run in runs.items()])
    if given.picture is not None:
        picture(runs, given.sentence, given.picture)
    print(f"\nmachine: {machine('sacrebleu')}")


if __name__ == "__main__":
    main()
