"""Contrastive search: likely tokens whose hidden state is not like that of any token before (Su et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import DynamicCache

from workbench.errors import ModelError
from workbench.models import LoadedModel
from workbench.trace.decoder import end_ids
from workbench.trace.padding import cache_works
from workbench.trace.structure import cache_argument

__all__ = ["contrastive_ids"]


def contrastive_ids(
    model: LoadedModel, begun: Sequence[int], count: int, *, penalty: float, candidates: int
) -> list[int]:
    """Up to ``count`` ids behind ``begun``, an end of text included; see
    :class:`~workbench.analysis.decoding.Decoding`.

    Each step reads the candidates as a batch, so that the state of each is known before one is chosen. The states are
    those of the last layer, as the model returns them; those of ``begun`` count too. Raises
    :class:`~workbench.errors.ModelError` for a model that returns none.
    """
    ends, found = end_ids(model), list[int]()
    with model.lock, torch.inference_mode():
        reader = _Reader(model, begun)
        logits, states = reader.begin()
        while True:
            best = logits.softmax(-1).topk(min(candidates, len(logits)))
            next_logits, new = reader.step(best.indices)
            chosen = choose(best.values, new, states, penalty)
            found.append(int(best.indices[chosen]))
            if found[-1] in ends or len(found) == count:
                return found
            reader.keep(chosen)
            logits, states = next_logits[chosen], torch.cat([states, new[chosen : chosen + 1]])


def choose(probabilities: Tensor, new: Tensor, states: Tensor, penalty: float) -> int:
    """Which of C candidates: their probabilities (C,), their states (C, D), and those of T tokens before (T, D)."""
    alike = F.normalize(new, dim=-1) @ F.normalize(states, dim=-1).T
    return int(((1 - penalty) * probabilities - penalty * alike.amax(-1)).argmax())


class _Reader:
    """Reads a text and candidates for what follows it, with the model's key/value cache where that works."""

    def __init__(self, model: LoadedModel, begun: Sequence[int]) -> None:
        self.model = model
        self.ids = torch.tensor([list(begun)], device=model.device)
        self.cache: DynamicCache | None = None
        self.read = torch.empty(0, dtype=torch.long, device=model.device)

    def begin(self) -> tuple[Tensor, Tensor]:
        """Logits behind the text (V,), and the states of its tokens (T, D)."""
        output = self._output(self.ids, use_cache=cache_works(self.model.model))
        cache = getattr(output, cache_argument(self.model.model), None)
        self.cache = cache if type(cache) is DynamicCache else None
        return output.logits[0, -1].float(), _states(output, self.model)[0]

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (C, V) and states (C, D) of each of ``tokens`` (C,) behind the text."""
        self.read = tokens
        if self.cache is None:
            rows = torch.cat([self.ids.expand(len(tokens), -1), tokens[:, None]], dim=1)
            output = self._output(rows, use_cache=False)
        else:
            self.cache.batch_repeat_interleave(len(tokens))
            cached = {cache_argument(self.model.model): self.cache}
            output = self._output(tokens[:, None], use_cache=True, **cached)
        return output.logits[:, -1].float(), _states(output, self.model)[:, -1]

    def keep(self, chosen: int) -> None:
        """Go on behind one of the tokens that were read last."""
        if self.cache is None:
            self.ids = torch.cat([self.ids, self.read[None, chosen : chosen + 1]], dim=1)
        else:
            self.cache.batch_select_indices(torch.tensor([chosen], device=self.ids.device))

    def _output(self, ids: Tensor, **how: Any) -> Any:
        return self.model.model(input_ids=ids, output_hidden_states=True, **how)


def _states(output: Any, model: LoadedModel) -> Tensor:
    found = getattr(output, "hidden_states", None)
    if not found:
        raise ModelError(
            f"{model.name} returns no hidden states, which contrastive search compares; use beams or samples"
        )
    states: Tensor = found[-1]
    return states.float()
