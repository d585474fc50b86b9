"""A self-contained page around one view's data: style, script and numbers inline, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._maps import AttentionMap
from workbench.figures._packing import map_record

__all__ = ["attention_page", "check_choice", "page"]

DISPLAY_MODES = ("auto", "light", "dark")
_TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)


def page(
    *,
    title: str,
    script: str | None = None,
    parts: tuple[str, ...] = (),
    data: Mapping[str, Any] | None = None,
    body: Markup | None = None,
    display_mode: str = "auto",
) -> str:
    """The HTML of one view.

    ``script`` names the view's JavaScript asset, ``parts`` those it builds on; ``data`` becomes JSON
    with every character escaped that could end the script element. ``display_mode`` is ``auto`` (the
    reader's preference), ``light`` or ``dark``.
    """
    check_choice(display_mode, DISPLAY_MODES, "display_mode")
    names = ("common", *parts, script) if script else ()
    return _TEMPLATES.from_string(asset("page.html")).render(
        title=title,
        display_mode=display_mode,
        style=Markup(asset("view.css")),
        script=Markup("\n".join(asset(f"{name}.js") for name in names)),
        data=Markup(_script_safe_json({"title": title, **(data or {})})),
        body=body or "",
    )


def attention_page(
    title: str,
    script: str,
    parts: tuple[str, ...],
    maps: Sequence[AttentionMap],
    state: Mapping[str, Any],
    mode: str,
) -> str:
    """The page of an attention view: its maps packed, and what it shows first."""
    data = {"maps": [map_record(attention) for attention in maps], "state": {"map": 0, **state}}
    return page(title=title, script=script, parts=parts, data=data, display_mode=mode)


def check_choice(value: str, allowed: tuple[str, ...], what: str) -> None:
    """Refuse a value outside ``allowed``, naming both."""
    if value not in allowed:
        raise ConfigError(f"{what}={value!r} is not one of {', '.join(map(repr, allowed))}")


@cache
def asset(name: str) -> str:
    """The text of a packaged asset."""
    return (files("workbench.figures") / "assets" / name).read_text(encoding="utf-8")


def _script_safe_json(data: Mapping[str, Any]) -> str:
    """ASCII JSON in which no markup can begin: ``<``, ``>`` and ``&`` become escapes."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
