"""Challenge sets: templates and tests of behaviour, minimal pairs and diagnostics."""

from __future__ import annotations

from challenge_sets._records import MinimalPair
from challenge_sets.perturbations import PERTURBATIONS, Perturbation, perturbation
from challenge_sets.templates import Case, Template, TemplateError
from workbench.rooms import lazy_names

# Names whose modules import torch: imported when first used.
_LATER = {
    "Suite": "challenge_sets.suite",
    "check": "challenge_sets.checking",
    "check_predictions": "challenge_sets.checking",
    "explain": "challenge_sets.explanations",
    "load_suites": "challenge_sets.suite",
    "groups_table": "challenge_sets.tables",
    "induced_rules": "challenge_sets.rule_induction",
    "own_set": "challenge_sets.sets.own",
    "pair_scorer": "challenge_sets.pairs",
    "rewritten": "challenge_sets.rule_induction",
    "rules_table": "challenge_sets.tables",
    "score_pairs": "challenge_sets.pairs",
    "set_names": "challenge_sets.tasks",
    "suite_table": "challenge_sets.tables",
}

__all__ = [
    "PERTURBATIONS",
    "Case",
    "MinimalPair",
    "Perturbation",
    "Template",
    "TemplateError",
    "perturbation",
    *_LATER,
]

__getattr__, __dir__ = lazy_names(__name__, _LATER)
