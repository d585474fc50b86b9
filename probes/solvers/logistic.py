"""Many L2-regularised multinomial logistic regressions on the same rows, minimised side by side.

Each problem q minimises what scikit-learn's ``LogisticRegression(C=1/penalty)`` minimises,

    sum_n weight[q, n] * -log softmax(W x_n + b)[target[q, n]]  +  penalty[q] / 2 * |W|^2,

with the intercept b free. Of two classes scikit-learn fits one row of weights w = W_1 - W_0, whose penalty
|w|^2 / 2 is |W|^2 at the least, where W_1 = -W_0: so twice the penalty above is taken.

The problems share every product with the rows: two matrix products a round serve all of them. Each follows its
own limited-memory BFGS path (Nocedal & Wright 2006, algorithm 7.4); a problem whose step is refused tries a
shorter one in the next round while the others go on, and one that has converged leaves. The first inverse
Hessian takes the mean of p (1 - p) over the rows for each class k, with p the current probabilities: (mean p_k
(1 - p_k) X'X + penalty)^-1 (compare the bound of Böhning 1992), from one eigendecomposition of X'X for all problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from probes.solvers.rows import Rows
from workbench.errors import NumericsError
from workbench.shapes import Array

__all__ = ["Logistic", "Memory", "Problems", "solve_logistic"]

_HISTORY_LENGTH = 16


class Memory:
    """The last steps and changes of gradient of P problems, each an array (P, K, W)."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self._steps = torch.zeros(0, *shape, device=device)
        self._changes = torch.zeros(0, *shape, device=device)
        self._inverse = torch.zeros(0, shape[0], device=device)  # 1 / step'change; 0 where nothing is kept

    def keep(self, chosen: Tensor) -> None:
        """Only the chosen problems."""
        self._steps, self._changes = self._steps[:, chosen], self._changes[:, chosen]
        self._inverse = self._inverse[:, chosen]

    def push(self, step: Tensor, change: Tensor, moved: Tensor) -> None:
        """Remember a pair for the problems that ``moved``; the others get one that counts for nothing."""
        if not bool(moved.any()):
            return
        product = (step * change).sum((1, 2))
        usable = moved & (product > 1e-10 * change.square().sum((1, 2)))
        inverse = torch.where(usable, 1 / product.clamp_min(1e-30), 0.0)
        start = 1 if len(self._steps) == _HISTORY_LENGTH else 0
        self._steps = torch.cat([self._steps[start:], step[None]])
        self._changes = torch.cat([self._changes[start:], change[None]])
        self._inverse = torch.cat([self._inverse[start:], inverse[None]])

    def apply(self, gradient: Tensor, first: Callable[[Tensor], Tensor]) -> Tensor:
        """The inverse Hessian times ``gradient``: the two-loop recursion around ``first``, scaled to the last pair."""
        result = gradient.clone()
        factors: list[Tensor] = []
        for k in reversed(range(len(self._steps))):
            factor = self._inverse[k] * (self._steps[k] * result).sum((1, 2))
            result -= factor[:, None, None] * self._changes[k]
            factors.append(factor)
        result = first(result) * self._scale(first)
        for k, factor in enumerate(reversed(factors)):
            back = self._inverse[k] * (self._changes[k] * result).sum((1, 2))
            result += (factor - back)[:, None, None] * self._steps[k]
        return result

    def _scale(self, first: Callable[[Tensor], Tensor]) -> Tensor | float:
        """step'change / change'first(change) of the last pair: curvature shrinks as probabilities sharpen."""
        if not len(self._steps):
            return 1.0
        change, inverse = self._changes[-1], self._inverse[-1]
        expected = inverse * (change * first(change)).sum((1, 2))
        return torch.where(expected > 0, 1 / expected.clamp_min(1e-30), 1.0)[:, None, None]


# Columns (problems x classes) solved in one go: bounds the memory of their L-BFGS histories.
_COLUMNS_PER_CHUNK = 1024
# A class that is certain everywhere still gets a finite step.
_LEAST_CURVATURE = 1e-6


@dataclass(frozen=True, eq=False)
class Problems:
    """P problems over the same N rows: ``targets`` and ``weights`` (P, N), ``penalty`` (P,), all ``classes``."""

    targets: Int[Array, "problem row"]
    weights: Float[Array, "problem row"]
    penalty: Float[Array, " problem"]
    classes: int

    def __len__(self) -> int:
        return len(self.penalty)

    def part(self, chosen: slice) -> Problems:
        """Some of the problems."""
        return Problems(self.targets[chosen], self.weights[chosen], self.penalty[chosen], self.classes)


@dataclass(frozen=True, eq=False)
class Logistic:
    """Solutions: weights (P, K, D + 1) of standardised rows, the intercept last; ``gradient`` is what is left.

    ``gradient`` is the largest absolute derivative of the mean loss, which scikit-learn's ``tol`` bounds.
    ``converged`` says that it is within the tolerance, and that the next step would lower the loss by less than
    that part of it: with separable classes and a weak penalty the gradient alone is small far above the least loss.
    """

    parameters: Tensor
    rounds: Int[Array, " problem"]
    gradient: Float[Array, " problem"]
    converged: Array

    def log_probabilities(self, rows: Rows) -> Float[Tensor, "problem row class"]:
        """Log-probabilities of every class for each row."""
        parts = [torch.log_softmax(logits, -1) for _, logits in _logits(self.parameters, rows)]
        return torch.cat(parts, dim=1)

    def log_likelihoods(self, rows: Rows, targets: Int[Array, "problem row"]) -> Float[Array, "problem row"]:
        """Log-probability of each row's own class, by problem."""
        classes = torch.as_tensor(targets, device=rows.device, dtype=torch.int64)
        parts = []
        for where, logits in _logits(self.parameters, rows):
            own = classes[:, where, None]
            parts.append(torch.log_softmax(logits, -1).gather(-1, own)[..., 0])
        found: Array = torch.cat(parts, dim=1).cpu().numpy()
        return found

    def predict(self, rows: Rows) -> Int[Array, "problem row"]:
        """The likeliest class of each row."""
        parts = [logits.argmax(-1) for _, logits in _logits(self.parameters, rows)]
        found: Array = torch.cat(parts, dim=1).cpu().numpy()
        return found


def solve_logistic(
    rows: Rows, problems: Problems, *, tolerance: float = 1e-4, max_rounds: int = 300
) -> Logistic:
    """Solve all ``problems``; raises :class:`~workbench.errors.NumericsError` for NaN features."""
    if not np.isfinite(rows.scaling.mean).all():
        raise NumericsError(
            "the features hold NaN or infinite numbers; check the model: workbench doctor MODEL"
        )
    spectrum = _spectrum(rows)
    step = max(1, _COLUMNS_PER_CHUNK // problems.classes)
    parts = [
        _solve(rows, problems.part(slice(start, start + step)), spectrum, tolerance, max_rounds)
        for start in range(0, len(problems), step)
    ]
    return Logistic(
        torch.cat([part.parameters for part in parts]),
        np.concatenate([part.rounds for part in parts]),
        np.concatenate([part.gradient for part in parts]),
        np.concatenate([part.converged for part in parts]),
    )


def _logits(parameters: Tensor, rows: Rows) -> Iterator[tuple[slice, Tensor]]:
    """(P, n, K) of each chunk; one chunk's at a time, as all would outgrow memory."""
    problems, classes, width = parameters.shape
    weights, intercept = parameters[..., :-1].reshape(-1, width - 1), parameters[..., -1].reshape(-1)
    for where, chunk in rows:
        yield where, torch.addmm(intercept, chunk, weights.T).view(-1, problems, classes).transpose(0, 1)


def _spectrum(rows: Rows) -> tuple[Tensor, Tensor]:
    """Eigenvalues (D,) of X'X over all rows, and its eigenvectors as columns."""
    gram = torch.zeros(rows.width, rows.width, device=rows.device)
    for _, chunk in rows:
        gram.addmm_(chunk.T, chunk)
    values, vectors = torch.linalg.eigh(gram.double())
    return values.clamp_min(0).float() / max(rows.count, 1), vectors.float()


def _solve(
    rows: Rows, problems: Problems, spectrum: tuple[Tensor, Tensor], tolerance: float, max_rounds: int
) -> Logistic:
    state = _State(rows, problems, spectrum)
    count = len(problems)
    parameters = torch.zeros(count, problems.classes, rows.width + 1, device=rows.device)
    spent, left = np.zeros(count, dtype=np.int64), np.full(count, np.inf)
    converged = np.zeros(count, dtype=bool)
    active = torch.arange(count, device=rows.device)
    for _ in range(max_rounds):
        gradient = state.advance()
        close = (gradient <= tolerance) & (state.decrease() <= tolerance)
        finished = close | state.stuck
        places = active.cpu().numpy()
        spent[places] += 1
        left[places], converged[places] = gradient.cpu().numpy(), close.cpu().numpy()
        parameters[active] = state.best
        if bool(finished.any()):
            active = active[~finished]
            state.keep(~finished)
        if not len(active):
            break
    # the same vector added to every class changes no probability, and the penalty is least where they sum to 0
    parameters -= parameters.mean(1, keepdim=True)
    return Logistic(parameters, spent, left, converged)


class _State:
    """The unfinished problems: where each is, its history, and the step that it tries next."""

    def __init__(self, rows: Rows, problems: Problems, spectrum: tuple[Tensor, Tensor]) -> None:
        device = rows.device
        self.rows = rows
        self.values, self.vectors = spectrum
        self.targets = torch.as_tensor(problems.targets, device=device, dtype=torch.int64)
        self.weights = torch.as_tensor(problems.weights, device=device, dtype=torch.float32)
        twice = 2 if problems.classes == 2 else 1  # as scikit-learn's penalty of two classes
        self.penalty = twice * torch.as_tensor(problems.penalty, device=device, dtype=torch.float32)
        self.total = self.weights.sum(1).clamp_min(1e-12)
        frequencies = self._frequencies(problems.classes)
        self.curvature = (frequencies * (1 - frequencies)).clamp_min(_LEAST_CURVATURE)  # (P, K)
        shape = (len(problems), problems.classes, rows.width + 1)
        self.best = torch.zeros(shape, device=device)
        self.best[..., -1] = frequencies.clamp_min(1e-6).log()
        self.trial = self.best.clone()
        self.value = torch.full((len(problems),), torch.inf, device=device, dtype=torch.float64)
        self.slope = torch.zeros(len(problems), device=device)
        self.length = torch.ones(len(problems), device=device)
        self.direction = torch.zeros(shape, device=device)
        self.gradient = torch.zeros(shape, device=device)
        self.memory = Memory(shape, device)
        self.stuck = torch.zeros(len(problems), dtype=torch.bool, device=device)

    def _frequencies(self, classes: int) -> Tensor:
        counts = torch.zeros(len(self.targets), classes, device=self.rows.device)
        return counts.scatter_add_(1, self.targets, self.weights) / self.total[:, None]

    def keep(self, chosen: Tensor) -> None:
        """Drop the problems that are done."""
        for name in ("targets", "weights", "penalty", "total", "curvature", "best", "trial", "value"):
            setattr(self, name, getattr(self, name)[chosen])
        for name in ("slope", "length", "direction", "gradient", "stuck"):
            setattr(self, name, getattr(self, name)[chosen])
        self.memory.keep(chosen)

    def advance(self) -> Tensor:
        """Evaluate each problem's trial point, accept or shorten; the largest derivative at each best point."""
        value, gradient, curvature = self._evaluate(self.trial)
        noise = 1e-6 * self.value.abs().nan_to_num(posinf=0.0)
        accepted = value <= self.value + 1e-4 * self.length * self.slope + noise
        first = torch.isinf(self.value)
        moved = accepted & ~first
        self.memory.push(self.trial - self.best, gradient - self.gradient, moved)
        self.best = torch.where(accepted[:, None, None], self.trial, self.best)
        self.gradient = torch.where(accepted[:, None, None], gradient, self.gradient)
        self.value = torch.where(accepted, value, self.value)
        self.curvature = torch.where(accepted[:, None], curvature, self.curvature)
        direction = -self.memory.apply(self.gradient, self._precondition)
        self.direction = torch.where(accepted[:, None, None], direction, self.direction)
        self.length = torch.where(accepted, 1.0, 0.4 * self.length)
        self.slope = (self.direction * self.gradient).sum((1, 2))
        self.stuck = self.length < 1e-4
        self.trial = self.best + self.length[:, None, None] * self.direction
        return self.gradient.abs().amax((1, 2))

    def decrease(self) -> Tensor:
        """What a whole step would take off each loss, as a part of it: -slope / 2 in the quadratic model."""
        return -self.slope / 2 / self.value

    def _precondition(self, vectors: Tensor) -> Tensor:
        """The first inverse Hessian times ``vectors`` (P, K, D + 1)."""
        rotated = vectors[..., :-1] @ self.vectors
        ridge = (self.penalty / self.total)[:, None, None] + 1e-6
        rotated = rotated / (self.curvature[..., None] * self.values + ridge)
        intercept = vectors[..., -1:] / self.curvature[..., None]
        return torch.cat([rotated @ self.vectors.T, intercept], dim=-1)

    def _evaluate(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean penalised loss (P,), its gradient (P, K, D + 1), mean p (1 - p) (P, K): one pass over the rows."""
        problems, classes, width = parameters.shape
        flat, intercept = parameters[..., :-1].reshape(-1, width - 1), parameters[..., -1].reshape(-1)
        loss = torch.zeros(problems, device=parameters.device, dtype=torch.float64)
        slopes = torch.zeros_like(flat)
        shifts = torch.zeros_like(intercept)
        spread = torch.zeros(problems, classes, device=parameters.device)
        for where, chunk in self.rows:
            logits = torch.addmm(intercept, chunk, flat.T).view(-1, problems, classes)  # (n, P, K)
            target, weight = self.targets[:, where].T[..., None], self.weights[:, where].T  # (n, P, 1)
            logits = logits.log_softmax(-1)
            loss -= (logits.gather(-1, target)[..., 0] * weight).sum(0, dtype=torch.float64)
            residual = logits.exp_()
            spread += ((residual - residual.square()) * weight[..., None]).sum(0)
            residual.scatter_add_(-1, target, residual.new_full((), -1.0).expand(target.shape))
            residual *= weight[..., None]
            columns = residual.view(len(chunk), -1)
            slopes.addmm_(columns.T, chunk)
            shifts += columns.sum(0)
        scale = 1 / self.total[:, None, None]
        gradient = torch.cat([slopes.view(problems, classes, -1), shifts.view(problems, classes, 1)], -1)
        gradient *= scale
        gradient[..., :-1] += parameters[..., :-1] * self.penalty[:, None, None] * scale
        squares = parameters[..., :-1].square().sum((1, 2)).double()
        curvature = (spread / self.total[:, None]).clamp_min(_LEAST_CURVATURE)
        return (loss + 0.5 * self.penalty * squares) / self.total, gradient, curvature
