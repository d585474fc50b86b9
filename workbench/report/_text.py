"""How values look in a report; escaping is the template's work, so nothing here returns markup."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["clip_left", "flatten", "measured", "number", "shown", "visible"]

# Bidirectional overrides and isolates could reorder the report around them.
_BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: "␡"} | {code: f"⟨U+{code:04X}⟩" for code in [*range(0x80, 0xA0), *_BIDI]}


def visible(text: str) -> str:
    """``text`` with control characters and direction overrides replaced by signs that can be seen."""
    return text.translate(_VISIBLE).encode("utf-8", "backslashreplace").decode()


def clip_left(text: str, limit: int) -> str:
    """The last ``limit`` characters, saying how many came before."""
    if len(text) <= limit:
        return text
    return f"[{len(text) - limit:,} characters] … {text[-limit:]}"


def number(value: Any) -> str:
    """A number in four significant digits, thousands grouped; an en dash for what is missing."""
    if value is None or value is False or value is True:
        return "–" if value is None else shown(value)
    if not isinstance(value, int | float):
        return visible(str(value))
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}" if math.isfinite(value) else "∞" if value > 0 else "−∞"
    return "–" if math.isnan(value) else f"{value:.4g}"


def measured(value: float) -> str:
    """As :func:`number`, with trailing zeros kept: 0.2300 was measured no less exactly than 0.2345."""
    if not math.isfinite(value) or abs(value) >= 1000 or 1e-15 < abs(value) < 1e-4:
        return number(value)
    return f"{value:#.4g}" if abs(value) > 1e-15 else "0"  # below that lies rounding


def shown(value: Any) -> str:
    """Any stored value as text: switches as yes and no, lists joined, nothing as an en dash."""
    if hasattr(value, "tolist"):  # a NumPy value, as a list column or a cell of a frame has it
        value = value.tolist()
    if value is None or value == "" or value == [] or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(v) for v in value)
    return visible(str(value))


def flatten(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested dictionaries as rows (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += flatten(value, f"{prefix}{name}.")
        else:
            rows.append((visible(f"{prefix}{name}"), shown(None if value == {} else value)))
    return rows
