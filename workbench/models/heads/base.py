"""What heads share: scores over the vocabulary, the classifiers' linear layer, and their losses."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from workbench.models.assembly import make_norm
from workbench.models.base import TransformerPreTrainedModel
from workbench.models.configuration import TransformerConfig
from workbench.nn import ACTIVATIONS

__all__ = ["ClassifierModel", "VocabularyHead", "keep_positions", "token_loss"]

IGNORED_LABEL = -100


class VocabularyHead(nn.Module):
    """States (B, T, D) to logits (B, T, V), through a dense layer and a norm where BERT has them.

    Devlin et al. 2019, "BERT", section 3.1. ``scaled`` undoes, for a tied table, the size of its vectors (T5).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        size = config.embeddings.size or config.hidden_size
        self.transform: nn.Module = nn.Identity()
        if config.head.transform is not None:
            self.transform = _Transform(config, size)
        self.output = nn.Linear(size, config.vocab_size, bias=config.head.bias)
        self.scale = config.hidden_size**-0.5 if config.head.scaled else 1.0

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        hidden = self.transform(hidden)
        return self.output(hidden if self.scale == 1.0 else hidden * self.scale)


class _Transform(nn.Module):
    def __init__(self, config: TransformerConfig, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, size)
        self.activation = ACTIVATIONS[config.head.transform or "linear"]
        self.norm = make_norm(config, width=size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) to (B, T, E)."""
        return self.norm(self.activation(self.dense(hidden)))


def keep_positions(hidden: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The last n positions of (B, T, D), those of an index tensor, or all for 0."""
    if isinstance(logits_to_keep, int):
        return hidden[:, -logits_to_keep:] if logits_to_keep else hidden
    return hidden[:, logits_to_keep]


def token_loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Cross-entropy in nats per label of logits (…, V), labels (…); -100 marks positions without one.

    The mean over labels, or their sum over ``num_items_in_batch`` when gradients accumulate over batches.
    """
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = F.cross_entropy(
        logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL, reduction=reduction
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch


class ClassifierModel(TransformerPreTrainedModel):
    """``model`` is the body; ``outputs`` is how many numbers the linear layer gives."""

    def __init__(
        self,
        config: TransformerConfig,
        body: TransformerPreTrainedModel,
        outputs: int | None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(config)
        self.model = body
        rate = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.classifier_dropout = nn.Dropout(rate)
        self.classifier = nn.Linear(config.hidden_size, outputs or 1, bias=bias)
        self.post_init()

    def classify(self, states: Tensor) -> Tensor:
        """Scores (…, outputs) of states (…, D)."""
        return self.classifier(self.classifier_dropout(states))
