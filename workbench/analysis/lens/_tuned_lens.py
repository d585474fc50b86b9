"""Tuned lens: an affine translator for each layer, trained so that what is read off it is what the model says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.analysis.lens._logit_lens import LensReading, lens_text, logit_lens, read_layers
from workbench.data.corpus import Corpus
from workbench.errors import DataError, ModelError, RunError
from workbench.models import Kind, LoadedModel, as_model
from workbench.records import takes_fields_of
from workbench.runs import make_folder, read_json, write_atomically, write_json
from workbench.text import PromptFormat
from workbench.trace import Text
from workbench.trace.residual import StackRun, check_stack, run_from, run_stack

__all__ = [
    "TunedLens",
    "TunedLensRecord",
    "find_tuned_lens",
    "lens",
    "load_tuned_lens",
    "save_tuned_lens",
    "train_tuned_lens",
    "tuned_lens",
    "tuned_lens_folder",
]

SCHEMA = 1


_WEIGHTS, _RECORD = "tuned_lens.safetensors", "tuned_lens.json"


@dataclass(frozen=True)
class TunedLensRecord:
    """Where a tuned lens comes from. ``model_hash`` is the model's content hash; a lens fits no other weights.

    ``logit_divergence`` and ``divergence`` are KL(output ‖ layer) in nats on text held out from training, for each
    layer from the embeddings on, before (the logit lens) and after.
    """

    model: str
    model_hash: str
    corpus: str
    corpus_sha256: str
    tokens: int
    steps: int
    seed: int
    learning_rate: float
    logit_divergence: tuple[float, ...]
    divergence: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class TunedLens:
    """Translators of all layers but the last: ``state + state @ matrices[i].T + biases[i]``; the last is as it is.

    Belrose et al. 2023, "Eliciting Latent Predictions from Transformers with the Tuned Lens", equation 8.
    """

    matrices: Float[Tensor, "layer D D"]  # the identity is not part of them
    biases: Float[Tensor, "layer D"]
    record: TunedLensRecord

    def translate(self, layer: int, state: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The state of ``layer`` (0: embeddings) as the last layer would have it."""
        if layer == len(self.matrices):
            return state
        matrix, bias = (t[layer].to(state) for t in (self.matrices, self.biases))
        return state + state @ matrix.T + bias


def tuned_lens(
    model: LoadedModel,
    lens: TunedLens,
    text: Text,
    *,
    target: str | None = None,
    contrast: str | None = None,
    target_text: Text | None = None,
    positions: Sequence[int] | None = None,
    top: int = 5,
) -> LensReading:
    """:func:`logit_lens` through the translators of ``lens``; the arguments are the same.

    Raises :class:`~workbench.errors.ModelError` for a lens of another model.
    """
    _check_model(lens.record, model)
    reading = lens_text(model, text, target_text)
    return read_layers(model, reading, lens.translate, "tuned", (target, contrast), positions, top)


@takes_fields_of(PromptFormat)
def lens(
    model: LoadedModel | str,
    text: Text,
    *,
    target: str | None = None,
    contrast: str | None = None,
    tuned: bool | str | Path | TunedLens = False,
    target_text: Text | None = None,
    positions: Sequence[int] | None = None,
    top: int = 5,
    **prompt: Any,
) -> LensReading:
    """What each layer of a model would predict for ``text``: :func:`logit_lens`, or :func:`tuned_lens`.

    Args:
        model: a model with a vocabulary head, or its name.
        text: what the model reads.
        target: a word whose log-probability and rank are followed, such as ``" Paris"``.
        contrast: another, for the margin between the two.
        tuned: a trained lens, the folder of one, or ``True`` for the one beside the model's weights.
        target_text: what the decoder of an encoder-decoder reads.
        positions: places to read, negative from the end; all by default.
        top: how many of each layer's likeliest tokens are kept.
        **prompt: how the model reads the text: fields of :class:`~workbench.text.PromptFormat`.

    Raises the errors of :func:`logit_lens`, and :class:`~workbench.errors.RunError` where there is no trained lens.

    Example:
        ```python
        import workbench

        reading = workbench.lens("novels-decoder", "She had never been so", target=" happy")
        print(reading.to_frame().tail())
        ```
    """
    model = as_model(model, **prompt)
    options: dict[str, Any] = {
        "target": target,
        "contrast": contrast,
        "target_text": target_text,
        "positions": positions,
        "top": top,
    }
    if tuned is False:
        return logit_lens(model, text, **options)
    if not isinstance(tuned, TunedLens):
        tuned = load_tuned_lens(tuned_lens_folder(model) if tuned is True else tuned, model)
    return tuned_lens(model, tuned, text, **options)


def _check_model(record: TunedLensRecord, model: LoadedModel) -> None:
    if record.model_hash != model.content_hash:
        raise ModelError(
            f"the tuned lens was trained on {record.model} ({record.model_hash[:12]}), not on the weights of "
            f"{model.name} ({model.content_hash[:12]}); train one: workbench lens MODEL TEXT --train CORPUS"
        )


def tuned_lens_folder(model: LoadedModel) -> Path:
    """Where a model's lens lies by default: ``tuned_lens`` beside its weights.

    Raises :class:`~workbench.errors.ModelError` for a model without a folder of its own.
    """
    if model.path is None:
        raise ModelError(f"{model.name} lies in no folder of its own; name one for its lens: --tuned FOLDER")
    return (model.path if model.path.is_dir() else model.path.parent) / "tuned_lens"


def save_tuned_lens(lens: TunedLens, folder: str | Path) -> Path:
    """Write a lens as safetensors and JSON, the JSON last; raises :class:`~workbench.errors.RunError` if it cannot."""
    from safetensors.torch import save

    target = make_folder(Path(folder))
    weights = save({"matrices": lens.matrices.contiguous(), "biases": lens.biases.contiguous()})
    write_atomically(target / _WEIGHTS, weights)
    write_json(target / _RECORD, {"schema": SCHEMA, **asdict(lens.record)})
    return target


def find_tuned_lens(folder: str | Path) -> Path:
    """``folder`` if a lens lies there; raises :class:`~workbench.errors.RunError` if none does."""
    source = Path(folder)
    if not (source / _RECORD).is_file():
        raise RunError(f"no tuned lens in {source}; train one: workbench lens MODEL TEXT --train CORPUS")
    return source


def load_tuned_lens(folder: str | Path, model: LoadedModel) -> TunedLens:
    """The lens in ``folder``, checked to be of this model's weights.

    Raises :class:`~workbench.errors.RunError` where there is none, and
    :class:`~workbench.errors.ModelError` where it is another model's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    source = find_tuned_lens(folder)
    values = read_json(source / _RECORD)
    if values.pop("schema", None) != SCHEMA:
        raise RunError(f"{source / _RECORD} is not of schema {SCHEMA}; train the lens again")
    try:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        record = TunedLensRecord(**fields)
        weights = load_file(source / _WEIGHTS)
        lens = TunedLens(weights["matrices"].to(model.device), weights["biases"].to(model.device), record)
    except (OSError, SafetensorError, TypeError, KeyError, json.JSONDecodeError) as error:
        raise RunError(f"the tuned lens in {source} is damaged: {error}") from error
    _check_model(record, model)
    return lens


_MASKED_SHARE = 0.15  # of the tokens of a masked model's text, as it was trained


_WARM_UP = 0.1  # share of the steps


@dataclass(frozen=True)
class _Blocks:
    """Rows of token ids, the last of them held out."""

    train: Int[Tensor, "row token"]
    held_out: Int[Tensor, "row token"]

    @property
    def tokens(self) -> int:
        """Tokens to train on."""
        return self.train.numel()


def train_tuned_lens(
    model: LoadedModel,
    corpus: Corpus,
    *,
    steps: int = 200,
    places: int = 128,
    length: int = 64,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> TunedLens:
    """Train a translator for each layer on KL(output ‖ layer) (Belrose et al. 2023, equation 9).

    By Adam, where they use SGD with momentum.

    Args:
        model: a decoder or a masked encoder; its weights stay as they are.
        corpus: lines of text, joined and cut into rows of ``length`` tokens; one row in ten is held out.
        steps: steps; each reads random rows and learns from ``places`` random places of them.
        places: places a step; of a masked model, masked ones.
        length: tokens of a row, special tokens included.
        learning_rate: the highest; it rises over the first tenth of the steps and falls to zero.
        seed: of the rows, the places and the masks.
        progress: wraps the numbers of the steps, such as tqdm.

    Raises:
        ModelError: another kind of model.
        DataError: fewer than two rows of text.
    """
    model.require(Kind.CAUSAL, Kind.MASKED, verb="training a tuned lens")
    check_stack(model)
    blocks = _blocks(model, corpus, min(length, model.max_length))
    random = torch.Generator().manual_seed(seed)
    count, width = _shape(model, blocks.train[:1])
    parameters = _parameters(count, width, model)
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _share(step, steps))
    for _ in progress(range(steps)):
        states, run = _draw(model, blocks.train, places, random)
        _step(model, run, states, parameters)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        schedule.step()
    matrices, biases = (p.detach() for p in parameters)
    before, after = _judge(model, blocks, (matrices, biases), places)
    record = TunedLensRecord(
        model=model.name,
        model_hash=model.content_hash,
        corpus=corpus.identity.name,
        corpus_sha256=corpus.identity.sha256,
        tokens=blocks.tokens,
        steps=steps,
        seed=seed,
        learning_rate=learning_rate,
        logit_divergence=before,
        divergence=after,
    )
    return TunedLens(matrices, biases, record)


def _blocks(model: LoadedModel, corpus: Corpus, length: int) -> _Blocks:
    """The corpus as rows of equal length, with the tokenizer's special tokens around each."""
    tokenizer = model.tokenizer
    lines = corpus.lines or [" ".join(tree.forms) for tree in corpus.trees]
    pieces = [
        ids for line in lines for ids in tokenizer(line, add_special_tokens=False, verbose=False).input_ids
    ]
    empty = list(tokenizer("").input_ids)
    whole = list(tokenizer("a").input_ids)
    opening = next((i for i, (a, b) in enumerate(zip(empty, whole, strict=False)) if a != b), len(empty))
    front, back = empty[:opening], empty[opening:]
    inner = length - len(empty)
    rows = (
        [front + pieces[i : i + inner] + back for i in range(0, len(pieces) - inner + 1, inner)]
        if inner > 1
        else []
    )
    if len(rows) < 2:
        raise DataError(
            f"{corpus.identity.name} has {len(pieces)} tokens, fewer than two rows of {length}; give a longer corpus"
        )
    ids = torch.tensor(rows)
    held = max(1, len(rows) // 10)
    return _Blocks(ids[:-held], ids[-held:])


def _shape(model: LoadedModel, ids: Int[Tensor, "1 T"]) -> tuple[int, int]:
    with torch.no_grad():
        run = run_stack(model, _inputs(model, ids))
    return run.layers, run.states[0].shape[-1]


def _inputs(model: LoadedModel, ids: Int[Tensor, "B T"]) -> dict[str, Tensor]:
    here = ids.to(model.device)
    return {"input_ids": here, "attention_mask": torch.ones_like(here)}


def _parameters(count: int, width: int, model: LoadedModel) -> list[Tensor]:
    """Zero: at first the lens is the logit lens."""
    shapes = ((count, width, width), (count, width))
    return [torch.zeros(shape, device=model.device, requires_grad=True) for shape in shapes]


def _share(step: int, steps: int) -> float:
    rise = max(1, int(_WARM_UP * steps))
    return (step + 1) / rise if step < rise else max(0.0, (steps - step) / max(1, steps - rise))


def _draw(
    model: LoadedModel, rows: Int[Tensor, "row token"], places: int, random: torch.Generator
) -> tuple[list[Float[Tensor, "1 N D"]], StackRun]:
    """States of every layer at random places of random rows, and a run to read them with."""
    wanted = max(1, round(places / (_MASKED_SHARE if model.kind is Kind.MASKED else 1) / rows.shape[1]))
    ids = rows[torch.randint(len(rows), (wanted,), generator=random)]
    chosen = torch.rand(ids.shape, generator=random)
    if model.kind is Kind.MASKED:
        special = torch.isin(ids, torch.tensor(model.tokenizer.all_special_ids))
        masked = (chosen < _MASKED_SHARE) & ~special
        ids = ids.masked_fill(masked, model.mask_id)
        flat = masked.flatten().nonzero()[:, 0]
    else:
        flat = chosen.flatten().argsort()[:places]
    flat = flat if len(flat) else torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        run = run_stack(model, _inputs(model, ids))
    here = flat.to(model.device)
    states = [state.detach().flatten(0, 1)[here][None] for state in run.states]
    first = {name: value[:1] for name, value in run.inputs.items()}
    return states, StackRun(run.states[:1], run.rests, run.logits[:1], first)


def _step(
    model: LoadedModel, run: StackRun, states: Sequence[Float[Tensor, "1 N D"]], parameters: Sequence[Tensor]
) -> None:
    """Gradients of all translators, one layer's logits at a time."""
    with torch.no_grad():
        final = run_from(model, run, run.layers, states[-1]).float().log_softmax(-1)
    gradients = [torch.zeros_like(p) for p in parameters]
    for layer, state in enumerate(states[:-1]):
        matrix, bias = (p[layer].detach().to(state.dtype).requires_grad_() for p in parameters)
        with torch.enable_grad():
            logits = run_from(model, run, run.layers, state + state @ matrix.T + bias)
            loss = _divergence(final, logits.float().log_softmax(-1)).mean()
            found = torch.autograd.grad(loss, (matrix, bias))
        for whole, part in zip(gradients, found, strict=True):
            whole[layer] = part
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _divergence(final: Float[Tensor, "1 N V"], layer: Float[Tensor, "1 N V"]) -> Float[Tensor, "1 N"]:
    return (final.exp() * (final - layer)).sum(-1)


def _judge(
    model: LoadedModel, blocks: _Blocks, parameters: tuple[Tensor, Tensor], places: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean divergence of every layer on held-out text, of the logit lens and of the tuned one."""
    states, run = _draw(model, blocks.held_out, 4 * places, torch.Generator().manual_seed(0))
    matrices, biases = parameters
    found: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        final = run_from(model, run, run.layers, states[-1]).float().log_softmax(-1)
        for layer, state in enumerate(states):
            last = layer == run.layers
            tuned = state if last else state + state @ matrices[layer].to(state).T + biases[layer].to(state)
            for read, values in zip((state, tuned), found, strict=True):
                logits = run_from(model, run, run.layers, read).float().log_softmax(-1)
                values.append(float(_divergence(final, logits).mean()))
    return tuple(found[0]), tuple(found[1])
