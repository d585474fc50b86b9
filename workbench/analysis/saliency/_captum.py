"""Captum's methods on an embedding model: DeepLift, GradientShap, LIME, KernelSHAP, and those of layers.

KernelSHAP's estimate is of Shapley values, which of few parts are computed from all subsets instead.

Texts are taken one at a time, without padding, so that scores and draws do not depend on the batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench.analysis.saliency._integrated import SMALLEST
from workbench.analysis.saliency._methods import METHODS, Raw, SaliencyMethod, SaliencyOptions
from workbench.analysis.saliency._shapley import enumerates, shapley_passes, shapley_values, surrogate_samples
from workbench.analysis.saliency.embedding_model import EmbeddingModel
from workbench.analysis.saliency.occlusion import windows_of
from workbench.errors import TaskError, TraceError
from workbench.trace import Stack, structure_of
from workbench.trace.parts import parts_of

__all__ = ["EmbeddingModule", "captum", "seeded", "single_reads", "tapped"]


class EmbeddingModule(nn.Module):
    """A embedded as a module: embeddings (N, T, D) and question numbers (N,) to scores (N,)."""

    def __init__(self, embedded: EmbeddingModel) -> None:
        super().__init__()
        self.model = embedded.model.model  # a sub-module, so that hooks on its layers are found
        self._seam = embedded

    def forward(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        """Score each row."""
        return self._seam.score(embeddings, rows)


def captum(method: str) -> Any:
    """The ``captum.attr`` module; raises :class:`TaskError` with the install command if it is missing."""
    try:
        import captum.attr
    except ImportError:
        raise TaskError(f"{method} needs Captum: pip install captum") from None
    return captum.attr


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Captum draws from the global generators: seed them here, and put them back as they were."""
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # notices about hooks that it sets and removes
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)


@contextmanager
def tapped(block: nn.Module) -> Iterator[nn.Module]:
    """A module through which the hidden states pass on their way out of ``block``.

    Captum hooks modules that give tensors alone; a layer may give weights or ``None`` beside its states.
    """
    tap, forward = nn.Identity(), block.forward

    def through(*inputs: Any, **options: Any) -> Any:
        output = forward(*inputs, **options)
        return tap(output) if isinstance(output, Tensor) else (tap(output[0]), *output[1:])

    block.forward = through
    try:
        yield tap
    finally:
        del block.forward  # the class's own is found again


def single_reads(embedded: EmbeddingModel, row: int) -> list[EmbeddingModel]:
    """One question as seams of one pass each, whose scores add up to the question's own."""
    question = embedded.questions[row]
    return [
        embedded.asking(
            [
                replace(
                    question,
                    reads=(read,),
                    parts=tuple(replace(part, read=0) for part in question.parts if part.read == number),
                )
            ],
            slice(row, row + 1),
        )
        for number, read in enumerate(question.reads)
    ]


SHAP_SAMPLES = 50


LAYER_STEPS, MOST_LAYER_STEPS = 32, 256


KERNEL_WIDTH = 0.25  # of LIME, on cosine distance


def _each(
    embedded: EmbeddingModel,
    score: Callable[[EmbeddingModel, int, Tensor, Tensor], tuple[Tensor, int | None]],
) -> Raw:
    """Run ``score(embedded, row, embeddings, baseline)`` for each text alone; (1, T, D) without padding."""
    scores = torch.zeros(
        embedded.attributed.shape, dtype=embedded.embeddings.dtype, device=embedded.embeddings.device
    )
    steps: list[int | None] = []
    for row, length in enumerate(embedded.lengths):
        own, taken = score(
            embedded, row, *(t[row : row + 1, :length] for t in (embedded.embeddings, embedded.baseline))
        )
        scores[row, :length] = own
        steps.append(taken)
    return Raw(scores, tuple(steps))


def _deeplift(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    attr = captum("deeplift")

    def score(
        embedded: EmbeddingModel, row: int, embeddings: Tensor, baseline: Tensor
    ) -> tuple[Tensor, None]:
        total = embeddings.new_zeros(embeddings.shape[1])
        for part in single_reads(embedded, row):
            found = attr.DeepLift(EmbeddingModule(part)).attribute(
                embeddings, baseline, additional_forward_args=(torch.tensor([0]),)
            )
            total += found.detach()[0].sum(-1)
        return total, None

    with seeded(options.seed):
        return _each(embedded, score)


def _gradient_shap(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
    attr = captum("gradient_shap")
    samples = options.samples or SHAP_SAMPLES

    def score(embedded: EmbeddingModel, row: int, embeddings: Tensor, baseline: Tensor) -> tuple[Tensor, int]:
        method = attr.GradientShap(EmbeddingModule(embedded))
        at_once = max(1, options.batch_tokens // embeddings.shape[1])
        total = embeddings.new_zeros(embeddings.shape[1])
        with seeded(options.seed):
            for start in range(0, samples, at_once):
                count = min(at_once, samples - start)
                found = method.attribute(
                    embeddings,
                    baseline,
                    n_samples=count,
                    stdevs=options.noise * float(embeddings.std()),
                    additional_forward_args=(torch.tensor([row]),),
                )
                total += found.detach()[0].sum(-1) * count / samples
        return total * embedded.attributed[row, : len(total)], samples

    return _each(embedded, score)


def _surrogate(
    name: str, make: Callable[[Any, Callable[..., Tensor]], Any]
) -> Callable[[EmbeddingModel, SaliencyOptions], Raw]:
    """LIME and KernelSHAP: a linear model of which parts are there; a window's weight is shared by its tokens."""

    def compute(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
        attr = captum(name)

        def score(
            embedded: EmbeddingModel, row: int, embeddings: Tensor, baseline: Tensor
        ) -> tuple[Tensor, int]:
            windows = windows_of(embedded.questions[row], options)
            samples = options.samples or surrogate_samples(len(windows))
            members = torch.zeros(len(windows), embeddings.shape[1], device=embeddings.device)
            for number, window in enumerate(windows):
                members[number, window] = 1

            def present(
                kept: Tensor,
            ) -> Tensor:  # (n, windows) of 0 and 1: a token goes with any of its windows
                gone = ((1 - kept.to(members)) @ members > 0)[..., None]
                return embedded.values(torch.where(gone, baseline, embeddings), torch.full((len(kept),), row))

            at_once = max(1, options.batch_tokens // embeddings.shape[1])
            if len(windows) == 1 or (name == "kernel_shap" and enumerates(len(windows), options)):
                samples = 2 ** len(windows)
                weights = shapley_values(len(windows), present, at_once)
            else:
                with seeded(options.seed):
                    weights = make(attr, present).attribute(
                        torch.ones(1, len(windows)),
                        torch.zeros(1, len(windows)),
                        n_samples=samples,
                        perturbations_per_eval=at_once,
                    )[0]
            sizes = members.sum(1, keepdim=True)
            return (weights.to(members)[:, None] * members / sizes).sum(0).to(embeddings), samples

        return _each(embedded, score)

    return compute


def _lime(attr: Any, forward: Callable[..., Tensor]) -> Any:
    from captum._utils.models.linear_model import SkLearnLinearRegression
    from captum.attr._core.lime import get_exp_kernel_similarity_function

    return attr.Lime(
        forward,
        interpretable_model=SkLearnLinearRegression(),
        similarity_func=get_exp_kernel_similarity_function("cosine", kernel_width=KERNEL_WIDTH),
    )


def _of_layer(name: str, class_name: str) -> Callable[[EmbeddingModel, SaliencyOptions], Raw]:
    def compute(embedded: EmbeddingModel, options: SaliencyOptions) -> Raw:
        method = getattr(captum(name), class_name)
        layer, module = _layer(embedded, options)

        def score(
            embedded: EmbeddingModel, row: int, embeddings: Tensor, baseline: Tensor
        ) -> tuple[Tensor, int]:
            parts = single_reads(embedded, row)
            difference = sum(
                float(part.values(embeddings, torch.tensor([0])) - part.values(baseline, torch.tensor([0])))
                for part in parts
            )
            steps = options.steps or LAYER_STEPS
            while True:
                total = sum(
                    _layer_scores(method, part, module, embeddings, baseline, steps, options)
                    for part in parts
                )
                assert isinstance(total, Tensor)
                error = abs(float(total.sum()) - difference)
                enough = error <= options.tolerance * max(abs(difference), SMALLEST)
                most = min(options.most_steps, MOST_LAYER_STEPS)
                if enough or options.steps is not None or 2 * steps > most:
                    return total, steps
                steps *= 2

        raw = _each(embedded, score)
        return Raw(raw.scores, raw.steps, layer)

    return compute


def _layer(embedded: EmbeddingModel, options: SaliencyOptions) -> tuple[int, torch.nn.Module]:
    """The module of a layer of the stack that reads the text; the middle one by default."""
    model = embedded.model.model
    stack = Stack.ENCODER if embedded.model.config.is_encoder_decoder else structure_of(model).main
    blocks = parts_of(model).blocks[stack]
    layer = (len(blocks) - 1) // 2 if options.layer is None else options.layer
    if not 0 <= layer < len(blocks):
        raise TraceError(f"layer {layer} is out of range: the {stack} has layers 0 to {len(blocks) - 1}")
    return layer, model.get_submodule(blocks[layer])


def _layer_scores(
    method: Any,
    embedded: EmbeddingModel,
    layer: torch.nn.Module,
    embeddings: Tensor,
    baseline: Tensor,
    steps: int,
    options: SaliencyOptions,
) -> Tensor:
    with seeded(options.seed), tapped(layer) as states:
        found = method(EmbeddingModule(embedded), states).attribute(
            embeddings.clone(),
            baseline.clone(),
            additional_forward_args=(torch.tensor([0]),),
            n_steps=steps,
            internal_batch_size=max(2, options.batch_tokens // embeddings.shape[1]),
        )
    tensor: Tensor = found if isinstance(found, Tensor) else found[0]
    return tensor.detach()[0].sum(-1)[: embeddings.shape[1]]


def _register(
    name: str,
    compute: Callable[[EmbeddingModel, SaliencyOptions], Raw],
    convention: str,
    source: str,
    passes: Callable[[int, SaliencyOptions], int],
    seeded: bool = False,
    inside: bool = False,
    unused_is_zero: bool = True,
    additive: bool = True,
    answers_only: bool = False,
) -> None:
    METHODS.register(
        name,
        SaliencyMethod(
            name=name,
            compute=compute,
            convention=convention,
            source=source,
            passes=passes,
            additive=additive,
            answers_only=answers_only,
            uses_baseline=True,
            seeded=seeded,
            inside=inside,
            unused_is_zero=unused_is_zero,
        ),
    )


_SHARE = "share of the difference from the baseline: positive speaks for the target"


_register(
    "deeplift",
    _deeplift,
    f"{_SHARE}; Captum's rescale rule at ReLU, tanh and sigmoid, plain gradients at every other nonlinearity",
    "Shrikumar et al. 2017, section 3.5.1",
    lambda tokens, options: 6,
)


_register(
    "gradient_shap",
    _gradient_shap,
    f"{_SHARE}, at random points of noisy paths",
    "Lundberg & Lee 2017; Erion et al. 2021",
    lambda tokens, options: 3 * (options.samples or SHAP_SAMPLES),
    seeded=True,
)


_register(
    "lime",
    _surrogate("lime", _lime),
    "weight in a linear model fitted to texts with parts taken out: positive speaks for the target",
    "Ribeiro et al. 2016, section 3.3",
    lambda tokens, options: options.samples or surrogate_samples(tokens),
    seeded=True,
    unused_is_zero=False,
    additive=False,
    answers_only=True,
)


_register(
    "kernel_shap",
    _surrogate("kernel_shap", lambda attr, forward: attr.KernelShap(forward)),
    "Shapley value, estimated where all subsets are too many: positive speaks for the target",
    "Lundberg & Lee 2017, section 4.1",
    shapley_passes,
    seeded=True,
    unused_is_zero=False,
    answers_only=True,
)


_register(
    "layer_integrated_gradients",
    _of_layer("layer_integrated_gradients", "LayerIntegratedGradients"),
    f"{_SHARE}, at the position in the layer's output",
    "Sundararajan et al. 2017, equation 1, at a layer",
    lambda tokens, options: 4 * (options.steps or LAYER_STEPS),
    inside=True,
    unused_is_zero=False,
)


_register(
    "layer_conductance",
    _of_layer("layer_conductance", "LayerConductance"),
    f"{_SHARE}, flowing through the position of the layer",
    "Dhamdhere et al. 2019, equation 2",
    lambda tokens, options: 4 * (options.steps or LAYER_STEPS),
    inside=True,
    unused_is_zero=False,
)
