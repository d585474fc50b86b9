"""Scores of a model that predicts tokens in an order that it is given (XLNet): here from left to right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.errors import ModelError, TooLong
from workbench.models import LoadedModel
from workbench.models.measured import takes_order
from workbench.scoring._forward import scores_of, target_statistics
from workbench.scoring._requests import FirstToken, Request, Score, Sequence, encode_requests
from workbench.scoring._requests import resolve_first_token as resolve
from workbench.scoring.streams import Stream, collect

__all__ = ["PermutationEngine", "ordered_logits"]


@dataclass(frozen=True)
class PermutationEngine:
    """Scores texts with a permutation language model in one of its orders, that of the text.

    Yang et al. 2019, "XLNet", sections 2.2 and 2.3: the query stream predicts a token from its place and from the
    content of the tokens before it in the order, so that the sum over tokens is a log-likelihood of the text. All
    tokens are predicted in one pass. ``first_token`` is as for causal models. Raises
    :class:`~workbench.errors.ModelError` for a model that takes no order.
    """

    model: LoadedModel
    first_token: str = "auto"
    batch_tokens: str | int = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        if not takes_order(self.model.model):
            raise ModelError(
                f"{self.model.name} takes no order of prediction (perm_mask, target_mapping); score it by its kind, "
                f"{self.model.kind}"
            )

    @property
    def policy(self) -> FirstToken:
        """What ``first_token`` became for this tokenizer."""
        return resolve(self.model, self.first_token)

    def encode(self, texts: Sequence_[str]) -> list[Sequence]:
        """Ids of texts behind what the first token is predicted from; raises :class:`TooLong` for too long ones."""
        sequences = encode_requests(self.model, [Request("", text) for text in texts], self.policy)
        for text, sequence in zip(texts, sequences, strict=True):
            if sequence.truncated:
                raise TooLong(f"text {text[:40]!r}... is longer than {self.model.name} reads")
        return sequences

    def stream(
        self, sequences: Sequence_[Sequence], done: Set[int] = frozenset()
    ) -> Iterator[list[tuple[int, Score]]]:
        """``(place, score)`` batch by batch; places in ``done`` may be left out."""
        yield from Stream(self.model, _forward, self.batch_tokens, self.progress)(sequences, done)

    def score(self, texts: Sequence_[str]) -> list[Score]:
        """Log-probability (nats) of every token of each text, in order."""
        sequences = self.encode(texts)
        return collect(self.stream(sequences), len(sequences))


def _forward(model: LoadedModel, batch: list[Sequence]) -> list[Score]:
    logits, targets = ordered_logits(model, batch)
    return scores_of(batch, targets, target_statistics(logits, targets))


def ordered_logits(
    model: LoadedModel, batch: list[Sequence]
) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"]]:
    """Logits at each scored token of ``batch``, sequence by sequence, and the tokens; padded on the right."""
    width, most = (max(sizes) for sizes in zip(*((len(s.ids), s.targets) for s in batch), strict=True))
    padding = model.tokenizer.pad_token_id or 0
    later = torch.ones(width, width).triu()  # (query, key): 1 for a token and those behind it
    mapping = torch.zeros(len(batch), most, width)
    for row, sequence in enumerate(batch):
        for number, place in enumerate(range(sequence.start, len(sequence.ids))):
            mapping[row, number, place] = 1.0
    inputs = {
        "input_ids": _rows([[*s.ids, *[padding] * (width - len(s.ids))] for s in batch]),
        "attention_mask": _rows([[1] * len(s.ids) + [0] * (width - len(s.ids)) for s in batch]),
        "perm_mask": later.expand(len(batch), -1, -1),
        "target_mapping": mapping,
    }
    with model.lock, torch.inference_mode():
        logits = model.model(**{name: value.to(model.device) for name, value in inputs.items()}).logits
    chosen = torch.cat([logits[row, : sequence.targets] for row, sequence in enumerate(batch)])
    targets = [token for s in batch for token in s.ids[s.start :]]
    return chosen, torch.tensor(targets, device=model.device)


_rows: Callable[[list[list[int]]], Tensor] = torch.tensor
