"""How alike heads are: Jensen-Shannon distances between their attention, and a map of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from workbench.analysis._ratio import RatioSums
from workbench.errors import DataError
from workbench.models import LoadedModel
from workbench.shapes import Array
from workbench.statistics import Statistic
from workbench.trace import Stack, Text, structure_of, trace

__all__ = ["head_clusters", "head_distances", "head_map", "js_divergences"]

_BATCH = 8


def head_distances(
    model: LoadedModel, texts: Sequence[Text], *, stack: Stack | None = None, max_length: int = 128
) -> Statistic:
    """Jensen-Shannon distance between every two heads: (head a, head b), labelled "layer-head".

    The square root of the divergence (natural log) averaged over the queries of all texts, after Clark et al.
    (2019, section 6), who sum divergences. Errors are clustered by text (delta method). The cost grows with
    the square of the number of heads: some dozens of texts are enough.
    """
    structure = structure_of(model.model)
    where = structure.stack(stack)
    name = f"{where}_attention"
    sums = RatioSums()
    for start in range(0, len(texts), _BATCH):
        batch = trace(model, texts[start : start + _BATCH], {"attention"}, max_length=max_length)
        for text in batch:
            attention = text.get(name)  # (L, H, Q, K)
            flat = attention.reshape(-1, *attention.shape[2:])
            divergence = js_divergences(flat)
            sums.add(divergence[None] * flat.shape[1], np.array(float(flat.shape[1])))
    if not sums.clusters:
        raise DataError("no texts: give at least one")
    distances = np.sqrt(sums.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(distances > 0, sums.standard_errors / (2 * distances), 0.0)
    labels = tuple(f"{i}-{j}" for i in range(structure.layers[where]) for j in range(structure.heads[where]))
    return Statistic(
        name="Jensen-Shannon distance",
        unit="square root of nats",
        values=distances,
        axes=("head a", "head b"),
        labels={"head a": labels, "head b": labels},
        standard_error=errors,
        note=f"{sums.clusters} texts",
    )


def js_divergences(attention: Float[Array, "head query key"]) -> Float[Array, "head head"]:
    """Jensen-Shannon divergence in nats between the rows of every two heads, averaged over queries."""
    heads, queries, _ = attention.shape
    entropy = entr(attention).sum((-1, -2))  # (head,)
    divergence = np.zeros((heads, heads))
    for i in range(heads - 1):
        mixed = entr((attention[i] + attention[i + 1 :]) / 2).sum((-1, -2))
        divergence[i, i + 1 :] = np.maximum(mixed - (entropy[i] + entropy[i + 1 :]) / 2, 0.0) / queries
    return divergence + divergence.T


def head_map(distances: Statistic, seed: int = 0) -> Statistic:
    """Heads as points in the plane whose distances resemble ``distances`` (metric MDS): (head, coordinate)."""
    from sklearn.manifold import MDS

    scaling = MDS(2, metric="precomputed", init="random", n_init=4, max_iter=300, random_state=seed)
    points = scaling.fit_transform(distances.values)
    return Statistic(
        name="map of heads",
        unit=distances.unit,
        values=points,
        axes=("head", "coordinate"),
        labels={"head": distances.labels["head a"], "coordinate": ("x", "y")},
        note=f"metric multidimensional scaling, seed {seed}, stress {scaling.stress_:.4g}",
    )


def head_clusters(distances: Statistic, count: int) -> dict[str, int]:
    """``count`` clusters of heads by complete linkage: head label -> cluster number from 0."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    labels = distances.labels["head a"]
    if not 1 <= count <= len(labels):
        raise DataError(f"{count} clusters of {len(labels)} heads; allowed: 1 to {len(labels)}")
    tree = linkage(squareform(distances.values, checks=False), method="complete")
    found = fcluster(tree, t=count, criterion="maxclust")
    return {str(label): int(cluster) - 1 for label, cluster in zip(labels, found, strict=True)}
