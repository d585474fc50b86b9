"""What TRL's trainers share here: arguments, checkpoints, a stop at a loss that is no number, no calls home."""

from __future__ import annotations

import math
from typing import Any

import torch

from workbench.errors import ModelError, NumericsError
from workbench.training._arguments import find_precision, scheduler_name
from workbench.training._resumable import Resumable
from workbench.training.finetuning.methods import lora_config
from workbench.training.finetuning.tasks import AnswerKind
from workbench.training.preferences.job import AlignJob, Subject
from workbench.training.progress import Meter

__all__ = ["AlignTrainer", "arguments", "trainer_options"]


class AlignTrainer(Resumable):
    """To be put in front of a trainer of TRL's: counts tokens, and says when the loss is no number."""

    def __init__(self, *, meter: Meter, **options: Any) -> None:
        super().__init__(**options)
        self.meter = meter

    def compute_loss(self, model: Any, inputs: dict[str, Any], *further: Any, **options: Any) -> Any:
        """TRL's own; raises :class:`~workbench.errors.NumericsError`."""
        if model.training:
            self.meter.tokens += int(inputs["attention_mask"].sum())
        found = super().compute_loss(model, inputs, *further, **options)
        loss = found[0] if isinstance(found, tuple) else found
        if not torch.isfinite(loss):
            raise NumericsError(
                f"the loss is not a number at step {self.state.global_step + 1}; nothing was stored; lower --lr"
            )
        return found

    def check_log_probs(self, ids: list[int], name: str, temperature: float = 1.0) -> None:
        """Compare the log-probabilities that TRL takes from the last hidden states with the model's own.

        Both have the logits divided by ``temperature``. Raises :class:`~workbench.errors.ModelError` where they differ:
        TRL multiplies by the output layer itself, and an architecture may do more.
        """
        model: Any = self.model
        batch = torch.tensor([ids[-64:]], device=model.device)
        was_training = model.training
        model.eval()
        with torch.no_grad():
            found = float(model(input_ids=batch, labels=batch, fused_lm_head=True).log_probs.sum())
            logs = (model(input_ids=batch).logits[0, :-1].float() / temperature).log_softmax(-1)
        own = float(logs.gather(-1, batch[0, 1:, None]).sum())
        model.train(was_training)
        if not math.isclose(found, own, rel_tol=1e-3, abs_tol=1e-3):
            raise ModelError(
                f"{name} gives a text a log-probability of {own:.4f}, TRL reads {found:.4f} from its hidden states: "
                "its output layer does more than multiply; choose another model"
            )

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        """The rows have their token ids already."""
        return dataset

    def _precompute_ref_logps(self, dataset: Any, *_: Any) -> Any:
        """The rows have the reference's log-probabilities already."""
        return dataset

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """None: a run says what made it."""

    def _send_telemetry(self) -> None:
        """None."""


def arguments(job: AlignJob, subject: Subject) -> dict[str, Any]:
    """What every method's configuration is made with; the batch comes by accumulation of ``subject.rows``."""
    settings = job.settings
    return {
        "output_dir": str(job.folder),
        "num_train_epochs": settings.epochs,
        "max_steps": settings.steps or -1,
        "per_device_train_batch_size": subject.rows,
        "per_device_eval_batch_size": subject.rows,
        "gradient_accumulation_steps": max(1, settings.batch_size // subject.rows),
        "learning_rate": settings.learning_rate(subject.parameters),
        "lr_scheduler_type": scheduler_name(settings.schedule),
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "gradient_checkpointing": settings.gradient_checkpointing,
        "seed": job.seed,
        "bf16": find_precision(settings.precision, job.device) == torch.bfloat16,
        "use_cpu": job.device.type == "cpu",
        "logging_nan_inf_filter": False,
        "logging_steps": 10,
        "logging_first_step": True,
        "save_strategy": "steps" if settings.save_every else "epoch",
        "save_steps": settings.save_every or 500,
        "save_total_limit": 2,
        "remove_unused_columns": False,
        "dataloader_pin_memory": job.device.type == "cuda",
        "disable_tqdm": True,
        "report_to": [],
    }


def trainer_options(
    job: AlignJob, subject: Subject, kind: AnswerKind = AnswerKind.RESPONSE
) -> dict[str, Any]:
    """What every method's trainer is made with: the model, its tokenizer, LoRA if that is wanted."""
    low_rank = (
        lora_config(subject.model, kind, subject.fresh, job.settings.rank) if job.settings.lora else None
    )
    return {
        "meter": subject.meter,
        "model": subject.model,
        "processing_class": subject.tokenizer,
        "peft_config": low_rank,
    }
