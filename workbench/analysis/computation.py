"""Which part of a built-in model each token uses: experts of a mixture, and steps of a Universal Transformer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import entr
from torch import Tensor, nn

from workbench.errors import TraceError
from workbench.models import LoadedModel
from workbench.models.outputs import StackOutput
from workbench.models.stack import LayerStack
from workbench.models.universal import UniversalStack
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Text
from workbench.trace.encoding import batches_of, encode_all, inputs_of, say_cut
from workbench.trace.structure import call_model

__all__ = ["ExpertUse", "expert_use", "halting_steps", "steps_of_tokens"]


@dataclass(frozen=True)
class ExpertUse:
    """How evenly the routers of a mixture use its experts, over the tokens of a corpus.

    ``share`` (layer, expert) is the share of routes that choose an expert. ``entropy`` (layer) is that of the shares in
    nats, ln E for even use; ``balance_loss`` (layer) is E Σ fᵢ Pᵢ, 1 for even use (Fedus et al. 2022, equation 4).
    """

    share: Statistic
    entropy: Statistic
    balance_loss: Statistic

    def to_frame(self) -> pd.DataFrame:
        """One row a layer: entropy, load-balance loss, and the share of each expert."""
        shares = self.share.to_frame().pivot(index="layer", columns="expert", values="value")
        shares.columns = [f"expert {number}" for number in shares.columns]
        values = {"entropy": self.entropy.values, "balance loss": self.balance_loss.values}
        return pd.concat([pd.DataFrame(values, index=shares.index), shares], axis=1).reset_index()

    def figure(self) -> Any:
        """The shares, drawn."""
        return self.share.figure()


def expert_use(
    model: LoadedModel, texts: Sequence[Text], *, batch_size: int = 8, max_length: int | None = None
) -> ExpertUse:
    """Where the routers of a built-in mixture of experts send the tokens of ``texts``, as evaluation routes them.

    Standard errors of the shares are over texts. Of an encoder-decoder, the encoder's routers.

    Raises :class:`~workbench.errors.TraceError` for a model that is no built-in mixture of experts.

    Example:
        ```python
        import workbench
        from workbench.analysis.computation import expert_use
        from workbench.models import wrap
        from workbench.models.presets import build

        tokenizer = workbench.load("novels-decoder").tokenizer
        mixture = build("switch-tiny").eval()
        print(expert_use(wrap(mixture, tokenizer), ["The boys at home", "She was"]).to_frame())
        ```
    """
    chosen, likely = [], []  # of each text: (layer, expert) routes, and summed probabilities

    def take(output: StackOutput, lengths: list[int], places: Tensor) -> None:
        routings = output.routings or ()
        for row in range(len(lengths)):
            here = places[row].bool()
            chosen.append(torch.stack([_routes(r.experts[row][here], r.probabilities) for r in routings]))
            likely.append(torch.stack([r.probabilities[row][here].double().sum(0) for r in routings]))

    stack = _stack_of(model)
    layers = [n for n, m in enumerate(stack.module_of_layer) if stack.layers[m].router is not None]
    if not layers:
        raise TraceError(f"{model.name} has no experts; those with feed_forward.experts have")
    _run(model, stack, texts, take, batch_size, max_length)
    counts, probabilities = (torch.stack(found).cpu().numpy() for found in (chosen, likely))
    return _use(counts, probabilities, tuple(layers))


def _routes(experts: Tensor, probabilities: Tensor) -> Tensor:
    """How many routes of the tokens (T, k) choose each expert: (E,)."""
    return torch.bincount(experts.flatten(), minlength=probabilities.shape[-1]).double()


def _use(counts: Array, probabilities: Array, layers: tuple[int, ...]) -> ExpertUse:
    """From counts and sums (text, layer, expert)."""
    share, error = _shares(counts)
    mean = probabilities.sum(0) / probabilities.sum((0, 2))[:, None]
    texts, experts = len(counts), counts.shape[-1]

    def of_layers(name: str, unit: str, values: Array) -> Statistic:
        return Statistic(
            name=name, unit=unit, values=values, axes=("layer",), labels={"layer": layers}, count=texts
        )

    shares = Statistic(
        name="share of tokens",
        unit="",
        values=share,
        axes=("layer", "expert"),
        labels={"layer": layers},
        standard_error=error,
        count=texts,
    )
    return ExpertUse(
        shares,
        of_layers("entropy of expert use", "nats", entr(share).sum(-1)),
        of_layers("load-balance loss", "", experts * (share * mean).sum(-1)),
    )


def _shares(counts: Array) -> tuple[Array, Array | None]:
    """Shares over all texts of counts (text, …, kind), and their standard error over texts: a ratio's, linearised."""
    totals, texts = counts.sum(-1, keepdims=True), len(counts)
    share: Array = counts.sum(0) / totals.sum(0)
    if texts == 1:
        return share, None
    spread = ((counts - share * totals) ** 2).sum(0) * texts / (texts - 1)
    return share, np.sqrt(spread) / totals.sum(0)


def halting_steps(
    model: LoadedModel, texts: Sequence[Text], *, batch_size: int = 8, max_length: int | None = None
) -> Statistic:
    """The share of tokens that halt after each number of steps, in a Universal Transformer (Dehghani et al. 2019).

    Standard errors are over texts. Of an encoder-decoder, the encoder. Its mean is in the note.

    Raises :class:`~workbench.errors.TraceError` for a model that does not halt.

    Example:
        ```python
        import workbench
        from workbench.analysis.computation import halting_steps
        from workbench.models import wrap
        from workbench.models.presets import build

        tokenizer = workbench.load("novels-decoder").tokenizer
        model = wrap(build("universal-tiny").eval(), tokenizer)
        print(halting_steps(model, ["The boys at home", "She was"]).to_frame())
        ```
    """
    stack = _halting_stack(model)
    most, counts = len(stack.kinds), []

    def take(output: StackOutput, lengths: list[int], places: Tensor) -> None:
        assert output.steps is not None
        for row in range(len(lengths)):
            counts.append(torch.bincount(output.steps[row][places[row]] - 1, minlength=most).double())

    _run(model, stack, texts, take, batch_size, max_length)
    found = torch.stack(counts).cpu().numpy()
    share, error = _shares(found)
    steps = tuple(range(1, most + 1))
    return Statistic(
        name="share of tokens that halt",
        unit="",
        values=share,
        axes=("step",),
        labels={"step": steps},
        standard_error=error,
        count=len(found),
        note=f"{float(share @ np.array(steps)):.2f} steps on average",
    )


def steps_of_tokens(model: LoadedModel, text: Text) -> Statistic:
    """How many steps each token of ``text`` takes in a Universal Transformer; see :func:`halting_steps`."""
    found: list[Array] = []

    def take(output: StackOutput, lengths: list[int], places: Tensor) -> None:
        assert output.steps is not None
        found.append(output.steps[0, : lengths[0]].cpu().numpy().astype(float))

    _run(model, _halting_stack(model), [text], take, 1, None)
    tokens = encode_all(model, [text])[0].alignment.tokens
    return Statistic(
        name="steps", unit="steps", values=found[0], axes=("token",), labels={"token": tuple(tokens)}
    )


def _halting_stack(model: LoadedModel) -> UniversalStack:
    stack = _stack_of(model)
    if not isinstance(stack, UniversalStack) or stack.halting is None:
        raise TraceError(f"no position of {model.name} halts early; those of models with depth.halting do")
    return stack


def _stack_of(model: LoadedModel) -> LayerStack:
    """The layers of a built-in model; of the encoder, where there are two sides."""
    found = [module for module in model.model.modules() if isinstance(module, LayerStack)]
    if not found:
        raise TraceError(f"{model.name} is no built-in transformer; allowed: models of workbench train")
    return found[0]


def _run(
    model: LoadedModel,
    stack: nn.Module,
    texts: Sequence[Text],
    take: Callable[[StackOutput, list[int], Tensor], None],
    batch_size: int,
    max_length: int | None,
) -> None:
    """Give ``take`` the stack's output of each batch, lengths of its texts, and where their tokens are (B, T)."""
    encoded = encode_all(model, texts, max_length)
    say_cut(encoded, model)
    body = model.model.get_encoder() if model.model.config.is_encoder_decoder else model.model.base_model
    with model.lock, _outputs_of(stack) as outputs:
        for rows in batches_of(model, encoded, batch_size):
            inputs = inputs_of(model, [encoded[i] for i in rows])
            call_model(body, **inputs)
            lengths = [len(encoded[i].alignment) for i in rows]
            ids = inputs["input_ids"]
            places = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(
                lengths, device=ids.device
            ).unsqueeze(1)
            take(outputs.pop(), lengths, places)


@contextmanager
def _outputs_of(stack: nn.Module) -> Iterator[list[StackOutput]]:
    """What the stack returns, one after the other, while inside."""
    outputs: list[StackOutput] = []
    handle = stack.register_forward_hook(lambda module, given, output: outputs.append(output))
    try:
        yield outputs
    finally:
        handle.remove()
