"""What training changed in a model's predictions: the divergence of two models' distributions at every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.errors import ModelError, NumericsError
from workbench.estimate import Estimate
from workbench.models import Kind, LoadedModel
from workbench.scoring import project_only
from workbench.shapes import Array
from workbench.statistics import bootstrap
from workbench.trace import Text
from workbench.trace.encoding import Encoded, batches_of, encode_all, inputs_of
from workbench.trace.padding import together
from workbench.trace.structure import call_model

__all__ = ["TokenDivergence", "batches_of_both", "token_divergence", "tokenizers_agree"]

_TOKENS = 256  # of a pass, each with a row of logits of both models
_ROWS = 32  # of logits in float64 at a time


@dataclass(frozen=True, eq=False)
class TokenDivergence:
    """KL(after || before) in nats at every token of every text.

    ``tokens`` has a row a token: ``text`` and ``position`` (from 0), the ``token`` read there and the ``next``
    one (empty at the end), ``kl``, and what either model finds likeliest there (``before``, ``after``).
    """

    tokens: pd.DataFrame
    texts: int

    def mean(self, seed: int = 0) -> Estimate:
        """Mean over tokens, with a bootstrap interval over texts."""
        return bootstrap(
            self.tokens["kl"].to_numpy(),
            seed=seed,
            clusters=self.tokens["text"].to_numpy(),
            higher_is_better=False,
        )


def tokenizers_agree(before: LoadedModel, after: LoadedModel, texts: Sequence[Text]) -> bool:
    """Whether both read each of ``texts`` as the same tokens with the same numbers; of any two models."""
    first, second = (encode_all(model, texts) for model in (before, after))
    return all(
        a.alignment.ids == b.alignment.ids and a.alignment.tokens == b.alignment.tokens
        for a, b in zip(first, second, strict=True)
    )


def token_divergence(before: LoadedModel, after: LoadedModel, texts: Sequence[Text]) -> TokenDivergence:
    """KL(after || before) of what the models predict at each token of ``texts``, which both read as the same tokens.

    A causal model predicts the next token there, a masked one (reading the text without masks) the token itself. Sums
    are in float64, of logits in the models' own precision; where one model has more logits than the other, over those
    that both have. Texts longer than the models read are truncated.

    Raises :class:`~workbench.errors.ModelError` for a model without a vocabulary head or tokenizers that differ,
    :class:`~workbench.errors.NumericsError` for NaN logits.

    Example:
        ```python
        import workbench
        from workbench.analysis.token_changes import token_divergence

        model = workbench.load("novels-decoder")
        print(token_divergence(model, model, ["She was happy."]).mean())
        ```
    """
    for model in (before, after):
        model.require(Kind.CAUSAL, Kind.MASKED, verb="a divergence by token")
    if not tokenizers_agree(before, after, texts):
        raise ModelError(f"{before.name} and {after.name} split the texts into different tokens")
    encoded = encode_all(before, texts, min(before.max_length, after.max_length))
    longest = max(len(one.alignment) for one in encoded)
    found: dict[int, tuple[Array, Array, Array]] = {}
    for rows in batches_of_both(before, after, encoded, max(1, _TOKENS // longest)):
        batch = [encoded[i] for i in rows]
        first, second = (_logits(model, batch) for model in (before, after))
        columns = [_divergences(first, second), first.argmax(-1).cpu(), second.argmax(-1).cpu()]
        lengths = [len(one.alignment) for one in batch]
        parts = zip(*(column.split(lengths) for column in columns), strict=True)
        found |= {
            i: (kl.numpy(), old.numpy(), new.numpy()) for i, (kl, old, new) in zip(rows, parts, strict=True)
        }
    frames = [_frame(before, number, one, found[number]) for number, one in enumerate(encoded)]
    return TokenDivergence(pd.concat(frames, ignore_index=True), len(encoded))


def batches_of_both(
    before: LoadedModel, after: LoadedModel, encoded: Sequence[Encoded], size: int
) -> Iterator[list[int]]:
    """As :func:`~workbench.trace.encoding.batches_of`, where padding changes what neither model gives."""
    for rows in batches_of(before, encoded, size):
        for places in together(after.model, [len(encoded[i].alignment) for i in rows]):
            yield [rows[place] for place in places]


def _logits(model: LoadedModel, batch: Sequence[Encoded]) -> Float[Tensor, "token vocabulary"]:
    """Logits at the tokens of each text, one text after another; none at padding."""
    inputs = inputs_of(model, batch)
    shape = inputs["input_ids"].shape
    places = [row * shape[1] + i for row, one in enumerate(batch) for i in range(len(one.alignment))]
    flat = torch.tensor(places, device=model.device)
    with model.lock, torch.inference_mode(), project_only(model.model, flat, shape) as projected:
        found = projected.chosen(call_model(model.model, **inputs).logits)
    if bool(found.isnan().any()):
        raise NumericsError(f"{model.name} gave NaN logits; its weights are broken: see workbench doctor")
    return found


def _divergences(
    before: Float[Tensor, "token vocabulary"], after: Float[Tensor, "token vocabulary"]
) -> Float[Tensor, " token"]:
    """KL(after || before) of each row in float64, over the columns that both have."""
    width = min(before.shape[1], after.shape[1])
    found = []
    for old, new in zip(before.split(_ROWS), after.split(_ROWS), strict=True):
        first = old[:, :width].cpu().double().log_softmax(-1)
        second = new[:, :width].cpu().double().log_softmax(-1)
        weights = second.exp()
        found.append(torch.where(weights > 0, weights * (second - first), 0.0).sum(-1).clamp_min(0))
    return torch.cat(found)


def _frame(model: LoadedModel, number: int, one: Encoded, found: tuple[Array, Array, Array]) -> pd.DataFrame:
    kl, old, new = found
    tokens = one.alignment.tokens
    names = [list(map(str, model.tokenizer.convert_ids_to_tokens(ids.tolist()))) for ids in (old, new)]
    return pd.DataFrame(
        {
            "text": number,
            "position": np.arange(len(tokens)),
            "token": tokens,
            "next": [*tokens[1:], ""],
            "kl": kl,
            "before": names[0],
            "after": names[1],
        }
    )
