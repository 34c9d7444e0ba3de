"""Levels: nested soft clusterings, coarser and finer than the fitted one.

Coarser: the two clusters r and s with the largest soft overlap

    u_r'u_s / (|u_r| |u_s|)

(for labelings, whose clusters may be hard, u_r'C u_s with the co-association C instead of u_r'u_s)
are merged repeatedly, so memberships at a level are sums of columns of the next finer one.
Finer: every cluster s of a finer fit, with memberships v, is a part of the cluster r of the answer
with which it overlaps most, and the memberships of r are divided among its parts,

    u_is = u_ir v_is / sum of v_is' over the parts s' of r,

in proportion to the sizes of the parts if all v are zero.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ..array.types import ArrayLike, Weights
from ..array.validation import check_number
from .numbers import eigengap, misfit, noise_level, penalized_eigengap

TIE = 1e-9  # overlaps that differ by less are equal, so that rounding does not decide


class Level(NamedTuple):
    """One of the nested soft clusterings of a fitted model.

    ``parents[s]`` is its column that contains column s of the finest level. It is ``shown`` if its
    score is a local maximum above that of noise; if none is, the answer itself is shown.
    """

    n_clusters: int
    score: float
    shown: bool
    parents: tuple[int, ...]


class Refinement(NamedTuple):
    """A finer fit within the clusters of the answer.

    Part s belongs to cluster ``parents[s]`` of the answer, and is column ``columns[s]`` of the
    finer ``model`` (-1 for a whole cluster). ``shares`` are relative sizes of the parts.
    """

    model: Any
    parents: np.ndarray
    columns: np.ndarray
    shares: np.ndarray

    def memberships(self, U: Any, V: Any) -> Any:
        """Memberships (n, F) in the parts, from those in the answer and in the finer fit."""
        xp = namespace(U)
        parents, columns = (asarray_like(part, U, xp.int64) for part in self[1:3])
        whole = asarray_like(self.columns < 0, U, xp.bool)
        V = xp.astype(xp.take(V, xp.where(whole, 0, columns), axis=1), U.dtype)
        V = xp.where(whole[None, :], xp.ones_like(V), V)
        total = xp.take(regroup(V, self.parents), parents, axis=1)
        some = total > 0
        shares = xp.broadcast_to(asarray_like(self.shares, U)[None, :], V.shape)
        shares = xp.where(some, V / xp.where(some, total, xp.ones_like(total)), shares)
        return xp.take(U, parents, axis=1) * shares


def regroup(U: Any, parents: ArrayLike) -> Any:
    """Memberships in merged clusters: column r sums the columns s with ``parents[s] == r``."""
    place = np.asarray(parents)
    sums = np.zeros((place.size, int(place.max()) + 1))
    sums[np.arange(place.size), place] = 1.0
    return U @ (sums.astype(U.dtype) if is_numpy(U) else asarray_like(sums, U))


def merged(
    products: np.ndarray, within: ArrayLike | None = None, noise: bool = False
) -> list[np.ndarray]:
    """Maps of K columns to K, K - 1, ... clusters, from their products U'U (K, K). Columns of one
    cluster ``within`` merge before others; a last column of ``noise`` never does.
    """
    G = np.array(products, dtype=np.float64)
    group = np.arange(len(G)) if within is None else np.asarray(within)
    maps = [np.arange(len(G))]
    while len(G) > 1 + noise:
        r, s = _most_alike(G, group, noise)
        place = np.arange(len(G)) - (np.arange(len(G)) > s)
        place[s] = r
        group = np.delete(group, s)
        G[r] += G[s]
        G[:, r] += G[:, s]
        G = np.delete(np.delete(G, s, 0), s, 1)
        maps.append(place[maps[-1]])
    return maps


def _most_alike(G: np.ndarray, group: np.ndarray, noise: bool) -> tuple[int, int]:
    """The pair r < s of columns with the largest overlap; the first one in a tie."""
    size = np.sqrt(np.maximum(G.diagonal(), 0.0))
    empty = size == 0
    size = np.where(empty, 1.0, size)
    overlap = np.where(empty[:, None] | empty[None, :], 1.0, G / size[:, None] / size[None, :])
    allowed = np.triu(np.ones(G.shape, dtype=bool), 1)
    if len(np.unique(group)) < len(group):
        allowed &= group[:, None] == group[None, :]
    elif noise:
        allowed[:, -1] = False
    overlap = np.where(allowed, overlap, -np.inf)
    return divmod(int(np.argmax(overlap >= overlap.max() - TIE)), len(G))


def refine(model: Any, U: Any, V: Any, weights: Weights, noise: bool) -> Refinement:
    """The refinement of memberships U by the memberships V of a finer ``model``: every cluster of V
    is a part of the cluster of U with which it overlaps most.
    """
    cross, own = products(U, V, weights), products(V, V, weights).diagonal()
    k = cross.shape[0]
    overlap = cross / np.sqrt(np.where(own > 0, own, 1.0))
    diagonal = products(U, U, weights).diagonal()
    overlap /= np.sqrt(np.where(diagonal > 0, diagonal, 1.0))[:, None]
    if noise:  # noise stays noise, and no cluster is a part of it
        overlap[-1, :], overlap[:-1, -1], overlap[-1, -1] = -1.0, -1.0, 1.0
    parent = np.argmax(overlap >= overlap.max(axis=0) - TIE, axis=0)
    alone = np.setdiff1d(np.arange(k), parent)
    parents = np.append(parent, alone)
    columns = np.append(np.arange(len(parent)), np.full(len(alone), -1))
    order = np.lexsort((columns, parents))
    parents, columns = parents[order], columns[order]
    size = np.append(sizes(V, weights), 1.0)[columns]
    total = np.bincount(parents, size, k)[parents]
    alike = 1.0 / np.bincount(parents)[parents]
    shares = np.where(total > 0, size / np.where(total > 0, total, 1.0), alike)
    return Refinement(model, parents, columns, shares)


def products(U: Any, V: Any, weights: Weights) -> np.ndarray:
    """U'V in double precision, weighted by object."""
    xp = namespace(U)
    U, V = (xp.astype(part, xp.float64) for part in (U, V))
    weighted = V if weights is None else V * asarray_like(weights, V)[:, None]
    return to_numpy(U.T @ weighted)


def sizes(U: Any, weights: Weights) -> np.ndarray:
    """Sums (k,) of the columns of U, weighted by object."""
    return products(namespace(U).ones_like(U[:, :1]), U, weights)[0]


def own_scores(U: Any, maps: list[np.ndarray], weights: Weights) -> dict[int, float]:
    """Scores of the levels ``maps`` of U for the similarity U U', the chance to belong together."""
    U = to_numpy(U).astype(np.float64)
    root = np.ones(len(U)) if weights is None else np.sqrt(weights)
    degree = U @ (root**2 @ U)
    B = (root / np.sqrt(np.where(degree > 0, degree, 1.0)))[:, None] * U
    values, rotation = np.linalg.eigh(B.T @ B)
    values, E = np.maximum(values[::-1], 0.0), B @ rotation[:, ::-1]
    E /= np.sqrt(np.where(values > 1e-12, values, np.inf))
    gaps, scores = eigengap(np.append(values, 0.0)), {}
    for place in maps:
        k = int(place.max()) + 1
        Z = E[:, :k] / np.maximum(np.linalg.norm(E[:, :k], axis=1), 1e-150)[:, None]
        fit = misfit(root[:, None] * Z, root[:, None] * regroup(U, place))
        scores[k] = 0.0 if k == 1 else float(penalized_eigengap(gaps[k - 1], fit))
    return scores


class Leveled:
    """Estimators whose memberships have coarser and finer levels."""

    memberships_: Any
    _has_noise: Callable[[], bool]
    _check_fitted: Callable[[], None]
    _fitted_to_: dict[str, Any]  # the arguments of ``fit``; not saved with a model
    _levels_: tuple[Level, ...]

    @property
    def levels_(self) -> tuple[Level, ...]:
        """Nested soft clusterings from coarse to fine, each with its score.

        The first access may fit a finer model.
        """
        self._check_fitted()
        if not hasattr(self, "_levels_"):
            self._levels_ = self._all_levels()
        return self._levels_

    def at(self, n_clusters: int) -> Any:
        """Memberships of the fitted objects at another level, without a new fit.

        Parameters
        ----------
        n_clusters : int
            One of the numbers in ``levels_``. Memberships in fewer clusters are sums of those in
            more clusters.

        Returns
        -------
        memberships : array of shape (n, n_clusters)
        """
        self._check_fitted()
        return self._at_level(self.memberships_, n_clusters, lambda finer: finer.model.memberships_)

    def _at_level(self, U: Any, n_clusters: int | None, finer: Callable[[Refinement], Any]) -> Any:
        """Memberships U of some objects at another level; ``finer`` gives those in a finer fit."""
        k = U.shape[1]
        if n_clusters is None or check_number(n_clusters, "n_clusters", low=1, integer=True) == k:
            return U
        if n_clusters < k and n_clusters > self._has_noise():
            return regroup(U, self._coarser()[k - n_clusters])
        found = self._finer() if n_clusters > k else None
        largest = k if found is None else len(found.parents)
        if found is None or n_clusters > largest:
            gone = " (a saved model has the finer levels that were looked at before it was saved)"
            gone = "" if hasattr(self, "_fitted_to_") else gone
            raise ValueError(
                f"n_clusters must be between {1 + self._has_noise()} and {largest}, the levels of "
                f"this model, got {n_clusters}: fit with that number" + gone
            )
        fine = found.memberships(U, finer(found))
        return regroup(fine, self._parts(found)[largest - n_clusters])

    def _new_at(self, U: Any, n_clusters: int | None, X: Any, **given: Any) -> Any:
        """Memberships U of the new objects X at another level; U itself if none is given."""
        return self._at_level(U, n_clusters, lambda finer: finer.model.predict_proba(X, **given))

    def _all_levels(self) -> tuple[Level, ...]:
        finer, coarser, weights = self._finer(), self._coarser(), self._object_masses()
        k, maps, U = len(coarser[0]), coarser, self.memberships_
        if finer is not None:
            U = finer.memberships(U, finer.model.memberships_)
            maps = [*self._parts(finer)[:-1], *(place[finer.parents] for place in coarser)]
        scores = self._level_scores()
        if not set(range(2, k + 1)) <= set(scores):
            scores = own_scores(U, maps, weights)
        places = {int(place.max()) + 1: tuple(place.tolist()) for place in reversed(maps)}
        shown = local_maxima({n: scores.get(n, 0.0) for n in places}, self._noise()) or {k}
        return tuple(Level(n, scores.get(n, 0.0), n in shown, place) for n, place in places.items())

    def _coarser(self) -> list[np.ndarray]:
        """Maps of the columns to n_clusters_, n_clusters_ - 1, ... clusters."""
        if not hasattr(self, "_coarser_"):
            self._coarser_ = merged(self._together(self.memberships_), noise=self._has_noise())
        return self._coarser_

    def _together(self, U: Any) -> np.ndarray:
        """How much the clusters of memberships U have in common: U'U."""
        return products(U, U, self._object_masses())

    def _finer(self) -> Refinement | None:
        """The finer fit; None if the data support none, or are no longer available."""
        if not hasattr(self, "_finer_") and hasattr(self, "_fitted_to_"):
            U, noise = self.memberships_, self._has_noise()
            n_clusters, found = self._finest(), None
            if n_clusters + noise > U.shape[1]:
                model: Any = clone(self).set_params(n_clusters=n_clusters)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the answer itself has already warned
                    model.fit(**self._fitted_to_)
                found = refine(model, U, model.memberships_, self._object_masses(), noise)
            self._finer_: Refinement | None = found
        return getattr(self, "_finer_", None)

    def _parts(self, finer: Refinement) -> list[np.ndarray]:
        """Maps of the F finest columns to F, F - 1, ..., n_clusters_ clusters."""
        if not hasattr(self, "_parts_"):
            U = finer.memberships(self.memberships_, finer.model.memberships_)
            self._parts_ = merged(self._together(U), finer.parents, self._has_noise())
        return self._parts_[: len(finer.parents) - self.memberships_.shape[1] + 1]

    def _finest(self) -> int:
        """The number of the fit, or a larger one whose score is a local maximum above noise."""
        own = self.memberships_.shape[1] - self._has_noise()
        if getattr(self, "init", None) is not None:  # memberships were given for this number
            return own
        return max([own, *local_maxima(self._level_scores(), self._noise())])

    def _level_scores(self) -> Mapping[int, float]:
        """Scores of numbers of clusters by the model's evidence; empty if it has none."""
        return {}

    def _object_masses(self) -> np.ndarray | None:
        """Weights of the fitted objects; None if all are one."""
        given = getattr(self, "_fitted_to_", {}).get("sample_weight")
        return None if given is None else np.asarray(given, dtype=np.float64).ravel()

    def _noise(self) -> float:
        """Score up to which a number of clusters may be noise."""
        masses = self._object_masses()
        return noise_level(len(self.memberships_) if masses is None else float(masses.sum()))

    def __getstate__(self) -> dict[str, Any]:
        """The state without the data. Finer levels are saved if they were computed before."""
        U = getattr(self, "memberships_", None)
        if isinstance(U, np.ndarray) and not hasattr(self, "_coarser_"):
            self._coarser()  # needs the weights of the objects
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitted_to_"}


def local_maxima(scores: Mapping[int, float], least: float = 0.0) -> set[int]:
    """Numbers whose score is above ``least`` and that of the previous one, not below the next."""
    numbers = sorted(scores)
    values = np.array([-np.inf, *(scores[n] for n in numbers), -np.inf])
    best = (values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])
    return {n for n, yes in zip(numbers, best, strict=True) if yes and scores[n] > least}
