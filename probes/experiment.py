"""``probes.probe``: an experiment in one call, from a notebook, the command line or the dashboard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from probes._checkpoints import Checkpointed, not_stored
from probes._data import ProbeData
from probes._fit import one_layer
from probes._prepare import prepare, read_data
from probes.classification import classify
from probes.mixing import mix
from probes.report import ProbeReport
from probes.settings import PROBES, ProbeSettings
from probes.splits import Split, split_items
from probes.trees import probe_trees
from workbench.errors import TaskError, UnknownName
from workbench.models import LoadedModel, as_model, prompted
from workbench.records import settings_of, takes_fields_of

__all__ = ["PROBE_KINDS", "check_kind", "layers_of", "probe", "run_experiment"]

PROBE_KINDS = {
    "linear": "logistic regression of each layer",
    "ridge": "ridge regression of each layer to one-hot labels",
    "mlp": "one hidden layer on each layer",
    "knn": "nearest neighbours in each layer",
    "mdl": "linear, with the online code length of the labels",
    "scalar_mix": "one linear probe on a learnt mixture of all layers",
    "edge": "one probe with a hidden layer on a mixture of all layers, for one or two spans",
    "structural": "syntax trees as distances in a projection of each layer",
}


_LAYER_DIGITS = 4  # of a layer's number


@takes_fields_of(ProbeSettings)
def probe(
    model: LoadedModel | str,
    task: str | ProbeData,
    settings: ProbeSettings | None = None,
    *,
    progress: bool = False,
    **options: Any,
) -> ProbeReport:
    """What each layer of ``model`` knows of ``task``, with controls.

    ``task`` is a name (``probes.TASKS.names()``) whose items come from ``data=`` (a file, or the built-in
    grammar by default), or items of your own. ``probe=`` is one of :data:`PROBE_KINDS` or
    a registered one. Further options are the fields of :class:`ProbeSettings`, or ``settings`` has them all.

    Raises the errors of :mod:`workbench.errors`, in one line each.

    Example:
        ```python
        import workbench

        report = workbench.probe("novels-encoder", "pos", limit=60, seeds=1, random_weights=False)
        print(report)
        ```
    """
    name = task if isinstance(task, str) else task.task
    recipe = settings_of(ProbeSettings, settings, options if settings else {"task": name, **options})
    if recipe.task != name:
        raise TaskError(f"the settings are of task {recipe.task!r}, the task is {name!r}; name one")
    data = None if isinstance(task, str) else task
    return run_experiment(as_model(model), recipe, data=data, progress=progress)


def check_kind(kind: str) -> None:
    """Raise :class:`TaskError` for an unknown probe, or a registered one that no experiment runs."""
    if kind in PROBE_KINDS or one_layer(kind):
        return
    if kind in PROBES:
        raise TaskError(
            f"probe {kind!r} reads {PROBES.get(kind).reads}; experiments run probes of your own that read one layer"
        )
    raise UnknownName("probe", kind, [*PROBE_KINDS, *PROBES.names()])


def run_experiment(
    model: LoadedModel,
    settings: ProbeSettings,
    *,
    data: ProbeData | None = None,
    read: tuple[ProbeData, Split] | None = None,
    checkpointed: Checkpointed = not_stored,
    progress: bool = False,
) -> ProbeReport:
    """Run ``settings``; ``read`` is what :func:`read_data` gave, ``checkpointed`` stores finished parts."""
    check_kind(settings.probe)
    model = prompted(model, settings)
    if settings.probe == "structural":
        if data is not None:
            raise TaskError("a structural probe reads trees, not items with labels; name a treebank: data=")
        report = probe_trees(model, settings, checkpointed, progress)
    else:
        if read is None:
            read = read_data(settings) if data is None else (data, _split(data, settings))
        run = classify if one_layer(settings.probe) else mix
        report = run(prepare(model, settings, *read, progress=progress), settings, checkpointed, progress)
    if not settings.chat:
        return report
    system = f" behind the system message {settings.system!r}" if settings.system else ""
    return replace(report, stated=(*report.stated, f"each sentence is a user's message{system}"))


def _split(data: ProbeData, settings: ProbeSettings) -> Split:
    return split_items(data, settings.split, settings.test_share, settings.seed)


def layers_of(text: str) -> tuple[int, ...] | None:
    """``all`` as ``None``, ``0,3,6`` or ``0-6`` as numbers; raises :class:`TaskError` for anything else."""
    if text == "all":
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise TaskError(f"layers {text!r:.80} are no numbers; write all, 0,3,6 or 0-6")
        if len(first) > _LAYER_DIGITS or len(last) > _LAYER_DIGITS:
            raise TaskError(f"layers {text!r:.80} are more than any model has; write all, 0,3,6 or 0-6")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)
