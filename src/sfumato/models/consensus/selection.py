"""Scores for the number of clusters of an ensemble.

One score for each number of clusters, higher is better. The default,

    eigengap    (relative eigengap less the misfit) times the mean adjusted Rand index of the
                clusters to the partitions,

asks for clusters that stand apart and that the partitions agree with. Few coarse partitions leave
parts that none of them joins: two such parts stand apart as well as five, but say less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...engine.mixture import GROWTH
from ...engine.numbers import noise_level, reading
from ...numerics import label_table as tables
from ...numerics.label_sweep import brier_score
from ...selection import criteria
from .reading import ByKernel, Settings
from .solvers import ByLinkage, solve

CRITERIA = ("eigengap", "held-out", "lifetime")
N_FOLDS = 3
COMPARED = 2000  # objects on which clusters and partitions are compared
# Difference of skill: the largest number of clusters this close to the best is chosen, since
# clusters may contain clusters
INDIFFERENT = 0.02


def choose(
    criterion: str,
    consensus: Any,
    table: tables.Table,
    asked: Any,
    largest: int,
    settings: Settings,
) -> tuple[int, np.ndarray, np.ndarray, bool]:
    """Number of clusters, the numbers tried, their scores, and whether noise has such gaps.

    ``asked`` are the numbers, or "auto" for 2, ..., ``largest``, and twice as many while the best
    number is the largest one tried.
    """
    if not isinstance(asked, str):
        candidates = np.array(sorted({int(k) for k in asked if k < len(table.codes)} or {1}))
        return _choose(criterion, consensus, table, candidates, settings)
    limit, cap = largest, min(GROWTH * largest, len(table.codes))
    while True:
        candidates = np.arange(2, max(2, min(limit, len(table.codes) - 1)) + 1)
        found = _choose(criterion, consensus, table, candidates, settings)
        if found[0] < limit or limit >= cap:
            return found
        limit = min(2 * limit, cap)


def _choose(
    criterion: str, consensus: Any, table: tables.Table, candidates: np.ndarray, settings: Settings
) -> tuple[int, np.ndarray, np.ndarray, bool]:
    if criterion == "lifetime":
        heights = ByLinkage(consensus, table, 1).tree[:, 2]
        scores = criteria.lifetime(heights, candidates)
        return criteria.longest_lifetime(heights, int(candidates[-1])), candidates, scores, False
    kernel = isinstance(consensus, str) and consensus == "cluster-kernel"
    unseen = kernel and tables.has_unseen_pairs(table)
    if criterion == "eigengap" and not (unseen and len(table.codes) > tables.FEW_PAIRS):
        step = -(-len(table.codes) // COMPARED)
        given = table.objects(slice(None, None, step)).labels()
        gaps, scores = np.zeros(len(candidates)), np.zeros(len(candidates))
        readings = _completed(table, candidates, settings) if unseen else _read(table, candidates)
        mass = table.root[::step] ** 2
        for i, gap, labels in readings:
            gaps[i] = gap
            scores[i] = gap * criteria.mean_agreement(given, labels[::step], table.weights, mass)
        # Gaps of noise are small; whether clusters agree with the partitions says nothing of it.
        chance = bool(gaps.max() < noise_level(table.total))
        return int(candidates[np.argmax(scores)]), candidates, scores, chance
    if kernel and not unseen:
        # Partitions give no evidence for clusters beyond eigenvalues above chance.
        spectrum, _ = tables.spectrum(table, min(int(candidates[-1]) - 1, len(table.codes)))
        spoken = np.sum(_values(spectrum) > tables.chance_level(table))
        candidates = candidates[: max(1, spoken - 1)]
        scores = _skills(table, candidates, settings)
        best = int(candidates[scores >= scores.max() - INDIFFERENT].max())
        return best, candidates, scores, False
    scores = -_held_out(consensus, table, candidates, settings)
    return int(candidates[_smallest_good(scores)]), candidates, scores.mean(axis=0), False


def _read(table: tables.Table, candidates: np.ndarray) -> Iterator[tuple[int, float, np.ndarray]]:
    """For every number of clusters with a gap: its place, the eigengap of the normalised
    co-association less the misfit, and labels (n,).
    """
    spectrum, _ = tables.spectrum(table, min(int(candidates[-1]), len(table.codes)))
    gaps = criteria.eigengap(_values(spectrum))
    mass, root = table.root**2, table.root[:, None]
    for i, k in enumerate(candidates):
        # Few objects have fewer eigenvalues than there are candidates, which then have no gap.
        if 2 <= k <= len(gaps):
            Z = spectrum.vectors[:, :k]
            Z = Z / np.maximum(np.linalg.norm(Z, axis=1), 1e-150)[:, None]
            U = reading(Z, mass)
            fit = criteria.misfit(root * Z, root * U)
            yield i, float(criteria.penalized_eigengap(gaps[k - 1], fit)), U.argmax(axis=1)


def _completed(
    table: tables.Table, candidates: np.ndarray, settings: Settings
) -> Iterator[tuple[int, float, np.ndarray]]:
    """The same where pairs were never seen: these are filled in for each number of clusters."""
    for i, k in enumerate(candidates):
        if k <= np.count_nonzero(table.coverage):  # no more clusters than objects with a label
            found = solve("cluster-kernel", table, int(k), settings._replace(n_init=1))
            gap = criteria.eigengap(found.spectrum)[-1]
            score = float(criteria.penalized_eigengap(gap, found.misfit))
            yield i, score, found.memberships.argmax(axis=1)


def _values(spectrum: Any) -> np.ndarray:
    """Eigenvalues, none above 1, with the following one, 0 if there is none."""
    following = spectrum.following if np.isfinite(spectrum.following) else 0.0
    return np.minimum(np.append(spectrum.values, following), 1.0)


def _folds(
    table: tables.Table, n_folds: int, settings: Settings
) -> tuple[tables.Table, np.ndarray]:
    """The table of the partitions that saw objects, and the fold of each."""
    telling = (table.weights > 0) & table.seen().any(axis=0)
    m = int(telling.sum())
    if m < 2:
        raise ValueError(
            "n_clusters='auto' by held-out partitions needs at least 2 partitions that saw "
            f"objects, got {m}: give n_clusters"
        )
    folds = np.random.default_rng(settings.random_state).permutation(m) % min(n_folds, m)
    return table if telling.all() else table.partitions(telling), folds


def _skills(table: tables.Table, candidates: np.ndarray, settings: Settings) -> np.ndarray:
    """Brier skill  1 - |K - U U'|^2 / |K - mean K|^2,  K the rank-k cluster kernel of the other
    half of the partitions: single fine ones would favour every further split.
    """
    table, half = _folds(table, 2, settings)
    skills = np.empty((2, len(candidates)))
    for index, k in enumerate(candidates):
        fits = [
            ByKernel(table.partitions(half == side), int(k), settings._replace(n_init=1))
            for side in (0, 1)
        ]
        for side in (0, 1):
            skills[side, index] = _skill(fits[1 - side].kernel.factor, fits[side].memberships)
    return skills.mean(axis=0)


def _skill(Z: Any, U: np.ndarray) -> float:
    """1 - |ZZ' - UU'|^2 / |ZZ' - mean|^2, over all pairs of objects, without a matrix of them."""
    square = np.sum((Z.T @ Z) ** 2)
    error = square - 2 * np.sum((Z.T @ U) ** 2) + np.sum((U.T @ U) ** 2)
    spread = square - (np.sum(Z.sum(axis=0) ** 2) / len(Z)) ** 2
    if spread <= 1e-12 * square:  # all pairs are together: there is nothing to explain
        return 0.0
    return float(1.0 - error / spread)


def _held_out(
    consensus: Any, table: tables.Table, candidates: np.ndarray, settings: Settings
) -> np.ndarray:
    """Brier score of u_i'u_j on partitions (rows) that had no part in the fits (columns)."""
    table, folds = _folds(table, N_FOLDS, settings)
    scores = np.empty((len(folds), len(candidates)))
    for fold in np.unique(folds):
        kept = table.partitions(folds != fold)
        for index, k in enumerate(candidates):
            U = solve(consensus, kept, int(k), settings._replace(n_init=1)).memberships
            U = np.where(kept.coverage[:, None] > 0, U, 1.0 / U.shape[1])
            for partition in np.flatnonzero(folds == fold):
                scores[partition, index] = brier_score(table.partitions(np.array([partition])), U)
    return scores


def _smallest_good(scores: np.ndarray) -> int:
    """The first column short of the best by one standard error at most, or half a percent."""
    scores = scores / max(1.0, float(np.abs(scores).max()))  # weights may make them any size
    best = int(np.argmax(scores.mean(axis=0)))
    shortfall = scores[:, best : best + 1] - scores
    error = shortfall.std(axis=0, ddof=1) / np.sqrt(len(scores))
    slight = np.maximum(error, 0.005 * np.abs(scores.mean(axis=0)[best]) + 1e-9)
    return int(np.argmax(shortfall.mean(axis=0) <= slight))
