"""Attacks as explanations: the smallest change that turns a classifier's prediction, or leaves it alone.

HotFlip exchanges words along the gradient (Ebrahimi et al. 2018), input reduction takes words away while the
prediction stays (Feng et al. 2018), and rewrites keep the meaning (Ribeiro et al. 2018).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from workbench.analysis.saliency import EmbeddingModel
from workbench.analysis.saliency.baselines import baseline_vectors
from workbench.analysis.saliency.embedding_model import differentiable
from workbench.analysis.saliency.targets import TargetRequest, ask
from workbench.errors import DataError, TaskError
from workbench.estimate import Estimate
from workbench.models import Kind, LoadedModel, TextFunction
from workbench.models.batching import head_outputs
from workbench.models.functions import finite_logs
from workbench.models.problem import ProblemType, problem_of
from workbench.statistics import bootstrap, mean_estimate
from workbench.trace.encoding import batches_of, encode_all

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "attack_all",
    "hotflip",
    "input_reduction",
    "predictions",
    "rewrites",
]

PartOfSpeech: TypeAlias = Callable[[str], str | None]
_WORD = re.compile(r"[a-z]{2,}")

# Pairs that mean the same to a reader, tried in both directions.
EQUIVALENTS = (
    ("is not", "isn't"),
    ("does not", "doesn't"),
    ("do not", "don't"),
    ("did not", "didn't"),
    ("can not", "can't"),
    ("it is", "it's"),
    ("that is", "that's"),
    ("film", "movie"),
    ("movie", "picture"),
    ("very", "really"),
    ("and", "as well as"),
    ("but", "yet"),
    ("although", "even though"),
    ("because", "since"),
    ("also", "too"),
    (" .", ""),
    (" .", " !"),
    (" ,", ""),
)


@dataclass(frozen=True)
class AttackResult:
    """One attacked text. ``success``: HotFlip and rewrites changed the class; input reduction took words away."""

    original: str
    changed: str
    before: int  # class
    after: int
    words_changed: int  # exchanged, or taken away
    success: bool


Attack: TypeAlias = Callable[[Any, str], AttackResult]


def predictions(model: LoadedModel | TextFunction, texts: Sequence[str], batch_size: int = 32) -> list[int]:
    """The class of each text.

    Raises :class:`TaskError` for a model that does not give a text one of several classes.
    """
    return [int(logits.argmax()) for logits in _logits(model, texts, batch_size)]


def _logits(model: LoadedModel | TextFunction, texts: Sequence[str], batch_size: int = 32) -> list[Tensor]:
    """The logits (L,) of each text, a function's log-probabilities; raises :class:`TaskError` unless they decide
    for one of several labels."""
    if isinstance(model, TextFunction):
        return list(torch.from_numpy(finite_logs(model.probabilities(texts))))
    model.require(Kind.CLASSIFIER, verb="an attack")
    problem, count = problem_of(model.model), model.config.num_labels
    is_head_of_texts = type(model.model).__name__.endswith("ForSequenceClassification")
    if not is_head_of_texts or problem is not ProblemType.ONE_LABEL or count < 2:
        raise TaskError(
            f"an attack needs a head that gives a text one of several labels; {model.name} is a "
            f"{type(model.model).__name__} with problem_type {problem} and {count} outputs"
        )
    encoded = encode_all(model, texts)
    found: dict[int, Tensor] = {}
    for rows in batches_of(model, encoded, batch_size):
        outputs = head_outputs(model, [encoded[i].row for i in rows])
        found.update((row, output["logits"]) for row, output in zip(rows, outputs, strict=True))
    return [found[i] for i in range(len(texts))]


def hotflip(
    model: LoadedModel,
    text: str,
    *,
    most_changes: int = 5,
    candidates: int = 8,
    pool: int = 2000,
    least_similarity: float = -1.0,
    part_of_speech: PartOfSpeech | None = None,
    seed: int = 0,
) -> AttackResult:
    """Exchange words one at a time until the class changes, each by the word that the gradient favours.

    Greedy: of the exchanges with the highest first-order gain the one that lowers the margin most is made, where
    Ebrahimi et al. 2018 search with a beam by that gain alone.

    Args:
        model: a classifier.
        text: the text; only words that are one token are exchanged, for words that are one token.
        most_changes: words exchanged at most.
        candidates: exchanges of each word that are tried by a forward pass: those of the highest first-order gain.
        pool: number of words of the vocabulary to choose from, drawn with ``seed``.
        least_similarity: cosine of the two words' embeddings that is required, a constraint on distance; -1: none.
        part_of_speech: maps a word to its part of speech; a word is exchanged for one of the same only.
        seed: of the draw.
    """
    before = predictions(model, [text])[0]
    ids = _word_pool(model, pool, seed)
    current, changed = text, set[int]()
    for _ in range(most_changes):
        tries = _exchanges(
            model, current, before, ids, changed, _Limits(candidates, least_similarity, part_of_speech)
        )
        if not tries:
            break
        classes, margins = _margins(model, [t for _, t in tries], before)
        best = int(np.argmin(margins))
        flipped = [i for i, c in enumerate(classes) if c != before]
        best = flipped[0] if flipped else best
        changed.add(tries[best][0])
        current = tries[best][1]
        if flipped:
            break
    after = predictions(model, [current])[0]
    return AttackResult(text, current, before, after, len(changed), after != before)


def _word_pool(model: LoadedModel, size: int, seed: int) -> list[int]:
    """Ids of lower-case words that the tokenizer writes as one token with a space before."""
    vocabulary = sorted(model.tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    marked = any(token.startswith(("Ġ", "▁")) for token, _ in vocabulary)
    words = [
        number
        for token, number in vocabulary
        if _WORD.fullmatch(token.lstrip("Ġ▁")) and (not marked or token.startswith(("Ġ", "▁")))
    ]
    if not words:
        raise TaskError(f"the vocabulary of {model.name} has no whole words to exchange")
    draw = np.random.default_rng(seed)
    return sorted(draw.choice(words, size=min(size, len(words)), replace=False).tolist())


@dataclass(frozen=True)
class _Limits:
    """Which exchanges are allowed: so many of each word, this similar, and of one part of speech."""

    candidates: int
    least_similarity: float
    part_of_speech: PartOfSpeech | None

    def allow(self, old: str, new: str, similarity: float) -> bool:
        """Whether ``new`` may stand for ``old``."""
        tag = self.part_of_speech
        same = tag is None or tag(old) == tag(new)
        return same and similarity >= self.least_similarity and old.lower() != new


def _exchanges(
    model: LoadedModel, text: str, target: int, ids: Sequence[int], taken: set[int], limits: _Limits
) -> list[tuple[int, str]]:
    """(word, text with it exchanged), each word's exchanges of the highest first-order loss of the target's logit."""
    question = ask(model, text, TargetRequest(target))
    alignment = question.encoded.alignment
    with differentiable(model):
        embedded = EmbeddingModel(model, [question], baseline_vectors(model, "zero"))
        gradients = embedded.gradients(embedded.embeddings, torch.tensor([0]))[1][0]
        pool: Tensor = model.model.get_input_embeddings()(torch.tensor(ids, device=model.device)).detach()
    names = [token.lstrip("Ġ▁") for token in model.tokenizer.convert_ids_to_tokens(list(ids))]
    found: list[tuple[int, str]] = []
    for word, (first, last) in enumerate(alignment.token_spans):
        old = alignment.word(word)
        if last - first != 1 or word in taken or not old.isalpha():
            continue
        gains = (embedded.embeddings[0, first] - pool) @ gradients[first]
        similarity = torch.cosine_similarity(pool, embedded.embeddings[0, first][None]).tolist()
        order = torch.argsort(gains, descending=True).tolist()
        allowed = (i for i in order if limits.allow(old, names[i], similarity[i]))
        start, end = alignment.words[word]
        found += [(word, text[:start] + names[i] + text[end:]) for i in islice(allowed, limits.candidates)]
    return found


def _margins(
    model: LoadedModel | TextFunction, texts: Sequence[str], target: int
) -> tuple[list[int], list[float]]:
    """Class of each text, and the target's logit minus the best other one."""
    logits = torch.stack(_logits(model, texts))  # (text, label)
    others = logits.clone()
    others[:, target] = -torch.inf
    return logits.argmax(-1).tolist(), (logits[:, target] - others.max(-1).values).tolist()


def input_reduction(model: LoadedModel | TextFunction, text: str, *, beam: int = 3) -> AttackResult:
    """Take words away, the least missed first, as long as the class stays (Feng et al. 2018, section 2.2).

    How much a word is missed is measured by leaving it out, where they estimate it by the gradient. Keeps the ``beam``
    best texts of each length by the class's margin; what is left is a shortest such text.
    """
    words = text.split()
    if not words:
        raise DataError("an empty text cannot be reduced; give at least one word")
    before = predictions(model, [text])[0]
    kept: list[tuple[int, ...]] = [tuple(range(len(words)))]
    best = kept[0]
    while len(best) > 1:
        shorter = sorted({k[:i] + k[i + 1 :] for k in kept for i in range(len(k))})
        texts = [" ".join(words[i] for i in k) for k in shorter]
        classes, margins = _margins(model, texts, before)
        same = sorted((-m, k) for k, c, m in zip(shorter, classes, margins, strict=True) if c == before)
        if not same:
            break
        kept = [k for _, k in same[:beam]]
        best = kept[0]
    reduced = " ".join(words[i] for i in best)
    after = predictions(model, [reduced])[0]
    return AttackResult(text, reduced, before, after, len(words) - len(best), len(best) < len(words))


def rewrites(
    model: LoadedModel | TextFunction,
    text: str,
    *,
    rules: Sequence[tuple[str, str]] = EQUIVALENTS,
    seed: int = 0,
) -> AttackResult:
    """The first rewrite of equal meaning, in an order drawn with ``seed``, that changes the class.

    ``rules`` are pairs of phrases, tried in both directions (Ribeiro et al. 2018, "SEAs", with rules given).
    """
    before = predictions(model, [text])[0]
    both = [*rules, *((new, old) for old, new in rules if new.strip())]
    tries = []
    for i in np.random.default_rng(seed).permutation(len(both)):
        old, new = both[i]
        pattern = rf"(?<!\w){re.escape(old)}(?!\w)"
        changed = re.sub(pattern, new, text, count=1).strip()
        if changed and changed != text:
            tries.append(changed)
    if not tries:
        return AttackResult(text, text, before, before, 0, False)
    classes = predictions(model, tries)
    for changed, after in zip(tries, classes, strict=True):
        if after != before:
            return AttackResult(text, changed, before, after, _differing(text, changed), True)
    return AttackResult(text, text, before, before, 0, False)


ATTACKS: Mapping[str, Attack] = {"hotflip": hotflip, "input_reduction": input_reduction, "rewrites": rewrites}


def _differing(one: str, other: str) -> int:
    """Words of the longer text that are not in a common run at its start or end."""
    a, b = one.split(), other.split()
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return max(len(a), len(b)) - start - end


def attack_all(
    model: LoadedModel | TextFunction, texts: Sequence[str], attack: Attack, *, seed: int = 0
) -> tuple[list[AttackResult], dict[str, Estimate]]:
    """Attack every text: the results, the success rate, and the words changed where it succeeded."""
    results = [attack(model, text) for text in texts]
    successes = [float(result.success) for result in results]
    found = {"success_rate": mean_estimate(successes, seed=seed)}
    words = [float(result.words_changed) for result in results if result.success]
    if words:
        found["words_changed"] = bootstrap(words, seed=seed, higher_is_better=False)
    return results, found
