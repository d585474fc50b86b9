"""What learning from preferences and rewards does: a planted preference, sentiment, HH-RLHF, and the time it takes.

python benchmarks/alignment.py [--only reward,dpo,rloo,sentiment,hh,throughput] [--pairs 500] [--steps 40] [--out DIR]

The planted preference is an exclamation mark (`workbench/training/preferences/planted.py`), so that what was learned
can be counted in replies to prompts that no run has seen. Settings are constants of this file; every run is printed.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._frame import Result, alternate, machine, parser, rate_result, report
from workbench import load
from workbench.data.preferences import read_preferences, split_by_prompt
from workbench.data.rows import Preference
from workbench.estimate import Estimate
from workbench.models import LoadedModel
from workbench.runs import Run
from workbench.scoring import find_reward, score_rolling
from workbench.statistics import bootstrap, proportion
from workbench.trace.decoder import prompt_ids
from workbench.training.preferences import align
from workbench.training.preferences.pairs import PreferenceRows
from workbench.training.preferences.planted import planted_pairs, planted_prompts, planted_rule
from workbench.training.preferences.sampling import measured_kl, sample_replies

POLICY = "novels-decoder"
TOKENS, PROMPTS, MEASURED_SEED = 24, 256, 11
FIRST = {"batch_size": 16, "lr": 1e-4, "precision": "float32", "device": "cpu"}
REWARD = {**FIRST, "method": "reward", "epochs": 10, "lr": 5e-4}
DPO = {**FIRST, "method": "dpo", "epochs": 3, "beta": 0.1, "lr": 5e-4}
ONLINE = {**FIRST, "method": "rloo", "batch_size": 64, "generations": 8, "max_new_tokens": TOKENS, "lr": 1e-3}
HH = {**FIRST, "method": "dpo", "lora": True, "length": 128, "long_prompts": "cut", "batch_size": 8}
FAR = 1000.0  # a beta so large that nothing else counts


class Bench:
    """The models and pairs that several parts share, and what was found."""

    def __init__(self, given: Namespace) -> None:
        self.given, self.results = given, list[Result]()
        self.out = given.out or Path(tempfile.mkdtemp())
        self.before = load(POLICY, dtype="float32", device="cpu")
        self.text = (given.data_dir / "novels" / "valid.txt").read_text(encoding="utf-8")[:30_000]
        self._rows: PreferenceRows | None = None

    @property
    def rows(self) -> PreferenceRows:
        """Pairs to train on, and pairs of other prompts."""
        if self._rows is None:
            train = self._stored("train", self.given.pairs, 0, held_out=False)
            held_out = self._stored("held-out", self.given.held_out, 1, held_out=True)
            self._rows = PreferenceRows("planted", train, held_out)
            print(f"planted pairs: {len(train)} and {len(held_out)} held out", flush=True)
        return self._rows

    def _stored(self, name: str, count: int, seed: int, *, held_out: bool) -> tuple[Preference, ...]:
        """Planted pairs, drawn once for a folder of runs."""
        file = self.out / f"planted-{name}-{count}.jsonl"
        if not file.is_file():
            pairs = planted_pairs(self.before, count, seed, held_out=held_out)
            self.out.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(json.dumps(asdict(pair)) + "\n" for pair in pairs), encoding="utf-8")
        return read_preferences(file).pairs

    def align(self, name: str, model: str, rows: PreferenceRows, **options: Any) -> Run:
        """A run in a folder called ``name``, which is gone on with where it was stopped."""
        run = align(model, rows, self.out / name, resume=True, **options)
        found = ", ".join(
            f"{metric} {value}" for part in run.results.values() for metric, value in part.items()
        )
        seconds = run.throughput["seconds"]
        print(f"{name}: {found}; {seconds:.0f} s, learning rate {run.notes['learning_rate']:g}", flush=True)
        return run

    def met(self, name: str, value: float, unit: str, goal: str, met: bool) -> None:
        """Note one result."""
        self.results.append(Result(name, value, None, unit, None, goal, met))


def measure(bench: Bench, name: str, policy: LoadedModel) -> dict[str, Estimate | float]:
    """The rule's rate in replies to held-out prompts, KL to the policy before (nats a reply), perplexity of novels."""
    prompts = planted_prompts(PROMPTS, MEASURED_SEED, held_out=True)
    ids = [prompt_ids(policy, prompt) for prompt in prompts]
    replies = sample_replies(policy, ids, TOKENS, seed=MEASURED_SEED)
    texts = policy.tokenizer.batch_decode(replies, skip_special_tokens=True)
    kl = measured_kl(policy, bench.before, ids, replies)
    (novels,) = score_rolling(policy, [bench.text])
    words = [word for text in texts for word in text.split()]
    found: dict[str, Estimate | float] = {
        "rate": proportion([planted_rule(text) > 0 for text in texts]),
        **{f"kl_{kind}": bootstrap(values, seed=0, higher_is_better=False) for kind, values in kl.items()},
        "different words": len(set(words)) / max(1, len(words)),
        "tokens": sum(map(len, replies)) / len(replies),
        "perplexity of novels": math.exp(-novels.log_probability / novels.tokens),
    }
    print(f"{name}: " + ", ".join(f"{key} {_shown(value)}" for key, value in found.items()))
    print(f"  e.g. {prompts[0]!r} -> {texts[0]!r}", flush=True)
    return found


def _shown(value: Estimate | float) -> str:
    return str(value) if isinstance(value, Estimate) else f"{value:.4g}"


def policy_of(run: Run) -> LoadedModel:
    """The model that a run stored."""
    return load(str(run.path), dtype="float32", device="cpu")


def reward(bench: Bench) -> None:
    """A reward model of planted pairs."""
    run = bench.align("reward", POLICY, bench.rows, **REWARD)
    accuracy = run.results["planted"]["accuracy"]
    bench.met(
        f"reward model, accuracy on held-out prompts {accuracy}",
        accuracy.value,
        "",
        ">= 0.95",
        accuracy.value >= 0.95,
    )


def dpo(bench: Bench) -> None:
    """DPO on planted pairs; beta as usual, and so large that the policy stays."""
    base = measure(bench, "before", bench.before)
    run = bench.align("dpo", POLICY, bench.rows, **DPO)
    _rule(bench, "DPO", base, measure(bench, "dpo", policy_of(run)))
    still = bench.align("dpo-far", POLICY, bench.rows, **{**DPO, "beta": FAR})
    _nothing(bench, f"DPO, beta {FAR:g}", base, measure(bench, "dpo-far", policy_of(still)))


def rloo(bench: Bench) -> None:
    """RLOO with the rule as reward: beta as usual, so large that the policy stays, and none."""
    base = measure(bench, "before", bench.before)
    prompts = _prompts(bench.given.prompts)
    for name, beta in (("rloo", 0.05), ("rloo-far", FAR), ("rloo-free", 0.0)):
        settings = {**ONLINE, "steps": bench.given.steps, "beta": beta}
        run = bench.align(name, POLICY, prompts, reward=find_reward("pattern:!"), **settings)
        after = measure(bench, name, policy_of(run))
        if beta == FAR:
            _nothing(bench, f"RLOO, beta {FAR:g}", base, after)
        else:
            _rule(bench, f"RLOO, beta {beta:g}", base, after)


def _prompts(count: int) -> PreferenceRows:
    train, held_out = planted_prompts(count, 0), planted_prompts(PROMPTS, 1, held_out=True)
    return PreferenceRows(
        "openings",
        tuple(Preference(f"train-{n}", prompt, "", "") for n, prompt in enumerate(train)),
        tuple(Preference(f"held-out-{n}", prompt, "", "") for n, prompt in enumerate(held_out)),
    )


def _rule(bench: Bench, name: str, base: dict[str, Any], after: dict[str, Any]) -> None:
    rate = after["rate"]
    told = f"{name}: rule {base['rate']} -> {rate}, KL (k1) {after['kl_k1']}"
    bench.met(told, rate.value, "of replies", ">= 0.9", rate.value >= 0.9)


def _nothing(bench: Bench, name: str, base: dict[str, Any], after: dict[str, Any]) -> None:
    inside = base["rate"].low <= after["rate"].value <= base["rate"].high
    told = f"{name}: rule {base['rate']} -> {after['rate']}, KL (k1) {after['kl_k1']}"
    bench.met(told, after["kl_k1"].value, "nats", "rate within the interval of before", inside)


def sentiment(bench: Bench) -> None:
    """Ziegler et al. 2019: rewarded for the log-odds of a positive sentiment; a second classifier as gold reward."""
    rows = _prompts(bench.given.prompts)
    for name, beta in (("sentiment", 0.1), ("sentiment-free", 0.0)):
        run = bench.align(
            name,
            POLICY,
            rows,
            reward=find_reward("model:sentiment-encoder#positive"),
            gold_reward=find_reward("model:planted-sentiment-encoder#positive"),
            **{**ONLINE, "steps": bench.given.steps, "beta": beta},
        )
        found = run.results["openings"]
        measure(bench, name, policy_of(run))
        gain = found["reward_gain"]
        told = (
            f"{name}, beta {beta:g}: reward {found['reward_before']} -> {found['reward']}, KL {found['kl']}"
        )
        met = gain.value >= 2 * gain.standard_error and found["kl"].value <= 10
        bench.met(told, gain.value / gain.standard_error, "standard errors", ">= 2 at KL <= 10 nats", met)


def hh(bench: Bench) -> None:
    """DPO with LoRA on HH-RLHF, harmless; the accuracy of the implicit reward on prompts that were held out."""
    pairs = read_preferences(bench.given.data_dir / "hh_rlhf" / "harmless_base_test.jsonl").pairs
    train, held_out = split_by_prompt(pairs, 0.1, 0)
    rows = PreferenceRows(
        "hh_harmless", tuple(train[: bench.given.hh_pairs]), tuple(held_out[: bench.given.hh_held_out])
    )
    run = bench.align("hh", bench.given.model, rows, **HH)
    accuracy = run.results["hh_harmless"]["accuracy"]
    told = f"HH-RLHF, {len(rows.train)} pairs, implicit reward's accuracy on {len(rows.validation)} held out {accuracy}"
    bench.met(told, accuracy.value, "", "whatever it is", True)


def throughput(bench: Bench) -> None:
    """Seconds of DPO by `align` and by a plain script of TRL, on the same pairs and steps."""
    rows = replace(bench.rows, validation=bench.rows.validation[:1])
    folder, turn = bench.out / "throughput", iter(range(1000))
    settings = {**DPO, "epochs": 1}

    def ours() -> None:
        align(POLICY, rows, folder / f"ours-{next(turn)}", **settings)

    def peer() -> None:
        plain_dpo(bench.before, rows.train, folder / f"plain-{next(turn)}", settings)

    ours_s, peer_s = alternate(ours, peer, bench.given.repeats, clock=_clock(bench.given))
    result = rate_result("DPO, pairs beside plain TRL", len(rows.train), "pairs/s", ours_s, peer_s, 0.95)
    bench.results.append(result)


def _clock(given: Namespace) -> Callable[[], float]:
    return time.process_time if given.cpu_time else time.perf_counter


def plain_dpo(model: LoadedModel, pairs: Sequence[Preference], out: Path, settings: dict[str, Any]) -> None:
    """What TRL's documentation does, with the same precision, batch, rate and reference computed beforehand."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    fresh = load(POLICY, dtype="float32", device="cpu")
    config = DPOConfig(
        output_dir=str(out),
        num_train_epochs=settings["epochs"],
        per_device_train_batch_size=settings["batch_size"],
        learning_rate=settings["lr"],
        beta=settings["beta"],
        max_length=None,
        precompute_ref_log_probs=True,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    rows = Dataset.from_list(
        [{"prompt": p.prompt, "chosen": p.chosen, "rejected": p.rejected} for p in pairs]
    )
    DPOTrainer(fresh.model, args=config, train_dataset=rows, processing_class=model.tokenizer).train()


PARTS: dict[str, Callable[[Bench], None]] = {
    "reward": reward,
    "dpo": dpo,
    "rloo": rloo,
    "sentiment": sentiment,
    "hh": hh,
    "throughput": throughput,
}


def main() -> None:
    """Run the parts that were asked for."""
    options = parser(__doc__ or "")
    options.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    options.add_argument("--pairs", type=int, default=500, help="planted pairs to train on")
    options.add_argument("--held-out", type=int, default=200, help="planted pairs of other prompts")
    options.add_argument("--prompts", type=int, default=1000, help="that RLOO answers")
    options.add_argument("--steps", type=int, default=40, help="of RLOO")
    options.add_argument("--model", default="smollm2-135m", help="that learns from HH-RLHF")
    options.add_argument("--hh-pairs", type=int, default=2000)
    options.add_argument("--hh-held-out", type=int, default=None)
    options.add_argument("--out", type=Path, help="where runs are stored, and gone on with")
    given = options.parse_args()
    bench = Bench(given)
    for part in given.only.split(","):
        PARTS[part](bench)
    report(bench.results, machine("trl", "peft"), given.json)


if __name__ == "__main__":
    main()
