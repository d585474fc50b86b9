"""What ``workbench.changes`` depends on, beside the models and the texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.choices import member
from workbench.errors import ConfigError
from workbench.records import check_fields

__all__ = ["ChangesPart", "ChangesSettings"]


class ChangesPart(StrEnum):
    """What is compared for every pair of models; probes, directions and rewards come where they are named."""

    KL = "kl"
    WEIGHTS = "weights"
    CKA = "cka"
    LENS = "lens"
    HEADS = "heads"


@dataclass(frozen=True, kw_only=True)
class ChangesSettings:
    """What is compared, and how.

    ``probe_task`` is a task of ``workbench probe`` over ``probe_limit`` sentences of ``probe_data``; ``direction`` a
    table with text and label, two groups of texts; ``reward`` a reward model, ``model:NAME`` or ``model:NAME#LABEL``.
    CKA is over ``places`` words at most, as many of each text, the first of a text left out (an attention sink).
    """

    parts: tuple[str, ...] = tuple(ChangesPart)
    probe_task: str | None = None
    probe_data: str = "builtin"
    probe_limit: int = 300
    direction: str | None = None
    reward: str | None = None
    places: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for part in self.parts:
            member(ChangesPart, part, "part")
        for name in ("probe_limit", "places"):
            if getattr(self, name) < 4:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 4 or more")
