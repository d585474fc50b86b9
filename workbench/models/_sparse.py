"""Models that give up their sparse attention at the first short text (BigBird): it comes back before long ones."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["keep_sparse_attention"]


def keep_sparse_attention(model: nn.Module) -> None:
    """Let no text change how ``model`` reads the texts after it; nothing happens to models that do not switch.

    transformers' BigBird reads texts that its blocks would cover anyway with full attention, and never goes back.
    Where the configuration says "block_sparse", this is restored before each longer text, so that results do not
    depend on the order of texts. Call this before the model's first pass.
    """
    for module in model.modules():
        whole_text = hasattr(getattr(module, "config", None), "num_random_blocks") and hasattr(
            module, "get_input_embeddings"
        )
        if whole_text and getattr(module, "attention_type", None) == "block_sparse":
            module.register_forward_pre_hook(_restore, with_kwargs=True)


def _restore(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    given = (named.get("input_ids"), named.get("inputs_embeds"), *arguments[:1])
    read = next((tensor for tensor in given if tensor is not None), None)  # (B, T) or (B, T, D)
    if read is None:
        return
    blocks = (
        5 + 2 * module.config.num_random_blocks
    )  # as in transformers: no more is read with full attention
    if read.shape[1] > blocks * module.config.block_size:
        module.set_attention_type("block_sparse")
