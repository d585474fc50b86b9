"""What a head is trained to: cross-entropy, and where asked weighted classes, mixed rows, attention to marked words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from workbench.errors import ConfigError
from workbench.models.configuration import EncoderConfig
from workbench.training.finetuning.heads import ask
from workbench.training.finetuning.methods import PROMPTED
from workbench.training.finetuning.settings import FineSettings
from workbench.training.finetuning.tasks import AnswerKind, FineTask
from workbench.training.objectives import IGNORED

__all__ = ["HeadLoss", "attention_loss", "check_losses", "mix_rows"]

SMALLEST_ATTENTION_SHARE = 1e-6  # share of attention below which it counts as zero


@dataclass(frozen=True)
class HeadLoss:
    """``weights`` (labels,) of classes, ``mixup`` as in :func:`mix_rows`, ``rationale`` the weight of
    :func:`attention_loss`, ``smoothing`` the share of a label that all classes have alike. Without any of them the
    model's own loss.
    """

    weights: Tensor | None = None
    mixup: float = 0.0
    rationale: float = 0.0
    smoothing: float = 0.0

    def __call__(
        self, model: Any, batch: dict[str, Tensor], *, one_by_one: bool = False
    ) -> tuple[Tensor, Any]:
        """The loss of a batch, with ``marked`` (B, T) where words are marked, and the output."""
        inputs: dict[str, Any] = dict(batch)
        marked, labels = inputs.pop("marked", None), inputs.get("labels")
        if (
            "position_ids" in inputs
        ):  # packed rows, which models keep apart where they get no mask and no cache
            inputs.pop("attention_mask")
            inputs["use_cache"] = False
        if self.mixup:
            inputs, labels = mix_rows(model, inputs, self.mixup)
        if marked is not None:
            inputs["output_attentions"] = True
        output = ask(model, inputs, one_by_one=one_by_one)
        loss: Tensor = output.loss
        if labels is not None and (self.weights is not None or self.mixup or self.smoothing):
            logits = output.logits.float().flatten(0, -2)
            loss = F.cross_entropy(
                logits,
                labels if labels.is_floating_point() else labels.flatten(),
                weight=None if self.weights is None else self.weights.to(logits.device),
                ignore_index=IGNORED,
                label_smoothing=self.smoothing,
            )
        if marked is not None:
            loss = loss + self.rationale * attention_loss(output.attentions, marked)
        return loss, output

    def count(self, labels: Tensor) -> Tensor:
        """What the loss of rows with ``labels`` is a mean over: the labels, or the weights of their classes."""
        scored = labels[labels != IGNORED]
        if self.weights is None or self.mixup:  # cross-entropy of shares is a mean over rows, weighted or not
            return torch.tensor(len(scored), device=labels.device)
        return self.weights.to(labels.device)[scored].sum()


def mix_rows(model: Any, inputs: dict[str, Any], alpha: float) -> tuple[dict[str, Any], Tensor]:
    """Each row mixed with another of the batch: token vectors, and labels as shares (B, labels).

    A row keeps a share drawn from Beta(alpha, alpha) or what is left of it, whichever is at least a half. Zhang et al.
    2018, "mixup", at the word embeddings as in Guo et al. 2019, "Augmenting Data with Mixup for Sentence
    Classification".
    """
    mixed = {name: value for name, value in inputs.items() if name not in ("input_ids", "labels")}
    vectors, mask = model.get_input_embeddings()(inputs["input_ids"]), inputs["attention_mask"]
    drawn = torch.distributions.Beta(alpha, alpha).sample((len(vectors),)).to(vectors)
    share, other = torch.maximum(drawn, 1 - drawn), torch.randperm(len(vectors), device=vectors.device)
    kept = share[:, None, None]
    mixed["inputs_embeds"] = kept * vectors + (1 - kept) * vectors[other]
    mixed["attention_mask"] = torch.maximum(mask, mask[other])
    shares = F.one_hot(inputs["labels"], model.config.num_labels).to(share)
    return mixed, share[:, None] * shares + (1 - share[:, None]) * shares[other]


def attention_loss(attentions: Sequence[Tensor], marked: Tensor) -> Tensor:
    """How little attention goes to the marked tokens (B, T): -log of its share, mean of heads, layers and queries.

    Queries are the marked tokens and the first one, which the head reads; rows without marks count for nothing.
    Mathew et al. 2021, "HateXplain", guide the first token's attention in the last layer, to a distribution over the
    marked tokens; here their shares are free. Leading the marked tokens as well, in all of ``attentions`` (B, H, T, T),
    keeps what a word says at its own position.
    """
    keys = marked.bool()
    queries = keys.clone()
    queries[:, 0] = True
    queries &= keys.any(1, keepdim=True)
    if not queries.any():
        return marked.new_zeros((), dtype=torch.float32)
    shares = [(weights.float().mean(1) * keys[:, None]).sum(-1)[queries] for weights in attentions]
    return -torch.stack(shares).clamp(min=SMALLEST_ATTENTION_SHARE).log().mean()


def check_losses(settings: FineSettings, task: FineTask, config: Any) -> None:
    """Raise :class:`~workbench.errors.ConfigError` where a loss asked for does not suit the task or the model."""
    if settings.packing:
        _check_packing(settings, task, config)
    if settings.label_smoothing and task.kind not in (AnswerKind.CLASS, AnswerKind.TOKENS, AnswerKind.CHOICE):
        raise ConfigError("label_smoothing goes with kinds class, tokens and choice; leave it out")
    for name, asked in (("mixup", settings.mixup), ("a rationale column", task.rationale)):
        if not asked:
            continue
        if task.kind is not AnswerKind.CLASS or task.pair is not None:
            raise ConfigError(f"{name} goes with kind class and one text a row; leave it out")
        # a decoder's head reads the last token, which is not known among mixed rows, and earlier ones see no later word
        known = isinstance(config, EncoderConfig) or config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        if config.is_encoder_decoder or not known:
            raise ConfigError(f"{name} goes with encoders, not {config.model_type}; leave it out")


def _check_packing(settings: FineSettings, task: FineTask, config: Any) -> None:
    if task.kind is not AnswerKind.RESPONSE or config.is_encoder_decoder:
        raise ConfigError("packing goes with --kind response and decoders; leave it out")
    if settings.method in PROMPTED:
        raise ConfigError(
            f"packing does not go with method {settings.method}, whose vectors stand before a row, not before each "
            "conversation; leave it out"
        )
