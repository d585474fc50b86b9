"""Saliency: integrated gradients beside Captum's, memory by steps, and whether methods find what is known to decide.

python benchmarks/saliency.py [--only speed|points|memory|trigger|sentiment|agreement] [--sentences 100] [--json FILE]

speed: SST-2 development sentences, the predicted class of minilm-l6 with a linear head fitted here to frozen
features of 120 training sentences (so it is no good classifier, but one with real weights). Captum runs
LayerIntegratedGradients at the word embeddings with 50 steps, at the best of several internal_batch_size; ours
adapts its steps to a tolerance that keeps the completeness delta at or below Captum's. The arms take turns by
groups of sentences.
points: completeness error and error of the scores by points, even ones and ours, for three models; even ones also under
our control of the error (--sentences texts, 20 at most).
memory: highest resident memory while explaining eight sentences with 20 and with 500 steps.
trigger, sentiment: how often the word that decides is scored highest of a text's words, for every method: in a model
made so that each has a right answer, in sentiment-encoder (or another, --model), and in two that some formulas
cannot see through.
agreement: smollm2-135m on 50 sentences with an attractor ("the author next to the guards | laughs / laugh"):
the share of the contrast that each part of the sentence gets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from _frame import REPOSITORY, Result, in_subprocess, machine, parser, peak_mib, report, reset_peak

sys.path.insert(0, str(REPOSITORY))  # the trigger task is that of the tests

import workbench
from tests.unit.analysis.saliency_models import (
    TRIGGER,
    trigger_model,
    trigger_reader,
    trigger_texts,
    trigger_toy,
)
from workbench.analysis.saliency import (
    METHODS,
    AttributionWarning,
    SaliencyOptions,
    _integrated,
    attribute,
    attribute_all,
)
from workbench.data.tables import read_rows
from workbench.models import Kind, LoadedModel
from workbench.models.loading import locate

FEW = SaliencyOptions(samples=100)  # of methods that draw
STEPS, TOLERANCE, TRAINED = 50, 5e-4, 120


def rows(data_dir: Path, part: str, count: int) -> list[dict[str, Any]]:
    return read_rows(data_dir / "glue" / "SST-2" / part)[:count]


def classifier(data_dir: Path) -> LoadedModel:
    """minilm-l6 with a linear head, fitted by least squares steps to the frozen pooled states."""
    from transformers import BertForSequenceClassification

    base = workbench.load("minilm-l6", dtype="float32")
    model = BertForSequenceClassification.from_pretrained(locate("minilm-l6"), num_labels=2).eval()
    train = rows(data_dir, "train_first20000.tsv", TRAINED)
    states = []
    with torch.no_grad():
        for start in range(0, len(train), 40):
            texts = [row["sentence"] for row in train[start : start + 40]]
            inputs = base.tokenizer(texts, return_tensors="pt", padding=True)
            states.append(model.bert(**inputs).pooler_output)
    features, labels = torch.cat(states), torch.tensor([int(row["label"]) for row in train])
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=0.02, weight_decay=0.01)
    for _ in range(150):
        loss = torch.nn.functional.cross_entropy(model.classifier(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    fields = {name: getattr(base, name) for name in ("tokenizer", "revision", "dtype", "device")}
    return LoadedModel(
        model=model, kind=Kind.CLASSIFIER, name="minilm-l6 with a linear head", implementation="hf", **fields
    )


def captum_deltas(
    model: LoadedModel, texts: list[str], targets: list[int], internal: int | None
) -> list[float]:
    """LayerIntegratedGradients, a text at a time, special tokens kept in the baseline; |delta| of each."""
    from captum.attr import LayerIntegratedGradients

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return model.model(input_ids=ids, attention_mask=mask).logits

    method = LayerIntegratedGradients(forward, model.model.bert.embeddings.word_embeddings)
    deltas = []
    for text, target in zip(texts, targets, strict=True):
        inputs = model.tokenizer(text, return_tensors="pt")
        baseline = inputs.input_ids.clone()
        baseline[:, 1:-1] = model.tokenizer.pad_token_id
        _, delta = method.attribute(
            inputs.input_ids,
            baseline,
            target=target,
            additional_forward_args=(inputs.attention_mask,),
            n_steps=STEPS,
            internal_batch_size=internal,
            return_convergence_delta=True,
        )
        deltas.append(abs(float(delta)))
    return deltas


def our_deltas(
    model: LoadedModel, texts: list[str], targets: list[int], options: SaliencyOptions
) -> tuple[list[float], list[int]]:
    found = attribute_all(model, texts, targets=list(targets), baseline="pad", options=options)
    return [abs(a.delta or 0.0) for a in found], [a.steps or 0 for a in found]


def speed(options: argparse.Namespace) -> list[Result]:
    model = classifier(options.data_dir)
    texts = [row["sentence"] for row in rows(options.data_dir, "dev.tsv", options.sentences)]
    logits = [int(model.model(**model.tokenizer(t, return_tensors="pt")).logits.argmax()) for t in texts]
    timed: dict[int | None, float] = {}
    clock = time.process_time if options.cpu_time else time.perf_counter
    for internal in (None, 10, 25):
        started = clock()
        captum_deltas(model, texts[:1], logits[:1], internal)
        timed[internal] = clock() - started
    best = min(timed, key=lambda k: timed[k])
    told = SaliencyOptions(tolerance=options.tolerance, batch_tokens=options.batch_tokens)
    ours: list[float] = []
    peer: list[float] = []
    mine: list[float] = []
    theirs: list[float] = []
    steps: list[int] = []
    size = max(1, min(20, len(texts) // 3))
    for start in range(0, len(texts), size):
        part, classes = texts[start : start + size], logits[start : start + size]
        started = clock()
        deltas, taken = our_deltas(model, part, classes, told)
        middle = clock()
        theirs += captum_deltas(model, part, classes, best)
        ours.append(middle - started)
        peer.append(clock() - middle)
        mine += deltas
        steps += taken
    ratios = [p / o for o, p in zip(ours, peer, strict=True)]
    ratio = sum(peer) / sum(ours)
    print(
        f"captum internal_batch_size {best} of {timed}; our points: mean {np.mean(steps):.1f}, "
        f"median {np.median(steps)}, largest {max(steps)}"
    )
    print(
        f"|delta| mean: ours {np.mean(mine):.2e}, captum {np.mean(theirs):.2e}; "
        f"largest {max(mine):.2e}, {max(theirs):.2e}"
    )
    return [
        Result(
            f"integrated gradients, {len(texts)} sentences",
            len(texts) / sum(ours),
            len(texts) / sum(peer),
            "sentences/s",
            ratio,
            ">= 1.5",
            ratio >= 1.5,
            (min(ratios), max(ratios)),
        ),
        Result(
            "mean completeness delta",
            float(np.mean(mine)),
            float(np.mean(theirs)),
            "",
            float(np.mean(mine) / np.mean(theirs)),
            "<= 1",
            float(np.mean(mine)) <= float(np.mean(theirs)),
        ),
    ]


DECODED = (
    "The keys to the cabinet",
    "She looked at the window and saw the old",
    "It was the best of",
    "He had never been so happy in his whole",
)
EVEN = "even, tolerance 5e-4"  # Clenshaw and Curtis's points as at our own pace, but even along the line
WAYS = {
    "50 even points": SaliencyOptions(steps=STEPS),
    "39 even points": SaliencyOptions(steps=39),
    EVEN: SaliencyOptions(tolerance=TOLERANCE),
    "own pace, tolerance 5e-4": SaliencyOptions(tolerance=TOLERANCE),
}


def points(options: argparse.Namespace) -> list[Result]:
    """Error by points: even ones (Gauss-Legendre, as Captum's) and those at our pace; the truth is 400 even ones."""
    headed, texts = (
        classifier(options.data_dir),
        [r["sentence"] for r in rows(options.data_dir, "dev.tsv", min(options.sentences, 20))],
    )
    encoder = workbench.load("planted-sentiment-encoder", dtype="float32")
    decoder = workbench.load("novels-decoder", dtype="float32")
    classes: dict[str, Any] = {"targets": [1] * len(texts)}
    verbs: dict[str, Any] = {"targets": [" were"] * len(DECODED), "contrasts": [" was"] * len(DECODED)}
    for name, model, asked, told in (
        ("minilm-l6, pad", headed, texts, classes | {"baseline": "pad"}),
        ("minilm-l6, mask", headed, texts, classes | {"baseline": "mask"}),
        ("planted-sentiment-encoder, mask", encoder, texts, classes | {"baseline": "mask"}),
        ("novels-decoder, mean", decoder, list(DECODED), verbs | {"baseline": "mean"}),
    ):
        truth = attribute_all(model, asked, options=SaliencyOptions(steps=400), **told)
        for way, chosen in WAYS.items():
            pace = patch.object(_integrated, "_by_angle", lambda *_: _integrated._evenly)
            with warnings.catch_warnings(), pace if way == EVEN else nullcontext():
                warnings.simplefilter("ignore", AttributionWarning)
                found = attribute_all(model, asked, options=chosen, **told)
            off = [np.abs(a.scores - b.scores).sum() for a, b in zip(found, truth, strict=True)]
            print(
                f"{name}: {way}: {np.mean([a.steps or 0 for a in found]):.1f} points, completeness error "
                f"{np.mean([abs(a.delta or 0) for a in found]):.1e}, scores {np.mean(off):.1e} (sum over tokens)",
                flush=True,
            )
    return []


def memory_of(steps: int, data_dir: Path) -> None:
    """Print the growth of resident memory while explaining eight sentences (run in a process of its own)."""
    model = workbench.load("minilm-l6", dtype="float32")
    from transformers import BertForSequenceClassification

    headed = BertForSequenceClassification(model.config).eval()
    headed.bert = model.model
    fields = {name: getattr(model, name) for name in ("tokenizer", "revision", "dtype", "device")}
    ready = LoadedModel(model=headed, kind=Kind.CLASSIFIER, name="minilm-l6", implementation="hf", **fields)
    texts = [row["sentence"] for row in rows(data_dir, "dev.tsv", 8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)
        attribute_all(ready, texts, targets=[1] * 8, options=SaliencyOptions(steps=2))
        reset_peak()
        attribute_all(ready, texts, targets=[1] * 8, options=SaliencyOptions(steps=steps, batch_tokens=512))
    print(json.dumps({"peak": peak_mib()}))


def memory(options: argparse.Namespace) -> list[Result]:
    # else glibc keeps freed blocks in its heap, in pieces that depend on how many passes came before
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    peaks = {n: in_subprocess(__file__, "--memory-of", str(n))["peak"] for n in (20, 500)}
    ratio = peaks[500] / peaks[20]
    return [
        Result(
            "peak memory, 500 steps against 20", peaks[500], peaks[20], "MiB", ratio, "<= 1.05", ratio <= 1.05
        )
    ]


def share_first(
    model: LoadedModel,
    texts: list[str],
    targets: list[Any],
    words: list[str],
    method: str,
    baseline: str | None,
) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)
        # The first layer, whose position is still the word's where a model reads late.
        options = replace(FEW, layer=0) if method.startswith("layer") else FEW
        found = attribute_all(model, texts, method, targets=targets, baseline=baseline, options=options)
    firsts = [merged.tokens[merged.order()[0]] for merged in (a.words() for a in found)]
    return float(np.mean([first == word for first, word in zip(firsts, words, strict=True)]))


def by_method(
    model: LoadedModel,
    texts: list[str],
    targets: list[Any],
    words: list[str],
    task: str,
    baseline: str | None = None,
) -> list[Result]:
    """Of all methods, or with a baseline of those that have one."""
    results = []
    for name in METHODS:
        if baseline is not None and not METHODS.get(name).uses_baseline:
            continue
        if METHODS.get(name).inside and not hasattr(model.config, "num_hidden_layers"):
            continue  # a toy without layers and attention
        share = share_first(model, texts, targets, words, name, baseline)
        floor = name == "random"
        goal, met = ("< 0.95", share < 0.95) if floor else (">= 0.95", share >= 0.95)
        results.append(Result(f"{task}: {name} ranks the word first", share, None, "share", None, goal, met))
    return results


def trigger(options: argparse.Namespace) -> list[Result]:
    texts, _ = trigger_texts(4 * options.sentences, seed=99)
    # the toy does not read position 2
    texts = [t for t in texts if TRIGGER in t.split() and t.split().index(TRIGGER) != 2][: options.sentences]
    asked: tuple[list[str], list[Any], list[str]] = (texts, [1] * len(texts), [TRIGGER] * len(texts))
    for model, task in (
        (trigger_model(), "an overconfident transformer"),
        (trigger_toy(), "a sum of embeddings"),
    ):
        shares = {r.name: r.ours for r in by_method(model, *asked, task)}
        print("\n".join(f"{name}: {share:.2f} (no aim)" for name, share in shares.items()), flush=True)
    return by_method(trigger_reader(), *asked, "trigger, transformer")


FRAMES = (
    "the actors in this {} film are {}",
    "i thought the {} story was {}",
    "{} : a {} evening with this cast",
    "the {} plot is {} from start to finish",
    "this {} movie has a {} script",
    "we saw a {} play with {} music",
    "the director 's {} picture is {}",
)
NEUTRAL = ("new", "american", "second", "long", "french", "recent")
STRONG = {
    "wonderful": 1, "superb": 1, "brilliant": 1, "delightful": 1, "excellent": 1, "moving": 1,
    "awful": 0, "terrible": 0, "dreadful": 0, "boring": 0, "dull": 0, "stupid": 0,
}  # fmt: skip
DECIDES = 5.0  # times as much as any other word of its sentence


def sentiment(options: argparse.Namespace) -> list[Result]:
    """Neutral sentences with one word of strong sentiment, which the model gets right because of that word.

    The word decides where the class's logit loses at least DECIDES times as much without it as without any
    other word, in size. Occlusion is then right by definition; the other methods are not.
    """
    model = workbench.load(options.model, dtype="float32")
    made = [
        (frame.format(neutral, word), label, word)
        for frame in FRAMES
        for neutral in NEUTRAL
        for word, label in STRONG.items()
    ]
    without = attribute_all(model, [m[0] for m in made], "occlusion", targets=[m[1] for m in made])
    kept = []
    for case, found in zip(made, (a.words() for a in without), strict=True):
        place = list(found.tokens).index(case[2])
        others = np.abs(np.delete(found.scores, place)).max()
        if found.value > 0 and found.scores[place] >= DECIDES * others:
            kept.append(case)
    print(f"sentiment: {len(kept)} of {len(made)} sentences are decided by their one strong word")
    texts, classes, words = (
        list(column) for column in zip(*kept[:: max(1, len(kept) // options.sentences)], strict=True)
    )
    return by_method(model, texts, classes, words, model.name, options.baseline)


def agreement_pairs(data_dir: Path, count: int) -> list[tuple[str, str, str, int, int]]:
    """(prefix, right verb, wrong verb, subject's word, attractor's word) of prepositional phrases that mismatch."""
    table = read_rows(data_dir / "agreement" / "marvin_linzen_first60_each.tsv")
    found = []
    for row in table:
        good, bad = row["sentence_good"].split(), row["sentence_bad"].split()
        numbers = row["case"].split("_")[:2]
        if (
            not row["construction"].startswith("prep")
            or len({n[:4] for n in numbers}) < 2
            or len(good) != len(bad)
        ):
            continue
        verb = next(i for i, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b)
        found.append((" ".join(good[:verb]), good[verb], bad[verb], 1, verb - 1))
    step = max(1, len(found) // count)
    return found[::step][:count]


def agreement(options: argparse.Namespace) -> list[Result]:
    model = workbench.load("smollm2-135m", dtype="float32")
    pairs = agreement_pairs(options.data_dir, min(options.sentences, 50))
    print(f"agreement: {len(pairs)} pairs, first {pairs[0]}")
    for method in options.methods.split(","):
        shares: dict[str, list[float]] = {"subject": [], "attractor": [], "first word": [], "others": []}
        right = []
        for prefix, good, bad, subject, attractor in pairs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AttributionWarning)
                found = attribute(
                    model, prefix, method, target=f" {good}", contrast=f" {bad}", words=True, normalise="sum",
                    options=SaliencyOptions(steps=options.steps, keep_first=options.keep_first),
                )  # fmt: skip
            right.append(found.value > 0)
            places = {"subject": [subject], "attractor": [attractor], "first word": [0]}
            places["others"] = [i for i in range(len(found)) if i not in (subject, attractor, 0)]
            for name, where in places.items():
                shares[name].append(float(found.scores[where].sum()))
        spread = {n: (np.mean(v), 1.96 * np.std(v, ddof=1) / np.sqrt(len(v))) for n, v in shares.items()}
        line = ", ".join(f"{name} {mean:+.3f} ± {half:.3f}" for name, (mean, half) in spread.items())
        print(f"{method}: verb right in {np.mean(right):.2f} of pairs; share of score: {line}", flush=True)
    return []


PARTS = {
    "speed": speed,
    "points": points,
    "memory": memory,
    "trigger": trigger,
    "sentiment": sentiment,
    "agreement": agreement,
}


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--only", choices=PARTS)
    arguments.add_argument("--sentences", type=int, default=100)
    arguments.add_argument("--tolerance", type=float, default=TOLERANCE)
    arguments.add_argument(
        "--model", default="sentiment-encoder", help="in sentiment; its class 1 is positive"
    )
    arguments.add_argument("--baseline", help="in sentiment, of the methods that have one")
    arguments.add_argument("--batch-tokens", type=int, default=512)
    arguments.add_argument("--steps", type=int, default=32, help="of integrated gradients in agreement")
    arguments.add_argument(
        "--keep-first", action="store_true", help="in agreement, leave the first word in place"
    )
    arguments.add_argument("--methods", default="input_x_gradient,occlusion,integrated_gradients,random")
    arguments.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.memory_of is not None:
        memory_of(options.memory_of, options.data_dir)
        return
    results = [r for name, part in PARTS.items() if options.only in (None, name) for r in part(options)]
    report(results, machine("captum"), options.json)


if __name__ == "__main__":
    main()
