"""How the co-association of a pair is distributed, for every number of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy

__all__ = ["ConsensusDistribution", "consensus_distribution"]


class ConsensusDistribution(NamedTuple):
    """Distribution of co-association values over pairs, one row for each number of clusters."""

    n_clusters: np.ndarray  # (m,), ascending
    values: np.ndarray  # (g,), all values of any of the matrices, ascending
    cdf: np.ndarray  # (m, g), share of the pairs at or below each value
    area: np.ndarray  # (m,), under the curve
    change: np.ndarray  # (m,), of the area, relative to the number before; the first area itself


def consensus_distribution(coassociations: Mapping[int, Any]) -> ConsensusDistribution:
    """The distribution of co-association values for every number of clusters, its area and the
    change of the area.

    With clear clusters pairs are together nearly always or nearly never: the curve is flat between
    0 and 1. The number of clusters is the one after which the area hardly grows (Monti et al.
    2003). ``selection`` has PAC, the height that a curve gains between two values.

    Parameters
    ----------
    coassociations : mapping from int to array or operator of shape (n, n)
        The co-association of clusterings with this number of clusters, such as
        ``similarity.coassociation(labelings)``; NaN for pairs that no clustering saw together.

    Returns
    -------
    distribution : ConsensusDistribution

    References
    ----------
    Monti, Tamayo, Mesirov and Golub (2003). Consensus clustering: a resampling-based method for
    class discovery and visualization of gene expression microarray data. Machine Learning 52.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.metrics import consensus_distribution
    >>> two = np.kron(np.eye(2), np.ones((3, 3)))
    >>> found = consensus_distribution({2: two, 3: 0.5 * two})
    >>> found.area.round(2)
    array([1. , 0.5])
    """
    if not isinstance(coassociations, Mapping) or not coassociations:
        raise TypeError(
            "coassociations must map numbers of clusters to matrices, such as {2: C2, 3: C3}, got "
            f"{type(coassociations).__name__}"
        )
    numbers = sorted(coassociations)
    pairs = [np.sort(_pair_values(coassociations[k], k)) for k in numbers]
    values = np.unique(np.concatenate(pairs))
    cdf = np.stack([np.searchsorted(own, values, side="right") / own.size for own in pairs])
    area = np.array([_area(own) for own in pairs])
    before = np.maximum(area[:-1], np.finfo(float).tiny)
    change = np.append(area[:1], np.diff(area) / before)
    return ConsensusDistribution(np.array(numbers), values, cdf, area, change)


def _area(values: np.ndarray) -> float:
    """sum_i (x_i - x_(i-1)) CDF(x_i) over the sorted values x of all pairs."""
    shares = np.searchsorted(values, values, side="right") / values.size
    return float(np.diff(values) @ shares[1:])


def _pair_values(C: Any, k: int) -> np.ndarray:
    """Values of the pairs i < j that were seen together."""
    dense = to_numpy(C.toarray() if hasattr(C, "toarray") else C)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or dense.dtype.kind not in "biuf":
        raise ValueError(
            f"coassociations[{k!r}] must be numbers (n, n), got shape {dense.shape} of "
            f"{dense.dtype}: make it by similarity.coassociation(labelings)"
        )
    values = dense[np.triu_indices(len(dense), 1)].astype(np.float64)
    values = values[~np.isnan(values)]
    if not values.size or values.min() < -1e-9 or values.max() > 1 + 1e-9:
        raise ValueError(
            f"coassociations[{k!r}] must hold shares from 0 to 1, of at least one pair: divide "
            "counts by the number of clusterings that saw both"
        )
    return values
