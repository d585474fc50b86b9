"""ELECTRA, generator and discriminator: BERT's body with a factorised token table; Clark et al. 2020."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import TransformerConfig
from workbench.models.heads.masked import TransformerEncoderForReplacedTokenDetection
from workbench.models.imports.bert import BODY, bert_config
from workbench.models.imports.mapping import ModelFamily, activation, encoder_classes
from workbench.models.parts import HeadConfig, PositionConfig

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    is_discriminator = class_name == "ElectraForPreTraining"
    return bert_config(
        hf,
        positions=PositionConfig(kind="learned", max_length=hf.max_position_embeddings),
        head=HeadConfig(
            transform=activation(hf.hidden_act) if is_discriminator else "gelu",
            bias=True,
            pooler="gelu" if class_name == "ElectraForSequenceClassification" else None,
        ),
    )


FAMILY = ModelFamily(
    config=_config,
    classes=encoder_classes("Electra", PreTraining=TransformerEncoderForReplacedTokenDetection),
    prefix="electra",
    body=(*BODY, (r"embeddings_project\.(\w+)", r"stack.embeddings.project.\1")),
    head=(
        (r"generator_predictions\.dense\.(\w+)", r"head.transform.dense.\1"),
        (r"generator_predictions\.LayerNorm\.(\w+)", r"head.transform.norm.\1"),
        (r"generator_lm_head\.(\w+)", r"head.output.\1"),
        (r"discriminator_predictions\.dense\.(\w+)", r"dense.\1"),
        (r"discriminator_predictions\.dense_prediction\.(\w+)", r"output.\1"),
        (r"classifier\.dense\.(\w+)", r"model.pooler.dense.\1"),
        (r"(?:classifier|classifier\.out_proj|qa_outputs)\.(\w+)", r"classifier.\1"),
    ),
)
