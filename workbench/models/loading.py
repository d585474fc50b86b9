"""Loading: a known name, a folder, a GGUF file or a hub id becomes a :class:`LoadedModel`.

Remote code is never run, and weights come from safetensors or GGUF only.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from workbench.choices import DEFAULT_DTYPE
from workbench.errors import ModelError, WorkbenchError, WorkbenchWarning
from workbench.models._adapters import Adapter, has_adapter, load_base, read_adapter, with_adapter
from workbench.models._folders import check_config, check_folder, check_weights, refuse_pickle
from workbench.models._gguf import gguf_to_folder
from workbench.models._kind import auto_classes, keep_sparse_attention
from workbench.models._loaded import Kind, LoadedModel
from workbench.models.device import resolve_device, resolve_dtype
from workbench.models.function_names import is_function_name
from workbench.models.functions import FUNCTIONS_GO_WITH, NoInternals
from workbench.models.measured import looks_ahead, takes_order
from workbench.models.names import KNOWN_MODELS, checkpoint_path, expand_checkpoints, is_checkpoint_name
from workbench.models.weights import content_hash, remember_files
from workbench.paths import user_path
from workbench.pretrained import from_pretrained, hub_answers, quiet, reason
from workbench.text.load import holds_tokenizer, open_tokenizer

__all__ = ["load", "load_tokenizer", "local_path", "locate"]

IMPLEMENTATIONS = ("hf", "builtin")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True)
class _Source:
    """Where the files of a model are: a folder on disk or a hub id (then ``digest`` comes after loading).

    A folder with an ``adapter`` has the source of its ``base`` model beside it.
    """

    location: str
    path: Path | None
    digest: str | None = None
    offline: bool = True
    adapter: Adapter | None = None
    base: _Source | None = None


def load(
    name: str,
    revision: str | None = None,
    dtype: str | torch.dtype = DEFAULT_DTYPE,
    device: str = "auto",
    implementation: str = "hf",
) -> LoadedModel:
    """Load the model called ``name``: a known name, a local folder, a ``.gguf`` file or a hub id.

    ``dtype`` is float32 everywhere by default; "bfloat16" halves memory, and "auto" is bfloat16 where that is fast.
    ``implementation``
    is ``"hf"`` (transformers' own classes) or ``"builtin"`` (the same weights in ``workbench.models``).
    Raises :class:`~workbench.errors.ModelError` in one line for anything that a user can mend.

    Example:
        ```python
        import workbench

        model = workbench.load("novels-decoder")
        print(model.kind, model.num_parameters)
        ```
    """
    if implementation not in IMPLEMENTATIONS:
        raise ModelError(f"unknown implementation {implementation!r}; allowed: {', '.join(IMPLEMENTATIONS)}")
    where = resolve_device(device)
    precision = resolve_dtype(dtype, where)
    with quiet():
        source = _find(name)
        tokenizer = _load_tokenizer(source, revision, name)
        kind, model = _load_weights(source, revision, precision, name, len(tokenizer))
        if implementation == "builtin":
            from workbench.models.imports import to_builtin

            model = to_builtin(model)
    model = model.to(where).eval()
    remember_files(model, _digest(source, revision))
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        kind=kind,
        name=name,
        revision=revision or getattr(model.config, "_commit_hash", None),
        dtype=precision,
        device=where,
        implementation=implementation,
        path=source.path,
    )


def load_tokenizer(name: str, revision: str | None = None) -> Any:
    """Only the tokenizer of the model called ``name``."""
    with quiet():
        return _load_tokenizer(_find(name), revision, name)


def locate(name: str) -> str:
    """The folder of the model called ``name``, or its hub id, as ``from_pretrained`` takes it."""
    with quiet():
        return _find(name).location


def _find(name: str) -> _Source:
    if not name.strip():
        raise ModelError(
            f"empty model name; known: {', '.join(sorted(KNOWN_MODELS))}, or a folder, file or hub id"
        )
    if is_function_name(name):
        raise NoInternals(
            f"this needs a model's internals; {name} names a function: {FUNCTIONS_GO_WITH}, by this name on the "
            "command line, in Python as the function itself"
        )
    if is_checkpoint_name(name):
        name = _one_checkpoint(name)
    path = KNOWN_MODELS[name].locate() if name in KNOWN_MODELS else user_path(name)
    if path.suffix == ".gguf" and path.is_file():
        folder, digest = gguf_to_folder(path, name)
        return _Source(str(folder), folder, digest)
    if path.is_dir():
        check_folder(path)
        digest = content_hash(path.glob("*.safetensors"))
        return _with_base(path, digest, name) if has_adapter(path) else _Source(str(path), path, digest)
    if path.suffix in {".bin", ".pt", ".pth", ".ckpt", ".pkl"}:
        raise refuse_pickle(path)
    if (
        path.is_file()
        or path.suffix == ".gguf"
        or name.startswith((".", "/", "~"))
        or not _HUB_ID.fullmatch(name)
    ):
        raise ModelError(
            f"no model at {name!r}: expected a folder, a .gguf file, a hub id or one of {_known()}"
        )
    near = get_close_matches(name, KNOWN_MODELS, n=1, cutoff=0.8)
    if near and "/" not in name:
        raise ModelError(f"no model {name!r}; did you mean {near[0]!r}?")
    return _Source(name, None, offline=not hub_answers())


def local_path(name: str) -> Path | None:
    """What :func:`load` would read for ``name`` on this machine's disk; ``None`` for a known name or a hub id.

    Raises :class:`~workbench.errors.DataError` for a name that is no path.
    """
    if name in KNOWN_MODELS:
        return None
    path = checkpoint_path(name) if is_checkpoint_name(name) else user_path(name)
    return None if _HUB_ID.fullmatch(name) and not path.exists() else path


def _one_checkpoint(name: str) -> str:
    """The folder of ``MODEL@step-N``; several cannot be one model."""
    found = expand_checkpoints(name)
    if name.endswith("*"):
        raise ModelError(
            f"{name!r} is {len(found)} models; name one, such as {name[:-1]}{found[-1].name[5:]}"
        )
    return str(found[0])


def _with_base(folder: Path, digest: str, name: str) -> _Source:
    """An adapter's folder and the source of the model that it belongs to."""
    with _explained(_Source(str(folder), folder), name):
        adapter = read_adapter(folder)
    try:
        base = _find(adapter.base)
    except ModelError as error:
        raise ModelError(f"{name} is an adapter, and its base model cannot be found: {error}") from None
    if base.adapter is not None:
        raise ModelError(f"{name} is an adapter on another adapter, {adapter.base}; merge that one first")
    return _Source(str(folder), folder, digest, base.offline, adapter, base)


def _known() -> str:
    return ", ".join(sorted(KNOWN_MODELS))


def _load_tokenizer(source: _Source, revision: str | None, name: str) -> Any:
    import workbench.models.auto  # noqa: F401  (the Auto classes learn the built-in models)

    if source.base is not None and source.path is not None and not holds_tokenizer(source.path):
        source, revision = source.base, None
    with _explained(source, name):
        return open_tokenizer(source.location, revision=revision, local_files_only=source.offline)


def _load_weights(
    source: _Source, revision: str | None, dtype: torch.dtype, name: str, tokens: int
) -> tuple[Kind, Any]:
    """The model and what it can be asked; ``tokens`` is the size of the tokenizer's vocabulary."""
    import workbench.models.auto  # noqa: F401  (the Auto classes learn the built-in models)

    with _explained(source, name):
        if source.adapter is None or source.base is None:
            return _load_plain(source, revision, dtype, name)
        if source.adapter.task is None:
            kind, model = _load_plain(source.base, None, dtype, source.adapter.base)
        else:
            location, offline = source.base.location, source.base.offline
            kind, model = load_base(source.adapter, location, dtype, local_files_only=offline)
        return kind, with_adapter(model, source.adapter, tokens)


def _load_plain(source: _Source, revision: str | None, dtype: torch.dtype, name: str) -> tuple[Kind, Any]:
    import transformers

    from workbench.models.auto import auto_class

    where = {"revision": revision, "local_files_only": source.offline}
    config = from_pretrained(transformers.AutoConfig, source.location, **where)
    check_config(config, source.location)
    both_sides = ""
    for kind, auto in auto_classes(config):
        model, report = from_pretrained(
            auto_class(auto),
            source.location,
            dtype=dtype,
            use_safetensors=True,
            output_loading_info=True,
            **where,
        )
        # A pooler may be missing from a checkpoint; a head may not: then the model is of a lesser kind.
        missing = [key for key in report["missing_keys"] if "pooler" not in key]
        if missing:
            continue
        keep_sparse_attention(model)
        if kind is Kind.MASKED and model.can_generate() and not looks_ahead(model):
            kind = Kind.CAUSAL  # FlauBERT has one class for both of its kinds of training
        if kind is not Kind.CAUSAL or not looks_ahead(model):
            check_weights(model, report["unexpected_keys"], source.location)
            return kind, _said(model, kind, both_sides, name)
        both_sides = type(model).__name__
        if takes_order(model):  # an encoder, whose head scores texts in a pass of another kind
            check_weights(model, report["unexpected_keys"], source.location)
            return Kind.ENCODER, _said(model, Kind.ENCODER, both_sides, name)
    raise ModelError(
        f"{name}: the checkpoint lacks weights of {type(model).__name__}: {', '.join(missing[:3])} ..."
    )


@contextmanager
def _explained(source: _Source, name: str) -> Iterator[None]:
    """Whatever transformers, tokenizers, safetensors or peft raise for broken files becomes one line."""
    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:  # a broken file can raise anything
        raise _explain(error, source, name) from error


def _said(model: Any, kind: Kind, both_sides: str, name: str) -> Any:
    """The model; with a warning if it has a language-model head that cannot be used from left to right."""
    if both_sides and kind is Kind.ENCODER:
        scores = "no scores; it is loaded as an encoder, without its head"
        if takes_order(model):
            scores = (
                "no scores; it is loaded as an encoder, and scored from left to right (workbench surprisal)"
            )
        warnings.warn(
            f"{name}: {both_sides} sees the whole text where it predicts a token, so that its predictions are {scores}",
            WorkbenchWarning,
            stacklevel=4,
        )
    return model


def _explain(error: Exception, source: _Source, name: str) -> ModelError:
    problem = reason(error)
    if source.path is not None:
        return ModelError(f"{name}: cannot load from {source.location}: {problem}")
    if source.offline:
        return ModelError(
            f"no model {name!r}: no known name ({_known()}), no local folder, and the hub cannot be reached "
            "while its cache on this machine holds no such model"
        )
    return ModelError(
        f"no model {name!r}: no known name ({_known()}), no local folder, and the hub answers: {problem}"
    )


def _digest(source: _Source, revision: str | None) -> str:
    """SHA-256 over the weight files, those of an adapter's base included."""
    own = source.digest or _hub_digest(source, revision)
    if source.base is None:
        return own
    return hashlib.sha256(f"{own} on {_digest(source.base, None)}".encode()).hexdigest()


def _hub_digest(source: _Source, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        source.location, revision=revision, allow_patterns="*.safetensors", local_files_only=source.offline
    )
    return content_hash(Path(folder).glob("*.safetensors"))
