"""How a text is given to a causal model when a minimal pair is scored: three stated conventions."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from workbench.choices import member
from workbench.errors import ConfigError, did_you_mean

__all__ = ["CONVENTIONS", "Convention", "Reduction", "convention", "reduction"]


class Reduction(StrEnum):
    """What of a text's token log-probabilities is compared: their sum, mean, or sum per white-space word."""

    SUM = "sum"
    MEAN = "mean"
    WORD = "word"


class Convention(NamedTuple):
    """What stands before a text, and who wins a tie.

    ``first_token`` is the scoring engine's policy, ``space`` is put in front of each text, and
    ``tie_is_right`` says whether equal scores count for the good member.
    """

    name: str
    first_token: str
    space: str
    tie_is_right: bool
    reason: str


_ALL = (
    Convention(
        "workbench",
        "prefix",
        "",
        tie_is_right=False,
        reason="BOS and no space: the text begins a document, as it does in training, and every token is scored",
    ),
    Convention(
        "lm-eval",
        "prefix",
        " ",
        tie_is_right=True,
        reason="BOS and a space, as lm-eval 0.4.13 scores choices after an empty context; ties go to the first",
    ),
    Convention(
        "minicons",
        "unscored",
        "",
        tie_is_right=False,
        reason="no prefix and the first token unscored, as minicons 0.3.39 does by default",
    ),
)
CONVENTIONS = {item.name: item for item in _ALL}


def convention(name: str) -> Convention:
    """The convention called ``name``; raises :class:`~workbench.errors.ConfigError` with the names."""
    if name not in CONVENTIONS:
        raise ConfigError(f"unknown convention {name!r}; {did_you_mean(name, list(CONVENTIONS))}")
    return CONVENTIONS[name]


def reduction(name: str) -> Reduction:
    """The reduction called ``name``; raises :class:`~workbench.errors.ConfigError` with the names."""
    return member(Reduction, name, "reduction")
