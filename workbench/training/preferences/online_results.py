"""What became of a policy: fresh replies to held-out prompts, their rewards, and KL by the engine of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.estimate import Estimate
from workbench.models import LoadedModel, wrap
from workbench.scoring import CheckedReward
from workbench.statistics import bootstrap, mean_estimate
from workbench.training.preferences.frontier import Frontier
from workbench.training.preferences.job import AlignJob, Measured, Subject
from workbench.training.preferences.kl import KLEstimator
from workbench.training.preferences.reference import reference_of
from workbench.training.preferences.sampling import measured_kl, sample_replies
from workbench.training.preferences.settings import AlignMethod

__all__ = ["measured_replies"]

_REPLIES = 256  # drawn in all, from each model

_KL_IS = {AlignMethod.RLOO: "k1, in the reward of a reply", AlignMethod.GRPO: "k3, in the loss of a token"}


@dataclass(frozen=True)
class _Replies:
    """Replies of one model, and what each is worth by each reward."""

    ids: list[list[int]]
    texts: list[str]
    values: dict[str, list[float]]


def measured_replies(
    job: AlignJob,
    subject: Subject,
    held_out: Mapping[str, list[int]],
    rewards: Mapping[str, CheckedReward],
    cut: dict[str, int],
    model: Any,
) -> Measured:
    """Rewards, KL and length of the policy's replies to held-out prompts, at temperature 1, and of its reference's.

    Intervals are over prompts, each of which gets several replies where there are few.
    """
    each = max(1, _REPLIES // len(held_out))
    prompts = [prompt for prompt in list(held_out)[:_REPLIES] for _ in range(each)]
    ids = [held_out[prompt] for prompt in prompts]
    policy = wrap(model, subject.tokenizer, name=job.name)
    reference = wrap(reference_of(job, subject), subject.tokenizer, name=job.reference or job.name)
    after, before = (_replies(job, one, prompts, ids, rewards) for one in (policy, reference))
    kl = measured_kl(policy, reference, ids, after.ids)
    notes = {
        **cut,
        "reward": rewards["reward"].name,
        "kl_estimator": _KL_IS[job.settings.method],
        "frontier": [dict(row) for row in Frontier.of_log(job.log).rows],
    }
    return Measured(_metrics(prompts, after, before, kl), _rows(prompts, after, before, kl), notes)


def _replies(
    job: AlignJob,
    model: LoadedModel,
    prompts: Sequence[str],
    ids: Sequence[list[int]],
    rewards: Mapping[str, CheckedReward],
) -> _Replies:
    drawn = sample_replies(model, ids, job.settings.max_new_tokens, seed=job.seed)
    texts = model.tokenizer.batch_decode(drawn, skip_special_tokens=True)
    return _Replies(drawn, texts, {name: reward(prompts, texts) for name, reward in rewards.items()})


_Estimates = dict[KLEstimator, list[float]]


def _metrics(
    prompts: Sequence[str], after: _Replies, before: _Replies, kl: _Estimates
) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for name, values in after.values.items():
        called, old = ("reward" if name == "reward" else f"{name}_reward"), before.values[name]
        gains = [a - b for a, b in zip(values, old, strict=True)]
        found[called] = mean_estimate(values, seed=0, clusters=prompts)
        found[f"{called}_before"] = mean_estimate(old, seed=0, clusters=prompts)
        found[f"{called}_gain"] = bootstrap(gains, seed=0, clusters=prompts)
    found["kl"] = bootstrap(kl[KLEstimator.K1], seed=0, clusters=prompts, higher_is_better=False)
    found["kl_k3"] = bootstrap(kl[KLEstimator.K3], seed=0, clusters=prompts, higher_is_better=False)
    for called, replies in (("length", after), ("length_before", before)):
        found[called] = bootstrap([float(len(ids)) for ids in replies.ids], seed=0, clusters=prompts)
    return found


def _rows(
    prompts: Sequence[str], after: _Replies, before: _Replies, kl: _Estimates
) -> tuple[dict[str, Any], ...]:
    """A row for each reply: both models' texts, their rewards, and the policy's KL."""
    return tuple(
        {
            "id": f"reply-{n}",
            "prompt": prompt,
            "reply": after.texts[n],
            "reply_before": before.texts[n],
            **{f"{name}_of_reply": values[n] for name, values in after.values.items()},
            **{f"{name}_before": values[n] for name, values in before.values.items()},
            "kl": kl[KLEstimator.K1][n],
            "kl_k3": kl[KLEstimator.K3][n],
            "tokens": len(after.ids[n]),
        }
        for n, prompt in enumerate(prompts)
    )
