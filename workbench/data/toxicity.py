"""Toxic prompts (Gehman et al. 2020): the beginning of a sentence, and how toxic its author's text was rated."""

from __future__ import annotations

from workbench.data.rows import ToxicPrompt
from workbench.data.source import Hub, Record, Source, field_of
from workbench.data.tables import number_of

__all__ = ["TOXICITY"]


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
