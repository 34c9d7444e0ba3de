"""Plots of pairs: similarities, their reconstruction by a model, and tables of two labelings."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.types import ArrayLike, Similarity
from ..array.validation import check_weights
from ._style import Axes, Names, as_memberships, axes_or_new, literal, ordering


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
    kinds, codes = np.unique(np.asarray(labels), return_inverse=True)
    U = to_numpy(clusters)
    if U.ndim == 1:
        U = np.eye(len(np.unique(U)))[np.unique(U, return_inverse=True)[1]]
    U = as_memberships(U)
    if codes.shape != (len(U),):
        raise ValueError(
            f"labels must hold one label for each of {len(U)} objects, got {codes.shape}"
        )
    table = np.zeros((len(kinds), U.shape[1]))
    weights = check_weights(sample_weight, U)
    np.add.at(table, codes, U if weights is None else weights[:, None] * U)
    return [str(kind) for kind in kinds], table


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
