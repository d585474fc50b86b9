"""For the API reference: docstrings' roles (``:func:`name```) as Markdown code, which mkdocstrings shows."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`(~?)([\w.]+)`")


class Roles(griffe.Extension):
    """Rewrites roles in every docstring; ``~`` keeps the last part of a name."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each object as it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_as_code, obj.docstring.value)


def _as_code(found: re.Match[str]) -> str:
    name = found[2].rpartition(".")[2] if found[1] else found[2]
    return f"`{name}`"
