"""Run all checks; one that breaks down is a failed check, never the end of the examination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from tqdm.auto import tqdm

from workbench.errors import WorkbenchError
from workbench.evaluate.doctor import _internals, _invariance, _outputs
from workbench.evaluate.doctor._records import Check, Finding, NotApplicable, Report, Status
from workbench.models import LoadedModel, as_model
from workbench.trace.attention_hook import active

__all__ = ["CHECKS", "examine", "self_check"]

# name -> what finds out; they run in this order
CHECKS: dict[str, Callable[[LoadedModel], Finding]] = {
    "vocabulary_fits": _outputs.vocabulary_fits,
    "bos_once": _outputs.bos_once,
    "round_trip": _outputs.round_trip,
    "finite_outputs": _invariance.finite_outputs,
    "batch_size": _invariance.batch_size,
    "right_padding": _invariance.right_padding,
    "left_padding": _invariance.left_padding,
    "longest_text": _invariance.longest_text,
    "eager_equals_sdpa": _invariance.eager_equals_sdpa,
    "attention_rows": _internals.attention_rows,
    "causal_attention": _internals.causal_attention,
    "causal_outputs": _internals.causal_outputs,
    "cached_generation": _outputs.cached_generation,
    "probabilities_sum": _outputs.probabilities_sum,
    "scorer_log_probabilities": _outputs.scorer_log_probabilities,
    "gradient": _internals.gradient,
}

# a model's weights, tokenizer and so on when it was examined, and what was found
_examined: WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()


def examine(model: LoadedModel | str, progress: bool = False) -> Report:
    """Check the numerics of ``model``: padding, batching, attention, BOS, cache, probabilities, gradients.

    The model is left as it was: attention implementations are switched in context managers, the gradient
    works on a copy. ``model.lock`` is held during each check. Nothing is raised for what is wrong with the
    model; that is a check with status ``fail``. ``model`` may be a name, as :func:`workbench.load` takes it.

    Example:
        ```python
        import workbench

        report = workbench.doctor("novels-decoder")
        print(report.verdict)
        print(report.to_frame())
        ```
    """
    model = as_model(model)
    names = tqdm(CHECKS, unit="check", leave=False, disable=not progress)
    return Report(tuple(_run(name, model) for name in names))


def self_check(
    model: LoadedModel, wanted: bool, progress: bool = False
) -> Callable[[], dict[str, Any]] | None:
    """What :meth:`workbench.runs.RunFolder.examine` takes: :func:`examine` as it is stored, or ``None`` to skip it.

    A model that did not fail is not examined again by further runs of this process, until its weights, tokenizer, hooks
    or forward functions change.
    """

    def verdict() -> dict[str, Any]:
        known, found = _examined.get(model.model, (None, {}))
        if known != _state(model):
            report = examine(model, progress)
            found = report.to_dict()
            # A failure may be a passing one, out of memory for example. The state is that after the examination, since
            # transformers installs hooks of its own in a first pass.
            if report.verdict != Status.FAIL:
                _examined[model.model] = (_state(model), found)
        return found

    return verdict if wanted else None


def _state(model: LoadedModel) -> tuple[Any, ...]:
    """What decides the verdict: weights, types, tokenizer, hooks, replaced forward functions, and who is watching."""
    modules = list(model.model.modules())
    hooks = tuple(key for m in modules for key in (*m._forward_hooks, *m._forward_pre_hooks))
    forwards = tuple(id(m.__dict__["forward"]) for m in modules if "forward" in m.__dict__)
    attention = getattr(model.config, "_attn_implementation", None)
    runs = (model.kind, model.model.training, attention, hooks, forwards, active())
    return (model.content_hash, model.dtype, model.device, model.tokenizer, model.prompt, runs)


def _run(name: str, model: LoadedModel) -> Check:
    try:
        with model.lock:
            found = CHECKS[name](model)
    except NotApplicable as reason:
        return Check(name, Status.SKIP, None, None, str(reason))
    # Whatever a broken model raises is what the check has found.
    except Exception as error:
        return Check(name, Status.FAIL, None, None, _one_line(error))
    return Check(name, found.status, found.value, found.tolerance, found.detail)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return text if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {text}"
