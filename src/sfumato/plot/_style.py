"""Axes, colours, literal names and the order of objects, shared by all plots, and plots of
matrices: similarities, their reconstruction by a model, and tables of two labelings.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.text import plain
from ..array.types import ArrayLike, Similarity
from ..array.validation import check_number, check_weights
from ..memberships import check_memberships
from ..metrics._sides import as_side, overlap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any


Names = Sequence[Any] | None  # one name for each cluster, row or column; numbered if None

# Twelve colours that readers with normal sight and with each kind of colour blindness can tell
# apart: the smallest CIELAB distance is 25 under the simulation of Machado et al. (2009), found by
# a search over the colours of medium lightness.
_COLOURS = (
    *("#2f74d0", "#e07b1a", "#1f9d6b", "#8b1700", "#0000ff", "#b9b9ff"),
    *("#5d2e74", "#8bd174", "#742e46", "#8b74a2", "#5d00b9", "#00d1b9"),
)


def axes_or_new(ax: Axes | None) -> Any:
    """``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'sfumato[plot]'") from error
    return plt.subplots(layout="constrained")[1]


def legend_above(ax: Axes, names: Sequence[str]) -> None:
    """Put a legend above the axes, where it hides no data, unless it needs more than three rows."""
    columns = max(1, min(len(names), 52 // (6 + max(map(len, names)))))
    if len(names) > 1 and -(-len(names) // columns) <= 3:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False)


def palette(n_clusters: int) -> np.ndarray:
    """One colour for each cluster, as red, green and blue in [0, 1].

    Colour-blind readers can tell the first twelve apart.

    Parameters
    ----------
    n_clusters : int

    Returns
    -------
    colours : array of shape (n_clusters, 3)

    Examples
    --------
    >>> from sfumato.plot import palette
    >>> palette(3).shape
    (3, 3)
    """
    n_clusters = check_number(n_clusters, "n_clusters", low=0, integer=True)
    chosen = [
        tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)) for code in _COLOURS[:n_clusters]
    ]
    for i in range(n_clusters - len(chosen)):
        chosen.append(colorsys.hls_to_rgb((0.1 + 0.618034 * i) % 1.0, (0.42, 0.6)[i % 2], 0.6))
    return np.array(chosen).reshape(-1, 3)


def blend(U: np.ndarray) -> np.ndarray:
    """Cluster colours mixed according to the memberships, in linear light."""
    return np.clip(U @ palette(U.shape[1]) ** 2.2, 0.0, 1.0) ** (1 / 2.2)


def as_memberships(memberships: ArrayLike) -> np.ndarray:
    return check_memberships(to_numpy(memberships))


def literal(name: object, width: int = 28) -> str:
    """``name`` as one line of text in which matplotlib finds no mathematics."""
    return plain(name, width).replace("$", r"\$")


def cluster_names(names: Names, n_clusters: int) -> list[str]:
    """Literal names of the clusters: those given, or "cluster 0", "cluster 1", ..."""
    if names is None:
        return [f"cluster {number}" for number in range(n_clusters)]
    if len(names) != n_clusters:
        raise ValueError(
            f"names must hold one name for each of the {n_clusters} clusters, got {len(names)}"
        )
    return [literal(name) for name in names]


def ordering(U: np.ndarray) -> np.ndarray:
    """Order of the objects: by label, and within a cluster so that memberships rise, then fall."""
    labels = U.argmax(axis=1)
    own = U.max(axis=1)
    rest = U.copy()
    rest[np.arange(len(U)), labels] = -1.0
    later = rest.argmax(axis=1) > labels
    return np.lexsort((np.where(later, -own, own), later, labels))


def thin(values: np.ndarray, limit: int) -> np.ndarray:
    """At most ``limit`` rows; longer arrays are shortened to the means of consecutive blocks."""
    n = len(values)
    if n <= limit:
        return values
    starts = np.linspace(0, n, limit + 1).astype(int)
    return np.add.reduceat(values, starts[:-1], axis=0) / np.diff(starts)[:, None]


def block_means(W: Any, memberships: Any = None, *, blocks: int = 200) -> np.ndarray:
    """Mean similarity between groups of consecutive objects, which shrinks a matrix of any size.

    Parameters
    ----------
    W : array, sparse array or operator of shape (n, n)
        Only ever multiplied, a few columns at a time.
    memberships : array of shape (n, k), optional
        Sorts the objects by cluster.
    blocks : int
        Number of groups. With fewer objects than this, every object is a group.

    Returns
    -------
    means : array of shape (b, b), b = min(n, blocks)

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.plot import block_means
    >>> block_means(np.eye(4), blocks=2)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    W = np.asarray(W) if isinstance(W, (list, tuple)) else W
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"W must have as many rows as columns, got shape {tuple(W.shape)}")
    if isinstance(W, np.ndarray) and np.isinf(W).any():
        raise ValueError("W holds infinite numbers: similarities must be finite")
    groups = _groups(W.shape[0], memberships, blocks)
    shares = sp.csc_array(groups / groups.sum(axis=0))
    columns = range(0, shares.shape[1], 16)
    return np.hstack(
        [shares.T @ np.asarray(W @ shares[:, start : start + 16].toarray()) for start in columns]
    )


def _groups(n: int, memberships: Any, blocks: int) -> sp.csr_array:
    order = np.arange(n) if memberships is None else ordering(as_memberships(memberships))
    if len(order) != n:
        raise ValueError(f"memberships have {len(order)} rows where W has {n}: give one for each")
    group = np.empty(n, dtype=np.intp)
    group[order] = np.arange(n) * min(n, blocks) // n
    return sp.csr_array((np.ones(n), (np.arange(n), group)))


@documented
def similarity(
    W: ArrayLike | Similarity,
    memberships: ArrayLike | None = None,
    *,
    blocks: int = 200,
    ax: Axes | None = None,
) -> Any:
    """Heat map of a similarity, with the objects sorted by cluster.

    With more than ``blocks`` objects, block means are drawn.

    Parameters
    ----------
    W : array, sparse array or operator of shape (n, n)
    memberships : array of shape (n, k), optional
        Sorts the objects by cluster.
    blocks : int
    %(axes)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import plot
    >>> ax = plot.similarity(np.eye(4))
    """
    W = W if hasattr(W, "shape") else np.asarray(W)
    means = block_means(W, memberships, blocks=blocks)
    return heat_map(means, W.shape[0], "similarity", axes_or_new(ax))


@documented
def reconstruction(
    memberships: ArrayLike, scale: float = 1.0, *, blocks: int = 200, ax: Axes | None = None
) -> Any:
    """Heat map of the similarity that memberships imply, scale * U U', to compare with
    ``similarity``.

    Parameters
    ----------
    memberships : array of shape (n, k)
    scale : float
    blocks : int
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.reconstruction([[0.9, 0.1], [0.2, 0.8]])
    """
    U = as_memberships(memberships)
    groups = _groups(len(U), U, blocks)
    means = (groups.T @ U) / groups.sum(axis=0)[:, None]
    return heat_map(scale * means @ means.T, len(U), "reconstructed similarity", axes_or_new(ax))


def heat_map(means: np.ndarray, n: int, name: str, ax: Axes) -> Any:
    """Block means of the pairs of ``n`` objects, with a colour bar."""
    low = float(np.fmin.reduce(means, axis=None, initial=0.0))  # zero if all values are missing
    image = ax.imshow(means, cmap="magma", interpolation="nearest", extent=(0, n, n, 0), vmin=low)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.outline.set_visible(False)
    ax.set(title=name, xlabel="objects", ylabel="objects")
    return ax


def _crossed(
    labels: ArrayLike, clusters: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[list[str], np.ndarray]:
    """Names of the classes, and the sums of their objects' memberships in every cluster."""
    left, right = as_side(labels, "labels"), as_side(clusters, "memberships")
    n = right.shape[0]
    if left.shape[0] != n:
        raise ValueError(f"labels must hold one label for each of {n} objects, got {left.shape[0]}")
    table = overlap(left, right, check_weights(sample_weight, left))
    kinds = [str(kind) for kind in np.unique(np.asarray(labels))]
    return kinds, table.toarray() if sp.issparse(table) else table


@documented
def contingency(
    table: ArrayLike,
    memberships: ArrayLike | None = None,
    *,
    row_names: Names = None,
    column_names: Names = None,
    row_title: Any = "class",
    column_title: Any = "cluster",
    sample_weight: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Any:
    """Table of two labelings: (soft) counts, written on a heat map of the shares in each row.

    Parameters
    ----------
    table : array of shape (r, k), or labels of shape (n,)
        Counts or sums of memberships for every pair of class and cluster; or the known class of
        every object.
    memberships : array of shape (n, k) or labels of shape (n,), optional
        With labels: the clusters they are compared with.
    row_names, column_names : sequences of names, optional
    row_title, column_title : names of the two labelings
    sample_weight : array of shape (n,), optional
        With labels: a weight of w counts as w copies of the object.
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.contingency([[48, 2], [3, 47]], row_names=["red", "blue"])
    """
    if memberships is not None:
        kinds, table = _crossed(table, memberships, sample_weight)
        row_names = kinds if row_names is None else row_names
    table = to_numpy(table)
    if table.ndim != 2:
        raise ValueError(
            f"table must have rows and columns, got shape {table.shape}; to compare labels with "
            "clusters, give both: contingency(labels, memberships)"
        )
    ax = axes_or_new(ax)
    rows, columns = table.shape
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    row_names = range(rows) if row_names is None else row_names
    column_names = range(columns) if column_names is None else column_names
    ax.set_yticks(range(rows), labels=[literal(name) for name in row_names])
    headings = [literal(name, 14) for name in column_names]
    slant: Any = {"rotation": 40, "ha": "right"} if sum(map(len, headings)) > 40 else {}
    ax.set_xticks(range(columns), labels=headings, **slant)
    ax.set(ylabel=literal(row_title), xlabel=literal(column_title))
    if columns <= 8 and rows <= 40:
        whole = columns > 5 or np.array_equal(table, np.round(table))
        for (i, j), value in np.ndenumerate(table):
            shade, text = "white" if shares[i, j] > 0.5 else "black", f"{value:.{int(not whole)}f}"
            ax.text(j, i, text, ha="center", va="center", color=shade)
    return ax
