"""Benchmarks by fine-tuning: train a head, evaluate it, several seeds."""

from __future__ import annotations

from workbench.evaluate.finetuned.evaluate import Finetuned, evaluate_finetuned
from workbench.evaluate.finetuned.recipe import Recipe, read_recipe

__all__ = ["Finetuned", "Recipe", "evaluate_finetuned", "read_recipe"]
