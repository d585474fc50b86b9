"""Training: throughput beside transformers' own model and a bare loop, bundled models beside n-grams, MRPC.

python benchmarks/training.py [--only PART] [--seeds 0,1,2] [--repeats 3] [--json FILE]

Parts: throughput, decoder, encoder, seq2seq, blimp, mfu, and mrpc-full, mrpc-lora, mrpc-head, which fine-tune minilm-l6
(some ten minutes each on two cores) and run only if named, or with ``--long``. mfu needs a card: the share of its peak
that a GPT-2 of 124 M weights reaches. Rates on a CPU are per second of CPU time: a busy machine does not change ratios.
"""

from __future__ import annotations

import lzma
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._frame import Result, machine, parser, report
from benchmarks._ngram import KneserNey

ROWS, LENGTH, STEPS, VOCABULARY = 8, 256, 8, 8192


def seconds() -> float:
    """CPU time on a CPU, wall-clock time on a card."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def ours() -> Any:
    from workbench.models.configuration import TransformerConfig
    from workbench.models.heads.causal import TransformerDecoderForCausalLM
    from workbench.training import pretrain

    file = Path(pretrain.__file__).parent / "recipes" / "configurations" / "novels-decoder.yaml"
    config: Any = TransformerConfig.from_yaml(file.read_text())
    config.vocab_size = VOCABULARY
    return TransformerDecoderForCausalLM(config)


def theirs() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=192,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            tie_word_embeddings=True,
        )
    )


class Numbers(torch.utils.data.Dataset[dict[str, Any]]):
    """The same random rows for everyone."""

    def __len__(self) -> int:
        return ROWS * STEPS

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = np.random.default_rng(index).integers(0, VOCABULARY, LENGTH)
        return {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(ids)}


class Times(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.ends.append(seconds())


def steady_rate(ends: list[float]) -> float:
    """Tokens per second from the end of the first step to that of the last, so that starting does not count."""
    return (len(ends) - 1) * ROWS * LENGTH / (ends[-1] - ends[0])


def under_trainer(make: Callable[[], Any]) -> Callable[[], float]:
    """Tokens per second of a few steps under the training loop."""
    from transformers.trainer_callback import PrinterCallback

    from workbench.pretrained import quiet
    from workbench.training._arguments import training_arguments
    from workbench.training.loop import WorkbenchTrainer
    from workbench.training.progress import Meter
    from workbench.training.settings import LoopSettings, Optimisation

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder, quiet():
            arguments = training_arguments(
                Path(folder),
                Optimisation(steps=STEPS, batch_size=ROWS),
                LoopSettings(report_to=()),
                rows=ROWS,
                device=device,
                has_validation=False,
            )
            meter = Meter(flops_per_token=1.0, peak=1.0)
            trainer = WorkbenchTrainer(
                recipe="",
                meter=meter,
                precision=torch.bfloat16,
                model=make(),
                args=arguments,
                train_dataset=Numbers(),
            )
            trainer.remove_callback(PrinterCallback)
            times = Times()
            trainer.add_callback(times)
            trainer.train()
            return steady_rate(times.ends)

    return run


def bare_loop(make: Callable[[], Any]) -> Callable[[], float]:
    """Tokens per second of the shortest loop that does the same work."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def run() -> float:
        model = make().to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        data = Numbers()
        ends = []
        for step in range(STEPS):
            rows = [data[i]["input_ids"] for i in range(step * ROWS, (step + 1) * ROWS)]
            ids = torch.stack(rows).to(device)
            with torch.autocast(device.type, torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            ends.append(seconds())
        return steady_rate(ends)

    return run


def throughput(repeats: int) -> list[Result]:
    """Each comparison in alternation: medians, and the spread of the paired ratios."""
    results = []
    for name, peer, goal in (
        ("tokens/s, built-in beside Llama, same Trainer", under_trainer(theirs), 1.0),
        ("tokens/s, Trainer beside a bare loop", bare_loop(ours), 0.95),
    ):
        arm, rates = under_trainer(ours), []
        arm(), peer()
        for _ in range(repeats):
            rates.append((arm(), peer()))
        mine, others = (float(np.median(column)) for column in zip(*rates, strict=True))
        ratios = sorted(a / b for a, b in rates)
        ratio = float(np.median(ratios))
        spread = (ratios[0], ratios[-1])
        results.append(Result(name, mine, others, "tokens/s", ratio, f">= {goal}", ratio >= goal, spread))
    return results


def is_ready(name: str, data: Path) -> bool:
    """Whether a bundled model and the novels are here; says so if not."""
    from workbench.models import KNOWN_MODELS

    ready = name in KNOWN_MODELS and (data / "novels").is_dir()
    if not ready:
        print(f"{name} is not bundled, or its data is not here: skipped")
    return ready


def novels(name: str, data: Path) -> Any:
    """The novels as the bundled model's tokens: ``train`` and ``validation``; kept in the cache."""
    from workbench.models import KNOWN_MODELS
    from workbench.text import Role
    from workbench.training.corpora import prepare_corpora
    from workbench.training.settings import DataSource

    source = DataSource(
        corpus=str(data / "novels" / "train.txt.xz"),
        validation=str(data / "novels" / "valid.txt"),
        tokenizer=str(KNOWN_MODELS[name].locate()),
    )
    role = {"novels-decoder": Role.DECODER, "novels-encoder": Role.ENCODER}.get(name, Role.SEQ2SEQ)
    return prepare_corpora(source, role, None, show=True)


def decoder(options: Namespace) -> list[Result]:
    """Bits per character of the held-out novels beside a Kneser-Ney 5-gram of the same tokens, and xz.

    The tokens are the corpus's own, those that both have learned from.
    """
    from workbench.models import load
    from workbench.training._measure import measure
    from workbench.training.blocks import Blocks
    from workbench.training.objectives import CausalLM, SpecialIds

    if not is_ready("novels-decoder", options.data_dir):
        return []
    model, corpora = load("novels-decoder"), novels("novels-decoder", options.data_dir)
    text = (options.data_dir / "novels" / "valid.txt").read_text(encoding="utf-8")
    objective = CausalLM(SpecialIds.of(model.tokenizer), model.max_length)
    blocks = Blocks(corpora.validation, objective.window, shuffle=False, static=True)
    found = measure(model.model, objective, blocks, 16, tokenizer=model.tokenizer)
    bits = found["bits_per_character"].value
    counts = KneserNey(np.asarray(corpora.train.ids), len(model.tokenizer))
    gram = float(-counts.log2_probabilities(np.asarray(corpora.validation.ids)).sum() / len(text))
    packed = 8 * len(lzma.compress(text.encode(), preset=9)) / len(text)
    name = "novels-decoder, bits per character beside"
    return [
        Result(
            f"{name} a Kneser-Ney 5-gram of its tokens", bits, gram, "bits", bits / gram, "< 1", bits < gram
        ),
        Result(f"{name} xz -9", bits, packed, "bits", bits / packed, "< 1", bits < packed),
    ]


def encoder(options: Namespace) -> list[Result]:
    """Accuracy at masked tokens, 15 % of them, beside always guessing the most frequent token."""
    from workbench.models import load
    from workbench.training._measure import measure
    from workbench.training.blocks import Blocks
    from workbench.training.objectives import MaskedLM, SpecialIds

    if not is_ready("novels-encoder", options.data_dir):
        return []
    model = load("novels-encoder", dtype="float32")
    file = novels("novels-encoder", options.data_dir).validation
    objective = MaskedLM(SpecialIds.of(model.tokenizer), 128)
    blocks = Blocks(file, objective.window, options.rows, shuffle=False, static=True)
    found = measure(model.model, objective, blocks, 16)["accuracy"]
    guess = Counter(file.ids.tolist()).most_common(1)[0][1] / len(file)
    interval = (found.low / guess, found.high / guess)
    name = "novels-encoder, masked tokens predicted right beside the most frequent one"
    better = found.low > guess
    return [Result(name, found.value, guess, "share", found.value / guess, "> 1", better, interval)]


def seq2seq(options: Namespace) -> list[Result]:
    """Unseen sentences that the translators translate exactly, beside right words left in the English order."""
    from workbench import evaluate
    from workbench.data.grammar.invented import invented_pairs
    from workbench.models import load

    glossed = []
    for pair in invented_pairs(500):
        target_of = dict(sorted(pair.links.sure))
        gloss = [pair.target[target_of[place]] for place in range(len(pair.source))]
        glossed.append(tuple(gloss) == pair.target)
    guess, rows = float(np.mean(glossed)), []
    for model in ("grammar-transformer", "grammar-bahdanau"):
        with tempfile.TemporaryDirectory() as folder:
            loaded = load(model, dtype="float32")
            results = evaluate(loaded, tasks="invented_language", out=folder, doctor=False).results
        found = results["invented_language"]["exact_match"]
        name = (
            f"{model}, sentences translated exactly, beside word for word [{found.low:.3f}, {found.high:.3f}]"
        )
        numbers = (found.value, guess, "share", found.value / guess)
        rows.append(
            Result(name, *numbers, ">= 0.95", found.value >= 0.95, (found.low / guess, found.high / guess))
        )
    return rows


def blimp(options: Namespace) -> list[Result]:
    """Accuracy of the decoder on minimal pairs, by phenomenon, with intervals; chance is one half."""
    from challenge_sets import check
    from workbench.evaluate import TaskOptions
    from workbench.models import load

    if not is_ready("novels-decoder", options.data_dir) or not (options.data_dir / "blimp").is_dir():
        return []
    settings = TaskOptions(data_dir=str(options.data_dir / "blimp"), limit_per_paradigm=options.pairs)
    model = load("novels-decoder", dtype="float32")
    with tempfile.TemporaryDirectory() as folder:
        results = check(model, "blimp", settings, out=folder, doctor=False).results
    rows = []
    for group, metrics in results.items():
        if group.count("/") > 1 or "accuracy" not in metrics:
            continue
        e = metrics["accuracy"]
        judged = "agreement" in group
        rows.append(
            Result(
                f"novels-decoder on {group} [{e.low:.3f}, {e.high:.3f}], n = {e.n}",
                *(e.value, 0.5, "accuracy", e.value / 0.5),
                "> 1, interval too" if judged else "report",
                not judged or e.low > 0.5,
            )
        )
    return rows


def mrpc(method: str) -> Callable[[Namespace], list[Result]]:
    """minilm-l6 on MRPC by one method, each seed of ``--seeds``: metrics, time, memory."""

    def run(options: Namespace) -> list[Result]:
        from workbench.training.finetuning import FineSettings, Method, finetune, load_task

        seeds = tuple(int(word) for word in options.seeds.split(","))
        rows, results = load_task("mrpc", options.data_dir / "glue"), []
        with tempfile.TemporaryDirectory() as folder:
            settings = FineSettings(method=Method(method), seeds=seeds)
            run = finetune("minilm-l6", rows, Path(folder) / "out", settings, progress=True)
        used, judged = run.throughput, method == "full"
        print(f"{method}: {used['seconds']:.0f} s, {used['peak_memory_mib']:.0f} MiB, {len(seeds)} seeds")
        for metric, goal in (("accuracy", 0.806), ("f1", 0.867)):
            value = run.results["mrpc"][metric].value
            label = f"MRPC {metric}, {method}, mean of seeds {options.seeds}"
            aim = f">= {goal}" if judged else "report"
            met = not judged or value >= goal
            results.append(Result(label, value, goal, metric, value / goal, aim, met))
        return results

    return run


def utilisation(_options: Namespace) -> list[Result]:
    """Model-FLOPs utilisation of a GPT-2 of 124 M weights on a card."""
    from workbench.models.heads.causal import TransformerDecoderForCausalLM
    from workbench.models.presets import preset
    from workbench.models.size import flops_per_token
    from workbench.training.progress import peak_flops

    if not torch.cuda.is_available():
        print("no card: model-FLOPs utilisation is not measured")
        return []
    config = preset("gpt2")
    config.vocab_size = VOCABULARY if config.vocab_size < VOCABULARY else config.vocab_size
    model: Any = TransformerDecoderForCausalLM(config)
    rate = under_trainer(lambda: model)()
    peak = peak_flops(torch.device("cuda"), torch.bfloat16)
    share = 3 * flops_per_token(config, LENGTH, type(model)) * rate / peak
    return [
        Result("GPT-2 124 M, model-FLOPs utilisation", share, None, "share", None, ">= 0.5", share >= 0.5)
    ]


QUICK: dict[str, Callable[[Namespace], list[Result]]] = {
    "throughput": lambda options: throughput(options.repeats),
    "decoder": decoder,
    "encoder": encoder,
    "seq2seq": seq2seq,
    "blimp": blimp,
    "mfu": utilisation,
}
LONG = {f"mrpc-{method}": mrpc(method) for method in ("full", "lora", "head")}


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--only", choices=[*QUICK, *LONG], action="append", help="one part; repeatable")
    options.add_argument("--long", action="store_true", help="also fine-tune on MRPC")
    options.add_argument("--seeds", default="0,1,2", help="of the fine-tunings")
    options.add_argument("--rows", type=int, default=256, help="held-out rows for encoder and seq2seq")
    options.add_argument("--pairs", type=int, default=100, help="minimal pairs a paradigm")
    arguments = options.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    chosen = arguments.only or [*QUICK, *(LONG if arguments.long else ())]
    results = [result for name in chosen for result in {**QUICK, **LONG}[name](arguments)]
    report(results, machine("accelerate", "peft"), arguments.json)


if __name__ == "__main__":
    main()
