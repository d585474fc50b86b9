"""Exactness of lens, attribution and patching on real weights, speed of patching, and an average patching map.

    python benchmarks/lens.py [--pairs N] [--sites residual,head] [--out FOLDER] [--json FILE]

The peer of the speed is one forward pass for each patch (:func:`one_by_one`). Maps are of
smollm2-135m, float32, over agreement pairs with an attractor (benchmarks/agreement_pairs.py); ``--out`` draws them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from _frame import Result, machine, parser, report
from agreement_pairs import PLACES, AgreementPair, attractor_pairs

import workbench
from workbench.analysis.direct import direct_logit_attribution
from workbench.analysis.lens import logit_lens
from workbench.analysis.patching import (
    Patch,
    PatchPair,
    PatchSite,
    activation_patching,
    attribution_patching,
    mean_effects,
    patch_pair,
    patched_values,
)
from workbench.figures.patching import patching_grid
from workbench.statistics import Statistic
from workbench.trace import Edit, intervene, replace
from workbench.trace.residual import read_text, run_from, run_stack

TEXT = "The capital of France is"


def exactness(model: workbench.LoadedModel, pair: PatchPair) -> list[Result]:
    """The three identities of the lens, of direct attribution and of patching."""
    reading = read_text(model, TEXT)
    with torch.inference_mode():
        run = run_stack(model, reading.inputs)
        last = run_from(model, run, run.layers, run.states[-1])
        plain = model.model(**reading.inputs).logits
    lens = float((last - plain).abs().max())
    assert logit_lens(model, TEXT).top_ids[-1, -1, 0] == int(plain[0, -1].argmax())
    shares = direct_logit_attribution(model, TEXT, " Paris")
    everything = [(Patch(PatchSite.RESIDUAL, layer),) for layer in range(pair.layers)]
    patched = patched_values(pair, everything, batch_rows=1)
    off = float(np.abs(patched - 1).max())
    return [
        Result("last layer of the lens - output", lens, None, "largest difference", None, "0", lens == 0),
        Result(
            f"shares of the logit {shares.logit:.3f} - logit",
            abs(shares.remainder),
            None,
            "logits",
            None,
            "<= 1e-4",
            abs(shares.remainder) <= 1e-4,
        ),
        Result("all positions patched - clean run", off, None, "share of the answer", None, "0", off == 0),
    ]


def one_by_one(pair: PatchPair) -> np.ndarray:
    """The residual map (layer, position), each patch in a forward pass of its own through all layers."""
    clean = pair.activations(PatchSite.RESIDUAL)
    values = np.zeros((pair.layers, len(pair.read[0])))
    for layer, position in np.ndindex(values.shape):
        edit = Edit(
            PatchSite.RESIDUAL.traced, layer, replace(clean[layer][:, [position]]), positions=(position,)
        )
        with torch.inference_mode(), intervene(pair.model, edit):
            logits = pair.model.model(**pair.corrupted.inputs).logits[:, pair.place]
        values[layer, position] = pair.normalised(float(pair.metric(logits)))
    return values


def speed(pair: PatchPair) -> Result:
    """Seconds of a layer-by-position map, against one whole pass a patch."""
    started = time.perf_counter()
    ours = activation_patching(pair)
    between = time.perf_counter()
    peer = one_by_one(pair)
    ended = time.perf_counter()
    assert np.allclose(ours.values, peer, atol=1e-3), "both ways must agree"
    ratio = (ended - between) / (between - started)
    return Result(
        "patching map, 150 patches", between - started, ended - between, "s", ratio, ">= 1", ratio >= 1
    )


def maps(
    model: workbench.LoadedModel, examples: Sequence[AgreementPair], sites: Sequence[str]
) -> tuple[list[PatchPair], dict[str, Statistic]]:
    """Mean effects at every site, and for heads the estimate by gradients."""
    pairs = [patch_pair(model, e.clean, e.corrupted, e.target, e.contrast) for e in examples]
    found = {}
    for site in sites:
        effects = [activation_patching(pair, site) for pair in pairs]
        found[site] = mean_effects(pairs, effects, None if site == PatchSite.HEAD else PLACES)
        if site == PatchSite.HEAD:
            effects = [attribution_patching(pair, site) for pair in pairs]
            found["head by gradients"] = mean_effects(pairs, effects)
    return pairs, found


def tell(pairs: Sequence[PatchPair], found: dict[str, Statistic]) -> None:
    """Print what the findings quote."""
    clean, corrupted = (
        sum(v > 0 for v in vs)
        for vs in zip(*[(p.clean_value, p.corrupted_value) for p in pairs], strict=True)
    )
    print(
        f"{len(pairs)} pairs; the clean subject's verb is preferred in {clean} clean, {corrupted} corrupted texts"
    )
    for name, effect in found.items():
        frame = effect.to_frame()
        top = frame.loc[frame["value"].abs().sort_values(ascending=False).index[:12]]
        print(f"\n{effect.name} [{name}]; {effect.note}\n{top.to_string(index=False)}")
    if "residual" in found:
        print("\nresidual by layer (rows) and place:")
        print(np.array2string(found["residual"].values, precision=2, suppress_small=True, max_line_width=100))
    if "head" in found:
        both = np.corrcoef(found["head"].values.ravel(), found["head by gradients"].values.ravel())
        print(f"correlation of patching by head and its estimate: {both[0, 1]:.3f}")


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=50)
    options.add_argument("--model", default="smollm2-135m")
    options.add_argument("--sites", default=",".join(PatchSite))
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    model = workbench.load(chosen.model, dtype="float32")
    examples = attractor_pairs(model.tokenizer, chosen.pairs)
    first = examples[0]
    pair = patch_pair(model, first.clean, first.corrupted, first.target, first.contrast)
    results = [*exactness(model, pair), speed(pair)]
    pairs, found = maps(model, examples, chosen.sites.split(","))
    tell(pairs, found)
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        for name, effect in found.items():
            patching_grid(effect).save(chosen.out / f"{name.replace(' ', '_')}.html")
        (chosen.out / "pairs.json").write_text(json.dumps([vars(e) for e in examples], indent=1))
    report(results, machine(), chosen.json)


if __name__ == "__main__":
    main()
