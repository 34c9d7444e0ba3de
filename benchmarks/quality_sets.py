"""Data sets with a known number of clusters for the quality table, in two halves.

``CHOOSING``: sets on which constants of the consensus were chosen. ``ASIDE``: sets on which nothing
was chosen. Names of the Fundamental Clustering Problems Suite (Ultsch 2005) and of the sets of
Franti and Sieranoja (2018) are those of their models: the generators follow the published
descriptions, not the published files.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn import datasets as sk
from sklearn.preprocessing import StandardScaler

__all__ = ["ASIDE", "CHOOSING", "REAL", "Set", "make"]

Set = tuple[np.ndarray, np.ndarray]


def make(name: str, seed: int = 0) -> Set:
    """Features (n, p) and labels (n,) of a named set."""
    X, y = {**CHOOSING, **ASIDE}[name](np.random.default_rng(seed))
    order = np.random.default_rng(seed + 1).permutation(len(X))
    return np.asarray(X, dtype=np.float64)[order], np.asarray(y)[order]


def _stack(parts: list[np.ndarray]) -> Set:
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _gaussians(
    rng: np.random.Generator, centers: np.ndarray, spreads: object, sizes: object
) -> Set:
    """Spherical clusters around centers."""
    spreads, sizes = (np.broadcast_to(each, len(centers)) for each in (spreads, sizes))
    return _stack(
        [
            center + spread * rng.normal(size=(size, len(center)))
            for center, spread, size in zip(centers, spreads, sizes, strict=True)
        ]
    )


def _box(rng: np.random.Generator, low: tuple, high: tuple, size: int) -> np.ndarray:
    return rng.uniform(low, high, size=(size, len(low)))


def _ring(rng: np.random.Generator, radius: float, noise: float, size: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, size)
    circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return circle + noise * rng.normal(size=(size, 2))


def _ball(rng: np.random.Generator, radius: float, size: int, d: int = 3) -> np.ndarray:
    direction = rng.normal(size=(size, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return radius * direction * rng.random((size, 1)) ** (1 / d)


# ---- real data
# -----------------------------------------------------------------------------------------------------


def _loaded(load: Callable[..., Set], scaled: bool = False) -> Callable[[np.random.Generator], Set]:
    def draw(rng: np.random.Generator) -> Set:
        X, y = load(return_X_y=True)
        return (StandardScaler().fit_transform(X) if scaled else X), y

    return draw


def _enlarged_digits(rng: np.random.Generator) -> Set:
    """Digits drawn on 28 x 28 points by linear interpolation, with noise: 784 features."""
    from scipy.ndimage import zoom

    X, y = sk.load_digits(return_X_y=True)
    chosen = rng.permutation(len(X))[:1200]
    images = zoom(X[chosen].reshape(-1, 8, 8), (1, 3.5, 3.5), order=1)
    return images.reshape(len(chosen), -1) + rng.normal(size=(len(chosen), 784)), y[chosen]


# ---- shapes
# --------------------------------------------------------------------------------------------------------


def _dartboard(rng: np.random.Generator) -> Set:
    return _stack([_ring(rng, radius, 0.03, 250) for radius in (0.5, 1.0, 1.5, 2.0)])


def _target(rng: np.random.Generator) -> Set:
    """A disc in a ring, four corners with three strays each."""
    disc = _ball(rng, 0.8, 365, 2)
    corners = [
        np.array(corner) + 0.1 * rng.normal(size=(3, 2))
        for corner in ((3, 3), (-3, 3), (3, -3), (-3, -3))
    ]
    return _stack([disc, _ring(rng, 2.2, 0.12, 395), *corners])


def _chainlink(rng: np.random.Generator) -> Set:
    one, two = _ring(rng, 1, 0.05, 500), _ring(rng, 1, 0.05, 500)
    noise = 0.05 * rng.normal(size=(2, 500))
    return _stack(
        [
            np.column_stack([one[:, 0], one[:, 1], noise[0]]),
            np.column_stack([two[:, 0] + 1, noise[1], two[:, 1]]),
        ]
    )


def _atom(rng: np.random.Generator) -> Set:
    shell = rng.normal(size=(400, 3))
    shell *= (50 + rng.normal(size=(400, 1))) / np.linalg.norm(shell, axis=1, keepdims=True)
    return _stack([_ball(rng, 10, 400), shell])


def _hepta(rng: np.random.Generator) -> Set:
    centers = 3 * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
    return _stack([center + _ball(rng, 1, 30) for center in centers])


def _tetra(rng: np.random.Generator) -> Set:
    centers = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return _stack([center + _ball(rng, 1.2, 100) for center in centers])


def _lsun(rng: np.random.Generator) -> Set:
    bars = [_box(rng, (0, 0), (0.5, 3.5), 150), _box(rng, (1.2, 0), (4, 0.5), 150)]
    return _stack([*bars, np.array([3, 2.8]) + _ball(rng, 0.6, 100, 2)])


def _two_diamonds(rng: np.random.Generator) -> Set:
    square = rng.uniform(-1, 1, size=(2, 400, 2)) @ np.array([[0.5, 0.5], [0.5, -0.5]])
    return _stack([square[0], square[1] + [2.02, 0]])


def _wing_nut(rng: np.random.Generator) -> Set:
    x = rng.uniform(size=(3000, 2))
    wing = x[rng.random(3000) < (x[:, 0] + x[:, 1]) / 2][:500]
    return _stack([wing * [1, 1], -wing * [1, 1] + [2.25, 1.6]])


def _engy_time(rng: np.random.Generator) -> Set:
    return _stack(
        [rng.normal(size=(500, 2)) * [1, 0.7], rng.normal(size=(500, 2)) * [0.7, 1.6] + [3, 3]]
    )


def _spirals(rng: np.random.Generator, arms: int = 3, size: int = 150) -> Set:
    angle = np.sqrt(rng.uniform(0.04, 1, size=(arms, size))) * 1.6 * np.pi
    parts = []
    for arm, t in enumerate(angle):
        turn = t + 2 * np.pi * arm / arms
        points = t[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        parts.append(points + 0.08 * rng.normal(size=(size, 2)))
    return _stack(parts)


def _jain(rng: np.random.Generator) -> Set:
    """Two half moons, one three times as dense."""
    X, y = sk.make_moons((120, 360), noise=0.07, random_state=int(rng.integers(2**31)))
    return X, y


def _moons(rng: np.random.Generator) -> Set:
    return sk.make_moons(500, noise=0.07, random_state=int(rng.integers(2**31)))


def _circles(rng: np.random.Generator) -> Set:
    return sk.make_circles(500, factor=0.5, noise=0.05, random_state=int(rng.integers(2**31)))


def _anisotropic(rng: np.random.Generator) -> Set:
    X, y = sk.make_blobs(500, random_state=170)
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y


def _varied(rng: np.random.Generator) -> Set:
    return sk.make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170)


def _dense_beside_sparse(rng: np.random.Generator) -> Set:
    return _gaussians(rng, np.array([[0.0, 0.0], [4.0, 0.0]]), [0.3, 1.2], [300, 100])


def _crossing(rng: np.random.Generator) -> Set:
    streak = rng.normal(size=(2, 300, 2)) * [3, 0.15]
    return _stack([streak[0], streak[1][:, ::-1]])


def _parallel(rng: np.random.Generator) -> Set:
    """Long streaks side by side, in columns of very different units."""
    X, y = _stack([rng.normal(size=(150, 2)) * [4, 0.25] + [0, 1.8 * i] for i in range(3)])
    return X * [1000, 1], y


def _uneven(rng: np.random.Generator) -> Set:
    """Three large clusters beside five small ones."""
    centers = rng.uniform(-1, 1, size=(5, 2)) * [3, 10] + [20, 0]
    centers = np.concatenate([[[0, 0], [4, 6], [0, -7]], np.sort(centers, axis=0) * 1.6])
    return _gaussians(rng, centers, [0.7] * 3 + [0.9] * 5, [400] * 3 + [40] * 5)


def _rings15(rng: np.random.Generator) -> Set:
    """Fifteen small clusters: one in the middle, seven around it, seven further out."""
    turn = np.arange(7) * 2 * np.pi / 7
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return _gaussians(rng, np.concatenate([[[0, 0]], 1.6 * circle, 4 * circle]), 0.25, 40)


def _grid(rng: np.random.Generator, k: int, spread: float, d: int = 2, size: int = 60) -> Set:
    """k clusters at random places of a box, none closer than four spreads."""
    centers: list[np.ndarray] = []
    while len(centers) < k:
        trial = rng.uniform(0, 10, size=d)
        if all(np.linalg.norm(trial - other) > 4.0 * spread for other in centers):
            centers.append(trial)
    return _gaussians(rng, np.array(centers), spread, size)


def _high(rng: np.random.Generator, k: int, d: int, separation: float, size: int) -> Set:
    """Clusters with random full covariances in many dimensions."""
    parts = []
    for _ in range(k):
        axes = np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.3, 1.7, size=d)
        parts.append(rng.normal(size=(size, d)) @ axes.T + separation * rng.normal(size=d))
    return _stack(parts)


def _strays(rng: np.random.Generator) -> Set:
    """Three clusters of Student's t with two degrees of freedom."""
    centers = np.array([[0, 0], [12, 0], [5, 11]])
    return _stack([center + rng.standard_t(2.0, size=(200, 2)) for center in centers])


def _zigzag(rng: np.random.Generator) -> Set:
    """Three zigzag lines, one above the other."""
    parts = []
    for row in range(3):
        x = rng.uniform(0, 8, 200)
        parts.append(np.stack([x, np.abs(x % 2 - 1) + 1.0 * row], axis=1))
    X, y = _stack(parts)
    return X + 0.06 * rng.normal(size=X.shape), y


def _lines3d(rng: np.random.Generator) -> Set:
    """Four noisy segments in space."""
    parts = []
    for _ in range(4):
        start, end = rng.uniform(-5, 5, size=(2, 3))
        t = rng.random((150, 1))
        parts.append(start + t * (end - start) + 0.15 * rng.normal(size=(150, 3)))
    return _stack(parts)


def _sparse_counts(rng: np.random.Generator) -> Set:
    """Counts of 100 words in documents of five topics."""
    topics = rng.dirichlet(np.full(100, 0.1), size=5)
    length = rng.integers(60, 200, size=600)
    y = np.repeat(np.arange(5), 120)
    return np.stack([rng.multinomial(m, topics[c]) for m, c in zip(length, y, strict=True)]), y


def _skewed(rng: np.random.Generator) -> Set:
    """Three clusters of products of exponentials."""
    centers = np.array([[0, 0], [3.5, 0.5], [0.5, 4]])
    return _stack([center + rng.exponential(0.7, size=(200, 2)) for center in centers])


def _mixed_shapes(rng: np.random.Generator) -> Set:
    """A ring around a disc, a bar and two clusters of different density."""
    parts = [
        _ring(rng, 2.0, 0.12, 250),
        _ball(rng, 0.7, 120, 2),
        _box(rng, (4, -2), (4.6, 3), 150),
        np.array([8, 2]) + 0.9 * rng.normal(size=(150, 2)),
        np.array([8, -3]) + 0.3 * rng.normal(size=(150, 2)),
    ]
    return _stack(parts)


CHOOSING: dict[str, Callable[[np.random.Generator], Set]] = {
    "iris": _loaded(sk.load_iris),
    "wine": _loaded(sk.load_wine),
    "wine, scaled": _loaded(sk.load_wine, scaled=True),
    "breast cancer": _loaded(sk.load_breast_cancer),
    "digits": _loaded(sk.load_digits),
    "moons": _moons,
    "circles": _circles,
    "anisotropic blobs": _anisotropic,
    "dense beside sparse": _dense_beside_sparse,
    "crossing streaks": _crossing,
    "dartboard": _dartboard,
    "spirals": _spirals,
    "hepta": _hepta,
    "lsun": _lsun,
    "target, strays": _target,
    "engy time": _engy_time,
    "fifteen in rings": _rings15,
    "uneven sizes": _uneven,
    "ten dimensions, 5": lambda rng: _high(rng, 5, 10, 1.2, 120),
    "heavy tails": _strays,
}
ASIDE: dict[str, Callable[[np.random.Generator], Set]] = {
    "breast cancer, scaled": _loaded(sk.load_breast_cancer, scaled=True),
    "digits, 784 points": _enlarged_digits,
    "varied blobs": _varied,
    "jain": _jain,
    "chainlink": _chainlink,
    "atom": _atom,
    "tetra": _tetra,
    "two diamonds": _two_diamonds,
    "wing nut": _wing_nut,
    "parallel streaks, units": _parallel,
    "zigzag": _zigzag,
    "lines in space": _lines3d,
    "topic counts": _sparse_counts,
    "skewed": _skewed,
    "mixed shapes": _mixed_shapes,
    "two spirals": lambda rng: _spirals(rng, 2, 250),
    "twelve clusters": lambda rng: _grid(rng, 12, 0.55),
    "eight in 32 dimensions": lambda rng: _high(rng, 8, 32, 0.8, 100),
    "six in 5 dimensions": lambda rng: _high(rng, 6, 5, 1.8, 100),
    "twenty clusters": lambda rng: _grid(rng, 20, 0.4),
}
REAL = (
    "iris",
    "wine",
    "wine, scaled",
    "breast cancer",
    "breast cancer, scaled",
    "digits",
    "digits, 784 points",
)
