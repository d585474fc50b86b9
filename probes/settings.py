"""What a probing experiment depends on, beside the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from probes.features.policy import POOLS, parse_site
from workbench.errors import ConfigError, did_you_mean
from workbench.records import check_fields

__all__ = ["SPLITS", "STRENGTHS", "ProbeSettings"]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SPLITS = ("sentence", "document", "type")


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """The recipe of an experiment.

    ``data`` is a file in the task's format or ``builtin``; ``train`` a second file to train on, otherwise
    ``test_share`` of the ``data`` is kept for testing, by whole sentences, documents, or word types (no word
    form in both). ``strengths`` are inverse regularisation strengths C, chosen on held-out training sentences.
    ``seeds`` is how many times the choice of these and the random labels of the control task are drawn.
    """

    task: str
    data: str = "builtin"
    train: str | None = None
    probe: str = "linear"
    layers: tuple[int, ...] | None = None  # None: all
    pool: str = "auto"
    what: str = "residual"
    stack: str | None = None
    split: str = "sentence"
    test_share: float = 0.2
    seeds: int = 3
    strengths: tuple[float, ...] = STRENGTHS
    limit: int | None = None
    random_weights: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        parse_site(self.what)
        if self.pool not in ("auto", *POOLS):
            raise ConfigError(f"unknown pool {self.pool!r}; {did_you_mean(self.pool, ['auto', *POOLS])}")
        if self.stack not in (None, "encoder", "decoder"):
            raise ConfigError(f"stack is {self.stack!r}; allowed: encoder, decoder")
        if self.split not in SPLITS:
            raise ConfigError(f"unknown split {self.split!r}; {did_you_mean(self.split, list(SPLITS))}")
        if not 0 < self.test_share < 1:
            raise ConfigError(f"test_share is {self.test_share}; allowed: between 0 and 1, such as 0.2")
        if self.seeds < 1:
            raise ConfigError(f"seeds is {self.seeds}; allowed: 1 or more")
        if not self.strengths or min(self.strengths) <= 0:
            raise ConfigError(f"strengths are {self.strengths}; allowed: positive numbers such as 0.01,1")

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for ``run.json``."""
        return asdict(self)
