"""Several figures under one another: one page, each in a frame of its own."""

from __future__ import annotations

import io
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.errors import ConfigError
from workbench.figures._page import page
from workbench.figures._view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["stacked_views"]

_INCHES, _WIDTH = 40.0, 8.0  # the tallest figure, and the width of one


def stacked_views(
    views: Mapping[str, View], *, title: str, note: str = "", display_mode: str = "auto"
) -> View:
    """``views`` by heading, one below the other; the page is self-contained, and each figure on it stays interactive.

    The numbers are those of all of them, each row behind its ``figure``; as PNG, SVG or PDF the figures are pictures on
    one sheet.

    Raises :class:`~workbench.errors.ConfigError` for no view.
    """
    if not views:
        raise ConfigError("there is no figure to put on the page")
    return View(
        title=title,
        render=lambda: page(title=title, body=_body(views, title, note), display_mode=display_mode),
        draw=lambda: _draw(views, title),
        tabulate=lambda: pd.concat(
            [view.to_frame().assign(figure=name) for name, view in views.items()], ignore_index=True
        ),
        height=820,
    )


def _body(views: Mapping[str, View], title: str, note: str) -> Markup:
    frame = (
        '<section aria-label="{}"><iframe srcdoc="{}" title="{}" sandbox="allow-scripts" '
        'style="width:100%;height:{}px;border:0"></iframe></section>'
    )
    sections = Markup("").join(
        Markup(frame).format(name, Markup(escape(view.html)), view.title, view.height)
        for name, view in views.items()
    )
    lines = Markup("").join(Markup('<p class="quiet">{}</p>').format(line) for line in note.splitlines())
    return Markup("<article><h1>{}</h1>{}{}</article>").format(title, lines, sections)


def _draw(views: Mapping[str, View], title: str) -> Figure:
    """Each figure as a picture, scaled to one width."""
    from matplotlib.image import imread

    from workbench.figures.static import figure_of

    pictures = [imread(io.BytesIO(_picture(view)), format="png") for view in views.values()]
    shapes = np.array([picture.shape[0] / picture.shape[1] for picture in pictures])
    figure = figure_of(_WIDTH, min(_INCHES, _WIDTH * float(shapes.sum()) + 1.0), title)
    grid = figure.add_gridspec(len(pictures), 1, height_ratios=shapes.tolist())
    for row, (name, picture) in enumerate(zip(views, pictures, strict=True)):
        axes = figure.add_subplot(grid[row])
        axes.imshow(picture)
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.axis("off")
    return figure


def _picture(view: View) -> bytes:
    """The view as PNG, in whatever style the sheet is being drawn in."""
    buffer = io.BytesIO()
    view.draw().savefig(buffer, format="png", dpi=160, bbox_inches="tight")
    return buffer.getvalue()
