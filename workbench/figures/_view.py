"""What every figure function returns: one object that shows itself and saves itself."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from workbench.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["View", "frame_height"]


@dataclass(frozen=True, kw_only=True)
class View:
    """A figure that a notebook displays and that saves as HTML, SVG, PNG, PDF or CSV.

    ``render`` writes the page, ``draw`` the static matplotlib figure, ``tabulate`` the numbers behind
    both; each runs only when asked. ``height`` is that of a notebook's frame, in pixels.
    """

    title: str
    render: Callable[[], str]
    draw: Callable[[], Figure]
    tabulate: Callable[[], pd.DataFrame]
    height: int = 560
    latex: Callable[[], str] | None = None

    @cached_property
    def html(self) -> str:
        """The whole page: script, style and data inline, no request to any network."""
        return self.render()

    @property
    def data(self) -> str:
        """The page under the name that ``IPython.display.HTML`` (and so BertViz) gives it."""
        return self.html

    def to_frame(self) -> pd.DataFrame:
        """The numbers drawn, one row each."""
        return self.tabulate()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the figure in the format that the suffix names and return the path.

        The file appears whole or not at all.

        Raises:
            ConfigError: unknown suffix; the message lists those that this figure has.
        """
        target = Path(path)
        writers = self._writers()
        writer = writers.get(target.suffix.lower())
        if writer is None:
            raise ConfigError(
                f"cannot save {target.name!r}: suffix {target.suffix!r} is not one of {', '.join(sorted(writers))}"
            )
        _write_whole(target, writer())
        return target

    def _writers(self) -> dict[str, Callable[[], bytes]]:
        writers: dict[str, Callable[[], bytes]] = {
            ".html": lambda: self.html.encode("utf-8"),
            ".csv": lambda: self.to_frame().to_csv(index=False).encode("utf-8"),
            ".svg": lambda: self._static("svg"),
            ".png": lambda: self._static("png"),
            ".pdf": lambda: self._static("pdf"),
        }
        if self.latex is not None:
            writers[".tex"] = lambda latex=self.latex: latex().encode("utf-8")  # type: ignore[misc]
        return writers

    def _static(self, form: str) -> bytes:
        from workbench.figures.static import rendered

        return rendered(self.draw, form)

    def _repr_html_(self) -> str:
        """A frame of its own, so that two views in one notebook never share a name or a style."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.title)}" '
            f'sandbox="allow-scripts" loading="lazy" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<View {self.title!r}: .save('name.html'), also {', '.join(sorted(self._writers()))}>"


def frame_height(rows: int, row_pixels: int, around: int) -> int:
    """Height of a notebook's frame that shows ``rows`` without scrolling, within 420 to 820 pixels."""
    return min(820, max(420, around + rows * row_pixels))


def _write_whole(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid4().hex}{target.suffix}")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
