"""Axis legend for tensors and arrays; modules that use single letters in comments mean these.

B batch (texts)      T token position           S source position     W word
L layer              H head                     Q query position      K key position
D model width        d width of one head        V vocabulary          F feed-forward width
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Float

__all__ = ["Array", "AttentionArray", "HiddenArray"]

Array: TypeAlias = np.ndarray
AttentionArray: TypeAlias = Float[np.ndarray, "layer head query key"]
HiddenArray: TypeAlias = Float[np.ndarray, "layer token width"]
