"""How much a generated text repeats itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from workbench.errors import ConfigError

__all__ = ["distinct"]


def distinct(tokens: Sequence[Hashable], size: int) -> float:
    """The share of a text's n-grams of ``size`` tokens that are different: 1 if none comes twice; NaN without any.

    Distinct-n of Li et al. 2016, "A Diversity-Promoting Objective Function for Neural Conversation Models". What is
    left to 1 is the repetition of Welleck et al. 2020 ("seq-rep-n") and Su et al. 2022 ("rep-n").

    Example:
        ```python
        from workbench.analysis.diversity import distinct

        print(distinct("the cat and the cat".split(), 2))
        ```
    """
    if size < 1:
        raise ConfigError(f"size is {size}; allowed: 1 or more")
    grams = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(set(grams)) / len(grams) if grams else float("nan")
