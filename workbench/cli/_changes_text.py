"""What ``workbench changes`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.cli._tables import table
from workbench.terminal import counted

if TYPE_CHECKING:
    from workbench.analysis.changes import Changes
    from workbench.statistics import Statistic

__all__ = ["changes_text"]

_SHOWN = 10  # tokens printed
_BY_LAYER = {
    "CKA": "CKA",
    "CKA of random pairs": "random pairs",
    "attention divergence of layers": "attention, bits",
    "change of log-probability of the final token": "final token, nats",
}
_OF_DIRECTIONS = ("AUC of the direction", "change of AUC", "cosine of directions")


def changes_text(found: Changes) -> str:
    """The summary, the layers of a single model after training, the tokens of the largest KL, and what was left out."""
    rows = [
        (*(row[name] for name in ("model", "quantity")), *_cells(row), row["layer"])
        for row in found.summary().to_dict("records")
    ]
    parts = [
        f"from {found.before} to {', '.join(found.after)} over {counted(found.texts, 'text')}",
        table(("model", "quantity", "value", "95 % low", "95 % high", "layer"), rows) if rows else "",
        _layers(found) if len(found.after) == 1 else "",
        _tokens(found),
        _further(found),
        "\n".join(f"note: {note}" for note in found.notes),
    ]
    return "\n\n".join(filter(None, parts))


def _cells(row: Any) -> tuple[str, ...]:
    return tuple("-" if row[name] != row[name] else f"{row[name]:.4f}" for name in ("value", "low", "high"))


def _layers(found: Changes) -> str:
    """What there is of each layer: states are those behind a block, attention and weights those of the block."""
    columns: dict[str, dict[int, str]] = {}
    for name, short in _BY_LAYER.items():
        if name not in found.statistics:
            continue
        statistic = found[name]
        shift = 1 if "attention" in name else 0
        columns[short] = {
            int(layer) + shift: _number(statistic, place)
            for place, layer in enumerate(statistic.labels["layer"])
        }
    if not columns:
        return ""
    numbers = sorted({number for column in columns.values() for number in column})
    names = {number: "embeddings" if number == 0 else f"block {number - 1}" for number in numbers}
    rows = [(names[n], *(column.get(n, "") for column in columns.values())) for n in numbers]
    return table(("layer", *columns), rows)


def _number(statistic: Statistic, place: int) -> str:
    """Value and interval of one layer of the only model."""
    value = float(statistic.values[0, place])
    if statistic.low is None or statistic.high is None:
        return f"{value:.4f}"
    low, high = float(statistic.low[0, place]), float(statistic.high[0, place])
    return f"{value:.4f}" if low != low else f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _tokens(found: Changes) -> str:
    changed = found.tokens[found.tokens["kl"] > 0] if len(found.tokens) else found.tokens
    if changed.empty:
        return ""
    columns = ("model", "text", "position", "token", "kl", "before", "after")
    rows = ([_token(row[name]) for name in columns] for row in changed.head(_SHOWN).to_dict("records"))
    return (
        f"tokens of the largest KL (nats), and what each model finds likeliest there\n{table(columns, rows)}"
    )


def _token(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else str(value).replace("\n", "↵")


def _further(found: Changes) -> str:
    """Probes, directions and the reward's words, where they were asked for: the layer that changed most."""
    rows = []
    for name, statistic in found.statistics.items():
        if "of probes" not in name and name not in _OF_DIRECTIONS:
            continue
        for place, model in enumerate(statistic.labels["model"]):
            layers = statistic.values[place]
            at = int(np.nanargmax(np.abs(layers)) if "cosine" not in name else np.nanargmin(layers))
            row = {"value": layers[at]} | {
                end: np.nan if (ends := getattr(statistic, end)) is None else ends[place, at]
                for end in ("low", "high")
            }
            rows.append((model, name, *_cells(row), str(statistic.labels["layer"][at])))
    shown = table(("model", "quantity", "value", "95 % low", "95 % high", "layer"), rows) if rows else ""
    words = found.reward_words().head(_SHOWN) if found.saliency else None
    if words is None or words.empty:
        return shown
    lines = [(row["word"], *_cells(row), str(row["texts"])) for row in words.to_dict("records")]
    title = f"words by the mean attribution of {found.saliency[0].target}"
    return "\n\n".join(
        filter(None, [shown, f"{title}\n{table(('word', 'value', '95 % low', '95 % high', 'texts'), lines)}"])
    )
