"""``workbench.changes``: what training changed inside a model, from before to after or along its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from probes.training_changes.comparison import ChangesInProgress
from probes.training_changes.settings import ChangesSettings
from workbench.analysis.changes import Changes
from workbench.characters import check_text
from workbench.errors import DataError, ModelError
from workbench.models import LoadedModel, as_model
from workbench.models.names import expand_checkpoints, is_checkpoint_name
from workbench.records import settings_of, takes_fields_of

__all__ = ["changes", "expanded"]


@takes_fields_of(ChangesSettings)
def changes(
    models: Sequence[LoadedModel | str],
    texts: Sequence[str],
    settings: ChangesSettings | None = None,
    *,
    open_model: Callable[[LoadedModel | str], LoadedModel] = as_model,
    progress: bool = False,
    **options: Any,
) -> Changes:
    """Compare the first of ``models``, before training, with each of the others by layer, head and token.

    Over ``texts``: KL(after || before) at each token; linear CKA of each layer with itself, beside that of words paired
    at random; the logit lens at each text's last token; entropy, distance and divergence of each head's attention. The
    distance of weights by layer and part needs no text. As ``settings`` name them, also the accuracy of probes, a
    direction between two groups of texts, and which tokens a reward rests on.

    A name ``FOLDER@step-*`` stands for all kept checkpoints of a training run. Two models at most are in memory at once
    where names are given, and the states or maps of one. Parts that a model cannot give are left out, and ``notes`` say
    why: what goes by token needs tokenizers that agree on ``texts``.

    Args:
        models: two or more, the one before training first.
        texts: what the models read.
        settings: all of them; or fields of :class:`ChangesSettings` by name.
        open_model: loads a model by its name.
        progress: show a bar.

    Raises:
        ModelError: fewer than two models, models of different depth, an encoder-decoder.
        DataError: no text, an empty text, a table that cannot be read.

    Example:
        ```python
        import workbench

        texts = ["She opened the letter and read it.", "He had left the house before dawn."]
        found = workbench.changes(["novels-decoder", "novels-decoder"], texts, parts=("kl", "weights"))
        print(found.summary())
        found.figure().save("changes.html")
        ```
    """
    chosen = settings_of(ChangesSettings, settings, options)
    names = expanded(models)
    read = _checked(texts)
    return ChangesInProgress(chosen, read, open_model, _labels(names)).run(names, progress)


def expanded(models: Sequence[LoadedModel | str]) -> list[LoadedModel | str]:
    """The models, with a training run's checkpoints in the place of ``FOLDER@step-*``; a step that repeats counts once.

    Raises :class:`~workbench.errors.ModelError` for fewer than two.
    """
    if isinstance(models, str):
        raise ModelError(
            f"models must be a list, got one str {models!r:.60}; name the model before and after"
        )
    found: list[LoadedModel | str] = []
    for model in models:
        several = isinstance(model, str) and is_checkpoint_name(model)
        folders = [str(folder) for folder in expand_checkpoints(str(model))] if several else [model]
        every = several and str(model).endswith("*")
        found += [folder for folder in folders if not (every and folder in found)]
    if len(found) < 2:
        given = ", ".join(str(getattr(model, "name", model)) for model in found) or "none"
        raise ModelError(f"a comparison needs a model before and one after training; got {given}")
    return found


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise DataError(f"texts must be a list, got one str {texts[:40]!r}; write [text]")
    read = [check_text(str(text), f"text {number}") for number, text in enumerate(texts)]
    if not read:
        raise DataError("no texts: give at least one")
    empty = next((number for number, text in enumerate(read) if not text.strip()), None)
    if empty is not None:
        raise DataError(f"text {empty} is empty; give at least one word")
    return read


def _labels(models: Sequence[LoadedModel | str]) -> list[str]:
    """A short name for each model, of which no two are alike."""
    names = [Path(getattr(model, "name", str(model))).name for model in models]
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return labels
