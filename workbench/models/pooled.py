"""A classifier that pools the tokens of any encoder or decoder of transformers, and saves and loads with it."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel

from workbench.errors import ModelError
from workbench.models.base import relabel, tuple_on_request
from workbench.models.heads.pooling import PooledClassifierOutput, fixed_pooling, pooled_classifier
from workbench.models.heads.sequence_classification import text_loss
from workbench.models.parts import check_pooling, require

__all__ = ["PooledConfig", "PooledForSequenceClassification"]


class PooledConfig(PreTrainedConfig):
    """The configuration of a model that gives states, ``text_config``, and how its tokens are pooled.

    ``pooling`` and ``aspects`` are as those of :class:`~workbench.models.parts.HeadConfig`. ``dropout`` acts on the
    pooled vectors. Raises :class:`~workbench.errors.ConfigError`.
    """

    model_type = "workbench-pooled"
    sub_configs: ClassVar[dict[str, Any]] = {"text_config": AutoConfig}
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["pooling_weights"]

    text_config: Any = None
    pooling: str = "attention"
    aspects: int | None = None
    dropout: float = 0.1
    initializer_range: float = 0.02
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        require(self.pooling is not None, "pooling", None, "first, last, mean, attention")
        check_pooling(self.pooling, self.aspects)
        if isinstance(self.text_config, dict):
            settings = dict(self.text_config)
            self.text_config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        if self.pad_token_id is None and self.text_config is not None:
            self.pad_token_id = self.text_config.pad_token_id
        super().__post_init__(**kwargs)


class PooledForSequenceClassification(PreTrainedModel):
    """Scores of a text from the pooled states of any model: Yang et al. 2016, equations 5 to 7, for attention.

    The weights of tokens are ``pooling_weights`` (B, aspects, T) of the output; padding gets none.
    """

    config_class = PooledConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True

    def __init__(self, config: PooledConfig) -> None:
        super().__init__(config)
        body = config.text_config
        if body is None or body.is_encoder_decoder:
            kind = "no model" if body is None else f"{body.model_type}, an encoder-decoder"
            raise ModelError(f"pooling over {kind}: it reads the states of an encoder or a decoder")
        self.model = AutoModel.from_config(body)
        self.pool_dropout = nn.Dropout(config.dropout)
        width, labels = int(body.hidden_size), int(config.num_labels or 1)
        self.classifier: nn.Module = nn.Linear(width, labels)
        if config.pooling == "attention":
            self.pooling, self.classifier = pooled_classifier(width, labels, config.aspects)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The token table of the model below."""
        return self.model.get_input_embeddings()

    @tuple_on_request
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> PooledClassifierOutput:
        """Ids (B, T), or vectors (B, T, D), to logits (B, labels); ``labels`` as of other classifiers of texts."""
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "inputs_embeds": inputs_embeds,
            "output_attentions": output_attentions,
            "output_hidden_states": output_hidden_states,
        }
        output = self.model(**{n: v for n, v in given.items() if v is not None}, return_dict=True)
        padding = self.config.pad_token_id
        if attention_mask is None and input_ids is not None and padding is not None:
            attention_mask = (input_ids != padding).long()
        vector, weights = self._pool(output.last_hidden_state, attention_mask)
        logits = self.classifier(self.pool_dropout(vector))
        loss = None if labels is None else text_loss(self.config, logits, labels)
        return relabel(output, PooledClassifierOutput, loss=loss, logits=logits, pooling_weights=weights)

    def _pool(self, hidden: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.config.pooling != "attention":
            return fixed_pooling(self.config.pooling, hidden, mask), None
        vectors, weights = self.pooling(hidden, mask)
        return vectors, weights
