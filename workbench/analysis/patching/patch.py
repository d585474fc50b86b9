"""Patching in one call, whatever the method: ``workbench.patch``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from workbench.analysis.patching._activation import (
    MeanOver,
    activation_patching,
    attribution_patching,
    mean_ablation,
)
from workbench.analysis.patching._pair import PatchPair, patch_pair
from workbench.analysis.patching._path import (
    OUTPUT,
    Component,
    PathMlps,
    component,
    head_paths,
    path_patching,
)
from workbench.choices import member
from workbench.errors import TaskError
from workbench.models import LoadedModel, as_model
from workbench.records import takes_fields_of
from workbench.statistics import Statistic
from workbench.text import PromptFormat
from workbench.trace import Text

__all__ = ["PatchMethod", "patch", "patch_effects"]


class PatchMethod(StrEnum):
    """How the effect of an exchange is found."""

    ACTIVATION = "activation"  # each exchange is made
    ATTRIBUTION = "attribution"  # the fast estimate by gradients
    PATH = "path"  # from each head to one receiver
    MEAN_ABLATION = "mean_ablation"  # a component at its mean


@takes_fields_of(PromptFormat)
def patch(
    model: LoadedModel | str,
    clean: Text,
    corrupted: Text,
    target: str,
    contrast: str | None = None,
    *,
    site: str | None = None,
    method: PatchMethod | str = PatchMethod.ACTIVATION,
    mlps: PathMlps | str | None = None,
    mean: MeanOver | str | None = None,
    samples: Sequence[Text] | None = None,
    metric: str | None = None,
    position: int | None = None,
    target_text: Text | None = None,
    stack: str | None = None,
    **prompt: Any,
) -> Statistic:
    """Which activations of the clean text bring its answer back in the corrupted one: 0 none of it, 1 all.

    Args:
        model: any model with a head, or its name.
        clean: the text whose answer patching brings back.
        corrupted: the text that is patched; as many tokens as ``clean``.
        target: what the clean text makes likely, such as ``" are"``; of a classifier, a label.
        contrast: what the corrupted text makes likely instead, such as ``" is"``.
        site: "residual" (default), "attention_out", "mlp_out" or "head" (default of "mean_ablation").
        method: "activation", "attribution", "path" (every head to the output) or "mean_ablation".
        mlps: of "path", whether feed-forward parts are "recomputed" (default) or "frozen": see :func:`path_patching`.
        mean, samples: of "mean_ablation", over "tokens" (default) or "positions" of which texts: see
            :func:`mean_ablation`.
        metric, position, target_text, stack: see :func:`patch_pair`.
        **prompt: how the model reads texts: fields of :class:`~workbench.text.PromptFormat`.

    Returns:
        Effects by layer and position, or by layer and head.

    Raises the errors of :func:`patch_pair`, and :class:`~workbench.errors.TaskError` for an unknown method, or an
    option of another one.

    Example:
        ```python
        import workbench

        effects = workbench.patch("novels-decoder", "The boys at home", "The boy at home", " were", " was")
        print(effects.to_frame().sort_values("value").tail(3))
        ```
    """
    chosen = member(PatchMethod, method, "method", TaskError)
    _refuse_others(chosen, mlps=mlps, mean=mean, samples=samples)
    pair = patch_pair(
        as_model(model, **prompt),
        clean,
        corrupted,
        target,
        contrast,
        metric=metric,
        position=position,
        target_text=target_text,
        stack=stack,
        keep=site if chosen is PatchMethod.ATTRIBUTION else None,
    )
    return patch_effects(pair, chosen, site, mlps=mlps, mean=mean, samples=samples)


def patch_effects(
    pair: PatchPair,
    method: PatchMethod | str = PatchMethod.ACTIVATION,
    site: str | None = None,
    *,
    senders: Sequence[str] = (),
    receiver: Component | str = OUTPUT,
    mlps: PathMlps | str | None = None,
    mean: MeanOver | str | None = None,
    samples: Sequence[Text] | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Statistic:
    """The effects by ``method`` for a pair that is there already.

    ``senders``, ``receiver`` and ``mlps`` are of paths, ``mean`` and ``samples`` of mean ablation.

    Example:
        ```python
        import workbench
        from workbench.analysis.patching import patch_effects, patch_pair

        model = workbench.load("novels-decoder")
        pair = patch_pair(model, "The boys at home", "The boy at home", " were", " was")
        print(patch_effects(pair, "path", senders=["1.2"]).to_frame())
        ```
    """
    chosen = member(PatchMethod, method, "method", TaskError)
    _refuse_others(chosen, mlps=mlps, mean=mean, samples=samples)
    if chosen is PatchMethod.ATTRIBUTION:
        return attribution_patching(pair, site or "residual")
    if chosen is PatchMethod.MEAN_ABLATION:
        where = "head" if site in (None, "residual") else site
        return mean_ablation(pair, where, mean=mean or MeanOver.TOKENS, texts=samples)
    if chosen is PatchMethod.PATH:
        parts = mlps or PathMlps.RECOMPUTED
        if senders:
            return path_patching(pair, [component(sender) for sender in senders], receiver, mlps=parts)
        return head_paths(pair, receiver, mlps=parts)
    return activation_patching(pair, site or "residual", progress=progress)


_OPTIONS = {
    "mlps": PatchMethod.PATH,
    "mean": PatchMethod.MEAN_ABLATION,
    "samples": PatchMethod.MEAN_ABLATION,
}


def _refuse_others(method: PatchMethod, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and _OPTIONS[name] is not method:
            raise TaskError(f"{name} is of method {_OPTIONS[name]!s}, the method is {method!s}; leave it out")
