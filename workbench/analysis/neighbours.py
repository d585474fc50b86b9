"""The words whose vectors are nearest to that of a word, in the token table of any model: ``nearest_neighbours``."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from workbench.errors import ConfigError, DataError
from workbench.models import LoadedModel
from workbench.models.dispatched import weights_in_memory
from workbench.statistics import Statistic

__all__ = ["nearest_neighbours"]


def nearest_neighbours(model: LoadedModel, word: str, *, count: int = 10) -> Statistic:
    """The ``count`` tokens whose vectors have the largest cosine with that of ``word``, the nearest first.

    Static vectors: the table that a model reads its tokens from, such as the vectors of words that skip-gram learns
    (Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their Compositionality", table 6). A
    word of several tokens has the mean of their vectors, as the paper adds vectors (section 5). The tokens of the word
    itself and special tokens are left out.

    Args:
        model: any loaded model with a table of tokens.
        word: as it stands in a text: for many tokenizers " cat" and "cat" are two tokens.
        count: how many.

    Returns the cosines, with the tokens as labels. Raises :class:`~workbench.errors.DataError` for a word without
    tokens, and :class:`~workbench.errors.ConfigError` for a count below 1.

    Example:
        ```python
        import workbench
        from workbench.analysis.neighbours import nearest_neighbours

        print(nearest_neighbours(workbench.load("novels-decoder"), " mother", count=5).to_frame())
        ```
    """
    if count < 1:
        raise ConfigError(f"count is {count}; allowed: 1 or more")
    tokenizer = model.tokenizer
    ids = tokenizer(word, add_special_tokens=False).input_ids if word.strip() else []
    if not ids:
        raise DataError(f"{word!r} has no tokens; give a word")
    cosines = _cosines(model, ids)
    excluded = {*ids, *tokenizer.all_special_ids}
    order = [int(i) for i in np.argsort(-cosines, kind="stable") if int(i) not in excluded]
    nearest = [i for i in order if i < len(tokenizer)][:count]
    return Statistic(
        name=f"neighbours of {word.strip()}",
        unit="cosine",
        values=cosines[nearest],
        axes=("token",),
        labels={"token": tuple(map(str, tokenizer.convert_ids_to_tokens(nearest)))},
    )


def _cosines(model: LoadedModel, ids: list[int]) -> Float[np.ndarray, " vocabulary"]:
    """Of each row of the token table (V, D) with the mean of the rows ``ids``."""
    table = model.model.get_input_embeddings()
    with model.lock, weights_in_memory(table):
        weight: Tensor = table.weight.detach().float()
        middle = weight[ids].mean(0, keepdim=True)
        found: Float[np.ndarray, " vocabulary"] = F.cosine_similarity(weight, middle).cpu().numpy()
    return found
