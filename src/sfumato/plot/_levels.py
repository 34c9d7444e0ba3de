"""A tree of the levels of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..engine.levels import Level
from ._style import Axes, axes_or_new, palette

__all__ = ["levels"]

GAP = 0.03  # between neighbours, as a share of all objects


@documented
def levels(model: Any, *, ax: Axes | None = None) -> Any:
    """Clusters of every level of a model, from coarse to fine, as wide as their share of objects.

    Branches divide as clusters do: since memberships at a level are sums of finer ones, so are the
    widths. Numbers in bold are the levels worth looking at, with their scores; an arrow points at
    the number of clusters of the fit.

    Parameters
    ----------
    model : fitted clusterer
        Of this library: it has ``levels_`` and ``at``.
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
    ax = axes_or_new(ax)
    finest = to_numpy(model.at(found[-1].n_clusters))
    share = finest.mean(axis=0)
    # Clusters of every level lie side by side in the order of their coarser ones.
    order = np.lexsort([level.parents for level in reversed(found)])
    own = next(level for level in found if level.n_clusters == model.n_clusters_)
    colours = _colours(np.array(own.parents), order)
    rows = [_row(np.array(level.parents), share, order) for level in found]
    for y, (level, row) in enumerate(zip(found, rows, strict=True)):
        mixed = _mixed(np.array(level.parents), colours, share)
        ax.barh(y, share, left=row, height=0.24, color=mixed, linewidth=0)
        if y > 0:
            _branches(ax, y, rows[y - 1], row, mixed, share)
        _mark(ax, y, level, level is own)
    ax.set_xlim(rows[-1].min() - GAP, 1.0 - rows[-1].min() + GAP)
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_yticks(range(len(found)), ["" for _ in found])
    ax.tick_params(left=False, bottom=False, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("share of objects")
    return ax


def _row(parents: np.ndarray, share: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Left edges of the finest clusters at a level (F,), with gaps between its clusters."""
    place = parents[order]
    gaps = np.append(0, np.cumsum(place[1:] != place[:-1]))
    left = np.append(0.0, np.cumsum(share[order])[:-1]) + GAP * gaps
    edges = np.empty(len(order))
    edges[order] = left - GAP * gaps[-1] / 2
    return edges


def _colours(own: np.ndarray, order: np.ndarray) -> np.ndarray:
    """A colour for each finest cluster: that of its cluster in the answer, lighter part by part."""
    base, colours = palette(int(own.max()) + 1), np.empty((len(own), 3))
    for cluster, colour in enumerate(base):
        parts = [s for s in order if own[s] == cluster]
        light = np.linspace(0.12, 0.62, len(parts)) if len(parts) > 1 else np.zeros(1)
        colours[parts] = colour + light[:, None] * (1.0 - colour)
    return colours


def _mixed(parents: np.ndarray, colours: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The colour of every finest cluster at a level: the mean over those it is one with."""
    total = np.bincount(parents, share)
    sums = [np.bincount(parents, share * channel) for channel in colours.T]
    return (np.stack(sums, axis=1) / np.where(total > 0, total, 1.0)[:, None])[parents]


def _branches(
    ax: Axes, y: int, above: np.ndarray, row: np.ndarray, colours: np.ndarray, share: np.ndarray
) -> None:
    """The way of the finest clusters from the level above to level y."""
    bend = np.linspace(0.0, 1.0, 30)
    ease = (1 - np.cos(np.pi * bend)) / 2
    for start, end, width, colour in zip(above, row, share, colours, strict=True):
        path = start + (end - start) * ease
        ys = y - 0.88 + 0.76 * bend
        ax.fill_betweenx(ys, path, path + width, color=colour, alpha=0.45, linewidth=0)


def _mark(ax: Axes, y: int, level: Level, own: bool) -> None:
    """The number of clusters beside its level, and the score where it is a local maximum."""
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
