"""Ridge regression for many targets, row weights and penalties from one or a few eigendecompositions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from probes.solvers.rows import Rows
from workbench.shapes import Array

__all__ = ["RidgeSolution", "solve_ridge"]


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """Weights (penalty, target, D + 1) of standardised rows, the intercept last."""

    parameters: Tensor

    def predict(self, rows: Rows) -> Float[Tensor, "penalty row target"]:
        """Fitted values."""
        penalties, targets, width = self.parameters.shape
        flat = self.parameters[..., :-1].reshape(-1, width - 1)
        shift = self.parameters[..., -1].reshape(-1)
        parts = [torch.addmm(shift, chunk, flat.T).view(-1, penalties, targets) for _, chunk in rows]
        return torch.cat(parts).transpose(0, 1)


def solve_ridge(
    rows: Rows, targets: Float[Array, "row target"], weights: Float[Array, " row"], penalties: list[float]
) -> RidgeSolution:
    """Minimise sum_n weight[n] |W x_n + b - target[n]|^2 + penalty |W|^2 for each penalty, as ``Ridge`` does."""
    width, device = rows.width, rows.device
    values = torch.as_tensor(targets, dtype=torch.float64, device=device)
    weight = torch.as_tensor(weights, dtype=torch.float64, device=device)[:, None]
    total = weight.sum()
    gram = torch.zeros(width, width, dtype=torch.float64, device=device)
    cross = torch.zeros(width, values.shape[1], dtype=torch.float64, device=device)
    mean = torch.zeros(width, dtype=torch.float64, device=device)
    for where, chunk in rows:
        scaled = chunk.double() * weight[where]
        gram += scaled.T @ chunk.double()
        cross += scaled.T @ values[where]
        mean += scaled.sum(0)
    mean, target_mean = mean / total, (values * weight).sum(0) / total
    gram -= total * torch.outer(mean, mean)
    cross -= total * torch.outer(mean, target_mean)
    eigenvalues, vectors = torch.linalg.eigh(gram)
    rotated = vectors.T @ cross
    solutions = []
    for penalty in penalties:
        coefficients = (vectors @ (rotated / (eigenvalues.clamp_min(0) + penalty)[:, None])).T
        intercept = target_mean - coefficients @ mean
        solutions.append(torch.cat([coefficients, intercept[:, None]], dim=1))
    return RidgeSolution(torch.stack(solutions).float())
