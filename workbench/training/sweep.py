"""Sweeps: the same data, seeds and budget for every combination of variants, in one table; and power laws over them."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats
from scipy.optimize import least_squares

from workbench.errors import ConfigError, NumericsError, RunError, WorkbenchError
from workbench.estimate import Estimate
from workbench.runs import Run, make_folder, write_atomically
from workbench.training.modifications import Modification
from workbench.training.progress import read_log
from workbench.training.settings import TrainSettings

__all__ = [
    "PowerLaw",
    "SweepRow",
    "Variation",
    "fit_power_law",
    "parse_variations",
    "ranked",
    "read_rows",
    "store_rows",
    "sweep",
    "sweep_table",
]

_MOST_TOKENS = 1e15


@dataclass(frozen=True)
class Variation:
    """A field of the configuration, such as ``norm.placement``, or ``tokens``, and the values to try."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SweepRow:
    """One variant: its size, its cost, and its losses in nats, mean and standard deviation over seeds.

    ``tokens`` is what it was trained on; ``early_loss`` is validation-free: the training loss at a tenth of the steps.
    ``runs`` are the folders of its runs, ``scores`` what they reach on further tasks, mean over seeds.
    ``problem`` says why a variant could not be trained. The columns are after Narang et al. 2021, "Do Transformer
    Modifications Transfer Across Implementations and Applications?", table 1, with other shares of the steps.
    """

    variant: str
    parameters: int | None = None
    tokens: float | None = None
    flops_per_token: float | None = None
    steps_per_second: float | None = None
    early_loss: float | None = None
    final_loss: float | None = None
    final_loss_sd: float | None = None
    seeds: int = 0
    problem: str = ""
    runs: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)


def parse_variations(texts: Sequence[str]) -> list[Variation]:
    """``positions=learned,rope`` and the like; raises :class:`~workbench.errors.ConfigError` for anything else."""
    found = []
    for text in texts:
        name, separator, values = text.partition("=")
        chosen = tuple(v.strip() for v in values.split(",") if v.strip())
        if not separator or not chosen:
            raise ConfigError(
                f"cannot read {text!r}; write --vary field=value,value, such as norm.placement=pre,post"
            )
        if name.strip() == "tokens":
            for value in chosen:
                _tokens(value)
        found.append(Variation(name.strip(), chosen))
    return found


def sweep(
    base: TrainSettings,
    variations: Sequence[Variation],
    out: Path,
    *,
    modifications: Mapping[str, Modification] | None = None,
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    tell: Callable[[SweepRow], None] = lambda row: None,
) -> list[SweepRow]:
    """Train every combination with every seed into ``out``; finished runs found there are not done again.

    Each of ``modifications`` is made by itself, with every combination of ``variations``. A combination that cannot be
    built gets a row with its problem. The rows are also in ``sweep.json``.
    """
    from workbench.training.pretrain import train

    rows = []
    for name, changes in _combinations(variations, modifications or {}):
        runs: list[Run] = []
        problem = ""
        for seed in seeds:
            folder = out / f"{_slug(name)}-seed{seed}"
            try:
                done = Run.open(folder) if (folder / "results.json").is_file() else None
                settings = _with(base, changes, seed)
                runs.append(done or train(settings, folder, device=device))
            except RunError:
                raise
            except WorkbenchError as error:
                problem = str(error)
                break
        row = SweepRow(name, problem=problem) if problem else _row(name, runs)
        tell(row)
        rows.append(row)
        store_rows(rows, out)
    return rows


def _combinations(
    variations: Sequence[Variation], modifications: Mapping[str, Modification]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and changes of each variant."""
    for modified, change in (modifications or {"": Modification((), "")}).items():
        for chosen in itertools.product(*(v.values for v in variations)):
            changes = tuple(f"{v.field}={value}" for v, value in zip(variations, chosen, strict=True))
            yield ", ".join(filter(None, (modified, *changes))), (*change.settings, *changes)


def store_rows(rows: Sequence[SweepRow], out: Path) -> None:
    """Write the rows to ``sweep.json`` in ``out``."""
    make_folder(out)
    write_atomically(out / "sweep.json", json.dumps([asdict(r) for r in rows], indent=1).encode())


def read_rows(out: Path) -> list[SweepRow]:
    """The rows of a sweep in ``out``; raises :class:`~workbench.errors.RunError` if there is none."""
    try:
        content = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
        return [SweepRow(**{**row, "runs": tuple(row["runs"])}) for row in content]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"no sweep in {out}: it needs a sweep.json that workbench sweep wrote") from error


def _with(base: TrainSettings, changes: tuple[str, ...], seed: int) -> TrainSettings:
    """``base`` with changed fields of the model; ``tokens=N`` changes the steps instead."""
    model_changes = tuple(c for c in changes if not c.startswith("tokens="))
    steps = base.optimisation.steps
    for change in changes:
        if change.startswith("tokens="):
            row_tokens = base.optimisation.batch_size * (base.data.length or 256)
            steps = max(1, round(_tokens(change.removeprefix("tokens=")) / row_tokens))
    return replace(
        base,
        model=replace(base.model, set=(*base.model.set, *model_changes)),
        optimisation=replace(base.optimisation, seed=seed, steps=steps),
    )


def _tokens(text: str) -> float:
    """A number of tokens, such as 1e6; raises :class:`~workbench.errors.ConfigError` for anything else."""
    try:
        tokens = float(text)
    except ValueError:
        tokens = math.nan
    if not 0 < tokens < _MOST_TOKENS:
        raise ConfigError(f"tokens is {text!r:.40}; allowed: a number above 0, such as 1e6")
    return tokens


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "base"


def _row(name: str, runs: Sequence[Run]) -> SweepRow:
    final = [run.results["training"]["loss"].value for run in runs]
    early, speed, tokens = [], [], []
    for run in runs:
        log = [row for row in read_log(run.path / "log.jsonl") if "loss" in row]
        tenth = max(1, log[-1]["step"] // 10)
        nearest = min(log, key=lambda row: abs(row["step"] - tenth))
        early.append(nearest["loss"] - nearest.get("auxiliary_loss", 0.0))
        speed.append(log[-1]["step"] / run.throughput["seconds"])
        tokens.append(run.throughput["tokens"])
    return SweepRow(
        variant=name,
        parameters=int(runs[0].record.model["parameters"]),
        tokens=float(np.mean(tokens)),
        flops_per_token=runs[0].throughput.get("flops_per_token"),
        steps_per_second=float(np.mean(speed)),
        early_loss=float(np.mean(early)),
        final_loss=float(np.mean(final)),
        final_loss_sd=float(np.std(final, ddof=1)) if len(final) > 1 else None,
        seeds=len(final),
        runs=tuple(str(run.path) for run in runs),
    )


def ranked(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """The rows that were trained, the lowest final loss first."""
    return sorted((r for r in rows if r.final_loss is not None), key=lambda r: r.final_loss or 0.0)


def sweep_table(rows: Sequence[SweepRow]) -> pd.DataFrame:
    """All rows as a table, ranked, those with a problem last; each further score is a column."""
    shown = [*ranked(rows), *(r for r in rows if r.problem)]
    plain = [{k: v for k, v in asdict(row).items() if k not in ("runs", "scores")} for row in shown]
    return pd.DataFrame([{**row, **of.scores} for row, of in zip(plain, shown, strict=True)])


RESAMPLES = 200


@dataclass(frozen=True)
class PowerLaw:
    """(C / x)^a + E of a size x: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", equations 1.1 and 1.2.

    ``exponent`` is a, ``scale`` is C in the unit of x, ``floor`` the loss E that remains: 0 where it was not fitted, as
    in the paper.
    """

    exponent: Estimate
    scale: float
    floor: float
    unit: str

    def __call__(self, x: Float[np.ndarray, " point"]) -> Float[np.ndarray, " point"]:
        """The loss at ``x``."""
        predicted: Float[np.ndarray, " point"] = self.floor + (self.scale / x) ** self.exponent.value
        return predicted


def fit_power_law(
    x: Sequence[float], loss: Sequence[float], *, unit: str, with_floor: bool = False, seed: int = 0
) -> PowerLaw:
    """Fit by least squares of log loss.

    Without a floor this is a straight line in logarithms, and the exponent's interval is that of its slope, with
    Student's t of two degrees of freedom less than points; with one it is over resampled points (percentile
    bootstrap). Raises :class:`~workbench.errors.NumericsError` for fewer
    than three different sizes, four with a floor.
    """
    points, losses = np.asarray(x, dtype=float), np.asarray(loss, dtype=float)
    needed = 4 if with_floor else 3
    if len(np.unique(points)) < needed or (points <= 0).any() or (losses <= 0).any():
        raise NumericsError(
            f"a power law needs {needed} different positive sizes with positive losses, "
            f"got {len(np.unique(points))}; vary width or tokens more"
        )
    exponent, scale, floor = _fit(points, losses, with_floor)
    if not with_floor:
        error = float(stats.linregress(np.log(points), np.log(losses)).stderr)
        reach = float(stats.t.ppf(0.975, len(points) - 2)) * error
        estimate = Estimate(
            value=exponent,
            standard_error=error,
            low=exponent - reach,
            high=exponent + reach,
            n=len(points),
            method="t interval of the slope",
        )
        return PowerLaw(estimate, scale, floor, unit)
    return PowerLaw(_resampled(points, losses, exponent, needed, seed), scale, floor, unit)


def _resampled(
    points: Float[np.ndarray, " point"],
    losses: Float[np.ndarray, " point"],
    exponent: float,
    needed: int,
    seed: int,
) -> Estimate:
    """The exponent of a law with a floor, its interval over resampled points."""
    rng = np.random.default_rng(seed)
    exponents: list[float] = []
    while len(exponents) < RESAMPLES:
        drawn = rng.integers(len(points), size=len(points))
        if len(np.unique(points[drawn])) >= needed:
            exponents.append(_fit(points[drawn], losses[drawn], with_floor=True)[0])
    low, high = (float(v) for v in np.quantile(exponents, [0.025, 0.975]))
    return Estimate(
        value=exponent, standard_error=float(np.std(exponents, ddof=1)), low=low, high=high, n=len(points)
    )


def _fit(x: np.ndarray, loss: np.ndarray, with_floor: bool) -> tuple[float, float, float]:
    slope, intercept = np.polyfit(np.log(x), np.log(loss), 1)
    exponent = float(-slope)
    if not with_floor:
        scale = float(np.exp(intercept / exponent)) if abs(exponent) > 1e-12 else 1.0
        return exponent, scale, 0.0

    def wrong(parameters: np.ndarray) -> np.ndarray:
        log_scale, a, log_floor = parameters
        predicted = np.exp(log_floor) + np.exp(a * (log_scale - np.log(x)))
        residuals: np.ndarray = np.log(predicted) - np.log(loss)
        return residuals

    start = np.array([np.log(x).mean(), max(exponent, 0.05) * 2, np.log(loss.min() * 0.7)])
    found = least_squares(wrong, start).x
    return float(found[1]), float(np.exp(found[0])), float(np.exp(found[2]))
