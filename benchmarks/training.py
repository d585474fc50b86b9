"""Training: throughput beside transformers' own model and a bare loop, bundled models beside n-grams, MRPC.

``--long`` fine-tunes minilm-l6 on MRPC with three methods and three seeds (some forty minutes on two cores).
Rates on a CPU are per second of CPU time, so that a busy machine does not change the ratios.
"""

from __future__ import annotations

import lzma
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._frame import Result, machine, parser, report

ROWS, LENGTH, STEPS, VOCABULARY = 8, 256, 12, 8192


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


def under_trainer(model: Any) -> Callable[[], float]:
    """Tokens per second of a few steps under the training loop."""
    from workbench.training._arguments import training_arguments
    from workbench.training._quiet import quiet
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
                precision=torch.bfloat16,
                device=device,
                has_validation=False,
            )
            meter = Meter(flops_per_token=1.0, peak=1.0)
            trainer = WorkbenchTrainer(
                recipe="", meter=meter, model=model, args=arguments, train_dataset=Numbers()
            )
            started = seconds()
            trainer.train()
            return STEPS * ROWS * LENGTH / (seconds() - started)

    return run


def bare_loop(model: Any) -> Callable[[], float]:
    """Tokens per second of the shortest loop that does the same work."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device).train()

    def run() -> float:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        data = Numbers()
        started = seconds()
        for step in range(STEPS):
            rows = [data[i]["input_ids"] for i in range(step * ROWS, (step + 1) * ROWS)]
            ids = torch.stack(rows).to(device)
            with torch.autocast(device.type, torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return STEPS * ROWS * LENGTH / (seconds() - started)

    return run


def throughput(repeats: int) -> list[Result]:
    """Each comparison in alternation: medians, and the spread of the paired ratios."""
    results = []
    for name, peer, goal in (
        ("tokens/s, built-in beside Llama, same Trainer", under_trainer(theirs()), 1.0),
        ("tokens/s, Trainer beside a bare loop", bare_loop(ours()), 0.95),
    ):
        arm, rates = under_trainer(ours()), []
        arm(), peer()
        for _ in range(repeats):
            rates.append((arm(), peer()))
        mine, others = (float(np.median(column)) for column in zip(*rates, strict=True))
        ratios = sorted(a / b for a, b in rates)
        ratio = float(np.median(ratios))
        spread = (ratios[0], ratios[-1])
        results.append(Result(name, mine, others, "tokens/s", ratio, f">= {goal}", ratio >= goal, spread))
    return results


def character_bits(train: str, valid: str, order: int = 5) -> float:
    """Bits per character of an interpolated Witten-Bell character n-gram (Witten & Bell 1991, method C)."""
    counts: list[dict[str, Counter[str]]] = [{} for _ in range(order)]
    for n in range(order):
        table = counts[n]
        for i in range(n, len(train)):
            table.setdefault(train[i - n : i], Counter())[train[i]] += 1
    alphabet, total = len(set(train) | set(valid)), 0.0
    sums = [{context: (c.total(), len(c)) for context, c in table.items()} for table in counts]
    for i, character in enumerate(valid):
        probability = 1.0 / alphabet
        for n in range(min(order, i + 1)):
            context = valid[i - n : i]
            if context in counts[n]:
                seen, kinds = sums[n][context]
                probability = (counts[n][context][character] + kinds * probability) / (seen + kinds)
        total -= np.log2(probability)
    return float(total / len(valid))


def bundled_decoder(data: Path) -> list[Result]:
    """Bits per character on the held-out novels beside an n-gram and xz."""
    from workbench.models import KNOWN_MODELS, load
    from workbench.scoring import score_rolling

    if "novels-decoder" not in KNOWN_MODELS or not (data / "novels").is_dir():
        print("novels-decoder is not bundled, or its data is not here: skipped")
        return []
    valid = (data / "novels" / "valid.txt").read_text(encoding="utf-8")
    with lzma.open(data / "novels" / "train.txt.xz", "rt", encoding="utf-8") as file:
        train = file.read(8_000_000)
    sample = valid[:100_000]
    scored = score_rolling(load("novels-decoder"), [sample])[0]
    bits = -scored.log_probability / np.log(2) / len(sample)
    gram = character_bits(train, sample)
    packed = 8 * len(lzma.compress(valid.encode(), preset=9)) / len(valid)
    return [
        Result(
            "novels-decoder, bits per character beside a 5-gram",
            bits,
            gram,
            "bits",
            bits / gram,
            "< 1",
            bits < gram,
        ),
        Result(
            "novels-decoder, bits per character beside xz",
            bits,
            packed,
            "bits",
            bits / packed,
            "< 1",
            bits < packed,
        ),
    ]


def bundled_encoder(data: Path) -> list[Result]:
    """Masked-token accuracy beside always guessing the most frequent token."""
    from workbench.data.corpus_stream import stream_corpus
    from workbench.data.corpus_tokens import build_token_file
    from workbench.models import KNOWN_MODELS, load
    from workbench.training._measure import measure
    from workbench.training.blocks import Blocks
    from workbench.training.objectives import MaskedLM, SpecialIds

    if "novels-encoder" not in KNOWN_MODELS or not (data / "novels").is_dir():
        print("novels-encoder is not bundled, or its data is not here: skipped")
        return []
    model = load("novels-encoder", dtype="float32")
    with tempfile.TemporaryDirectory() as folder:
        pieces = stream_corpus(data / "novels" / "valid.txt")
        file = build_token_file(pieces, model.tokenizer, Path(folder) / "tokens", corpus_sha256="")
        objective = MaskedLM(SpecialIds.of(model.tokenizer), 128)
        blocks = Blocks(file, objective.window, 128, shuffle=False, static=True)
        found = measure(model.model, objective, blocks, 16)["accuracy"].value
        guess = Counter(file.ids.tolist()).most_common(1)[0][1] / len(file)
    name = "novels-encoder, masked tokens told right beside the most frequent one"
    return [Result(name, found, guess, "share", found / guess, "> 1", found > guess)]


def mrpc(data: Path) -> list[Result]:
    """minilm-l6 on MRPC: three methods, three seeds, time and memory of each."""
    from workbench.training.finetuning import FineSettings, Method, finetune, load_task

    rows, results = load_task("mrpc", data / "glue"), []
    for method in (Method.FULL, Method.LORA, Method.HEAD):
        with tempfile.TemporaryDirectory() as folder:
            settings = FineSettings(method=method, seeds=(0, 1, 2))
            run = finetune("minilm-l6", rows, Path(folder) / "out", settings, progress=True)
        used = run.throughput
        print(f"{method}: {used['seconds']:.0f} s, {used['peak_memory_mib']:.0f} MiB")
        for metric, goal in (("accuracy", 0.806), ("f1", 0.867)):
            value, judged = run.results["mrpc"][metric].value, method is Method.FULL
            label = f"MRPC {metric}, {method}, mean of three seeds"
            aim = f">= {goal}" if judged else "report"
            results.append(Result(label, value, goal, metric, value / goal, aim, not judged or value >= goal))
    return results


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--long", action="store_true", help="also fine-tune on MRPC")
    arguments = options.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    results = throughput(arguments.repeats)
    results += bundled_decoder(arguments.data_dir) + bundled_encoder(arguments.data_dir)
    if arguments.long:
        results += mrpc(arguments.data_dir)
    report(results, machine("accelerate", "peft"), arguments.json)


if __name__ == "__main__":
    main()
