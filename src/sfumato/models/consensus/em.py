"""Small Gaussian mixtures as members of an ensemble.

Expectation and maximisation, and the posteriors of many mixtures at once.

    E:  r_ij ~ pi_j N(y_i | mu_j, Sigma_j)
            M:  Sigma_j = (W_j + a K^(-2/d) I) / N_j
            W_j = sum_i r_ij (y_i - mu_j)(y_i - mu_j)'

in whitened coordinates y. The last term keeps a component of few objects from collapsing (after
Fraley and Raftery 2007, who add the same matrix with more weight). log pi_j N(y | mu_j, Sigma_j) is
linear in z(y) = (1, y, y_a y_b), so that E and M are one product each, and all mixtures of the
ensemble are one product too. Objects with missing values are a case apart (``holes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import asarray_like, is_numpy, namespace, native
from ...array.types import Weights
from ...numerics import distances, seeding
from ...numerics.holes import Gaps
from .holes import Partial, add_corrections
from .tuning import TUNING

__all__ = ["Mixtures", "Seen", "expect", "fit_mixture", "join", "maximize"]

MAX_STEPS = 60  # and TOLERANCE (per object): members need to be different, not to be converged
TOLERANCE = 1e-4
# Of the circle: its multiples spread evenly, however many there are
GOLDEN = 0.6180339887498949


class Mixtures(NamedTuple):
    """Coefficients (K, q) of log pi_j N(y) for the components of all mixtures, and where each
    begins, (m + 1,).
    """

    rows: np.ndarray
    offsets: np.ndarray
    n_axes: int

    def posteriors(self, Y: Any, gaps: Gaps | None = None) -> Any:
        """Posterior probabilities (K, n) of all components.

        Those of each mixture sum to one for every row of ``Y`` (n, d). ``gaps`` says what is open
        of them.
        """
        columns = np.ascontiguousarray(Y.T) if is_numpy(Y) else Y.T
        logits = asarray_like(self.rows, Y) @ distances.features(columns, "full")
        if gaps is not None:
            add_corrections(self.rows, Y, gaps, logits)
        if is_numpy(Y):
            native("mixtures").normalize_members(logits, self.offsets)
            return logits
        members = pairwise(self.offsets.tolist())
        parts = [distances.softmax_columns(logits[low:high, :])[0] for low, high in members]
        return namespace(logits).concat(parts)

    def guesses(
        self, Y: np.ndarray, gaps: Gaps, n_guesses: int
    ) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        """Objects with missing values, and as many guesses (m, d) of their coordinates.

        Each is what one component expects, taken by its posterior in one mixture; the mixtures take
        turns. The same object has the same guesses wherever it comes.
        """
        partial, where = Partial.of(Y, gaps, None)

        def guess(number: int) -> np.ndarray:
            member = number % (len(self.offsets) - 1)
            rows = self.rows[self.offsets[member] : self.offsets[member + 1]]
            share = distances.softmax_columns(partial.logits(rows))[0]
            level = (number + 0.5) * GOLDEN % 1.0
            chosen = np.minimum((np.cumsum(share, axis=0) < level).sum(axis=0), len(rows) - 1)
            return partial.expected(rows, chosen)

        return where, map(guess, range(n_guesses))


class Seen(NamedTuple):
    """Objects as the E step reads them.

    z(y) (q, n) of all of them, expected where values are missing; their weights or None; and, where
    values are missing, those without holes (``whole``) and those with some.
    """

    Z: np.ndarray
    mass: Weights
    whole: Seen | None = None
    partial: Partial | None = None

    @classmethod
    def of(cls, Y: np.ndarray, mass: Weights, gaps: Gaps | None) -> Seen:
        """From coordinates (n, d), weights (n,) and what is open."""
        Z = distances.features(np.ascontiguousarray(Y.T), "full")
        if gaps is None:
            return cls(Z, mass)
        partial, _ = Partial.of(Y, gaps, mass)
        rest = np.flatnonzero(gaps.pattern < 0)
        own = None if mass is None else mass[rest]
        return cls(Z, mass, cls(np.ascontiguousarray(Z[:, rest]), own), partial)

    @property
    def total(self) -> float:
        """Weight of all objects."""
        return float(self.Z.shape[1]) if self.mass is None else float(self.mass.sum())


def join(mixtures: list[np.ndarray], n_axes: int) -> Mixtures:
    """Several mixtures, each as its coefficients (K_b, q), as one record."""
    offsets = np.cumsum([0, *(len(rows) for rows in mixtures)])
    return Mixtures(np.concatenate(mixtures), offsets, n_axes)


def fit_mixture(seen: Seen, R: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Coefficients (k, q) of a mixture fitted to objects, started by k-means in coordinates ``R``
    (s, d).
    """
    weights = np.ones(len(R)) if seen.mass is None else seen.mass
    labels = seeding.kmeans(R, weights, k, rng, n_steps=5)
    share = (labels == np.arange(k)[:, None]) * weights
    sums = share[share.sum(axis=1) > 0] @ seen.Z.T
    d, before = R.shape[1], -np.inf
    if seen.partial is None:
        settings = (d, _prior(len(sums), d), MAX_STEPS, TOLERANCE)
        rows, value = native("mixtures").climb(seen.Z, seen.mass, sums, *settings)
        if np.isfinite(value):  # else some densities need more care
            return rows  # type: ignore[no-any-return]
    for _ in range(MAX_STEPS):
        rows = maximize(sums, d)
        sums, now = expect(seen, rows)
        if not np.isfinite(now):
            raise ArithmeticError("the likelihood is not finite")
        if now - before < TOLERANCE:
            break
        before = now
    return rows  # type: ignore[no-any-return]


def expect(seen: Seen, rows: np.ndarray) -> tuple[np.ndarray, float]:
    """The E step: sums (k, q) of z(y) weighted by the posterior, and the mean log-density."""
    if seen.partial is not None:
        return _expect_with_holes(seen, rows)
    found = distances.fused_sums(seen.Z, seen.mass, rows, 0)
    if found is not None:
        return found[0], found[1] / seen.total
    share, log_density = distances.softmax_columns(rows @ seen.Z)
    share = share if seen.mass is None else share * seen.mass
    return share @ seen.Z.T, float(np.average(log_density, weights=seen.mass))


def _expect_with_holes(seen: Seen, rows: np.ndarray) -> tuple[np.ndarray, float]:
    whole, partial = seen.whole, seen.partial
    assert whole is not None
    assert partial is not None
    share, level = distances.softmax_columns(partial.logits(rows))
    if partial.mass is not None:
        share, level = share * partial.mass, level * partial.mass
    sums, value = partial.sums(rows, share), float(level.sum())
    if whole.Z.shape[1]:
        others, mean = expect(whole, rows)
        sums, value = sums + others, value + mean * whole.total
    return sums, value / seen.total


def maximize(sums: np.ndarray, d: int) -> np.ndarray:
    """The M step, as coefficients of z(y), from weighted sums (k, q) of z(y)."""
    return native("mixtures").maximize(sums, d, _prior(len(sums), d))  # type: ignore[no-any-return]


def _prior(k: int, d: int) -> float:
    """a K^(-2/d) above."""
    return TUNING.prior * k ** (-2.0 / d)
