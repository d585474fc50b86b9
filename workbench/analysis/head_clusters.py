"""Which heads attend alike: divergence between their attention, and groups of heads by it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform
from scipy.special import entr

from workbench.drawn import Drawn
from workbench.errors import ConfigError, WorkbenchWarning
from workbench.models import LoadedModel, as_model
from workbench.runs import Run
from workbench.shapes import Array
from workbench.trace import Record, Text, trace
from workbench.trace.structure import require_distributions

__all__ = ["HeadClusters", "attention_divergence", "head_clusters", "head_clusters_of"]


@dataclass(frozen=True, eq=False, repr=False)
class HeadClusters(Drawn):
    """Heads in groups. ``divergence`` (bits) is between each two; ``order`` puts heads that attend alike
    beside each other, and ``cluster`` numbers from 1 in that order."""

    drawn_by = "head_clusters_view"

    model: str
    heads: tuple[tuple[int, int], ...]  # layer and head
    divergence: Float[Array, "head other"]
    cluster: Int[Array, " head"]
    order: Int[Array, " head"]
    texts: int

    def to_frame(self) -> pd.DataFrame:
        """One row a head: its layer, number, cluster, and mean divergence from the others of its cluster (bits)."""
        own = self.cluster[:, None] == self.cluster
        others = own.sum(1) - 1
        return pd.DataFrame(
            {
                "layer": [layer for layer, _ in self.heads],
                "head": [head for _, head in self.heads],
                "cluster": self.cluster,
                "divergence": np.where(
                    others > 0, (self.divergence * own).sum(1) / np.maximum(others, 1), np.nan
                ),
            }
        )

    def arrays(self) -> dict[str, Array]:
        """What a run stores; :func:`head_clusters_of` is the inverse."""
        return {
            "head clusters: divergence": np.ascontiguousarray(self.divergence),
            "head clusters: heads": np.column_stack([self.heads, self.cluster, self.order]).astype(np.int64),
        }

    def __repr__(self) -> str:
        return f"<HeadClusters of {len(self.heads)} heads of {self.model} in {self.cluster.max()} clusters>"


def head_clusters_of(run: Run) -> HeadClusters | None:
    """Those that ``workbench attend --corpus FILE --clusters N`` stored; ``None`` for a run without them."""
    arrays = run.arrays()
    if "head clusters: heads" not in arrays:
        return None
    rows = arrays["head clusters: heads"]
    heads = tuple((int(layer), int(head)) for layer, head in rows[:, :2])
    divergence = arrays["head clusters: divergence"]
    name, texts = str(run.record.model["name"]), int(run.notes["texts"])
    return HeadClusters(name, heads, divergence, rows[:, 2], rows[:, 3], texts)


def attention_divergence(attention: Float[Array, "head query key"]) -> Float[Array, "head other"]:
    """Jensen-Shannon divergence in bits between the attention of each two heads, averaged over the queries."""
    entropies = [entr(np.asarray(weights, np.float64)).sum(-1) for weights in attention]  # (query,), nats
    found = np.zeros((len(attention),) * 2)
    for one, other in combinations(range(len(attention)), 2):  # memory is that of one pair
        mixed = entr(np.add(attention[one], attention[other], dtype=np.float64) / 2).sum(-1)
        found[one, other] = found[other, one] = (mixed - (entropies[one] + entropies[other]) / 2).mean(-1)
    return np.maximum(found, 0) / np.log(2)


def head_clusters(model: LoadedModel | str, texts: Sequence[Text], count: int = 6) -> HeadClusters:
    """The heads in ``count`` groups (fewer, where fewer differ) by how alike they attend over ``texts``.

    The divergence is that of Clark et al. 2019, "What Does BERT Look At?", section 6, a mean over queries and texts
    where they have a sum; groups are by average linkage, where they show a plane. Texts longer than the model reads are
    truncated. Of an encoder-decoder, its decoder's heads.

    Raises :class:`~workbench.errors.ConfigError` for a ``count`` below 1, or a model of one head;
    :class:`~workbench.errors.TraceError` where rows of attention are no distributions by design.

    Example:
        ```python
        import workbench
        from workbench.analysis.head_clusters import head_clusters

        print(head_clusters("novels-encoder", ["She opened the letter.", "He left."], 3).to_frame())
        ```
    """
    if count < 1:
        raise ConfigError(f"count is {count}; allowed: 1 or more")
    model = as_model(model)
    require_distributions(model.model, "head_clusters")
    total: Array = np.zeros((1, 1))
    queries = 0
    for text in texts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WorkbenchWarning)  # long texts are truncated
            weights = trace(model, [text], {Record.ATTENTION})[0].attention  # (layer, head, query, key)
        layers, heads, length, _ = weights.shape
        flat = weights.reshape(layers * heads, length, -1)
        total, queries = total + length * attention_divergence(flat), queries + length
    if not queries or total.shape[0] < 2:
        raise ConfigError("clusters need a text, and a model of two heads or more")
    divergence = (total + total.T) / (2 * queries)
    np.fill_diagonal(divergence, 0.0)
    tree = linkage(squareform(divergence, checks=False), "average", optimal_ordering=True)
    names = tuple((layer, head) for layer in range(layers) for head in range(heads))
    order, drawn = leaves_list(tree), fcluster(tree, count, "maxclust")
    numbers = {old: new for new, old in enumerate(dict.fromkeys(drawn[order].tolist()), 1)}
    cluster = np.array([numbers[old] for old in drawn.tolist()])
    return HeadClusters(model.name, names, divergence, cluster, order, len(texts))
