"""Pictures of memberships, object by object and level by level."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.types import ArrayLike
from ..array.validation import check_weights
from ..engine.levels import Level
from ._style import (
    Axes,
    Names,
    as_memberships,
    axes_or_new,
    blend,
    cluster_names,
    legend_above,
    literal,
    ordering,
    palette,
    thin,
)


@documented
def memberships(
    memberships: ArrayLike, *, names: Names = None, ordered: bool = True, ax: Axes | None = None
) -> Any:
    """Heat map of memberships: one row per cluster, objects from left to right; darker is a larger
    membership.

    Parameters
    ----------
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    ordered : bool
        Whether to sort objects by cluster. Beyond 1200 objects each column is the mean of several
        neighbours.
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
    ax.imshow(
        image, aspect="auto", interpolation="nearest", extent=(0, n, k - 0.5, -0.5), resample=False
    )
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
    ordered : bool
        Whether to sort objects by cluster. Beyond 1200 objects the curves show means of several
        neighbours.
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
    """Memberships in three clusters as points in a triangle.

    Certain objects lie in the corners; labels change at the dotted lines.

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
        raise ValueError(
            f"simplex draws three clusters, got {U.shape[1]}: use plot.memberships or "
            "plot.profiles instead"
        )
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

    Certain objects are on the right.

    Parameters
    ----------
    memberships : array of shape (n, k)
    names : sequence of k names of the clusters, optional
    bins : int
    sample_weight : array of shape (n,), optional
        A weight of w counts as w copies of the object.
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

    Branches divide where clusters do, and have the colours of the clusters of the fit. Memberships
    at one level are sums of those at finer levels, and so are the widths. Bold numbers mark the
    levels worth looking at, with their scores; an arrow marks the number of clusters of the fit.

    Parameters
    ----------
    model : fitted clusterer
        A fitted model of this library, with ``levels_`` and ``at``.
    %(axes)s

    Examples
    --------
    >>> from sfumato import GaussianMixture, plot
    >>> from sfumato.datasets import make_gaussians
    >>> X = make_gaussians(60, 3, separation=6, random_state=0).evidence
    >>> ax = plot.levels(GaussianMixture(3, random_state=0).fit(X))
    """
    if not hasattr(type(model), "levels_"):
        raise TypeError(
            "model must be a fitted clusterer of this library, which has levels_, got "
            f"{type(model).__name__}"
        )
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
