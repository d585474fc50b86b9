"""Records that draw themselves: ``.figure()`` and, in notebooks, the figure in their place.

Records lie in layers below :mod:`workbench.figures` and do not import it. They name the function that draws them, and
``workbench/__init__.py``, which knows all rooms, says where such functions are found.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Drawing", "Drawn", "find_drawings_in"]

_rooms: list[Callable[[], Any]] = []


class Drawing(Protocol):
    """What ``.figure()`` returns: a :class:`workbench.figures.View`, which a notebook shows."""

    @property
    def html(self) -> str:
        """The whole page, self-contained."""

    def draw(self) -> Any:
        """The same as a matplotlib figure."""

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it as the ending says: .html, .svg, .png, .pdf or .csv."""

    def to_frame(self) -> pd.DataFrame:
        """The numbers drawn."""

    def _repr_html_(self) -> str: ...


class Drawn:
    """Base of records with a figure; ``drawn_by`` names the function of :mod:`workbench.figures`."""

    drawn_by: ClassVar[str]

    def figure(self, **options: Any) -> Drawing:
        """The record drawn: shows itself in a notebook, and has ``.save("name.html")`` and ``.draw()``.

        ``options`` are those of the function that draws it, such as ``title`` and ``display_mode``.
        """
        drawing: Drawing = getattr(_rooms[-1](), self.drawn_by)(self, **options)
        return drawing

    def _repr_html_(self) -> str:
        return self.figure()._repr_html_()


def find_drawings_in(room: Callable[[], Any]) -> None:
    """``room()`` gives the module that has the functions which draw records."""
    _rooms.append(room)
