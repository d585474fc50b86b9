"""What follows from an experiment's numbers, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.estimate import Estimate
from workbench.terminal import counted

__all__ = ["CAUSAL_CAVEAT", "classification_conclusions", "mixture_conclusions"]

CAUSAL_CAVEAT = (
    "That a probe can read a property does not say that the model uses it; erase it and see what changes: "
    "probes.amnesic."
)
_FEW_SENTENCES = 30
_LOW_SELECTIVITY = 0.10
_SIGNIFICANCE_LEVEL = 0.05
_MOSTLY_SEEN_SHARE = 0.5


def classification_conclusions(
    layers: Sequence[int],
    series: Mapping[str, tuple[Estimate, ...]],
    baselines: Mapping[str, Estimate],
    p_values: Mapping[str, float],
    indistinct: Sequence[int],
    sentences: int,
    seen: float = 1.0,
) -> tuple[str, ...]:
    """Sentences about accuracy against baselines and random weights, selectivity, which layer, and how much data.

    ``p_values`` are of the best layer against each comparison; ``indistinct`` are layers whose difference from
    the best has an interval that holds 0; ``seen`` is the share of test items whose word type is trained on.
    """
    values = series["accuracy"]
    best = max(range(len(layers)), key=lambda i: values[i].value)
    accuracy = values[best]
    found = [f"Accuracy is highest at layer {layers[best]}: {accuracy.text(3)}."]
    others = [n for n in indistinct if n != layers[best]]
    if others:
        names = f"Layer{'s' if len(others) > 1 else ''} {', '.join(map(str, others))}"
        found.append(f"{names} cannot be told apart from it, so it is no claim about one layer.")
    found.append(_against(accuracy, {**baselines, **_random(series, best)}, p_values))
    found.append(_selectivity(series["selectivity"][best], series["control task"][best], seen))
    return (*found, *_few(sentences), CAUSAL_CAVEAT)


def mixture_conclusions(
    summary: Mapping[str, Estimate],
    comparisons: Mapping[str, Estimate],
    p_values: Mapping[str, float],
    sentences: int,
    seen: float = 1.0,
) -> tuple[str, ...]:
    """Sentences about where a mixture of layers leans, its accuracy against comparisons, and its selectivity."""
    return (
        f"The mixture's centre of gravity is layer {summary['center of gravity'].text(3)}, its expected layer "
        f"{summary['expected layer'].text(3)}.",
        "Both say where a probe finds it easiest to read the property; compare tasks on one model, not models.",
        _against(summary["accuracy of the mixture"], comparisons, p_values, "The mixture's accuracy"),
        _selectivity(summary["selectivity"], summary["control task"], seen),
        *_few(sentences),
        CAUSAL_CAVEAT,
    )


def _few(sentences: int) -> tuple[str, ...]:
    if sentences >= _FEW_SENTENCES:
        return ()
    return (
        f"Only {counted(sentences, 'test sentence')}: the intervals are too uncertain to rely on; use more data.",
    )


def _random(series: Mapping[str, tuple[Estimate, ...]], best: int) -> dict[str, Estimate]:
    if "random weights" not in series:
        return {}
    top = max(series["random weights"], key=lambda e: e.value)
    return {"random weights": top}


def _against(
    accuracy: Estimate, others: Mapping[str, Estimate], p_values: Mapping[str, float], what: str = "It"
) -> str:
    """Whether the best layer beats what needs no trained layers."""
    better = [
        n
        for n in others
        if n in p_values and p_values[n] <= _SIGNIFICANCE_LEVEL and others[n].value < accuracy.value
    ]
    rest = [n for n in others if n not in better]
    listed = "; ".join(f"{name} {others[name].value:.3f}" for name in others)
    if not rest:
        return f"{what} is above every comparison ({listed}): the trained layers add information that is easy to read."
    return (
        f"{what} is not established to be above {' or '.join(rest)} ({listed}): what the probe finds may be in the "
        "words or the architecture, not in what was learnt."
    )


def _selectivity(selectivity: Estimate, control: Estimate, seen: float) -> str:
    if seen < _MOSTLY_SEEN_SHARE:
        return (
            f"Selectivity ({selectivity.text(3)}) says little here: only {seen:.0%} of the test items are of a type "
            "seen in training, so random labels of types could not be memorised for the others."
        )
    if not selectivity.low >= _LOW_SELECTIVITY:
        return (
            f"Selectivity is low ({selectivity.text(3)}; random labels of word types are predicted with "
            f"{control.value:.3f}): the probe may have memorised words rather than read the property."
        )
    return (
        f"Selectivity is {selectivity.text(3)}: random labels of word types are predicted with {control.value:.3f} "
        "only, so the probe did not get there by memorising words."
    )
