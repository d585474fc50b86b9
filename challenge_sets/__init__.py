"""Challenge sets: templates and tests of behaviour, minimal pairs and diagnostics."""

from challenge_sets._records import MinimalPair
from challenge_sets.perturbations import PERTURBATIONS, Perturbation, perturbation
from challenge_sets.templates import Case, Template, TemplateError

__all__ = [
    "PERTURBATIONS",
    "Case",
    "MinimalPair",
    "Perturbation",
    "Template",
    "TemplateError",
    "perturbation",
]
