"""Memberships, and similarities and labelings made from them."""

from __future__ import annotations

import numpy as np

from ..array.types import ArrayLike, RandomState
from ..memberships import check_memberships, one_hot
from ..numerics.simplex import draw
from .features import Simulated, check_counts, check_numbers


def make_memberships(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    concentration: float = 0.3,
    random_state: RandomState = None,
) -> np.ndarray:
    """Memberships (n_objects, n_clusters) drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    n_objects, n_clusters : int
    concentration : float
        Near 0 almost every object is certain, 1 is uniform, large values are nearly equal.
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato.datasets import make_memberships
    >>> make_memberships(10, 4, random_state=0).shape
    (10, 4)
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters)
    check_numbers(1e-300, concentration=concentration)
    return draw(np.random.default_rng(random_state), (n_objects, n_clusters), concentration)


def make_similarity(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    memberships: ArrayLike | None = None,
    scale: float = 1.0,
    noise: float = 0.05,
    random_state: RandomState = None,
) -> Simulated:
    """A similarity  scale * u_i'u_j  with Gaussian noise, as the pairwise model assumes it.

    Symmetric similarity (n, n), its diagonal at ``scale``; memberships; labels drawn from them.

    Parameters
    ----------
    n_objects, n_clusters : int
        Used where ``memberships`` is not given.
    memberships : array of shape (n, k), optional
        The truth; by default drawn by ``make_memberships``.
    scale : float
    noise : float
        Standard deviation of the noise, in units of ``scale``.
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato.datasets import make_similarity
    >>> W, memberships, labels = make_similarity(50, 3, random_state=0)
    >>> W.shape, bool((W == W.T).all())
    ((50, 50), True)
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters)
    check_numbers(scale=scale, noise=noise)
    rng = np.random.default_rng(random_state)
    drawn = memberships is None
    U = draw(rng, (n_objects, n_clusters), 0.3) if drawn else check_memberships(memberships)
    error = np.triu(rng.normal(scale=noise, size=(len(U), len(U))), 1)
    W = scale * np.clip(U @ U.T + error + error.T, 0, None)
    np.fill_diagonal(W, scale)
    return Simulated(W, U, _draw_labels(rng, U))


def _draw_labels(rng: np.random.Generator, U: np.ndarray) -> np.ndarray:
    """A label from each row of U."""
    return (np.cumsum(U, axis=1)[:, :-1] <= rng.random((len(U), 1))).sum(axis=1)


def make_block_similarity(
    n_objects: int = 100,
    n_clusters: int = 5,
    *,
    stay: float = 0.45,
    spread: float = 1.5,
    noise: float = 0.5,
    random_state: RandomState = None,
) -> Simulated:
    """A similarity whose random walk is block stochastic, after S100 of Verma and Meila (2003).

    The chance to step from an object into cluster b depends only on the object's own cluster, while
    similarities vary over orders of magnitude. The defaults give a spectrum like that of S100.

    Symmetric similarity (n, n), one-hot memberships, labels; the sizes differ up to threefold.

    Parameters
    ----------
    n_objects, n_clusters : int
    stay : float
        Chance that a step stays in its cluster; 1 / n_clusters would be no structure.
    spread : float
        Standard deviation of the logarithms of the degrees.
    noise : float
        Standard deviation of the logarithms of the similarities around what these expect.
    random_state : None, int or Generator

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.datasets import make_block_similarity
    >>> W, memberships, labels = make_block_similarity(60, 3, random_state=0)
    >>> steps = (W / W.sum(axis=1, keepdims=True)) @ memberships
    >>> bool(np.ptp(steps[labels == 0], axis=0).max() < 1e-6)
    True
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters)
    check_numbers(high=1.0, stay=stay)
    check_numbers(high=10.0, spread=spread, noise=noise)  # of logarithms: exp(10) is huge already
    rng = np.random.default_rng(random_state)
    sizes = np.linspace(1, 3, n_clusters)
    edges = np.round(np.cumsum(rng.permutation(sizes)) / sizes.sum() * n_objects).astype(int)
    labels = np.searchsorted(edges, np.arange(n_objects), side="right")
    mass = np.full((n_clusters, n_clusters), (1 - stay) / max(1, n_clusters - 1))
    np.fill_diagonal(mass, stay)
    inside = one_hot(labels, n_clusters)
    if not inside.any(axis=0).all():
        raise ValueError(
            f"n_objects={n_objects} is too few for n_clusters={n_clusters} blocks, some thrice "
            "as large as others: ask for more objects"
        )
    degrees = np.exp(rng.normal(scale=spread, size=n_objects))
    shares = degrees / (inside @ (inside.T @ degrees))
    W = np.exp(rng.normal(scale=noise * 2**0.5, size=(n_objects, n_objects)))
    W = _scale_blocks(np.sqrt(W * W.T), inside, shares, mass)
    return Simulated(W * (n_objects / W.sum()), inside, labels)


def _scale_blocks(
    W: np.ndarray, inside: np.ndarray, shares: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """Symmetric scaling  x_i W_ij x_j, one x for each block, to  shares_i mass_ab  in block b."""
    wanted = shares[:, None] * (inside @ mass)
    X = np.ones_like(wanted)
    for _ in range(2000):
        rows = X * ((W * (inside @ X.T)) @ inside)
        if np.abs(rows - wanted).max() <= 1e-9 * wanted.max():
            break
        X *= np.sqrt(wanted / rows)
    W = (W * (X @ inside.T)) * (inside @ X.T)
    return (W + W.T) / 2


def make_labelings(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    n_members: int = 50,
    memberships: ArrayLike | None = None,
    noise: float = 0.2,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """An ensemble of noisy clusterings of the same objects, each with its own numbering.

    In every partition each object draws its label from its row of ``memberships``, so the expected
    co-association of two objects is exactly u_i'u_j.

    Labelings (n, n_members), memberships, and the most likely label of each object.

    Parameters
    ----------
    n_objects, n_clusters : int
        Used where ``memberships`` is not given.
    n_members : int
    memberships : array of shape (n, k), optional
        The truth; by default one cluster each, with a share of ``noise`` spread over all clusters.
    noise : float
        Chance that a label is drawn at random; used where ``memberships`` is not given.
    missing : float
        Chance that a partition did not see an object (label -1).
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato.datasets import make_labelings
    >>> L, memberships, labels = make_labelings(50, 3, n_members=20, missing=0.1, random_state=0)
    >>> L.shape, int(L.min())
    ((50, 20), -1)
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters, n_members=n_members)
    check_numbers(high=1.0, noise=noise, missing=missing)
    rng = np.random.default_rng(random_state)
    if memberships is None:
        pure = one_hot(rng.permutation(np.arange(n_objects) % n_clusters), n_clusters)
        U = (1 - noise) * pure + noise / n_clusters
    else:
        U = check_memberships(memberships)
    L = np.stack(
        [rng.permutation(U.shape[1])[_draw_labels(rng, U)] for _ in range(n_members)], axis=1
    )
    L[rng.random(L.shape) < missing] = -1
    return Simulated(L, U, U.argmax(axis=1))
