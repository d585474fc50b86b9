"""How much there is to read, from token ids to logits, for each family."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from types import CodeType, FrameType
from typing import Any

import pytest
import torch

from tests.unit.models.tiny import decoder, encoder, encoder_decoder
from workbench.models.configuration import TransformerConfig
from workbench.models.size import language_model_class

MOST_LINES = 500  # the making of masks and the place for other forms of attention included

FAMILIES: dict[str, TransformerConfig] = {
    "gpt2": decoder(),
    "llama": decoder(
        positions={"kind": "rotary"}, norm={"kind": "rms_norm"}, feed_forward={"activation": "swiglu"}
    ),
    "mistral": decoder(
        positions={"kind": "rotary"}, attention={"heads": 4, "key_value_heads": 2, "window": 3}
    ),
    "bloom": decoder(positions={"kind": "alibi"}, norm={"embeddings": True}),
    "bert": encoder(
        norm={"placement": "post", "final": False, "embeddings": True}, embeddings={"segments": 2}
    ),
    "t5": encoder_decoder(positions={"kind": "relative"}, norm={"kind": "rms_norm"}),
    "bart": encoder_decoder(norm={"placement": "post", "final": False, "embeddings": True}),
}


def functions_run(model: Any, **inputs: torch.Tensor) -> set[CodeType]:
    """Every function of ours that a forward pass executes."""
    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        is_written = not frame.f_code.co_filename.startswith("<")  # dataclasses generate code
        if event == "call" and is_written and name.startswith(("workbench.nn", "workbench.models")):
            seen.add(frame.f_code)

    sys.setprofile(look)
    try:
        model(**inputs)
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("family", FAMILIES)
def test_text_to_logits_is_short(family: str) -> None:
    """Lines of code in all functions between ids and logits, signatures included, docstrings left out."""
    config = FAMILIES[family]
    model = language_model_class(config)(config).eval()
    model.set_attn_implementation("eager")
    inputs = {"input_ids": torch.tensor([[3, 4, 5]])}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[1, 6]])
    codes = functions_run(model, **inputs)
    whole = {c for c in codes if not any(inside(c, other) for other in codes)}
    lines = sum(lines_of_code(code) for code in whole)
    assert 100 < lines < MOST_LINES, f"{family}: {lines} lines in {len(whole)} functions"


def lines_of_code(code: CodeType) -> int:
    """Lines that are not blank, comment or docstring."""
    source = textwrap.dedent(inspect.getsource(code))
    described: set[int] = set()
    for node in ast.walk(ast.parse(source) if source.startswith(("def", "@")) else ast.Module([], [])):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            described |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(bool(text.strip()) and text.strip()[0] != "#" and n not in described for n, text in lines)


def inside(code: CodeType, other: CodeType) -> bool:
    """Whether ``code`` is a comprehension or lambda of ``other``, whose lines are counted already."""
    return code is not other and code in other.co_consts
