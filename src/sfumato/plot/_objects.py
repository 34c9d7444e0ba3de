"""Axes, colours, literal names and the order of objects, shared by all plots; pictures of matrices,
and of memberships, object by object and level by level.
"""

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
from ..engine.levels import Level
from ..memberships import check_memberships
from ..metrics.agreement import as_side, overlap

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
    """One colour for each cluster, (n_clusters, 3): red, green and blue in [0, 1].

    Colour-blind readers can tell the first twelve apart.

    Examples
    --------
    >>> from sfumato.plot import palette
    >>> palette(3).shape
    (3, 3)
    """
    n_clusters = check_number(n_clusters, "n_clusters", low=0, integer=True)
    codes = (bytes.fromhex(code.removeprefix("#")) for code in _COLOURS[:n_clusters])
    chosen = [tuple(part / 255 for part in code) for code in codes]
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
        raise ValueError(f"names must hold {n_clusters} names of clusters, got {len(names)}")
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
    """Mean similarity (b, b) of groups of consecutive objects, which shrinks a matrix of any size.

    Parameters
    ----------
    W : array, sparse array or operator of shape (n, n)
        Only ever multiplied, a few columns at a time.
    memberships : array of shape (n, k), optional
        Sorts the objects by cluster.
    blocks : int
        Number of groups. With fewer objects than this, every object is a group.

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
    columns = (shares[:, start : start + 16] for start in range(0, shares.shape[1], 16))
    return np.hstack([shares.T @ np.asarray(W @ part.toarray()) for part in columns])


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
    """Heat map of the similarity that memberships imply, scale * U U'.

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


@documented
def memberships(
    memberships: ArrayLike, *, names: Names = None, ordered: bool = True, ax: Axes | None = None
) -> Any:
    """Heat map of memberships: one row per cluster, objects from left to right.

    Parameters
    ----------
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    ordered : bool, whether to sort objects by cluster
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.memberships([[0.9, 0.1], [0.2, 0.8]])
    """
    ax, shown, n, k = _along_objects(memberships, ordered, ax)
    image = np.empty((k, len(shown), 4))
    image[..., :3] = palette(k)[:, None, :]
    image[..., 3] = shown.T
    plain: Any = {"aspect": "auto", "interpolation": "nearest", "resample": False}
    ax.imshow(image, extent=(0, n, k - 0.5, -0.5), **plain)
    ax.set_yticks(range(k), labels=cluster_names(names, k))
    for edge in np.arange(0.5, k - 0.5):
        ax.axhline(edge, color=ax.get_facecolor(), linewidth=3)
    return ax


def _along_objects(
    memberships: ArrayLike, ordered: bool, ax: Axes | None
) -> tuple[Any, np.ndarray, int, int]:
    """Axes with objects along x, the memberships to draw, and the shape of all memberships."""
    U = as_memberships(memberships)
    ax = axes_or_new(ax)
    ax.set_xlabel("objects, cluster by cluster" if ordered else "objects")
    return ax, thin(U[ordering(U)] if ordered else U, 1200), *U.shape


@documented
def profiles(
    memberships: ArrayLike, *, names: Names = None, ordered: bool = True, ax: Axes | None = None
) -> Any:
    """Membership curves: one line per cluster, over the objects.

    Parameters
    ----------
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    ordered : bool, whether to sort objects by cluster
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.profiles([[0.9, 0.1], [0.2, 0.8]])
    """
    ax, shown, n, k = _along_objects(memberships, ordered, ax)
    where = (np.arange(len(shown)) + 0.5) * n / len(shown)
    labels = cluster_names(names, k)
    style = "steps-mid" if n <= 60 else "default"
    for curve, colour, name in zip(shown.T, palette(k), labels, strict=True):
        ax.plot(where, curve, color=colour, label=name, drawstyle=style)
    ax.set(xlim=(0, n), ylim=(-0.02, 1.02), ylabel="membership")
    legend_above(ax, labels)
    return ax


@documented
def simplex(memberships: ArrayLike, *, names: Names = None, ax: Any = None) -> Any:
    """Memberships in three clusters as points in a triangle; labels change at the dotted lines.

    Parameters
    ----------
    memberships : array of shape (n, 3)
    names : sequence of 3 names of the clusters, optional
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.simplex([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]])
    """
    U = as_memberships(memberships)
    if U.shape[1] != 3:
        raise ValueError(f"simplex draws three clusters, got {U.shape[1]}: use plot.profiles")
    ax = axes_or_new(ax)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    ax.plot(*np.vstack([corners, corners[:1]]).T, color="grey", linewidth=1)
    for corner in corners:
        dotted = corners.mean(axis=0), (corners.sum(axis=0) - corner) / 2
        ax.plot(*np.transpose(dotted), color="grey", linewidth=0.8, linestyle=":")
    ax.scatter(*(U @ corners).T, c=blend(U), s=_size(len(U)), alpha=0.75, linewidths=0)
    sides = [("left", "top", -0.03), ("right", "top", -0.03), ("center", "bottom", 0.03)]
    for corner, (across, up, gap), name, colour in zip(
        corners, sides, cluster_names(names, 3), palette(3), strict=True
    ):
        at = corner[0], corner[1] + gap
        ax.text(*at, name, ha=across, va=up, color=colour, fontweight="bold")
    ax.set(xlim=(-0.04, 1.04), ylim=(-0.12, 1.0), aspect="equal")
    ax.axis("off")
    return ax


@documented
def scatter(
    X: ArrayLike,
    memberships: ArrayLike,
    *,
    names: Names = None,
    axis_names: Names = None,
    ax: Axes | None = None,
) -> Any:
    """Objects in the plane, in colours blended by membership; certain objects are more opaque.

    Parameters
    ----------
    X : array of shape (n, 2)
        Two features, or two coordinates of an embedding.
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    axis_names : sequence of 2 names of the coordinates, optional
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.scatter([[0.0, 1.0], [2.0, 1.0]], [[0.9, 0.1], [0.2, 0.8]])
    """
    U, X = as_memberships(memberships), to_numpy(X)
    if X.shape != (len(U), 2):
        raise ValueError(
            f"X must hold two coordinates for each of the {len(U)} objects, got shape {X.shape}: "
            "choose two columns"
        )
    ax = axes_or_new(ax)
    k = U.shape[1]
    certainty = 1 - (1 - U.max(axis=1)) * k / max(k - 1, 1)
    colours = np.column_stack([blend(U), 0.25 + 0.7 * np.clip(certainty, 0, 1)])
    ax.scatter(X[:, 0], X[:, 1], c=colours, s=_size(len(U)), linewidths=0)
    labels = cluster_names(names, k)
    for name, colour in zip(labels, palette(k), strict=True):
        ax.scatter([], [], color=colour, label=name)
    legend_above(ax, labels)
    if axis_names is not None:
        ax.set(xlabel=literal(axis_names[0], 48), ylabel=literal(axis_names[1], 48))
    return ax


def _size(n: int) -> float:
    return float(np.clip(9000 / max(n, 1), 4, 36))


@documented
def uncertainty(
    memberships: ArrayLike,
    *,
    names: Names = None,
    bins: int = 20,
    sample_weight: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Any:
    """Histogram of every object's largest membership, stacked by cluster.

    Parameters
    ----------
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    bins : int
    %(sample_weight)s
    %(axes)s

    Examples
    --------
    >>> from sfumato import plot
    >>> ax = plot.uncertainty([[0.9, 0.1], [0.2, 0.8]])
    """
    U = as_memberships(memberships)
    ax = axes_or_new(ax)
    k = U.shape[1]
    labels, own, largest = cluster_names(names, k), U.argmax(axis=1), U.max(axis=1)
    edges = np.linspace(min(1.0 / k, 0.9), 1.0, bins + 1)
    weights = np.ones(len(U)) if sample_weight is None else check_weights(sample_weight, U)
    within = np.clip(largest, edges[0], 1.0)
    floor, width = np.zeros(bins), 0.9 * np.diff(edges)
    for cluster, (colour, name) in enumerate(zip(palette(k), labels, strict=True)):
        members = own == cluster
        row = np.histogram(within[members], edges, weights=weights[members])[0]
        ax.bar(edges[:-1], row, width, bottom=floor, align="edge", color=colour, label=name)
        floor = floor + row
    ax.set(xlabel="largest membership", ylabel="objects", xlim=(edges[0], 1.0))
    legend_above(ax, labels)
    return ax


@documented
def levels(model: Any, *, ax: Axes | None = None) -> Any:
    """Clusters of a model from coarse to fine, each as wide as its share of the objects.

    Branches divide where clusters do, and have the colours of the clusters of the fit. Bold numbers
    mark the levels worth looking at, with their scores; an arrow marks the fit.

    Parameters
    ----------
    model : fitted clusterer of this library
    %(axes)s

    Examples
    --------
    >>> from sfumato import GaussianMixture, plot
    >>> from sfumato.datasets import make_gaussians
    >>> X = make_gaussians(60, 3, separation=6, random_state=0).evidence
    >>> ax = plot.levels(GaussianMixture(3, random_state=0).fit(X))
    """
    if not hasattr(type(model), "levels_"):
        raise TypeError(f"model must be fitted and have levels_, got {type(model).__name__}")
    found: tuple[Level, ...] = model.levels_
    gap = 0.03  # between neighbouring clusters, as a share of all objects
    ax = axes_or_new(ax)
    finest = to_numpy(model.at(found[-1].n_clusters))
    share = finest.mean(axis=0)
    # At every level, clusters are drawn in the order of their coarser ones.
    order = np.lexsort([level.parents for level in reversed(found)])
    own = next(level for level in found if level.n_clusters == model.n_clusters_)
    colours = palette(model.n_clusters_)[np.array(own.parents)]
    rows = [_row(np.array(level.parents), share, order, gap) for level in found]
    for y, (level, row) in enumerate(zip(found, rows, strict=True)):
        ax.barh(y, share, left=row, height=0.24, color=colours, linewidth=0)
        if y > 0:
            _branches(ax, y, rows[y - 1], row, colours, share)
        _mark(ax, y, level, level is own)
    ax.set_xlim(rows[-1].min() - gap, 1.0 - rows[-1].min() + gap)
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_yticks(range(len(found)), ["" for _ in found])
    ax.tick_params(left=False, bottom=False, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("share of objects")
    return ax


def _row(parents: np.ndarray, share: np.ndarray, order: np.ndarray, gap: float) -> np.ndarray:
    """Left edges (F,) of the finest clusters, with gaps between the clusters of this level."""
    place = parents[order]
    gaps = np.append(0, np.cumsum(place[1:] != place[:-1]))
    left = np.append(0.0, np.cumsum(share[order])[:-1]) + gap * gaps
    edges = np.empty(len(order))
    edges[order] = left - gap * gaps[-1] / 2
    return edges


def _branches(
    ax: Axes, y: int, above: np.ndarray, row: np.ndarray, colours: np.ndarray, share: np.ndarray
) -> None:
    """Draw the bands of the finest clusters from the level above down to level y."""
    bend = np.linspace(0.0, 1.0, 30)
    ease = (1 - np.cos(np.pi * bend)) / 2
    for start, end, width, colour in zip(above, row, share, colours, strict=True):
        path = start + (end - start) * ease
        ys = y - 0.88 + 0.76 * bend
        ax.fill_betweenx(ys, path, path + width, color=colour, alpha=0.45, linewidth=0)


def _mark(ax: Axes, y: int, level: Level, own: bool) -> None:
    """Write the number of clusters next to its level, and the score if it is a local maximum."""
    text = f"{level.n_clusters}" + (f"  ({level.score:.2f})" if level.shown else "")
    ax.annotate(
        text + (" \N{BLACK RIGHT-POINTING TRIANGLE}" if own else ""),
        (-0.01, y),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="center",
        fontweight="bold" if level.shown else "normal",
        color="black" if level.shown or own else "grey",
        fontsize="small",
    )
