"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from workbench.choices import DEFAULT_DTYPE

__all__ = ["model_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def model_options(function: Command) -> Command:
    """``--revision --dtype --device --implementation``: how a model is loaded."""
    for option in (
        click.option("--implementation", default="hf", show_default=True, help="hf or builtin."),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:N or mps."),
        click.option(
            "--dtype",
            default=DEFAULT_DTYPE,
            show_default=True,
            help="float32, bfloat16, float16, or auto: bfloat16 where it is fast.",
        ),
        click.option("--revision", default=None, help="Branch, tag or commit of a hub model."),
    ):
        function = option(function)
    return function
