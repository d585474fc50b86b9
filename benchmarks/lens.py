"""Exactness of lens, attribution and patching on real weights, speed of patching, and an average patching map.

    python benchmarks/lens.py [--pairs N] [--sites residual,head] [--out FOLDER] [--json FILE]
    OMP_NUM_THREADS=1 python benchmarks/lens.py --peer [--repeats N]

The peer of the speed of patching is one forward pass for each patch (:func:`one_by_one`). Maps are of
smollm2-135m, float32, over agreement pairs with an attractor (benchmarks/agreement_pairs.py); ``--out`` draws them.
``--peer`` compares processor time with TransformerLens (:func:`beside_transformer_lens`) and does nothing else.
"""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _frame import Result, alternate, machine, parser, report
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


TEXTS = {  # a name for the table -> a clean text and a corrupted one, which differ in a noun's number
    "5 tokens": ("The keys to the cabinet", "The key to the cabinet"),
    "24 tokens": tuple(
        "The report that the committees wrote last year about the trains in the north of the country says that the "
        f"oldest of the {noun}"
        for noun in ("trains", "train")
    ),
}


def beside_transformer_lens(model: workbench.LoadedModel, repeats: int) -> list[Result]:
    """Processor time of the lens, of attribution and of one site, each with TransformerLens's own function for it.

    The peer is a bridge over a copy of the same weights: with its norms folded for direct attribution, which it needs,
    else as they are. It starts from ids; ours from text.
    """
    plain, folded = bridge(model), bridge(model)
    folded.enable_compatibility_mode()
    results = []
    for size, (clean, corrupted) in TEXTS.items():
        for name, (ours, peer) in jobs(model, plain, folded, clean, corrupted).items():
            mine, other = alternate(ours, peer, repeats, clock=time.process_time)
            ratios = sorted(m / o for m, o in zip(mine, other, strict=True))
            ratio = statistics.median(mine) / statistics.median(other)
            times = (statistics.median(mine), statistics.median(other))
            spread = (ratios[0], ratios[-1])
            results.append(Result(f"{name}, {size}", *times, "s", ratio, "<= 1", ratio <= 1, spread))
    return results


def bridge(model: workbench.LoadedModel) -> Any:
    """The model in TransformerLens."""
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        hf_model=copy.deepcopy(model.model),
        tokenizer=model.tokenizer,
        device="cpu",
        dtype=torch.float32,
    )


def jobs(
    model: workbench.LoadedModel, plain: Any, folded: Any, clean: str, corrupted: str
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is compared: a name, ours, the peer's."""
    from transformer_lens.tools.analysis import attribution_patch
    from transformer_lens.tools.analysis import direct_logit_attribution as peer_attribution
    from transformer_lens.tools.analysis.logit_lens import logit_lens as peer_lens

    read = [torch.tensor([model.tokenizer(text).input_ids]) for text in (clean, corrupted)]
    are, be = (model.tokenizer(word).input_ids[0] for word in (" are", " is"))
    layer = len(plain.blocks) // 2
    site = {"names_filter": f"blocks.{layer}.hook_mlp_out", "stop_at_layer": layer + 1}
    return {
        "logit lens, all positions": (
            lambda: workbench.lens(model, clean),
            lambda: peer_lens(plain, read[0], positions=None, top_k=5, return_type="probs"),
        ),
        "logit lens, last position": (
            lambda: workbench.lens(model, clean, positions=[-1]),
            lambda: peer_lens(plain, read[0], positions=-1, top_k=5, return_type="probs"),
        ),
        "attribution patching, heads, with both runs": (
            lambda: workbench.patch(
                model, clean, corrupted, " are", " is", method="attribution", site="head"
            ),
            lambda: attribution_patch(plain, *read, lambda logits: logits[0, -1, are] - logits[0, -1, be]),
        ),
        "direct attribution, heads": (
            lambda: direct_logit_attribution(model, clean, " are"),
            lambda: peer_attribution(folded, read[0], " are", unit="head"),
        ),
        "direct attribution, whole parts": (
            lambda: direct_logit_attribution(model, clean, " are"),
            lambda: peer_attribution(folded, read[0], " are", unit="component"),
        ),
        f"one site, layer {layer}": (
            lambda: workbench.capture(model, clean, "mlp", layer),
            lambda: plain.run_with_cache(read[0], **site),
        ),
        "one site, all layers": (
            lambda: workbench.capture(model, clean, "mlp"),
            lambda: plain.run_with_cache(read[0], names_filter=lambda name: name.endswith("hook_mlp_out")),
        ),
    }


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
    options.add_argument("--peer", action="store_true", help="processor time beside TransformerLens")
    chosen = options.parse_args()
    if chosen.peer:
        model = workbench.load("smollm2-135m", dtype="float32")
        results = beside_transformer_lens(model, chosen.repeats)
        report(results, machine("transformer-lens"), chosen.json)
        return
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
