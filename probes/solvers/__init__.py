"""Optimisation: many multinomial logistic regressions, or many ridge regressions, on one feature matrix at once."""

from __future__ import annotations

from probes.solvers.logistic import Logistic, Problems, solve_logistic
from probes.solvers.ridge import RidgeSolution, solve_ridge
from probes.solvers.rows import Rows

__all__ = ["Logistic", "Problems", "RidgeSolution", "Rows", "solve_logistic", "solve_ridge"]
