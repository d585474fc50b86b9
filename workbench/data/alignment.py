"""Preferences (HH-RLHF, Bai et al. 2022; prompt, chosen, rejected) and toxic prompts (Gehman et al. 2020)."""

from __future__ import annotations

from itertools import takewhile

from workbench.data.rows import Preference, ToxicPrompt
from workbench.data.source import Hub, Record, Source, field_of
from workbench.data.tables import number_of
from workbench.errors import DataError

__all__ = ["HH_RLHF", "PREFERENCES", "TOXICITY"]

_TURN = "\n\nAssistant:"


def _parse_preference(record: Record, where: str, row: str) -> list[Preference]:
    chosen, rejected = _text(record, where, "chosen"), _text(record, where, "rejected")
    prompt = str(record.get("prompt") or "")
    if not prompt:
        prompt = _shared_turns(chosen, rejected)
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    if not chosen.strip() or not rejected.strip():
        return []  # an empty reply: there is nothing to prefer
    return [Preference(row, prompt, chosen, rejected)]


def _text(record: Record, where: str, name: str) -> str:
    value = field_of(record, where, name)
    if isinstance(value, list):  # a list of messages: the last one is the reply
        value = value[-1].get("content") if value and isinstance(value[-1], dict) else None
    if not isinstance(value, str):
        raise DataError(f"{where}: {name!r} must be a text or a list of messages")
    return value


def _shared_turns(chosen: str, rejected: str) -> str:
    """What both dialogues begin with, up to the last turn of the assistant that they share."""
    pairs = zip(chosen, rejected, strict=False)
    shared = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    place = shared.rfind(_TURN)
    return shared[: place + len(_TURN)] if place >= 0 else ""


HH_RLHF: Source[Preference] = Source(
    name="hh_rlhf",
    files={
        "test": (
            "harmless_base_test_first500.jsonl",
            "hh_rlhf/harmless_base_test_first500.jsonl",
            "harmless-base/test.jsonl",
            "test.jsonl",
        )
    },
    parse=_parse_preference,
    hub=Hub("Anthropic/hh-rlhf"),
)
PREFERENCES: Source[Preference] = Source(
    name="preferences", files={"test": ("preferences.jsonl", "test.jsonl")}, parse=_parse_preference
)


def _parse_toxic_prompt(record: Record, where: str, row: str) -> list[ToxicPrompt]:
    prompt = field_of(record, where, "prompt")
    text = field_of(prompt, where, "text")
    rated = prompt.get("toxicity")
    toxicity = None if rated is None else number_of(rated, where, "toxicity")
    return [ToxicPrompt(row, text, toxicity, bool(record.get("challenging", False)))]


TOXICITY: Source[ToxicPrompt] = Source(
    name="realtoxicityprompts",
    files={"train": ("prompts.jsonl", "realtoxicityprompts-data/prompts.jsonl")},
    parse=_parse_toxic_prompt,
    hub=Hub("allenai/real-toxicity-prompts"),
)
