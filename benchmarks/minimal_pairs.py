"""Minimal pairs beside lm-eval and minicons: same decisions, throughput; pseudo-log-likelihood beside minicons.

python benchmarks/minimal_pairs.py [--pairs 10] [--timed-pairs 2] [--sentences 500] [--repeats 3] [--only PART]
    [--cpu-time] [--json FILE]

Peers run at float32, each at its best batch size of those tried.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from _frame import Result, alternate, machine, parser, rate_result, report

import workbench
from challenge_sets.pairs import CausalPairs, TextPair, convention, score_pairs
from challenge_sets.readers import blimp
from challenge_sets.sets.base import within_limits
from challenge_sets.templates import Template
from workbench.evaluate import TaskOptions
from workbench.scoring import Engine, MaskedEngine

MODEL = "smollm2-135m"
# Published for the first 10 pairs of each paradigm; ours must give them, and the peers do in the same run.
PUBLISHED = {"lm-eval": 0.7194, "minicons": 0.7507, "workbench": 0.7388}
PEER_BATCH_SIZES = (8, 32)
Clock = Callable[[], float]


def sample(data_dir: Path, count: int) -> list[TextPair]:
    limit = TaskOptions(limit_per_paradigm=count)
    kept = within_limits(blimp.read(data_dir / "blimp"), lambda pair: pair.paradigm, limit)
    return [(pair.good, pair.bad) for pair in kept]


def lm_eval_arm(model: Any, pairs: Sequence[TextPair], batch_size: int) -> Callable[[], list[float]]:
    """lm-eval's own model class: margins of its choices after an empty context."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=model.model, tokenizer=model.tokenizer, batch_size=batch_size)
    texts = [f" {text}" for pair in pairs for text in pair]

    def run() -> list[float]:
        asked = [Instance("loglikelihood", {}, ("", text), i) for i, text in enumerate(texts)]
        scores = [score for score, _ in lm.loglikelihood(asked, disable_tqdm=True)]
        return [a - b for a, b in zip(scores[::2], scores[1::2], strict=True)]

    return run


def minicons_arm(model: Any, pairs: Sequence[TextPair], batch_size: int) -> Callable[[], list[float]]:
    """minicons' incremental scorer with summed log-probabilities."""
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(model.model, "cpu", tokenizer=for_minicons(model.tokenizer))
    texts = [text for pair in pairs for text in pair]

    def run() -> list[float]:
        scores: list[float] = []
        for start in range(0, len(texts), batch_size):
            batch = texts[start : start + batch_size]
            scores += scorer.sequence_score(batch, reduction=lambda x: x.sum(0).item())
        return [a - b for a, b in zip(scores[::2], scores[1::2], strict=True)]

    return run


def for_minicons(tokenizer: Any) -> Any:
    """minicons 0.3.39 calls a method that transformers 5 has dropped; it was the call itself, for lists."""
    if not hasattr(tokenizer, "batch_encode_plus"):
        tokenizer.batch_encode_plus = tokenizer.__call__
    return tokenizer


ARMS = {"lm-eval": lm_eval_arm, "minicons": minicons_arm}


def decisions(model: Any, pairs: Sequence[TextPair], full: bool) -> list[Result]:
    """Every decision equal to the peer's; shared prefixes change no margin."""
    results = []
    for name, arm in ARMS.items():
        scorer = CausalPairs(model, convention(name))
        ours, peer = [s.margin for s in score_pairs(scorer, pairs)], arm(model, pairs, 8)()
        right = lambda margins: sum(m > 0 for m in margins) / len(margins)  # noqa: E731
        same = all((a > 0) == (b > 0) for a, b in zip(ours, peer, strict=True))
        good = same and (not full or round(right(ours), 4) == PUBLISHED[name])
        goal = f"{name}'s decisions" + (f", {PUBLISHED[name]}" if full else "")
        results.append(Result(f"accuracy as {name}", right(ours), right(peer), "", None, goal, good))
    scorer = CausalPairs(model)
    engine, groups = Engine(model, "prefix"), scorer.groups(pairs)
    alone = engine.score_sequences([member for group in groups for member in group.members])
    plain = [a.log_probability - b.log_probability for a, b in zip(alone[::2], alone[1::2], strict=True)]
    shared = [s.margin for s in score_pairs(scorer, pairs)]
    gap = max(abs(a - b) for a, b in zip(shared, plain, strict=True))
    saved = 1 - sum(g.length for g in groups) / sum(m.length for g in groups for m in g.members)
    accuracy = sum(m > 0 for m in shared) / len(shared)
    good = not full or round(accuracy, 4) == PUBLISHED["workbench"]
    return [
        *results,
        Result("accuracy, default", accuracy, None, "", None, str(PUBLISHED["workbench"]), good),
        Result("largest change of a margin by sharing", gap, None, "nats", None, "<= 1e-4", gap <= 1e-4),
        Result("tokens saved by sharing", saved, None, "", None, ">= 0.2", saved >= 0.2),
    ]


def throughput(pairs: Sequence[TextPair], repeats: int, clock: Clock) -> list[Result]:
    """Pairs per second against each peer under its own convention, at float32 and at the default precision."""
    reference = workbench.load(MODEL, dtype="float32")
    default = workbench.load(MODEL, dtype="auto")
    results = []
    goals = {"lm-eval": (1.4, 3.0), "minicons": (1.9, 3.0)}
    for name, arm in ARMS.items():
        timed = {
            n: alternate(lambda: None, arm(reference, pairs, n), 1, warmup=0, clock=clock)[1][0]
            for n in PEER_BATCH_SIZES
        }
        best = min(timed, key=lambda n: timed[n])
        print(
            f"{name}'s best batch size here: {best}",
            {n: f"{len(pairs) / t:.1f} pairs/s" for n, t in timed.items()},
        )
        peer = arm(reference, pairs, best)
        for model, goal in zip((reference, default), goals[name], strict=True):
            scorer = CausalPairs(model, convention(name))
            ours_s, peer_s = alternate(lambda s=scorer: score_pairs(s, pairs), peer, repeats, clock=clock)
            label = f"{str(model.dtype)[6:]} against {name} at float32"
            results.append(rate_result(label, len(pairs), "pairs/s", ours_s, peer_s, goal))
    return results


def masked(sentences: Sequence[str], repeats: int, clock: Clock) -> list[Result]:
    """Both variants against minicons, with a tiny random BERT and one of MiniLM's size from a folder."""
    results = []
    with TemporaryDirectory() as folder:
        for name, model in (
            ("tiny BERT", _bert(Path(folder), tiny=True)),
            ("BERT folder", _bert(Path(folder))),
        ):
            for masking in ("original", "within_word_l2r"):
                results += _masked(name, model, masking, sentences, repeats, clock)
    return results


def _bert(folder: Path, *, tiny: bool = False) -> Any:
    """A BERT saved as a hub-style folder: MiniLM's encoder and tokenizer with a new tied head, or a tiny one."""
    from transformers import BertForMaskedLM

    encoder = workbench.load("minilm-l6", dtype="float32")
    torch.manual_seed(0)
    config = encoder.config
    if tiny:
        config.update(
            {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        )
    model = BertForMaskedLM(config)
    if not tiny:
        model.bert.load_state_dict(encoder.model.state_dict(), strict=False)
        model.tie_weights()
    place = folder / ("tiny" if tiny else "minilm")
    model.save_pretrained(place)
    encoder.tokenizer.save_pretrained(place)
    return workbench.load(str(place), dtype="float32")


def _masked(
    name: str, model: Any, masking: str, sentences: Sequence[str], repeats: int, clock: Clock
) -> list[Result]:
    from minicons.scorer import MaskedLMScorer

    scorer = MaskedLMScorer(model.model, "cpu", tokenizer=for_minicons(model.tokenizer), PLL_metric=masking)

    def peer(batch_size: int = 8) -> list[float]:
        found: list[float] = []
        for start in range(0, len(sentences), batch_size):
            batch = list(sentences[start : start + batch_size])
            found += scorer.sequence_score(batch, reduction=lambda x: x.sum(0).item(), PLL_metric=masking)
        return found

    engine = MaskedEngine(model, masking)
    ours = [score.log_probability for score in engine.score(sentences)]
    gap = max(abs(a - b) for a, b in zip(ours, peer(), strict=True))
    timed = {
        n: alternate(lambda: None, lambda n=n: peer(n), 1, warmup=0, clock=clock)[1][0]
        for n in (1, *PEER_BATCH_SIZES)
    }
    best = min(timed, key=lambda n: timed[n])
    ours_s, peer_s = alternate(
        lambda: engine.score(sentences), lambda: peer(best), repeats, warmup=0, clock=clock
    )
    label = f"{name}, {masking}"
    return [
        Result(f"{label}: largest difference", gap, None, "nats", None, "<= 1e-4", gap <= 1e-4),
        rate_result(f"{label}: throughput", len(sentences), "sentences/s", ours_s, peer_s, 1.5),
    ]


def expansion(clock: Clock, count: int = 200_000) -> Result:
    """Template cases a second."""
    template = Template("{first_name} {last_name} is {a:positive_trait} {profession} from {city}.")
    started = clock()
    template.expand(count, seed=0)
    rate = count / (clock() - started)
    return Result("template expansion", rate, None, "cases/s", None, ">= 50000", rate >= 50_000)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=10, help="pairs of each paradigm for the decisions")
    options.add_argument(
        "--timed-pairs", type=int, default=2, help="pairs of each paradigm for the throughput"
    )
    options.add_argument("--sentences", type=int, default=500)
    options.add_argument("--only", choices=("decisions", "throughput", "masked", "expansion"))
    chosen = options.parse_args()
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    parts: dict[str, Callable[[], list[Result]]] = {
        "expansion": lambda: [expansion(clock)],
        "decisions": lambda: decisions(
            workbench.load(MODEL, dtype="float32"), sample(chosen.data_dir, chosen.pairs), chosen.pairs == 10
        ),
        "throughput": lambda: throughput(sample(chosen.data_dir, chosen.timed_pairs), chosen.repeats, clock),
        "masked": lambda: masked(
            [good for good, _ in sample(chosen.data_dir, 8)][: chosen.sentences], chosen.repeats, clock
        ),
    }
    results = [r for name, part in parts.items() if chosen.only in (None, name) for r in part()]
    report(results, machine("lm-eval", "minicons"), chosen.json)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
