"""Thirty further sets with known clusters, kept aside: nothing was chosen on them.

Shapes in the plane in the likeness of published ones (Gagolewski 2022 lists them), and tables with
what makes tables hard: units, correlations, skewness, features of noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["FURTHER"]

Rng = np.random.Generator
Set = tuple[np.ndarray, np.ndarray]
FURTHER: dict[str, Callable[[Rng], Set]] = {}


def _named(make: Callable[[Rng], list[np.ndarray]]) -> Callable[[Rng], list[np.ndarray]]:
    def draw(rng: Rng) -> Set:
        parts = make(rng)
        sizes = [len(part) for part in parts]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)

    FURTHER[make.__name__.strip("_").replace("_", " ")] = draw
    return make


def _cloud(rng: Rng, center: object, spread: object, size: int) -> np.ndarray:
    center = np.asarray(center, dtype=float)
    return center + np.asarray(spread) * rng.normal(size=(size, len(center)))


def _arc(
    rng: Rng,
    center: tuple,
    radius: float,
    noise: float,
    size: int,
    start: float = 0,
    end: float = 2,
) -> np.ndarray:
    """Part of a ring, between two angles in units of pi."""
    angle = rng.uniform(start * np.pi, end * np.pi, size)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(center) + radius * circle + noise * rng.normal(size=(size, 2))


def _disc(rng: Rng, center: tuple, radius: float, size: int) -> np.ndarray:
    angle, distance = rng.uniform(0, 2 * np.pi, size), radius * np.sqrt(rng.random(size))
    return np.asarray(center) + distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _box(rng: Rng, low: tuple, high: tuple, size: int) -> np.ndarray:
    return rng.uniform(low, high, size=(size, len(low)))


@_named
def _compound(rng):
    near = [_disc(rng, (0, 0), 1, 90), _disc(rng, (2.2, 1.5), 0.7, 50)]
    ring = [_arc(rng, (7, 1), 1.5, 0.08, 60), _disc(rng, (7, 1), 0.4, 20)]
    return [*near, *ring, _disc(rng, (6, -4), 0.5, 60), _box(rng, (3, -6), (9, -2), 60)]


@_named
def _aggregation(rng):
    discs = [(0, 0, 2, 170), (3.5, -3, 1.2, 100), (9, 1, 3, 270), (13, -3, 1, 45)]
    discs += [(10, -6, 1.7, 130), (12.8, -6.2, 0.9, 35), (2, -7, 1, 40)]
    return [_disc(rng, (x, y), radius, size) for x, y, radius, size in discs]


@_named
def _pathbased(rng):
    inside = [_cloud(rng, (x, 0.3), 0.45, 95) for x in (-1.2, 1.2)]
    return [_arc(rng, (0, 0), 3.2, 0.15, 110, -0.24, 1.24), *inside]


@_named
def _flame(rng):
    return [_disc(rng, (0, 1.2), 1, 90), _arc(rng, (0, 0.3), 1.7, 0.25, 150, 1, 2)]


@_named
def _smile(rng):
    eyes = [_cloud(rng, (x, 1), 0.15, 150) for x in (-1, 1)]
    return [_arc(rng, (0, 0), 3, 0.1, 300), *eyes, _arc(rng, (0, -0.2), 1.6, 0.08, 200, 1.15, 1.85)]


@_named
def _stripes(rng):
    turn = np.array([[0.809, -0.588], [0.588, 0.809]])
    return [_box(rng, (-4, y), (4, y + 0.35), 300) @ turn.T for y in (0, 1)]


@_named
def _windows(rng):
    frames = []
    for radius in (2.0, 3.2, 4.4):
        along, across = rng.uniform(-radius, radius, 400), radius + rng.uniform(-0.15, 0.15, 400)
        side = rng.integers(4, size=400)
        x = np.choose(side, [along, along, across, -across])
        frames.append(np.stack([x, np.choose(side, [across, -across, along, along])], axis=1) + 0.5)
    return [_box(rng, (0, 0), (1, 1), 150), *frames]


@_named
def _isolation(rng):
    return [_arc(rng, (0, 0), radius, 0.08, 100 + 100 * radius) for radius in (1, 2, 3)]


@_named
def _cross(rng):
    corners = [(-3, 0.25), (0.25, 0.25), (-3, -3), (0.25, -3)]
    return [_box(rng, low, (low[0] + 2.75, low[1] + 2.75), 150) for low in corners]


@_named
def _parabolas(rng):
    x, z = rng.uniform(-2, 2, 300), rng.uniform(-1, 3, 300)
    curves = [np.stack([x, x**2], axis=1), np.stack([z, 5.7 - (z - 1) ** 2], axis=1)]
    return [curve + 0.15 * rng.normal(size=curve.shape) for curve in curves]


@_named
def _crosses(rng):
    parts = []
    for center in ((0, 0), (6, 0), (3, 5), (9, 5)):
        t, sign = rng.normal(size=150), rng.choice([-1, 1], 150)
        parts.append(_cloud(rng, (0, 0), 0.2, 150) + np.stack([t, sign * t], axis=1) + center)
    return parts


@_named
def _line(rng):
    thin = np.stack([rng.uniform(-5, 5, 80), 0.02 * rng.normal(size=80)], axis=1)
    return [thin, _cloud(rng, (0, 2), 0.6, 170)]


@_named
def _dense(rng):
    return [_cloud(rng, (0, 0), 0.15, 100), _cloud(rng, (1.2, 0), 0.5, 100)]


@_named
def _three_bars(rng):
    t = np.linspace(0, 1, 150)
    slope = np.stack([4 - 4 * t, 0.8 + t], axis=1) + 0.07 * rng.normal(size=(150, 2))
    bars = [_box(rng, (0, 0), (4, 0.6), 150), _box(rng, (0, 2), (4, 2.6), 150)]
    return [*bars, slope, _cloud(rng, (7, 1), (0.4, 1.2), 150)]


@_named
def _trajectories(rng):
    parts = []
    for i in range(4):
        t = rng.uniform(0, 10, 350)
        wave = np.stack([t, np.sin(0.8 * t + 0.3 * i) + 1.6 * i], axis=1)
        parts.append(wave + 0.12 * rng.normal(size=wave.shape))
    return parts


@_named
def _two_splashes(rng):
    return [_cloud(rng, (0, 0), (1, 0.6), 200), _cloud(rng, (2.6, 2.2), (1.2, 0.6), 200)]


@_named
def _three_touching(rng):
    return [_cloud(rng, center, 0.8, 100) for center in ((0, 0), (3, 0.3), (1.3, 3))]


@_named
def _fifteen_touching(rng):
    x = [2, 6, 9, 4, 8, 1, 5, 9, 3, 7, 11, 12, 12, 1, 11]
    y = [2, 1, 3, 5, 6, 7, 9, 9, 11, 12, 11, 6, 1, 13, 14]
    return [_cloud(rng, center, 0.75, 100) for center in zip(x, y, strict=True)]


@_named
def _twenty(rng):
    grid = np.stack(np.meshgrid(range(5), range(4)), axis=-1).reshape(-1, 2)
    return [_cloud(rng, 3.0 * c + 0.4 * rng.normal(size=2), 0.5, 75) for c in grid]


@_named
def _unbalanced(rng):
    few = [(40, 0), (44, 6), (40, 12), (47, 1), (47, 11)]
    many = [_cloud(rng, center, 0.6, 500) for center in ((0, 0), (3, 7), (-2, 13))]
    return many + [_cloud(rng, center, 1.0, 50) for center in few]


@_named
def _thirty_one(rng):
    centers: list[np.ndarray] = []
    while len(centers) < 31:
        trial = rng.uniform(0, 30, 2)
        if all(np.linalg.norm(trial - other) > 3.6 for other in centers):
            centers.append(trial)
    return [_cloud(rng, center, 0.7, 60) for center in centers]


@_named
def _sixteen_in_32(rng):
    return [_cloud(rng, rng.uniform(0, 10, 32), 0.8, 40) for _ in range(16)]


@_named
def _overlapping_in_8(rng):
    return [_cloud(rng, np.full(8, center), 1.0, 300) for center in (0, 1.1)]


@_named
def _overlapping_three(rng):
    return [_cloud(rng, center, 1.0, 150) for center in ((0, 0), (3, 0), (1.5, 2.6))]


@_named
def _trapped(rng):
    inside = [_disc(rng, (x, 0), 0.7, 400) for x in (0, 5)]
    return [*inside, _arc(rng, (2.5, 0), 5, 0.25, 600)]


@_named
def _ring_and_strays(rng):
    parts = [_arc(rng, (0, 0), 3, 0.1, 400), _cloud(rng, (0, 0), 0.5, 150)]
    return parts + [_cloud(rng, center, 0.2, 15) for center in ((9, 0), (0, 9))]


@_named
def _table_in_units(rng):
    units = 10.0 ** np.arange(-3, 5)
    return [_cloud(rng, c, 1, 80) * units for c in 1.6 * rng.normal(size=(4, 8))]


@_named
def _table_with_noise(rng):
    clouds = [_cloud(rng, c, 1, 100) for c in 3 * rng.normal(size=(3, 4))]
    return [np.hstack([cloud, rng.normal(size=(100, 12))]) for cloud in clouds]


@_named
def _correlated_table(rng):
    mix = rng.normal(size=(6, 6)) * [20, 5, 2, 1, 0.5, 0.1]
    return [_cloud(rng, c, 1, 90) @ mix for c in 1.5 * rng.normal(size=(3, 6))]


@_named
def _skewed_table(rng):
    return [np.exp(_cloud(rng, c, 0.6, 100)) for c in 1.3 * rng.normal(size=(4, 5))]


@_named
def _component_scores(rng):
    noise = np.linspace(1, 0.6, 35)
    clouds = [_cloud(rng, c, 1, 80) for c in 4 * rng.normal(size=(6, 5))]
    return [np.hstack([cloud, noise * rng.normal(size=(80, 35))]) for cloud in clouds]
