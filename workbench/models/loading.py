"""Loading: a known name, a folder, a GGUF file or a hub id becomes a :class:`LoadedModel`.

Remote code is never run, and weights come from safetensors or GGUF only.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from workbench.errors import ModelError
from workbench.models._adapters import has_adapter, load_with_adapter
from workbench.models._checkpoints import checkpoint_path, expand_checkpoints, is_checkpoint_name
from workbench.models._device import resolve_device, resolve_dtype
from workbench.models._files import content_hash
from workbench.models._gguf import gguf_to_folder
from workbench.models._kind import auto_classes
from workbench.models._known import KNOWN_MODELS
from workbench.models._loaded import Kind, LoadedModel
from workbench.paths import user_path

__all__ = ["hub_answers", "load", "load_tokenizer", "local_path", "locate"]

IMPLEMENTATIONS = ("hf", "builtin")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True)
class _Source:
    """Where the files of a model are: a folder on disk or a hub id (then ``digest`` comes after loading)."""

    location: str
    path: Path | None
    digest: str | None = None
    offline: bool = True


def load(
    name: str,
    revision: str | None = None,
    dtype: str | torch.dtype = "auto",
    device: str = "auto",
    implementation: str = "hf",
) -> LoadedModel:
    """Load the model called ``name``: a known name, a local folder, a ``.gguf`` file or a hub id.

    ``dtype="auto"`` is bfloat16 on GPUs and on CPUs where it is fast, else float32. ``implementation``
    is ``"hf"`` (transformers' own classes) or ``"builtin"`` (the same weights in ``workbench.models``).
    Raises :class:`~workbench.errors.ModelError` in one line for anything that a user can mend.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ModelError(f"unknown implementation {implementation!r}; allowed: {', '.join(IMPLEMENTATIONS)}")
    where = resolve_device(device)
    precision = resolve_dtype(dtype, where)
    with _quiet():
        source = _find(name)
        tokenizer = _load_tokenizer(source, revision, name)
        kind, model = _load_weights(source, revision, precision, name)
        if implementation == "builtin":
            from workbench.models.imports import to_builtin

            model = to_builtin(model)
    return LoadedModel(
        model=model.to(where).eval(),
        tokenizer=tokenizer,
        kind=kind,
        name=name,
        revision=revision or getattr(model.config, "_commit_hash", None),
        dtype=precision,
        device=where,
        implementation=implementation,
        content_hash=source.digest or _hash_of(source, revision),
        path=source.path,
    )


def load_tokenizer(name: str, revision: str | None = None) -> Any:
    """Only the tokenizer of the model called ``name``."""
    with _quiet():
        return _load_tokenizer(_find(name), revision, name)


def locate(name: str) -> str:
    """The folder of the model called ``name``, or its hub id, as ``from_pretrained`` takes it."""
    with _quiet():
        return _find(name).location


def _find(name: str) -> _Source:
    if not name.strip():
        raise ModelError(
            f"empty model name; known: {', '.join(sorted(KNOWN_MODELS))}, or a folder, file or hub id"
        )
    if is_checkpoint_name(name):
        name = _one_checkpoint(name)
    path = KNOWN_MODELS[name].locate() if name in KNOWN_MODELS else user_path(name)
    if path.suffix == ".gguf" and path.is_file():
        folder, digest = gguf_to_folder(path)
        return _Source(str(folder), folder, digest)
    if path.is_dir():
        _check_folder(path)
        return _Source(str(path), path, content_hash(path.glob("*.safetensors")))
    if path.suffix in {".bin", ".pt", ".pth", ".ckpt", ".pkl"}:
        raise ModelError(f"{path} is a pickle checkpoint, which can run code when read; {_CONVERT}")
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


_CONVERT = (
    "convert it where you trust it: "
    'python -c "from transformers import AutoModel as M; M.from_pretrained(OLD).save_pretrained(NEW)"'
)


def _known() -> str:
    return ", ".join(sorted(KNOWN_MODELS))


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file() and not has_adapter(folder):
        raise ModelError(
            f"folder {folder} holds no config.json; a model folder has config.json and *.safetensors"
        )
    if not any(folder.glob("*.safetensors")):
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
            raise ModelError(
                f"folder {folder} holds only pickle weights, which can run code when read; {_CONVERT}"
            )
        raise ModelError(f"folder {folder} holds no *.safetensors weights")


def _load_tokenizer(source: _Source, revision: str | None, name: str) -> Any:
    from transformers import AutoTokenizer

    import workbench.models.auto  # noqa: F401  (the Auto classes learn the built-in models)

    try:
        return AutoTokenizer.from_pretrained(
            source.location, revision=revision, local_files_only=source.offline
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _explain(error, source, name) from error


def _load_weights(source: _Source, revision: str | None, dtype: torch.dtype, name: str) -> tuple[Kind, Any]:
    import transformers

    import workbench.models.auto  # noqa: F401  (the Auto classes learn the built-in models)

    if source.path is not None and has_adapter(source.path):
        return load_with_adapter(source.path, dtype)
    try:
        config = transformers.AutoConfig.from_pretrained(
            source.location, revision=revision, local_files_only=source.offline
        )
        for kind, auto in auto_classes(config):
            model, report = getattr(transformers, auto).from_pretrained(
                source.location,
                revision=revision,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=source.offline,
                output_loading_info=True,
            )
            # A pooler may be missing from a checkpoint; a head may not: then the model is of a lesser kind.
            missing = [key for key in report["missing_keys"] if "pooler" not in key]
            if not missing:
                return kind, model
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise _explain(error, source, name) from error
    raise ModelError(
        f"{name}: the checkpoint lacks weights of {type(model).__name__}: {', '.join(missing[:3])} ..."
    )


def _explain(error: Exception, source: _Source, name: str) -> ModelError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    if "trust_remote_code" in str(error) or "custom code" in str(error):
        return ModelError(f"{name}: the model needs code from its repository, which is never run here")
    if source.path is not None:
        return ModelError(f"{name}: cannot load from {source.location}: {reason}")
    if source.offline:
        return ModelError(
            f"no model {name!r}: no known name ({_known()}), no local folder, and the hub cannot be reached "
            "while its cache on this machine holds no such model"
        )
    return ModelError(
        f"no model {name!r}: no known name ({_known()}), no local folder, and the hub says: {reason}"
    )


def hub_answers() -> bool:
    """Whether the hub can be reached; without this question its client tries for a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} & os.environ.keys():
        return True
    url = urlsplit(constants.ENDPOINT)
    try:
        with socket.create_connection((url.hostname or "", url.port or 443), timeout=5):
            return True
    except OSError:
        return False


def _hash_of(source: _Source, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        source.location, revision=revision, allow_patterns="*.safetensors", local_files_only=source.offline
    )
    return content_hash(Path(folder).glob("*.safetensors"))


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no advice from transformers while it loads; restored afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
