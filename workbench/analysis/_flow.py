"""Maximum flows through the layers of a model, with SciPy's integer solver."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from workbench.errors import TraceError
from workbench.shapes import Array

__all__ = ["maximum_flows"]

# Weights become integers in units of 1e-6; more than this many nodes would take minutes.
_UNITS = 1_000_000
_MOST_NODES = 1500


def maximum_flows(layers: Float[Array, "layer query key"]) -> Float[Array, "query key"]:
    """Maximum flow from each position above the last layer to each input token below the first."""
    depth, length, _ = layers.shape
    nodes = (depth + 1) * length
    if nodes > _MOST_NODES:
        raise TraceError(
            f"attention flow through {depth} layers of {length} tokens has {nodes} nodes; at most {_MOST_NODES} "
            f"are solved: use a text of {_MOST_NODES // (depth + 1)} tokens, or attention_rollout"
        )
    # Node (level, token); level 0 are the inputs, and a layer's edges lead from the level above it down to it.
    level, query, key = np.indices(layers.shape).reshape(3, -1)
    source, target = (level + 1) * length + query, level * length + key
    capacity = np.rint(layers.reshape(-1) * _UNITS).astype(np.int32)
    graph = csr_matrix((capacity, (source, target)), shape=(nodes, nodes))
    flows = np.zeros((length, length))
    for top in range(length):
        for bottom in range(length):
            flow = maximum_flow(graph, depth * length + top, bottom)
            flows[top, bottom] = flow.flow_value / _UNITS
    return flows
