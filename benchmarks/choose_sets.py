"""Data with and without clusters for ``bench_choose``: what set thresholds, what was kept aside.

``NOISE`` and ``FAMILIES`` map names to makers. ``SET`` names those on which the structure test was
calibrated or its settings were compared, ``SEEN`` those that were looked at when an earlier rule
was taken, ``ASIDE`` ten on which nothing was set.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import make_circles, make_moons

Maker = Callable[[int, np.random.Generator], np.ndarray]
Family = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def _ring(n: int, rng: np.random.Generator) -> np.ndarray:
    angle = rng.random(n) * 2 * np.pi
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(n, 2))


NOISE: dict[str, Maker] = {
    "uniform, 2": lambda n, rng: rng.random((n, 2)),
    "uniform, 10": lambda n, rng: rng.random((n, 10)),
    "normal, 2": lambda n, rng: rng.normal(size=(n, 2)),
    "normal, 50": lambda n, rng: rng.normal(size=(n, 50)),
    "exponential, 3": lambda n, rng: rng.exponential(size=(n, 3)),
    "t, 5": lambda n, rng: rng.standard_t(3, size=(n, 5)),
    "correlated, 20": lambda n, rng: rng.normal(size=(n, 20)) @ rng.normal(size=(20, 20)),
    "elongated, 4": lambda n, rng: rng.normal(size=(n, 4)) * [10, 1, 1, 1],
    "ring": _ring,
}


def _centers(k: int, p: int, gap: float, rng: np.random.Generator) -> np.ndarray:
    """k centers, the nearest two of which are ``gap`` apart: the widest of 200 draws."""
    draws = [rng.normal(size=(k, p)) for _ in range(200)]
    best = max(draws, key=lambda C: pdist(C).min() / C.std())
    return best / pdist(best).min() * gap


def _blobs(k: int, p: int, gap: float, sizes: tuple[int, ...] | None = None) -> Family:
    def make(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        shares = np.ones(k) if sizes is None else np.array(sizes)
        labels = np.repeat(np.arange(k), np.round(n * shares / shares.sum()).astype(int))
        return _centers(k, p, gap, rng)[labels] + rng.normal(size=(len(labels), p)), labels

    return make


def _heavy(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X, labels = _blobs(3, 2, 9)(n, rng)
    return X + rng.standard_t(4, size=X.shape), labels


def _skewed(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X, labels = _blobs(3, 2, 6)(n, rng)
    return X @ rng.normal(size=(2, 2)), labels


def _long(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 2
    return rng.normal(size=(n, 2)) * [6, 0.5] + np.outer(labels, [0, 4]), labels


def _nested(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three far pairs of near groups."""
    labels = np.arange(n) % 6
    far, near = _centers(3, 2, 30, rng), np.array([[-3.0, 0.0], [3.0, 0.0]])
    return far[labels // 2] + near[labels % 2] + rng.normal(size=(n, 2)), labels


def _spreads(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 3
    spread = np.array([0.3, 1.0, 2.5])[labels]
    return _centers(3, 2, 11, rng)[labels] + spread[:, None] * rng.normal(size=(n, 2)), labels


def _exponential(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 3
    return _centers(3, 2, 9, rng)[labels] + rng.exponential(size=(n, 2)), labels


def _spirals(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 2
    turn = 0.5 + 1.5 * np.sqrt(rng.random(n))
    angle = 2 * np.pi * turn * 0.8 + np.pi * labels
    arms = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return arms + 0.03 * rng.normal(size=(n, 2)), labels


def _discs(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 4
    angle, radius = rng.random(n) * 2 * np.pi, np.sqrt(rng.random(n))
    disc = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return disc + _centers(4, 2, 2.6, rng)[labels], labels


def _seeded(maker: Callable[..., tuple[np.ndarray, np.ndarray]], **settings: float) -> Family:
    return lambda n, rng: maker(n, random_state=int(rng.integers(2**31)), **settings)


FAMILIES: dict[str, Family] = {
    "3 overlapping (4 sd)": _blobs(3, 2, 4),
    "2 groups (5 sd)": _blobs(2, 2, 5),
    "5 groups": _blobs(5, 2, 5),
    "moons": _seeded(make_moons, noise=0.07),
    "4 groups in 10 dimensions": _blobs(4, 10, 6),
    "unequal sizes 6:3:1": _blobs(3, 2, 6, (6, 3, 1)),
    "circles": _seeded(make_circles, noise=0.05, factor=0.4),
    "3 groups in 50 dimensions": _blobs(3, 50, 7),
    "skewed": _skewed,
    "long parallel": _long,
    "8 groups": _blobs(8, 2, 6),
    "14 groups": _blobs(14, 5, 7),
    "nested, 3 x 2": _nested,
    "spreads 1:3:8": _spreads,
    "exponential groups": _exponential,
    "spirals": _spirals,
    "4 discs": _discs,
    "heavy tails": _heavy,
}
SET_NOISE = ("uniform, 2", "uniform, 10")
SET = tuple(list(FAMILIES)[:7])
SEEN = tuple(list(FAMILIES)[7:12])
ASIDE = tuple(name for name in list(FAMILIES)[7:] if name != "spirals")
ONLY = os.environ.get("SFUMATO_ONLY", "")  # names, separated by semicolons, for a run in parts


def wanted(name: str) -> bool:
    """Whether a family or a kind of noise is to be run."""
    return not ONLY or name in ONLY.split(";")
