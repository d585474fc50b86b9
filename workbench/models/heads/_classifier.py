"""What all classifiers share: dropout and one linear layer over the states of a body."""

from __future__ import annotations

from torch import Tensor, nn

from workbench.models.base import TransformerPreTrainedModel
from workbench.models.configuration import TransformerConfig

__all__ = ["ClassifierModel"]


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
