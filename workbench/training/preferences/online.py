"""Policy gradients: RLOO and GRPO over TRL's trainers, with KL by our estimators and a gold reward beside.

RLOO (Ahmadian et al. 2024, "Back to basics") takes the reward less β times the KL of the whole reply, as Ziegler et
al. 2019 and Ouyang et al. 2022 do, and as baseline the mean of the prompt's other replies. GRPO (Shao et al. 2024,
"DeepSeekMath") divides a prompt's rewards by their spread and has β times KL, by k3, in the loss of each token.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.utils import add_fused_lm_head

from workbench.data.rows import Preference
from workbench.errors import ConfigError, DataError, ModelError
from workbench.models import LoadedModel, wrap
from workbench.scoring import CheckedReward
from workbench.terminal import counted
from workbench.text.prompts import turns_text
from workbench.trace.decoder import prompt_ids
from workbench.trace.padding import cache_works, left_padding_matters
from workbench.training.preferences._trainer import AlignTrainer, arguments, trainer_options
from workbench.training.preferences.job import AlignJob, PreparedTrainer, Subject
from workbench.training.preferences.kl import KLEstimator, kl_of_replies
from workbench.training.preferences.libraries import dataset_of
from workbench.training.preferences.online_results import measured_replies
from workbench.training.preferences.reference import reference_of
from workbench.training.preferences.settings import LongPrompts

__all__ = ["prepare_grpo", "prepare_rloo"]

# what TRL calls a column of the log, and what it is called here; the others are left out
_COLUMNS = {
    "reward": "reward",
    "reward_std": "reward_deviation",
    "rewards/gold/mean": "gold_reward",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "unfinished",
    "frac_reward_zero_std": "equal_rewards",
    "clip_ratio/region_mean": "clipped",
    "entropy": "entropy",
    "kl": "kl_of_tokens",
    "own/k1": "kl",
    "own/k3": "kl_k3",
}


class _WithPositions:
    """A model that gets the positions of tokens behind padding on the left, as ``generate`` passes them."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, **inputs: Any) -> Any:
        positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        return self.model(position_ids=positions, **inputs)


class OnlineTrainer(AlignTrainer):
    """To be put in front of RLOO's or GRPO's: prompts as the workbench reads them, any reference, KL logged always.

    ``ids`` are each prompt's. Without a ``reference`` the policy with its adapters switched off is it.
    """

    args: Any
    model: Any
    temperature: float
    num_iterations: int
    _step: int
    _metrics: Any

    def __init__(self, *, ids: Mapping[str, list[int]], reference: Any, beta: float, **options: Any) -> None:
        super().__init__(**options)
        self.ids, self.beta, self.ref_model = ids, beta, reference
        if reference is not None:
            add_fused_lm_head(reference, temperature=self.temperature)
        taken = inspect.signature(type(_inner(self.model)).forward).parameters
        self._takes_positions = "position_ids" in taken
        self._last: Tensor = torch.empty(0)

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [self.ids[prompt] for prompt in prompts], None, {}

    def _get_per_token_logps_and_entropies(self, model: Any, *inputs: Any, **options: Any) -> Any:
        """TRL's own; the log-probabilities (B, T) of the last call are kept."""
        trl: Any = super()
        read = _WithPositions(model) if self._takes_positions else model
        found = trl._get_per_token_logps_and_entropies(read, *inputs, **options)
        self._last = found[0].detach()
        return found

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's own, with the reference's log-probabilities also where the loss has no use for them."""
        trl: Any = super()
        found: dict[str, Any] = trl._generate_and_score_completions(inputs)
        masks = found["prompt_mask"], found["completion_mask"]
        found["attention_mask"] = torch.cat(masks, dim=1)
        # with beta, the reference's are what TRL computes last
        found["ref_per_token_logps"] = self._last if self.beta else self._reference_logs(found)
        return found

    def _reference_logs(self, found: dict[str, Any]) -> Tensor:
        ids = torch.cat([found["prompt_ids"], found["completion_ids"]], dim=1)
        width, rows = found["completion_ids"].shape[1], self.args.per_device_train_batch_size
        off = self.model.disable_adapter() if self.ref_model is None else nullcontext()
        model = self.model if self.ref_model is None else self.ref_model
        with torch.no_grad(), off:
            self._get_per_token_logps_and_entropies(model, ids, found["attention_mask"], width, rows)
        return self._last

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """TRL's own; while the policy still is the one that wrote the replies, their KL is logged."""
        trl: Any = super()
        loss: Tensor = trl._compute_loss(model, inputs)
        every = self.args.steps_per_generation
        if self._step % (every * self.num_iterations) < every:
            for name in (KLEstimator.K1, KLEstimator.K3):
                kl = kl_of_replies(self._last, inputs["ref_per_token_logps"], inputs["completion_mask"], name)
                self._metrics["train"][f"own/{name}"].append(float(kl.mean()))
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's columns under plain names, those of use only."""
        kept = self._metrics["train"]
        for name in list(kept):
            values = kept.pop(name)
            if name in _COLUMNS:
                kept[_COLUMNS[name]] = values
        super().log(logs, start_time)


class _RLOO(OnlineTrainer, RLOOTrainer):
    """REINFORCE with the mean of a prompt's other replies as baseline."""


class _GRPO(OnlineTrainer, GRPOTrainer):
    """Advantages within a prompt's replies."""


def _inner(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def prepare_rloo(job: AlignJob, subject: Subject) -> PreparedTrainer:
    """A trainer of RLOO: KL by k1, summed over a reply, is taken from its reward."""
    return _prepared(job, subject, RLOOConfig, _RLOO, {})


def prepare_grpo(job: AlignJob, subject: Subject) -> PreparedTrainer:
    """A trainer of GRPO: KL by k3 is added to each token's loss."""
    return _prepared(job, subject, GRPOConfig, _GRPO, {"loss_type": job.settings.loss_type})


def _prepared(
    job: AlignJob,
    subject: Subject,
    config: Callable[..., Any],
    trainer: Callable[..., Any],
    own: dict[str, Any],
) -> PreparedTrainer:
    policy = _policy(job, subject)
    rewards = _rewards(job)
    ids, cut = _prompts(job, policy, subject, job.rows.train)
    held_out, _ = _prompts(job, policy, subject, job.rows.validation)
    _check_count(job, len(ids))
    _check_padding(job, subject, ids)
    made = trainer(
        args=config(**_arguments(job, subject), **own),
        reward_funcs=[_for_trl(reward, name) for name, reward in rewards.items()],
        train_dataset=dataset_of([{"prompt": prompt} for prompt in ids]),
        ids=ids,
        reference=_reference(job, subject),
        beta=job.settings.beta,
        **trainer_options(job, subject),
    )
    made.check_log_probs(next(iter(ids.values())), job.name, job.settings.temperature)
    return PreparedTrainer(made, partial(measured_replies, job, subject, held_out, rewards, cut))


def _policy(job: AlignJob, subject: Subject) -> LoadedModel:
    """The model as the workbench reads prompts with it; raises ModelError for a tokenizer without an end token."""
    if subject.tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer of {job.name} has no end token, so no reply could end; name one (eos_token) in its "
            "tokenizer_config.json"
        )
    return wrap(subject.model, subject.tokenizer, name=job.name)


def _rewards(job: AlignJob) -> dict[str, CheckedReward]:
    """What is learned from, and what is only logged."""
    assert job.reward is not None  # load_rows has seen to it
    rewards = {"reward": CheckedReward(job.reward, job.settings.reward_clip)}
    if job.gold_reward is not None:
        rewards["gold"] = CheckedReward(job.gold_reward, learned=False)
    return rewards


def _for_trl(reward: CheckedReward, name: str) -> Callable[..., list[float]]:
    def called(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return reward(prompts, completions)

    called.__name__ = name
    return called


def _prompts(
    job: AlignJob, policy: LoadedModel, subject: Subject, rows: Sequence[Preference]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Ids of the prompts that leave room for a reply, and how many were shortened or left out."""
    settings = job.settings
    room = subject.length - settings.max_new_tokens
    if room < 1:
        raise ConfigError(
            f"max_new_tokens is {settings.max_new_tokens}, and {job.name} reads {subject.length} tokens: no prompt "
            "would fit; lower --max-new-tokens"
        )
    ids = {row.prompt: _ids(policy, row, settings.chat) for row in rows}
    long = [prompt for prompt, own in ids.items() if len(own) > room]
    if not long:
        return ids, {}
    drop = settings.long_prompts is LongPrompts.DROP
    if settings.long_prompts is LongPrompts.REFUSE or (drop and len(long) == len(ids)):
        raise DataError(
            f"{counted(len(long), 'prompt')} of {len(ids)} (first {long[0]!r:.40}) have more than the {room} tokens "
            f"that {settings.max_new_tokens} new ones leave; lower --max-new-tokens, or take --long-prompts cut or drop"
        )
    if drop:
        return {p: own for p, own in ids.items() if len(own) <= room}, {"prompts_dropped": len(long)}
    return {p: own[-room:] for p, own in ids.items()}, {"prompts_cut": len(long)}


def _ids(policy: LoadedModel, row: Preference, chat: bool) -> list[int]:
    """Of the prompt as a text, or as the turns of a dialogue in the model's chat template."""
    if not chat:
        return prompt_ids(policy, row.prompt)
    text = turns_text(policy.tokenizer, row.turns or (("user", row.prompt),))
    ids: list[int] = policy.tokenizer(text, add_special_tokens=False).input_ids
    return ids


def _check_count(job: AlignJob, prompts: int) -> None:
    settings = job.settings
    each = settings.batch_size // settings.generations
    if prompts < each:
        raise DataError(
            f"{counted(prompts, 'prompt')} to train on, but a step takes {each} (batch size {settings.batch_size}, "
            f"{settings.generations} replies a prompt); lower --batch-size, or give more prompts"
        )


def _check_padding(job: AlignJob, subject: Subject, ids: Mapping[str, list[int]]) -> None:
    if len({len(own) for own in ids.values()}) > 1 and left_padding_matters(subject.model):
        raise ModelError(
            f"padding before a prompt changes what {job.name} writes, and the prompts have unequal numbers of tokens; "
            "give prompts of one length, or another model"
        )


def _reference(job: AlignJob, subject: Subject) -> Any:
    """The model named in the job, a copy of the policy, or none where its adapters can be switched off."""
    if job.reference is not None:
        return reference_of(job, subject).eval()
    return None if job.settings.lora else copy.deepcopy(subject.model).eval()


def _arguments(job: AlignJob, subject: Subject) -> dict[str, Any]:
    settings = job.settings
    gold = {} if job.gold_reward is None else {"reward_weights": [1.0, 0.0]}
    return {
        **arguments(job, subject),
        **gold,
        "logging_steps": 1,
        "beta": 0.0,  # so that TRL loads no reference by name; set afterwards
        "num_generations": settings.generations,
        "num_generations_eval": settings.generations,
        "max_completion_length": settings.max_new_tokens,
        "temperature": settings.temperature,
        "epsilon": settings.clip,
        "num_iterations": settings.iterations,
        "disable_dropout": True,
        "pad_to_multiple_of": None,
        "generation_kwargs": {"use_cache": cache_works(subject.model)},
    }
