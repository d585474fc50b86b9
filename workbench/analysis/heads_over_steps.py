"""What heads do at every kept step of a model's training: a stored survey a step, read back as statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from workbench.analysis.heads import SURVEYED
from workbench.analysis.survey import SurveySettings, survey
from workbench.errors import DataError, did_you_mean
from workbench.models import LoadedModel, load
from workbench.models.names import checkpoints_of, step_of
from workbench.runs import Run, reads_runs
from workbench.statistics import Statistic, join_statistics

__all__ = ["head_statistics_of", "heads_over_steps"]


@reads_runs
def head_statistics_of(run: Run) -> dict[str, Statistic]:
    """The (layer, head) statistics that a run of ``workbench attend`` stored; empty for any other run."""
    arrays = run.arrays()
    return {
        name: Statistic(
            name=name,
            unit=about.get("unit", ""),
            values=arrays[name],
            axes=("layer", "head"),
            standard_error=arrays.get(f"{name} (standard error)"),
            note=about.get("note", ""),
        )
        for name, about in run.notes.get("statistics", {}).items()
        if name in arrays
    }


def heads_over_steps(
    name: str,
    settings: SurveySettings,
    statistic: str = "entropy",
    *,
    out: Path | None = None,
    progress: bool = False,
    load: Callable[[str], LoadedModel] = load,
    tell: Callable[[int, Run], None] = lambda step, run: None,
) -> Statistic:
    """One statistic of every head over a corpus at each training step, with axes ``step``, ``layer`` and ``head``.

    ``name`` is a training run's folder, or ``FOLDER@step-*``. Each checkpoint gets a run of :func:`survey`, which is
    used again where it is stored already; ``load`` opens a checkpoint's folder, ``tell`` is called after each run.
    Raises :class:`~workbench.errors.ModelError` if there are no checkpoints, :class:`~workbench.errors.DataError` for
    a statistic that there is none of, or, after the first checkpoint, that its runs do not hold ("[CLS]" of a decoder),
    and as :func:`survey` does.

    Example:
        ```python
        from pathlib import Path

        from workbench.analysis.heads_over_steps import heads_over_steps
        from workbench.analysis.survey import SurveySettings
        from workbench.training.pretrain import train
        from workbench.training.settings import DataSource, LoopSettings, ModelSource, Optimisation, TrainSettings

        Path("corpus.txt").write_text("The cat sat on the mat, and the dog sat beside it.\\n" * 400)
        Path("texts.txt").write_text("The dog sat.\\nThe cat sat beside the mat.\\n")
        settings = TrainSettings(
            model=ModelSource(preset="llama-tiny"),
            data=DataSource(corpus="corpus.txt", tokenizer="byte-bpe", vocab_size=300, length=32),
            optimisation=Optimisation(steps=4, batch_size=4),
            loop=LoopSettings(keep_steps=(0, 2, 4)),
        )
        train(settings, Path("trained"))
        found = heads_over_steps("trained", SurveySettings(corpus="texts.txt"), "previous token")
        print(found, found.figure().save("heads.html"))
        ```
    """
    known = [*SURVEYED, *(["importance"] if settings.importance else [])]
    if statistic not in known:
        raise DataError(f"no statistic {statistic!r} of heads; {did_you_mean(statistic, known)}")
    found: dict[int, Statistic] = {}
    for folder in checkpoints_of(name):
        run = survey(load(str(folder)), settings, out=out, progress=progress, again=False)
        stored = head_statistics_of(run)
        if statistic not in stored:
            raise DataError(
                f"no statistic {statistic!r} of heads in {run.path}; {did_you_mean(statistic, list(stored))}"
            )
        found[step_of(folder)] = stored[statistic]
        tell(step_of(folder), run)
    return replace(join_statistics(found, "step"), name=statistic, count=None)
