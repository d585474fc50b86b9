"""Readers for public challenge sets: one module a format, each yielding frozen records.

Files are read strictly: what is not in the format is an error that names file and line.
"""

from challenge_sets.readers import (
    agreement,
    blimp,
    checklist,
    contrast_sets,
    crows_pairs,
    gulordava,
    hans,
    lama,
    lm_diagnostics,
    syntaxgym,
    winograd,
)

__all__ = [
    "agreement",
    "blimp",
    "checklist",
    "contrast_sets",
    "crows_pairs",
    "gulordava",
    "hans",
    "lama",
    "lm_diagnostics",
    "syntaxgym",
    "winograd",
]
