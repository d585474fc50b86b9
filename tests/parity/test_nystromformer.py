"""Nyströmformer's attention beside transformers', from the same random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from workbench.nn import AttentionContext
from workbench.nn.forms import NystromformerAttention

WIDTH, LENGTH = 24, 12


def _pair(
    *, heads: int, landmarks: int, kernel: int | None, option: str
) -> tuple[Any, NystromformerAttention]:
    torch.manual_seed(0)
    config = NystromformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=heads,
        num_landmarks=landmarks,
        segment_means_seq_len=LENGTH,
        conv_kernel_size=kernel or 3,
        attention_probs_dropout_prob=0.0,
    )
    theirs = NystromformerSelfAttention(config).eval()
    theirs.init_option = option  # the configuration's own setting for it raises TypeError in transformers
    theirs.conv_kernel_size = kernel  # nor does its configuration take none
    ours = NystromformerAttention(landmarks=landmarks, kernel=kernel, width=WIDTH, heads=heads).eval()
    for name in ("query", "key", "value"):
        for model in (theirs, ours):
            torch.nn.init.normal_(getattr(model, name).weight, std=0.5)
        getattr(ours, name).load_state_dict(getattr(theirs, name).state_dict())
    if kernel is not None:
        ours.convolution.load_state_dict(theirs.conv.state_dict())
    ours.output = torch.nn.Identity()
    return theirs, ours


def _hidden(rows: int) -> Tensor:
    return torch.randn(rows, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kernel", [None, 3])
@pytest.mark.parametrize("landmarks", [3, 6, LENGTH])
def test_the_same_output_as_transformers(landmarks: int, kernel: int | None) -> None:
    theirs, ours = _pair(heads=3, landmarks=landmarks, kernel=kernel, option="exact")
    hidden = _hidden(2)
    with torch.no_grad():
        expected, found = theirs(hidden)[0], ours(hidden, AttentionContext())[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


def test_the_same_as_its_default_initial_inverse_for_one_head_of_one_text() -> None:
    """By default transformers divides by the largest norm of all heads and texts, which is the own one here."""
    theirs, ours = _pair(heads=1, landmarks=4, kernel=3, option="original")
    hidden = _hidden(1)
    with torch.no_grad():
        expected, found = theirs(hidden)[0], ours(hidden, AttentionContext())[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))
