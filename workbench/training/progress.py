"""What a training run reports as it goes: a bar with the time left, throughput, and a log of every measurement."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from workbench.runs import write_atomically
from workbench.runs.trackers import LiveReport, curve_values

__all__ = ["Meter", "ProgressLog", "peak_flops", "read_log"]

# Dense operations per second in bfloat16, from the makers' data sheets.
_CARDS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10G": 70e12,
    "T4": 65e12,
}


def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second that ``device`` can do: a card's data sheet, else a measured matrix product.

    On a CPU that is per second of processor time, so that other work on the machine does not lower it.
    """
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for card, rate in _CARDS.items():
            if card in name:
                return rate if dtype != torch.float32 else rate / 2
    size = 512
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    on_cpu = device.type == "cpu"
    clock, workers = (time.process_time, torch.get_num_threads()) if on_cpu else (time.perf_counter, 1)
    best = 0.0
    for _ in range(6):
        started = clock()
        for _ in range(4):
            a @ b
        best = max(best, workers * 4 * 2 * size**3 / max(1e-9, clock() - started))
    return best


@dataclass
class Meter:
    """Tokens and seconds of this process since it started training.

    ``flops_per_token`` counts forward and backward; ``peak`` is the device's rate, for the model-FLOPs utilisation
    (Chowdhery et al. 2022, "PaLM", appendix B), which is left out where they are not known.
    """

    flops_per_token: float | None = None
    peak: float | None = None
    processes: int = 1
    tokens: int = 0
    started: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Over all processes."""
        seconds = time.perf_counter() - self.started
        return self.tokens * self.processes / seconds if self.started and seconds > 0 else 0.0

    @property
    def utilisation(self) -> float | None:
        """Share of the devices' peak that the model's own operations use."""
        if self.flops_per_token is None or self.peak is None:
            return None
        return self.tokens_per_second * self.flops_per_token / (self.peak * self.processes)

    def to_dict(self) -> dict[str, float | None]:
        """What a run stores."""
        return {
            "tokens": self.tokens * self.processes,
            "seconds": time.perf_counter() - self.started,
            "tokens_per_second": self.tokens_per_second,
            "utilisation": self.utilisation,
            "flops_per_token": self.flops_per_token,
        }


class ProgressLog(TrainerCallback):
    """Shows a bar, and writes each of Trainer's log records as a line of ``log.jsonl`` and to trackers."""

    def __init__(self, path: Path, meter: Meter, *, show: bool, report: LiveReport | None = None) -> None:
        self.report = report
        self.path = path
        self.meter = meter
        self.show = show
        self._bar: tqdm[Any] | None = None
        self._file: TextIO | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Open bar and log; lines of steps that are done again are dropped."""
        self.meter.started, self.meter.tokens = time.perf_counter(), 0
        if not state.is_world_process_zero:
            return
        kept = [row for row in read_log(self.path) if row["step"] <= state.global_step]
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self._file = self.path.open("a", encoding="utf-8")
        self._bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            disable=not self.show,
            unit="step",
            dynamic_ncols=True,
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """One line: step, loss or evaluation loss, learning rate, tokens per second, utilisation."""
        if self._file is None or logs is None or "train_runtime" in logs:
            return
        row = {"step": state.global_step, **{k: v for k, v in logs.items() if isinstance(v, int | float)}}
        if "loss" in row:
            speed = {"tokens_per_second": self.meter.tokens_per_second, "utilisation": self.meter.utilisation}
            row |= {name: value for name, value in speed.items() if value is not None}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        if self.report is not None:
            self.report.log(state.global_step, curve_values(self.path, row))
        if self._bar is not None and "loss" in row:
            share = f", {row['utilisation']:.0%} MFU" if "utilisation" in row else ""
            shown = f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s{share}"
            self._bar.set_postfix_str(shown)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Close both."""
        self.close()

    def close(self) -> None:
        """Close bar and log, also after an error."""
        for thing in (self._bar, self._file):
            if thing is not None:
                thing.close()
        self._bar = self._file = None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a ``log.jsonl``; an incomplete last line is left out."""
    rows: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
    return rows
