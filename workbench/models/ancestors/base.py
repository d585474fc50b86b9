"""What the sequence-to-sequence ancestors share as transformers models."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from workbench.models.built_in import BuiltInConfig

__all__ = ["AncestorPreTrainedModel", "LinearHead", "TokenTable", "new_tokens"]

_RECURRENCES = nn.GRU | nn.LSTM | nn.GRUCell | nn.LSTMCell


class AncestorPreTrainedModel(PreTrainedModel):
    """Loading, saving and initial weights.

    Token vectors are drawn from a normal distribution with ``initializer_range``, matrices as Glorot and Bengio 2010
    propose, recurrent ones orthogonal (Saxe et al. 2014); biases are zero.
    """

    config: BuiltInConfig
    base_model_prefix = "model"
    _is_stateful = True  # a cache cannot go back to an earlier token

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """The decoder makes its cache, which holds no keys and values."""
        return False

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        if isinstance(module, _RECURRENCES):
            for name, weight in module.named_parameters():
                if weight.dim() == 1:
                    init.zeros_(weight)
                elif "weight_hh" in name:
                    init.orthogonal_(weight)
                else:
                    init.xavier_uniform_(weight)


class TokenTable:
    """Of a model whose token vectors are ``tokens``: how transformers reads and replaces them."""

    tokens: nn.Module

    def get_input_embeddings(self) -> nn.Module:
        """The token table."""
        return self.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token table."""
        self.tokens = value


class LinearHead(nn.Module):
    """States (B, T, E) to logits (B, T, V)."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, vocabulary)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        return self.output(hidden)


def new_tokens(mask: Tensor | None, vectors: Tensor) -> Tensor:
    """Which of the new tokens (B, T, E) are no padding, (B, T); ``mask`` may begin with those read before."""
    if mask is None:
        return torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
    return mask[:, -vectors.shape[1] :].ne(0)
