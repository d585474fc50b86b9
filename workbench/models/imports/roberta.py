"""RoBERTa: BERT's body with positions counted after the padding id; Liu et al. 2019."""

from __future__ import annotations

from typing import Any

from workbench.models.configuration import TransformerConfig
from workbench.models.imports.bert import BODY, bert_config
from workbench.models.imports.mapping import ModelFamily, encoder_classes
from workbench.models.parts import HeadConfig, PositionConfig

__all__ = ["FAMILY"]


def _config(hf: Any, class_name: str) -> TransformerConfig:
    reserved = hf.pad_token_id + 1  # rows of the table up to that of the padding token
    return bert_config(
        hf,
        positions=PositionConfig(
            kind="learned",
            max_length=hf.max_position_embeddings - reserved,
            offset=reserved,
            skip_padding=True,
        ),
        head=HeadConfig(transform="gelu", bias=True, pooler="tanh"),
    )


FAMILY = ModelFamily(
    config=_config,
    classes=encoder_classes("Roberta"),
    prefix="roberta",
    body=BODY,
    head=(
        (r"lm_head\.dense\.(\w+)", r"head.transform.dense.\1"),
        (r"lm_head\.layer_norm\.(\w+)", r"head.transform.norm.\1"),
        (r"lm_head\.decoder\.(\w+)", r"head.output.\1"),
        (r"lm_head\.bias", r"head.output.bias"),
        (r"classifier\.dense\.(\w+)", r"model.pooler.dense.\1"),
        (r"(?:classifier|classifier\.out_proj|qa_outputs)\.(\w+)", r"classifier.\1"),
    ),
)
