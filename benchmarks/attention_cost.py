"""Time and memory of one layer against the length of the text, for all forms of attention and what came before them.

python benchmarks/attention_cost.py [--device cuda] [--cpu-time] [--limit-gib 8] [--json FILE] [--figure FILE.png]

One text through one layer of width 128 (four heads of 32, projections included), the forms with the sizes of their
defaults. Forward alone is without gradients; forward and backward gives those of weights and input. Time and memory of
each form are measured in processes of their own. Memory is the highest during a pass above what was held before it:
resident memory, or what PyTorch allocated on the device. The first length that needs more than the limit ends a series.
While times are taken, memory that is free stays with the process, as it does on a device: they do not count getting it
from the system.

Exponents are slopes of log(cost) against log(length) by least squares from 2,048 tokens on, with their 95 % intervals;
beside them the slope of the theoretical complexity over the same lengths, which for n log n is above 1. These are of
Vaswani et al. 2017, table 1, and of the papers of the forms; memory is what their maps or states take.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import multiprocessing
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _frame import machine, parser, peak_mib, reset_peak
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor, nn

from workbench.figures.palette import OKABE_ITO
from workbench.models.assembly import make_layer
from workbench.models.configuration import EncoderConfig
from workbench.models.parts import AttentionConfig, FormConfig, PositionConfig
from workbench.nn import AttentionContext, eager_attention, sdpa_attention
from workbench.nn.forms import FORMS

WIDTH, HEADS = 128, 4
LENGTHS = [2**power for power in range(8, 15)]
FITTED_FROM, TOLERANCE = 2048, 0.25
NAMES = ["GRU", "convolution", *FORMS, "full, fused", "full, eager"]
PASSES = ("forward", "forward and backward")
_C_LIBRARY = ctypes.CDLL(None)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # settings of its mallopt

# complexity in time, then in memory
QUADRATIC, RESTRICTED, BANDED = ("n² d", "n²"), ("r n d", "n d"), ("k n d", "n d")
COMPLEXITY = {
    "full, eager": QUADRATIC,
    "full, fused": ("n² d", "n d"),
    "synthesizer_dense": QUADRATIC,
    "synthesizer_factorised": QUADRATIC,
    "synthesizer_fixed": QUADRATIC,
    "synthesizer_random": QUADRATIC,
    "reformer": ("n log n d", "n d"),
    "lightweight_conv": BANDED,
    "dynamic_conv": BANDED,
    "GRU": ("n d²", "n d"),
    "convolution": ("k n d²", "n d"),
}


@dataclass(frozen=True)
class Point:
    """What one pass over a text of ``length`` tokens took; without numbers where it did not fit."""

    form: str
    what: str
    length: int
    seconds: float | None = None
    mib: float | None = None


@dataclass(frozen=True)
class Exponent:
    """A fitted slope with its interval beside the theoretical one."""

    form: str
    what: str
    cost: str
    complexity: str
    theory: float
    slope: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        """Whether the slope is near enough to theory."""
        return bool(abs(self.slope - self.theory) <= TOLERANCE)


def layer(form: str, length: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """One layer and how to call it: hidden states (1, T, D) in and out."""
    if form == "GRU":
        recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True)
        return recurrent, lambda hidden: recurrent(hidden)[0]
    if form == "convolution":
        convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        return convolution, lambda hidden: convolution(hidden.transpose(1, 2)).transpose(1, 2)
    config = EncoderConfig(
        hidden_size=WIDTH,
        attention=AttentionConfig(heads=HEADS),
        form=FormConfig(kind=form if form in FORMS else "full"),
        positions=PositionConfig(kind="none", max_length=length),
    )
    attention = make_layer(config, 0, is_causal=False, has_source=False).attention
    context = AttentionContext(function=eager_attention if form == "full, eager" else sdpa_attention)
    return attention, lambda hidden: attention(hidden, context)[0]


def one_pass(module: nn.Module, call: Callable[[Tensor], Tensor], hidden: Tensor, what: str) -> None:
    """Forward without gradients, or forward and backward."""
    with torch.set_grad_enabled(what != "forward"):
        output = call(hidden.detach().requires_grad_(what != "forward"))
        if what != "forward":
            output.sum().backward()
            module.zero_grad(set_to_none=True)


def peak(run: Callable[[], None], device: str) -> float:
    """MiB of one run above what was held before it."""
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        run()
        return (torch.cuda.max_memory_allocated() - held) / 2**20
    _C_LIBRARY.malloc_trim(0)
    reset_peak()
    held_mib = peak_mib()
    run()
    return peak_mib() - held_mib


def timed(run: Callable[[], None], options: argparse.Namespace) -> float:
    """Median seconds after one run that does not count; what takes more than a second is run once."""
    clock = time.process_time if options.cpu_time else time.perf_counter
    seconds: list[float] = []
    while len(seconds) <= options.repeats and max(seconds, default=0.0) < 1:
        started = clock()
        run()
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - started)
    return statistics.median(seconds[1:] or seconds)


def measured(
    form: str, lengths: dict[str, list[int]], device: str, cost: Callable[[Callable[[], None]], float]
) -> dict[tuple[str, int], float]:
    """A cost at the lengths of each pass, up to the first that needs too much memory."""
    found: dict[tuple[str, int], float] = {}
    for length in sorted({length for some in lengths.values() for length in some}):
        for what in [what for what, some in lengths.items() if length in some]:
            torch.manual_seed(0)
            try:
                module, call = layer(form, length)
                hidden = torch.randn(1, length, WIDTH, device=device)
                found[what, length] = cost(partial(one_pass, module.to(device), call, hidden, what))
            except (MemoryError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and not re.search("memory|alloc", str(error)):
                    raise
                lengths = lengths | {what: []}
    return found


def highest_memory(form: str, options: argparse.Namespace) -> dict[tuple[str, int], float]:
    """MiB at all lengths that fit into the limit, which is set for this process."""
    limit(options)
    if options.device == "cpu":
        _C_LIBRARY.mallopt(_MMAP_THRESHOLD, 2**16)  # so that what is freed goes back to the system
    return measured(
        form, dict.fromkeys(PASSES, LENGTHS), options.device, partial(peak, device=options.device)
    )


def times(
    form: str, options: argparse.Namespace, mib: dict[tuple[str, int], float]
) -> dict[tuple[str, int], float]:
    """Seconds at the lengths that fit, by a process that has measured nothing else; what it keeps is not limited."""
    if options.device == "cpu":
        reserve(1.5 * max(mib.values()))
    lengths = {what: [length for w, length in mib if w == what] for what in PASSES}
    return measured(form, lengths, options.device, partial(timed, options=options))


def limit(options: argparse.Namespace) -> None:
    """Let this process have no more memory than the options say."""
    most = int(options.limit_gib * 2**30)
    if options.device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(most / total, 1.0))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def reserve(mib: float) -> None:
    """From here on this process keeps what it frees for its next tensors, and so much to begin with."""
    for setting, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1)):
        _C_LIBRARY.mallopt(setting, value)
    with suppress(RuntimeError):  # too much, together with what the process holds
        torch.zeros(int(mib * 2**18)).add_(1)


def growth(complexity: str, length: int) -> float:
    """A complexity as a function of the length alone."""
    if "n²" in complexity:
        return float(length) ** 2
    return length * math.log(length) if "log n" in complexity else float(length)


def exponent(points: list[Point], cost: str) -> Exponent | None:
    """The slope of one cost over the points of one form and pass; none for fewer than three."""
    form, what = points[0].form, points[0].what
    costs = {p.length: getattr(p, cost) for p in points if p.length >= FITTED_FROM}
    costs = {length: value for length, value in costs.items() if value}
    if len(costs) < 3:
        return None
    logs, complexity = np.log(list(costs)), COMPLEXITY.get(form, RESTRICTED)[cost == "mib"]
    fit = stats.linregress(logs, np.log(list(costs.values())))
    margin = stats.t.ppf(0.975, len(costs) - 2) * fit.stderr
    theory = stats.linregress(logs, np.log([growth(complexity, length) for length in costs])).slope
    return Exponent(form, what, cost, complexity, theory, fit.slope, fit.slope - margin, fit.slope + margin)


def fitted(points: list[Point]) -> list[Exponent]:
    """Exponents of all forms, passes and costs that fit at three lengths or more."""
    fits = [exponent(some, cost) for some in by_series(points).values() for cost in ("seconds", "mib")]
    return [fit for fit in fits if fit is not None]


def by_series(points: list[Point]) -> dict[tuple[str, str], list[Point]]:
    """The points of each form and pass, in order of length."""
    found: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        found.setdefault((point.form, point.what), []).append(point)
    return found


def tables(points: list[Point], exponents: list[Exponent]) -> str:
    """Exponents of time and of memory, and the costs themselves, as Markdown."""
    lines = [
        "| form | pass | time | theory | slope | memory | theory | slope |",
        "|---|---|---|--:|--:|---|--:|--:|",
    ]
    found = {(e.form, e.what, e.cost): e for e in exponents}
    for form, what in by_series(points):
        cells = [_exponent_cells(found.get((form, what, cost))) for cost in ("seconds", "mib")]
        lines.append(f"| {form} | {what} | {' | '.join(cells)} |")
    for cost, unit in (("seconds", "milliseconds"), ("mib", "MiB")):
        lines += ["", f"| {unit} | pass | " + " | ".join(f"{length:,}" for length in LENGTHS) + " |"]
        lines.append("|---|---|" + "--:|" * len(LENGTHS))
        for (form, what), some in by_series(points).items():
            values = {p.length: getattr(p, cost) for p in some}
            row = [_number(values.get(length), 1000 if cost == "seconds" else 1) for length in LENGTHS]
            lines.append(f"| {form} | {what} | {' | '.join(row)} |")
    return "\n".join(lines)


def _exponent_cells(found: Exponent | None) -> str:
    if found is None:
        return "| | too few lengths fit"
    verdict = "" if found.met else " MISSED"
    interval = f"[{found.low:.2f}, {found.high:.2f}]"
    return f"{found.complexity} | {found.theory:.2f} | {found.slope:.2f} {interval}{verdict}"


def _number(value: float | None, factor: float) -> str:
    return (
        ""
        if value is None
        else f"{value * factor:,.3g}"
        if value * factor < 1000
        else f"{value * factor:,.0f}"
    )


def draw(points: list[Point], file: Path) -> None:
    """Both costs of both passes against the length, one line a form."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    for row, cost, label in zip(panels, ("seconds", "mib"), ("seconds", "MiB"), strict=True):
        for axes, what in zip(row, PASSES, strict=True):
            _draw_panel(axes, {f: some for (f, w), some in by_series(points).items() if w == what}, cost)
            axes.set(title=what, xlabel="tokens", ylabel=label)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(file, dpi=110)


def _draw_panel(axes: object, lines: dict[str, list[Point]], cost: str) -> None:
    styles = cycle([(dash, color) for dash in ("-", "--", ":") for color in OKABE_ITO[:6]])
    for (form, some), (dash, color) in zip(lines.items(), styles, strict=False):
        measured = [p for p in some if getattr(p, cost)]
        axes.plot(
            [p.length for p in measured],
            [getattr(p, cost) for p in measured],
            dash,
            color=color,
            marker="o",
            markersize=3,
            label=form,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.grid(alpha=0.3)


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument(
        "--limit-gib", type=float, default=8.0, help="memory of one process, or on the device"
    )
    options.add_argument("--forms", nargs="+", default=NAMES, choices=NAMES)
    options.add_argument("--figure", type=Path, help="write a figure (.png, .svg or .pdf)")
    chosen = options.parse_args()
    points: list[Point] = []
    for form in chosen.forms:
        mib = by_itself(highest_memory, form, chosen)
        seconds = by_itself(times, form, chosen, mib)
        print(f"measured: {form}", file=sys.stderr)
        points += [Point(form, *key, seconds.get(key), mib[key]) for key in mib]
        write(points, chosen)
    print(f"machine: {machine()}\n\n{tables(points, fitted(points))}")


def by_itself(function: Callable[..., Any], form: str, options: argparse.Namespace, *further: Any) -> Any:
    """What ``function`` returns in a process of its own, begun by this thread.

    A pool begins those after its first in a thread, whose allocator gives large tensors back at once.
    """
    processes = multiprocessing.get_context("fork" if options.device == "cpu" else "spawn")
    with processes.Pool(1) as pool:
        return pool.apply(function, (form, options, *further))


def write(points: list[Point], options: argparse.Namespace) -> None:
    """What is measured so far, in the files that were asked for."""
    if options.json:
        rows = {
            "points": [asdict(p) for p in points],
            "exponents": [asdict(e) | {"met": e.met} for e in fitted(points)],
        }
        options.json.write_text(json.dumps(rows, indent=1))
    if options.figure:
        draw(points, options.figure)


if __name__ == "__main__":
    main()
