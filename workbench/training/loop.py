"""transformers' Trainer with what it lacks: whole checkpoints, kept steps, a stop at NaN, masked steps that skip."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from workbench.errors import NumericsError
from workbench.trace.structure import evaluating, sample_inputs
from workbench.training.checkpoints import find_checkpoints, mark_complete
from workbench.training.objectives import IGNORED
from workbench.training.progress import Meter

__all__ = [
    "Clock",
    "KeepSteps",
    "StopWatch",
    "WorkbenchTrainer",
    "can_skip",
    "devices_in_mean",
    "gives_means",
    "of_all_devices",
    "scored_loss",
    "scored_places",
]


def can_skip(model: Any, auto: str) -> bool:
    """Whether a step of ``model`` may leave out places without a label: a masked LM with one output layer."""
    is_masked = auto == "AutoModelForMaskedLM" and isinstance(model, PreTrainedModel)
    return is_masked and model.get_output_embeddings() is not None


@contextmanager
def scored_places(model: Any, labels: Tensor | None) -> Iterator[None]:
    """Inside, the output layer of ``model`` gets the states of labelled places only: (B, T, D) to (N, D)."""
    if labels is None:
        with nullcontext():
            yield
        return
    places = labels != IGNORED
    handle = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: (inputs[0][places],))
    try:
        yield
    finally:
        handle.remove()


def scored_loss(output: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Cross-entropy in nats per label, for logits (N, V) of labelled places or (B, T, V) of all.

    The mean over labels, or their sum over ``num_items_in_batch`` when gradients accumulate over batches; with the
    auxiliary loss of a built-in model, if there is one.
    """
    places = labels != IGNORED
    logits = output.logits if output.logits.dim() == 2 else output.logits[places]
    total = F.cross_entropy(logits.float(), labels[places], reduction="sum")
    count = places.sum() if num_items_in_batch is None else num_items_in_batch
    auxiliary = getattr(output, "auxiliary_loss", None)
    return total / count if auxiliary is None else total / count + auxiliary * places.sum() / count


def gives_means(model: Any) -> bool:
    """Whether a model's loss is the mean over a batch's labels even where it is given the number of a step's labels.

    Measured on the model: several families of transformers take the number and leave it alone.
    """
    inputs = sample_inputs(model)
    labels = inputs.pop("decoder_input_ids", inputs["input_ids"])
    with torch.no_grad(), torch.random.fork_rng(), evaluating(model):
        losses = [float(model(**inputs, labels=labels, num_items_in_batch=n).loss) for n in (1, 2)]
    return losses[0] == losses[1]


def devices_in_mean(args: TrainingArguments) -> int:
    """By how much a process's part of a mean over all devices grows, for gradients are averaged over processes."""
    return int(args.world_size) if args.average_tokens_across_devices else 1


def of_all_devices(trainer: Trainer, counts: Tensor) -> Tensor:
    """The sum over processes of what a step's loss is a mean over, where the mean is over all of them."""
    if devices_in_mean(trainer.args) == 1:
        return counts
    gathered: Tensor = trainer.accelerator.gather(counts[None])
    return gathered.sum(0)


class WorkbenchTrainer(Trainer):
    """Trainer that counts tokens, stops at the first loss that is no number, and marks checkpoints as whole."""

    def __init__(
        self,
        *,
        recipe: str,
        meter: Meter,
        clock: Clock | None = None,
        scored_only: bool = False,
        precision: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:
        super().__init__(compute_loss_func=scored_loss if scored_only else None, **options)
        self.scored_only = scored_only
        self.precision = precision
        self.clock = clock
        self.recipe = recipe
        self.meter = meter
        # the built-in models name ``num_items_in_batch`` where transformers looks for ``**kwargs``
        network = self.accelerator.unwrap_model(self.model)
        named = "num_items_in_batch" in inspect.signature(network.forward).parameters
        self._gives_means = (
            self.model_accepts_loss_kwargs and not (named or scored_only) and gives_means(network)
        )
        self.model_accepts_loss_kwargs |= named
        self._auxiliary = torch.zeros((), device=self.args.device)
        self._auxiliary_batches = 0
        self._bad_step = torch.zeros((), dtype=torch.long, device=self.args.device)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The recipe's schedule; with a time limit, one that also moves with the clock."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if self.clock is not None and isinstance(scheduler, LambdaLR):
            scheduler.lr_lambdas = [_timed(f, self.clock, num_training_steps) for f in scheduler.lr_lambdas]
        return scheduler

    def autocast_smart_context_manager(
        self, cache_enabled: bool | None = True
    ) -> AbstractContextManager[Any]:
        """Around model and loss: operations that gain by it run in the recipe's precision, weights stay float32."""
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.args.device.type, self.precision, cache_enabled=bool(cache_enabled))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The model's loss as its part of the step's mean over labels, also where it gives a batch's own mean."""
        loss, output = super().compute_loss(model, inputs, True, num_items_in_batch)
        self._note_auxiliary(output)
        if not self._gives_means or num_items_in_batch is None:
            return (loss, output) if return_outputs else loss
        labels = inputs["labels"][..., 1:] if self._loss_shifts_labels else inputs["labels"]
        share = (labels != IGNORED).sum() / torch.as_tensor(num_items_in_batch).reshape(-1)[0]
        return (loss * share, output) if return_outputs else loss * share

    def _note_auxiliary(self, output: Any) -> None:
        """Keep the auxiliary loss of a batch, which the loss has in it, for the next line of the log."""
        auxiliary = getattr(output, "auxiliary_loss", None)
        if auxiliary is not None:
            self._auxiliary += auxiliary.detach().mean()
            self._auxiliary_batches += 1

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        """What a step's losses are means over: its labels, or of a loss of several terms the places of each."""
        count = getattr(self.accelerator.unwrap_model(self.model), "scored_counts", None)
        if count is None or not batch_samples:
            return super()._get_num_items_in_batch(batch_samples, device)
        totals: Tensor = of_all_devices(self, sum(count(**batch) for batch in batch_samples).to(device))
        return totals.expand(self.args.n_gpu, -1) if self.args.n_gpu > 1 else totals

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """One forward and backward pass; remembers, on the device, the first step whose loss is not finite."""
        self.meter.tokens += sum(inputs[name].numel() for name in _READ if name in inputs)
        labels = inputs["labels"] if self.scored_only else None
        with scored_places(self.accelerator.unwrap_model(model), labels):
            loss = super().training_step(model, inputs, num_items_in_batch)
        step = torch.full_like(self._bad_step, self.state.global_step + 1)
        is_first = ~torch.isfinite(loss) & (self._bad_step == 0)
        self._bad_step = torch.where(is_first, step, self._bad_step)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As Trainer; first raises :class:`~workbench.errors.NumericsError` if a loss was not finite."""
        self.refuse_bad_loss()
        if "loss" in logs and self._auxiliary_batches:
            logs["auxiliary_loss"] = float(self._auxiliary) / self._auxiliary_batches
            self._auxiliary.zero_()
            self._auxiliary_batches = 0
        super().log(logs, start_time)

    def refuse_bad_loss(self) -> None:
        """Raise :class:`~workbench.errors.NumericsError` naming the first bad step and the last good checkpoint."""
        bad = int(self._bad_step)
        if bad:
            good = [
                c for c in find_checkpoints(Path(str(self.args.output_dir))) if not c.problem and c.step < bad
            ]
            kept = (
                f"the last good checkpoint is {good[-1].path}" if good else "there is no checkpoint before it"
            )
            raise NumericsError(
                f"the loss is not a number at step {bad}; {kept}; lower --lr, or train in --precision float32"
            )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self.refuse_bad_loss()
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            step = self.state.global_step
            mark_complete(Path(str(self.args.output_dir)) / f"checkpoint-{step}", self.recipe, step)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        if state_dict is None and self.model is not None and not isinstance(self.model, PreTrainedModel):
            # two models as one: tensors that they share are written twice
            state_dict = {k: v.clone() for k, v in self.model.state_dict().items() if "teacher." not in k}
        super()._save(output_dir, state_dict)
        Path(output_dir or str(self.args.output_dir), "training_args.bin").unlink(missing_ok=True)  # a pickle


_READ = ("input_ids", "decoder_input_ids")


class KeepSteps(TrainerCallback):
    """Saves the model, without the optimizer, after chosen steps; step 0 is the model as it was drawn."""

    def __init__(self, steps: tuple[int, ...], save: Callable[[Any, int], None]) -> None:
        self.steps = frozenset(steps)
        self.save = save

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Step 0."""
        self._keep(state, model)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Every other one."""
        self._keep(state, model)

    def _keep(self, state: TrainerState, model: Any) -> None:
        if state.global_step in self.steps and state.is_world_process_zero:
            self.save(model, state.global_step)


class Clock:
    """How much of a time limit is gone; starts when it is made."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self._started = time.monotonic()

    @property
    def share(self) -> float:
        """0 at the start, 1 when the time is up."""
        return (time.monotonic() - self._started) / (60 * self.minutes)


def _timed(schedule: Callable[[int], float], clock: Clock, steps: int) -> Callable[[int], float]:
    """``schedule`` at the step or at the same share of the time, whichever is further; so it ends with the time."""
    return lambda step: schedule(max(step, int(min(1.0, clock.share) * steps)))


class StopWatch(TrainerCallback):
    """Logs wherever it saves, so that a resumed run averages its losses over the same steps; ends on time."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """After each step, once Trainer has decided what to do."""
        if self.clock is not None and self.clock.share >= 1.0:
            control.should_training_stop = True
        if control.should_save or control.should_training_stop:
            control.should_log = True
