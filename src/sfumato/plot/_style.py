"""Axes, colours, literal names and the order of objects, shared by all plots."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.text import plain
from ..array.types import ArrayLike
from ..array.validation import check_number
from ..memberships import check_memberships

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
