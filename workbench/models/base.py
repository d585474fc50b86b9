"""What all built-in models share as transformers models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils.generic import ModelOutput, can_return_tuple

from workbench.models.configuration import TransformerConfig
from workbench.nn import Residual
from workbench.nn.forms import LengthProjection, PerHead
from workbench.nn.residual import BranchInput, BranchOutput
from workbench.nn.universal import HaltingUnit

__all__ = ["TransformerPreTrainedModel", "relabel", "tuple_on_request"]

Forward = TypeVar("Forward", bound=Callable[..., Any])


def tuple_on_request(forward: Forward) -> Forward:
    """Let ``forward`` take ``return_dict``: false gives a tuple of what is not ``None``."""
    wrapped: Forward = can_return_tuple(forward)
    return wrapped


Output = TypeVar("Output", bound=ModelOutput)


def relabel(
    output: ModelOutput, kind: type[Output], *, share: Tensor | float = 1.0, **scores: Tensor | None
) -> Output:
    """The output of a body as that of a model with a head: its last states replaced by ``scores`` and a loss.

    An auxiliary loss of the body, which there is in training only, is added to the loss; of gradients accumulated over
    several batches, with this batch's ``share`` of the labels.
    """
    loss, auxiliary = scores.get("loss"), output.get("auxiliary_loss")
    if loss is not None and auxiliary is not None:
        scores["loss"] = loss + share * auxiliary
    names = kind.__dataclass_fields__  # type: ignore[attr-defined]
    kept = {name: value for name, value in output.items() if name in names}
    return kind(**{**kept, **scores})


class TransformerPreTrainedModel(PreTrainedModel):
    """Loading, saving, attention backends and initial weights."""

    config: TransformerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Layer"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    def _init_weights(self, module: nn.Module) -> None:
        """Normal with ``initializer_range``; what ends a residual branch starts smaller, for Fixup at zero, and
        what begins it smaller.

        Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3: 1/√N for the
        N branches of a stack without post-norms.
        """
        super()._init_weights(module)
        if isinstance(module, Residual) and module.scale is not None:
            init.constant_(module.scale, module.initial_scale)
        if isinstance(module, HaltingUnit):  # Graves 2016, section 3: few steps at first
            init.ones_(module.bias)
        if isinstance(module, BranchOutput):
            init.normal_(module.weight, mean=0.0, std=self._branch_output_std())
        if isinstance(module, LengthProjection):
            init.normal_(module.weight, mean=0.0, std=module.initial_std)
        if isinstance(module, PerHead):
            init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            init.zeros_(module.bias)
        if isinstance(module, BranchInput) and self.config.norm.residual_scale == "fixup":
            init.normal_(module.weight, mean=0.0, std=self._branch_input_std())

    def _branch_input_std(self) -> float:
        """Divided by √L for L branches of two matrices; Zhang et al. 2019, "Fixup Initialization", section 3, rule 2.

        Of rule 1 the output layer of the model is left out, for it is the token table; rule 3's biases are those of
        the matrices.
        """
        return self.config.initializer_range / math.sqrt(2 * self.config.num_hidden_layers)

    def _branch_output_std(self) -> float:
        chosen = self.config.norm
        if chosen.residual_scale == "fixup":
            return 0.0
        depth = 2 * self.config.num_hidden_layers if chosen.placement != "post" else 1
        return self.config.initializer_range / math.sqrt(depth)
