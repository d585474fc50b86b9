"""Which tokens a classifier with attention pooling reads, for each of its aspects: ``pooling_weights``."""

from __future__ import annotations

from typing import Any

import torch

from workbench.errors import ModelError
from workbench.models import Kind, LoadedModel
from workbench.statistics import Statistic
from workbench.trace import Text
from workbench.trace.encoding import encode_all, inputs_of, say_cut

__all__ = ["pooling_weights"]


def pooling_weights(model: LoadedModel, text: Text) -> Statistic:
    """Share of each token in the vector that each aspect's query makes of a text; an aspect's shares sum to one.

    Yang et al. 2016, "Hierarchical Attention Networks for Document Classification", equation 6. The states that are
    weighed have read the other tokens already, so that a weight shows where a label is read, not what decided it.

    Args:
        model: a classifier whose tokens are pooled by attention: fine-tuned with ``pooling="attention"``.
        text: a text, or a pair of texts.

    Returns the shares with axes aspect and token; an aspect is called by its label where each label has one.
    Raises :class:`~workbench.errors.ModelError` for a model that pools in another way.

    Example:
        ```python
        from pathlib import Path

        import workbench
        from workbench.analysis.pooling import pooling_weights

        rows = ["text,label"] + [f"a {word} film,{word}" for word in ("good", "bad")] * 10
        Path("films.csv").write_text("\\n".join(rows))
        run = workbench.finetune("novels-encoder", "films.csv", "pooled", pooling="attention", epochs=1)
        print(pooling_weights(workbench.load("pooled"), "a good film").to_frame())
        ```
    """
    model.require(Kind.CLASSIFIER, verb="attention pooling")
    (read,) = encoded = encode_all(model, [text])
    say_cut(encoded, model)
    with model.lock, torch.inference_mode():
        output = model.model(**inputs_of(model, encoded))
    found = getattr(output, "pooling_weights", None)
    if found is None:
        raise ModelError(
            f"{model.name} does not pool its tokens by attention; train one that does: "
            "workbench finetune MODEL --task FILE --pooling attention"
        )
    tokens = read.alignment.tokens
    values = (
        found[0, :, -len(tokens) :].float().cpu().numpy()
    )  # vectors learned in front of a text get a share too
    return Statistic(
        name="pooling weights",
        unit="share of the text",
        values=values,
        axes=("aspect", "token"),
        labels={"aspect": _aspects(model.config, len(values)), "token": tokens},
    )


def _aspects(config: Any, count: int) -> tuple[str | int, ...]:
    stated = config.head if hasattr(config, "head") else config
    if stated.aspects is None:
        return tuple(str(config.id2label[n]) for n in range(count))
    return tuple(range(count))
