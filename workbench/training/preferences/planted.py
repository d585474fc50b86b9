"""A planted preference: a rule on the text that is known exactly, and pairs that follow it without exception.

The rule: of two replies the one with an exclamation mark is preferred. It was chosen before anything was measured,
because it

- is checked exactly, by anybody, from the text alone, so that a reward model can be right about every pair;
- is neither absent nor usual in what a language model of novels writes, so that there is something to learn from and
  something to gain (how often `novels-decoder` does it: ``docs/findings.md``);
- has nothing to do with length, which replies that are written up to one limit of tokens share.

Prompts are openings of the workbench's own grammar, replies the model's own samples. Whether a prompt is held out
depends on the prompt alone, so no draw has a held-out prompt among those to train on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256

from workbench.data.grammar import sentences
from workbench.data.rows import Preference
from workbench.errors import ConfigError, DataError
from workbench.estimate import Estimate
from workbench.models import LoadedModel, load
from workbench.scoring import GenerationRequest, collect, continuation, generate_texts
from workbench.statistics import proportion
from workbench.training.preferences.pairs import PreferenceRows

__all__ = [
    "PLANTED",
    "planted_pairs",
    "planted_prompts",
    "planted_rate",
    "planted_reward",
    "planted_rows",
    "planted_rule",
    "sampled_replies",
]

PLANTED = "planted"
"""The name under which :func:`workbench.align` takes these pairs as data."""

_MARK = "!"
_OPENING = 4  # words
_HELD_OUT = 5  # every fifth prompt, by its checksum
_STATEMENTS = (
    "transitive",
    "intransitive",
    "ditransitive",
    "passive",
    "copular_adjective",
    "copular_noun",
    "copular_place",
    "complement_clause",
    "coordinated_clauses",
    "coordinated_verbs",
    "control",
)
_TOKENS = 24
_AT_ONCE = 4  # replies to each prompt before it is looked at again
_ROUNDS = 40
_COUNT = 500  # pairs to train on
_FEWEST = 20  # pairs to measure on
_SPARE = 1.25  # so many prompts for each pair that is asked for: some give only one kind of reply


def planted_rule(text: str) -> float:
    """1 for a text with an exclamation mark, else 0.

    Example:
        ```python
        from workbench.training.preferences.planted import planted_rule

        print(planted_rule('"Oh!" she said.'), planted_rule("She said nothing."))
        ```
    """
    return float(_MARK in text)


def planted_reward(prompts: Sequence[str], replies: Sequence[str]) -> list[float]:
    """The rule of each reply, as a reward: ``--reward python:workbench.training.preferences.planted:planted_reward``.

    ``--reward pattern:!`` is the same.
    """
    return [planted_rule(reply) for reply in replies]


def planted_prompts(count: int, seed: int = 0, *, held_out: bool = False) -> tuple[str, ...]:
    """``count`` different openings: the first four words of statements drawn from the grammar.

    With ``held_out`` those to measure on, a fifth of all; without it those to train on. Raises
    :class:`~workbench.errors.ConfigError` for a count below 1.
    """
    if count < 1:
        raise ConfigError(f"count is {count}; allowed: 1 or more")
    found: dict[str, None] = {}
    drawn = 2 * count * (_HELD_OUT if held_out else 1)
    while len(found) < count:
        for sentence in sentences(drawn, seed, constructions=_STATEMENTS):
            words = sentence.text.split()
            opening = " ".join(words[:_OPENING])
            if len(words) > _OPENING and _is_held_out(opening) is held_out:
                found[opening] = None
        drawn *= 2
    return tuple(found)[:count]


def _is_held_out(prompt: str) -> bool:
    return int(sha256(prompt.encode()).hexdigest(), 16) % _HELD_OUT == 0


def sampled_replies(
    model: LoadedModel, prompts: Sequence[str], seed: int = 0, *, max_tokens: int = _TOKENS
) -> list[str]:
    """One reply to each prompt, sampled from the model's own distribution; a blank at its beginning included.

    Raises :class:`~workbench.errors.ModelError` for a model that does not go on with texts.
    """
    requests = [
        GenerationRequest(prompt, max_tokens=max_tokens, temperature=1.0, number=number)
        for number, prompt in enumerate(prompts)
    ]
    written = collect(generate_texts(model, requests, seed=seed), len(requests))
    return [continuation(model, prompt, one) for prompt, one in zip(prompts, written, strict=True)]


def planted_rate(model: LoadedModel, count: int = 200, seed: int = 0, *, held_out: bool = True) -> Estimate:
    """The share of the model's replies that the rule prefers: one reply to each of ``count`` prompts.

    The interval is Wilson's.

    Example:
        ```python
        import workbench
        from workbench.training.preferences.planted import planted_rate

        print(planted_rate(workbench.load("novels-decoder"), 32))
        ```
    """
    replies = sampled_replies(model, planted_prompts(count, seed, held_out=held_out), seed)
    return proportion([planted_rule(reply) > 0 for reply in replies])


def planted_pairs(
    model: LoadedModel, count: int = _COUNT, seed: int = 0, *, held_out: bool = False
) -> tuple[Preference, ...]:
    """``count`` pairs of the model's own replies, each to another prompt, of which the chosen one follows the rule.

    Each prompt is answered until there is a reply of either kind; of each kind the first is taken. Equal arguments give
    equal pairs. Raises :class:`~workbench.errors.DataError` where the model almost always or almost never follows the
    rule, and :class:`~workbench.errors.ModelError` for a model that does not go on with texts.

    Example:
        ```python
        import workbench
        from workbench.training.preferences.planted import planted_pairs

        for pair in planted_pairs(workbench.load("novels-decoder"), 3):
            print(pair.prompt, "|", pair.chosen, "|", pair.rejected)
        ```
    """
    prompts = planted_prompts(int(_SPARE * count) + 1, seed, held_out=held_out)
    kinds: dict[str, dict[float, str]] = {prompt: {} for prompt in prompts}
    drawn = random.Random(seed)
    for _ in range(_ROUNDS):
        waiting = [prompt for prompt, found in kinds.items() if len(found) < 2 for _ in range(_AT_ONCE)]
        if len(prompts) - len(waiting) // _AT_ONCE >= count:
            break
        for prompt, reply in zip(
            waiting, sampled_replies(model, waiting, drawn.randrange(2**31)), strict=True
        ):
            if reply.strip():
                kinds[prompt].setdefault(planted_rule(reply), reply)
    both = [(prompt, found) for prompt, found in kinds.items() if len(found) == 2]
    if len(both) < count:
        raise DataError(_too_few(model, count, len(both), kinds))
    return tuple(
        Preference(f"planted-{number}", prompt, found[1.0], found[0.0])
        for number, (prompt, found) in enumerate(both[:count])
    )


def _too_few(model: LoadedModel, count: int, found: int, kinds: dict[str, dict[float, str]]) -> str:
    ever = sum(1.0 in replies for replies in kinds.values())
    never = sum(0.0 in replies for replies in kinds.values())
    return (
        f"{count} planted pairs were asked for, but of {len(kinds)} prompts {model.name} answered only {found} both "
        f"with and without an exclamation mark in {_ROUNDS * _AT_ONCE} replies each ({ever} ever with, {never} ever "
        "without); ask for fewer, or take another model"
    )


def planted_rows(
    writer: str, *, online: bool = False, limit: int | None = None, device: str = "auto"
) -> PreferenceRows:
    """What :func:`workbench.align` trains on where its data are ``"planted"``: 500 pairs, or ``limit``, and a fifth as
    many held out, of replies by the model ``writer`` at float32.

    ``online`` leaves the replies out, for methods that write their own. Raises as :func:`planted_pairs` does.
    """
    count = _COUNT if limit is None else limit
    held_out = max(_FEWEST, count // 5)
    if online:
        train, validation = (
            tuple(Preference(f"{PLANTED}-{n}", prompt, "", "") for n, prompt in enumerate(prompts))
            for prompts in (planted_prompts(count), planted_prompts(held_out, 1, held_out=True))
        )
    else:
        model = load(writer, dtype="float32", device=device)
        train = planted_pairs(model, count)
        validation = planted_pairs(model, held_out, 1, held_out=True)
    return PreferenceRows(PLANTED, train, validation)
