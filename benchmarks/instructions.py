"""Instruction tuning on conversations: the loss of held-out replies before and after, and replies that are exact.

python benchmarks/instructions.py [--model novels-decoder] [--data made|squad] [--method full]

made: sentences of the package's grammar in three turns, each of which asks for the sentence before it in another form
(of several, in the past, denied); the nouns of held-out conversations do not occur in training.
squad: a paragraph of SQuAD v2's dev set (data licence CC BY-SA 4.0) with its first answerable questions, a turn each;
paragraphs of other articles are held out.

Both arms are the same conversations, single and packed: seconds and tokens a second of each are printed too. Replies
are written greedily after the first turn of the first held-out conversations.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from _frame import machine, parser

import workbench
from workbench.data.grammar import nouns, verbs
from workbench.data.tables import Row
from workbench.estimate import Estimate
from workbench.statistics import mean_estimate
from workbench.training.finetuning import FineSettings, finetune, load_task

HELD_OUT = 0.2


def turns(*texts: str) -> Row:
    """A conversation of texts by turns, the user's first."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]}


def made(count: int, seed: int = 0) -> tuple[list[Row], list[Row]]:
    """``count`` conversations on sentences of a noun and a verb, and a fifth as many on other nouns."""
    draw = random.Random(seed)
    people = [noun for noun in nouns() if noun.kind == "profession"]
    draw.shuffle(people)
    held = int(len(people) * HELD_OUT)
    actions = [verb for verb in verbs("intransitive") if "person" in verb.subjects]

    def conversation(among: list[Any]) -> Row:
        noun, verb = draw.choice(among), draw.choice(actions)
        return turns(
            f"Say it of many: The {noun.singular} {verb.third}.",
            f"The {noun.plural} {verb.lemma}.",
            "Now in the past.",
            f"The {noun.plural} {verb.past}.",
            "Now deny it.",
            f"The {noun.plural} did not {verb.lemma}.",
        )

    return (
        [conversation(people[held:]) for _ in range(count)],
        [conversation(people[:held]) for _ in range(count // 5)],
    )


def squad(folder: Path, count: int, longest: int = 700) -> tuple[list[Row], list[Row]]:
    """``count`` paragraphs of at most ``longest`` characters with up to three questions, a fifth as many held out."""
    articles = json.loads((folder / "squad" / "dev-v2.0_cs224n.json").read_text(encoding="utf-8"))["data"]
    held = max(1, int(len(articles) * HELD_OUT))

    def conversations(among: list[Any]) -> list[Row]:
        found = []
        for paragraph in (p for article in among for p in article["paragraphs"]):
            asked = [q for q in paragraph["qas"] if not q["is_impossible"]][:3]
            if asked and len(paragraph["context"]) <= longest:
                texts = [t for q in asked for t in (q["question"], q["answers"][0]["text"])]
                found.append(turns(f"{paragraph['context']}\n\n{texts[0]}", *texts[1:]))
        return found

    training, validation = conversations(articles[held:]), conversations(articles[:held])
    random.Random(0).shuffle(training)
    return training[:count], validation[: count // 5]


def exact(model: str, rows: list[Row]) -> Estimate:
    """The share of first replies that are written greedily as they are in the row."""
    loaded = workbench.load(model)
    chat = bool(loaded.tokenizer.chat_template)
    found = []
    for row in rows:
        asked, wanted = (message["content"] for message in row["messages"][:2])
        text = workbench.generate(loaded, asked if chat else f"{asked}\n", max_tokens=16, chat=chat).text
        found.append(float(text.strip().split("\n")[0] == wanted))
    return mean_estimate(found, seed=0)


def compare(options: Any, training: list[Row], validation: list[Row]) -> list[dict[str, Any]]:
    """One record for single rows and one for packed ones."""
    found = []
    asked = validation[: options.written]
    before = exact(options.model, asked) if asked else None
    for packing in [arm == "packed" for arm in options.arms.split(",")]:
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder) / "held.jsonl"
            held.write_text("".join(json.dumps(row) + "\n" for row in validation), encoding="utf-8")
            settings = FineSettings(
                method=options.method,
                epochs=options.epochs,
                # a packed row holds several conversations: as many tokens a step as single ones have
                batch_size=max(1, options.batch // 4) if packing else options.batch,
                lr=options.lr,
                length=options.length,
                packing=packing,
                precision="float32",
            )
            rows = load_task(training, kind="response", validation=held)
            run = finetune(options.model, rows, Path(folder) / "out", settings, device="cpu")
            result = {name: e.to_dict() for name, e in run.results["rows"].items()}
            record = {"packing": packing, "results": result, "throughput": run.throughput, "notes": run.notes}
            if before is not None:
                record |= {"exact_before": before.to_dict()}
                record |= {"exact_after": exact(str(Path(folder) / "out"), asked).to_dict()}
        found.append(record)
        say(options, record, len(training), len(validation))
    return found


def say(options: Any, record: dict[str, Any], training: int, validation: int) -> None:
    """One line of Markdown."""
    values = [
        f"{e['value']:.3f} [{e['low']:.3f}, {e['high']:.3f}]"
        for e in (
            *(record["results"][name] for name in ("loss_before", "loss", "loss_change")),
            *(record[name] for name in ("exact_before", "exact_after") if name in record),
        )
    ]
    used = record["throughput"]
    rows = f"{options.model} {options.data} {training}/{validation} {'packed' if record['packing'] else 'single'}"
    print(
        f"| {rows} | {' | '.join(values)} | {used['seconds']:.0f} | {used['tokens'] / used['seconds']:.0f} |",
        flush=True,
    )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--model", default="novels-decoder")
    options.add_argument("--data", choices=("made", "squad"), default="made")
    options.add_argument("--method", default="full")
    options.add_argument("--rows", type=int, default=400)
    options.add_argument("--epochs", type=float, default=3.0)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--lr", type=float)
    options.add_argument("--length", type=int, default=256)
    options.add_argument("--arms", default="single,packed", help="or one of them")
    options.add_argument("--written", type=int, default=40, help="held-out replies written before and after")
    chosen = options.parse_args()
    data = made(chosen.rows) if chosen.data == "made" else squad(chosen.data_dir, chosen.rows)
    records = compare(chosen, *data)
    print(machine())
    if chosen.json:
        chosen.json.write_text(json.dumps(records, indent=1, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
