"""The built-in models under transformers' Auto classes, so that ``from_pretrained`` finds them by model type."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import transformers
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping

from workbench.models.ancestors.convolutional import (
    ConvolutionalEncoderDecoder,
    ConvolutionalEncoderDecoderForConditionalGeneration,
)
from workbench.models.ancestors.convolutional_configuration import ConvolutionalConfig
from workbench.models.ancestors.elmo import ElmoLanguageModel, ElmoModel
from workbench.models.ancestors.elmo_configuration import ElmoConfig
from workbench.models.ancestors.recurrent import (
    RecurrentEncoderDecoder,
    RecurrentEncoderDecoderForConditionalGeneration,
)
from workbench.models.ancestors.recurrent_configuration import RecurrentConfig
from workbench.models.ancestors.skip_gram import SkipGramConfig, SkipGramModel, SkipGramPairs
from workbench.models.built_in import BuiltInConfig
from workbench.models.configuration import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
)
from workbench.models.decoder import TransformerDecoder
from workbench.models.encoder import TransformerEncoder
from workbench.models.encoder_decoder import TransformerEncoderDecoder
from workbench.models.heads.causal import TransformerDecoderForCausalLM
from workbench.models.heads.generation import TransformerEncoderDecoderForConditionalGeneration
from workbench.models.heads.masked import (
    TransformerEncoderForMaskedLM,
    TransformerEncoderForPreTraining,
    TransformerEncoderForReplacedTokenDetection,
)
from workbench.models.heads.seq2seq import (
    TransformerEncoderDecoderForQuestionAnswering,
    TransformerEncoderDecoderForSequenceClassification,
    TransformerEncoderDecoderForTokenClassification,
)
from workbench.models.heads.sequence_classification import (
    TransformerDecoderForSequenceClassification,
    TransformerEncoderForMultipleChoice,
    TransformerEncoderForSequenceClassification,
)
from workbench.models.heads.token_classification import (
    TransformerDecoderForQuestionAnswering,
    TransformerDecoderForTokenClassification,
    TransformerEncoderForQuestionAnswering,
    TransformerEncoderForTokenClassification,
)
from workbench.models.pooled import PooledConfig, PooledForSequenceClassification

__all__ = ["AUTO_CLASSES", "AutoModelForReplacedTokenDetection", "auto_class", "register"]


class AutoModelForReplacedTokenDetection(_BaseAutoModelClass):
    """ELECTRA's discriminator, built in or transformers' own, with its head; transformers has no class for both."""

    _model_mapping: Any = _LazyAutoMapping(OrderedDict(), OrderedDict())


def auto_class(name: str) -> Any:
    """The Auto class called ``name``: one of transformers', or the one above."""
    own = AutoModelForReplacedTokenDetection
    return own if name == own.__name__ else getattr(transformers, name)


# configuration -> Auto class -> model
AUTO_CLASSES: dict[type[BuiltInConfig], dict[str, type[PreTrainedModel]]] = {
    EncoderConfig: {
        "AutoModel": TransformerEncoder,
        "AutoModelForPreTraining": TransformerEncoderForPreTraining,
        "AutoModelForMaskedLM": TransformerEncoderForMaskedLM,
        "AutoModelForReplacedTokenDetection": TransformerEncoderForReplacedTokenDetection,
        "AutoModelForSequenceClassification": TransformerEncoderForSequenceClassification,
        "AutoModelForTokenClassification": TransformerEncoderForTokenClassification,
        "AutoModelForQuestionAnswering": TransformerEncoderForQuestionAnswering,
        "AutoModelForMultipleChoice": TransformerEncoderForMultipleChoice,
    },
    DecoderConfig: {
        "AutoModel": TransformerDecoder,
        "AutoModelForCausalLM": TransformerDecoderForCausalLM,
        "AutoModelForSequenceClassification": TransformerDecoderForSequenceClassification,
        "AutoModelForTokenClassification": TransformerDecoderForTokenClassification,
        "AutoModelForQuestionAnswering": TransformerDecoderForQuestionAnswering,
    },
    EncoderDecoderConfig: {
        "AutoModel": TransformerEncoderDecoder,
        "AutoModelForSeq2SeqLM": TransformerEncoderDecoderForConditionalGeneration,
        "AutoModelForSequenceClassification": TransformerEncoderDecoderForSequenceClassification,
        "AutoModelForTokenClassification": TransformerEncoderDecoderForTokenClassification,
        "AutoModelForQuestionAnswering": TransformerEncoderDecoderForQuestionAnswering,
    },
    ElmoConfig: {
        "AutoModel": ElmoModel,
        "AutoModelForPreTraining": ElmoLanguageModel,
    },
    SkipGramConfig: {
        "AutoModel": SkipGramModel,
        "AutoModelForPreTraining": SkipGramPairs,
    },
    RecurrentConfig: {
        "AutoModel": RecurrentEncoderDecoder,
        "AutoModelForSeq2SeqLM": RecurrentEncoderDecoderForConditionalGeneration,
    },
    ConvolutionalConfig: {
        "AutoModel": ConvolutionalEncoderDecoder,
        "AutoModelForSeq2SeqLM": ConvolutionalEncoderDecoderForConditionalGeneration,
    },
}


def register() -> None:
    """Make the Auto classes know the built-in models; calling it again changes nothing."""
    for config, models in AUTO_CLASSES.items():
        AutoConfig.register(config.model_type, config, exist_ok=True)
        for auto, model in models.items():
            auto_class(auto).register(config, model, exist_ok=True)
    AutoModelForReplacedTokenDetection.register(
        transformers.ElectraConfig, transformers.ElectraForPreTraining, exist_ok=True
    )
    AutoConfig.register(PooledConfig.model_type, PooledConfig, exist_ok=True)
    transformers.AutoModelForSequenceClassification.register(
        PooledConfig, PooledForSequenceClassification, exist_ok=True
    )


register()
