"""A function of your own as a model: texts in, probabilities of labels out, nothing inside to look at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from jaxtyping import Float

from workbench.errors import ModelError, NumericsError, WorkbenchError
from workbench.models._loaded import Kind
from workbench.shapes import Array
from workbench.terminal import counted, with_article

__all__ = [
    "FUNCTIONS_GO_WITH",
    "AnyText",
    "NoInternals",
    "TextFunction",
    "finite_logs",
    "in_a_line",
    "is_function",
    "wrap_function",
]

AnyText: TypeAlias = str | tuple[str, ...]

FUNCTIONS_GO_WITH = (
    "functions go with suites, text classification, and attribute (occlusion, lime, kernel_shap)"
)
_TOLERANCE = 1e-3  # by which a row's sum may differ from 1
_ROUNDING = 1e-6  # by which a probability may lie outside of 0 to 1
# what a LoadedModel has beside what a function has
_INTERNALS = {"model", "tokenizer", "config", "dtype", "lock", "revision", "implementation", "path"}
_INTERNALS |= {"max_length", "max_target_length", "looks_ahead", "num_parameters", "mask_id"}


class NoInternals(ModelError, AttributeError):
    """A function has nothing of what only a model has."""


@dataclass(frozen=True, eq=False, repr=False)
class TextFunction:
    """A function from texts to the probabilities of ``labels``, as :func:`workbench.wrap` makes it.

    ``predict`` gets a list of texts, or of tuples of texts where a task has pairs, and returns one row a text with one
    column a label. ``content_hash`` is ``None`` where what the function computes cannot be read from it.
    """

    predict: Callable[[list[Any]], Any]
    labels: tuple[str, ...]
    name: str
    content_hash: str | None = None
    kind: ClassVar[Kind] = Kind.FUNCTION
    device: ClassVar[str] = "cpu"  # as a model has one

    def __repr__(self) -> str:
        return f"<TextFunction {self.name}: {', '.join(self.labels)}>"

    def __getattr__(self, name: str) -> Any:
        if name in _INTERNALS:
            raise NoInternals(
                f"this needs a model's internals (its {name}); {self.name} is a function: {FUNCTIONS_GO_WITH}"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def require(self, *kinds: Kind, verb: str) -> None:
        """Raise :class:`~workbench.errors.ModelError` unless functions are among ``kinds``."""
        if Kind.FUNCTION not in kinds:
            wanted = with_article(" or ".join(kinds))
            raise ModelError(
                f"{verb} needs {wanted} model; {self.name} is a function from texts to labels: {FUNCTIONS_GO_WITH}"
            )

    def identity(self) -> dict[str, Any]:
        """What stands for the model in a run's record."""
        return {
            "name": self.name,
            "kind": str(self.kind),
            "labels": list(self.labels),
            "content_hash": self.content_hash,
        }

    def probabilities(self, texts: Sequence[AnyText]) -> Float[Array, "text label"]:
        """What the function returns for ``texts``, checked, in float64.

        Raises :class:`~workbench.errors.ModelError` if it fails or returns no probabilities, and
        :class:`~workbench.errors.NumericsError` for NaN and infinite numbers.
        """
        if not texts:
            return np.zeros((0, len(self.labels)))
        try:
            found = self.predict(list(texts))
        except WorkbenchError:
            raise
        except Exception as error:  # a function of a user's can raise anything
            single = isinstance(texts[0], str)
            given = counted(len(texts), "text" if single else "tuple") + ("" if single else " of texts")
            raise ModelError(
                f"{self.name} raised {in_a_line(error)} (given {given}, the first {texts[0]!r:.60})"
            ) from error
        return self._checked(found, texts)

    def _checked(self, found: Any, texts: Sequence[AnyText]) -> Float[Array, "text label"]:
        shape = len(texts), len(self.labels)
        wanted = f"one row a text and one column a label ({', '.join(self.labels)}): {shape}"
        try:
            rows = np.asarray(
                found.detach().cpu().double() if hasattr(found, "detach") else found, np.float64
            )
        except (TypeError, ValueError):
            rows = np.zeros(())
        if rows.ndim == 0:  # None, too, is a number for NumPy
            said = f"{type(found).__name__} {' '.join(repr(found).split())[:60]}"
            raise ModelError(f"{self.name} returned {said}; it must return numbers, {wanted}")
        if rows.shape != shape:
            raise ModelError(f"{self.name} returned numbers of shape {rows.shape}; they must be {wanted}")
        if (bad := _first(~np.isfinite(rows).all(1))) is not None:
            raise NumericsError(
                f"{self.name} returned {_shown(rows[bad])} for {texts[bad]!r:.60}, not finite numbers"
            )
        if (bad := _first(((rows < -_ROUNDING) | (rows > 1 + _ROUNDING)).any(1))) is not None:
            raise ModelError(
                f"{self.name} returned {_shown(rows[bad])} for {texts[bad]!r:.60}: probabilities are from 0 to 1; "
                "this looks like logits: apply softmax"
            )
        if (bad := _first(np.abs(rows.sum(1) - 1) > _TOLERANCE)) is not None:
            raise ModelError(
                f"{self.name} returned {_shown(rows[bad])} for {texts[bad]!r:.60}, which sum to "
                f"{rows[bad].sum():.4g}, not 1: this looks like logits, or like labels that do not exclude each other: "
                "apply softmax"
            )
        return rows.clip(0, 1)


def finite_logs(probabilities: Float[Array, "text label"]) -> Float[Array, "text label"]:
    """Natural logarithms, of 0 that of the smallest number: finite, as a head's logits are."""
    return np.log(probabilities.clip(np.finfo(np.float64).tiny))


def in_a_line(error: BaseException) -> str:
    """Type and words of an exception of a user's code, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(": ")


def is_function(model: Any) -> bool:
    """Whether ``model`` is a function for :func:`wrap_function`, rather than a transformers model or a name."""
    if isinstance(model, str) or hasattr(model, "get_input_embeddings"):
        return False
    return isinstance(model, TextFunction) or hasattr(model, "predict_proba") or callable(model)


def wrap_function(model: Any, labels: Sequence[Any] | None = None, name: str = "") -> TextFunction:
    """``model`` itself if it is wrapped already; else the function, or what has ``predict_proba``, with its labels.

    Without ``labels`` they are the function's own: its ``labels``, or the ``classes_`` of scikit-learn. Raises
    :class:`~workbench.errors.ModelError` for what cannot be called, and for columns without names.
    """
    if isinstance(model, TextFunction):
        return model
    owner = getattr(model, "__self__", model)
    called = name or getattr(model, "__name__", "") or type(model).__name__
    predict = getattr(model, "predict_proba", model)
    if not callable(predict):
        raise ModelError(
            f"{called} is a {type(model).__name__!r}, which cannot be called and has no predict_proba; give a function "
            "from a list of texts to probabilities"
        )
    columns = next(
        (
            c
            for c in (labels, getattr(model, "labels", None), getattr(owner, "classes_", None))
            if c is not None
        ),
        (),
    )
    names = _label_names(columns)
    if len(names) < 2 or len(set(names)) < len(names):
        have = (
            f"has the labels {', '.join(names)}"
            if names
            else "does not say which label each column stands for"
        )
        raise ModelError(
            f"{called} {have}; it needs two or more, each once, in the order of its columns: "
            "workbench.wrap(function, labels=('negative', 'positive')), or function.labels = (...) where it is defined"
        )
    return TextFunction(predict, names, called, _content_hash(owner, names))


def _label_names(columns: Any) -> tuple[str, ...]:
    """Names of columns; of classes that are numbered from 0 those that transformers gives to nameless outputs."""
    given = [columns] if isinstance(columns, str) else list(columns)
    numbered = [str(label) for label in given] == [str(i) for i in range(len(given))]
    return tuple(f"LABEL_{label}" if numbered else str(label) for label in given)


def _content_hash(owner: Any, labels: tuple[str, ...]) -> str | None:
    """SHA-1 of all that a scikit-learn estimator holds, as joblib hashes it; functions within count by their names.

    ``None`` for everything else: of a function only its code could be read, not the weights that it uses.
    """
    base: Any = sys.modules.get("sklearn.base")  # not imported: then no estimator is given
    if base is None or not isinstance(owner, base.BaseEstimator):
        return None
    from joblib.hashing import NumpyHasher  # type: ignore[import-untyped]

    class Hasher(NumpyHasher):
        """Estimators by what they hold, but for where vectorizers keep their stop words in memory."""

        def save(self, obj: Any) -> None:
            if isinstance(obj, base.BaseEstimator):
                held = {name: value for name, value in vars(obj).items() if name != "_stop_words_id"}
                obj = (type(obj).__qualname__, held)
            super().save(obj)

    try:
        return str(Hasher(hash_name="sha1").hash((owner, labels)))
    except Exception:  # what an estimator holds can refuse in any way
        return None


def _first(flags: Any) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def _shown(row: Array) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in row[:8]) + (", ...]" if len(row) > 8 else "]")
