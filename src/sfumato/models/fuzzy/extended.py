"""Fuzzy c-means in memory: other metrics and kernels, missing values, links."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.rows import Rows
from ...array.types import ArrayLike
from ...array.validation import as_generator, check_n_clusters, check_weights
from ...data.constraints import Known, matching
from ...data.features import check_features
from ...engine import loop
from ...engine.base import InductiveClusterer
from ...engine.kernel_space import KernelSpace
from ...engine.linked import Linked, publish_kept
from ...engine.similarity_evidence import has_gaps
from ...numerics import distances, seeding
from ...numerics.coordinates import Coordinates, measure
from . import fuzziness, kernel
from .fuzziness import TUNING
from .general import GEOMETRIES, Pairs, Problem, Solution, memberships


class Frame(NamedTuple):
    """How features become the rows of a geometry: in coordinates, or in the space of a kernel."""

    coordinates: Coordinates | None = None
    space: KernelSpace | None = None

    def __call__(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n, q) of new objects, and the squared distance (n,) of each from their space."""
        if self.space is not None:
            return self.space(X)
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        rows = X if self.coordinates is None else self.coordinates.inner(X)
        return np.asarray(rows, dtype=np.float64), np.zeros(len(X))

    def unit(self, metric: str) -> float:
        """Units of the data in one of the distances, squared in all metrics but one."""
        scale = 1.0 if self.coordinates is None else float(self.coordinates.scale[0])
        return scale if metric == "manhattan" else scale * scale


class ExtendedFuzzy(InductiveClusterer):
    """Fits that the sums over row blocks do not express; the features are held in memory."""

    fuzzifier: float | str
    fuzzifier_: float | None
    entropy: float | None
    noise: float | None
    metric: Any
    init: Any
    _frame: Frame | None = None
    _coordinates: Coordinates
    _rule: kernel.Rule

    @property
    def _full(self) -> bool:
        """Whether clusters have ellipsoids of their own."""
        return isinstance(self.metric, str) and self.metric == "mahalanobis"

    @property
    def _euclidean(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "euclidean"

    @property
    def _named(self) -> str:
        """The geometry: a kernel is Euclidean in its own space."""
        return self.metric if self.metric in ("manhattan", "cosine") else "euclidean"

    def _needs_memory(self, X: Any, known: Known) -> bool:
        """Whether this fit is not one of plain sums."""
        summed = self._euclidean or self._full
        return not summed or _has_gaps(X) or known.links is not None

    def _fit_in_memory(self, X: Any, sample_weight: ArrayLike | None, known: Known) -> None:
        if self._full:
            raise ValueError(
                "metric='mahalanobis' needs complete features and takes no links: choose "
                "metric='euclidean'"
            )
        X = check_features(self, X, reset=True, missing=self._euclidean)
        if not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise ValueError("metric, missing values and links need X as a NumPy array")
        check_n_clusters(self.n_clusters, X.shape[0])
        weights = check_weights(sample_weight, X)
        w = np.ones(X.shape[0]) if weights is None else weights
        if callable(self.metric) or self.metric == "gaussian":
            space, Y = KernelSpace.of(X, self.metric, "metric", 0.5**0.5)
            self._frame = Frame(None, space)
        else:
            plain = Rows(X, weights)
            coordinates = measure(plain, per_feature=False, mix=False)
            self._frame = Frame(None if self.metric == "cosine" else coordinates)
            Y = self._frame(X)[0]
        unit = _spread(Y, w, self._named)
        self._rule = self._rule_of(unit, Y.shape[1], partial(self._some, Y, w))
        # A pair without a weight costs ten thousand times the mean distance.
        links = Linked.of(known, 1e4)
        pairs = None if links is None else Pairs.of(links, w, unit)
        problem = Problem(GEOMETRIES[self._named](Y), w, self._rule, links, pairs)
        starts = [Solution(_numbered(problem, centers)) for centers in self._starts(Y, w)]
        if links is not None:  # whose steps take longer: only the most promising start goes on
            first = [problem.run(start, TUNING.screened, 0.0) for start in starts]
            starts = [loop.best(first, larger=False).state]
        runs = [problem.run(start, self.max_iter, self.tol) for start in starts]
        self._publish_in_memory(problem, loop.best(runs, larger=False), X.dtype)
        publish_kept(self, known)

    def _rule_of(
        self, unit: float, width: int, sample: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> kernel.Rule:
        """How distances, of mean ``unit``, become memberships; ``sample()`` gives rows of ``width``
        numbers and weights for the choice of the fuzzifier.
        """
        noise = None if self.noise is None else self.noise**2 * unit
        if self.entropy is not None:
            self.fuzzifier_ = None
            return kernel.Rule(TUNING.classical, self.entropy * unit, noise)
        order = 1 if self._named == "manhattan" else 2
        if not isinstance(self.fuzzifier, str):
            self.fuzzifier_ = float(self.fuzzifier)
        elif fuzziness.least(width, order) == TUNING.classical:
            self.fuzzifier_ = TUNING.classical
        else:
            self.fuzzifier_ = fuzziness.choose(
                *sample(), self.n_clusters, order=order, ellipsoids=self._full, cap=noise or np.inf
            )
        return kernel.Rule(self.fuzzifier_, None, noise)

    def _some(self, Y: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sorted rows and their weights, for the choice of the fuzzifier."""
        size = max(20 * self.n_clusters, TUNING.sample)
        rng = np.random.default_rng(0)
        return seeding.sorted_sample(Rows(Y, w), size, rng, key=np.nan_to_num)[:2]

    def _starts(self, Y: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        """Centers to start from: those given, or far from each other."""
        if self.init is not None:
            assert self._frame is not None
            return [self._frame(self._given_centers())[0]]
        whole = np.nan_to_num(Y)
        order = seeding.sort(whole, w)
        seeds: Any = as_generator(self.random_state).integers(2**63, size=self.n_init)
        draw = partial(seeding.kmeans_plus_plus, whole[order], w[order], self.n_clusters)
        cap = self._rule.noise or np.inf
        return [draw(np.random.default_rng(seed), cap=cap) for seed in seeds]

    def _given_centers(self) -> np.ndarray:
        wanted = (self.n_clusters, self.n_features_in_)
        try:
            centers = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError):
            centers = np.empty(0)
        if centers.shape != wanted or np.isnan(centers).any():
            raise ValueError(
                f"init must hold {wanted[0]} centers of {wanted[1]} features without NaN, or be "
                f"None, got shape {np.shape(centers)} of {type(self.init).__name__}"
            )
        return centers

    def _publish_in_memory(self, problem: Problem, run: loop.Run, dtype: Any) -> None:
        centers, frame = run.state.centers, self._frame
        assert frame is not None
        U, objective = problem.memberships(run.state)
        if not problem.labelled:
            k = len(centers)
            order = distances.largest_first(problem.weights @ U[:, :k], centers)
            centers, U = centers[order], np.hstack([U[:, order], U[:, k:]])
        self._state = kernel.State(centers)
        if frame.space is None:
            outer = centers if frame.coordinates is None else frame.coordinates.outer(centers)
            self.cluster_centers_ = outer.astype(dtype)
        unit = frame.unit(self._named)
        self._publish(U.astype(dtype), run._replace(history=run.history / unit), objective / unit)

    def _new_in_memory(self, X: Any, sample_weight: ArrayLike | None) -> tuple[np.ndarray, float]:
        """Memberships of new objects, after a fit of either kind, and the objective per weight."""
        X = check_features(self, X, reset=False, missing=self._euclidean)
        weights = check_weights(sample_weight, X)
        frame = Frame(self._coordinates) if self._frame is None else self._frame
        Y, beyond = frame(X)
        w = np.ones(len(Y)) if weights is None else weights
        D = GEOMETRIES[self._named](Y).distances(self._state.centers) + beyond[:, None]
        U, objective = memberships(Problem(None, w, self._rule), D)
        return U.astype(X.dtype), objective / frame.unit(self._named) / float(w.sum())

    def _is_plain(self, X: Any) -> bool:
        """Whether the sums over row blocks say all about new objects."""
        return self._frame is None and (self._full or not _has_gaps(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._euclidean
        return tags


def _has_gaps(X: Any) -> bool:
    return not isinstance(X, np.memmap) and not sp.issparse(X) and has_gaps(X)


def _numbered(problem: Problem, centers: np.ndarray) -> np.ndarray:
    """Centers in the order in which labelled objects fit best."""
    links = problem.links
    if links is None or not problem.labelled:
        return centers
    U = problem._replace(links=None).memberships(Solution(centers))[0]
    return centers[matching(U[links.rows, : len(centers)], links.labels[links.unit])]


def _spread(Y: np.ndarray, weights: np.ndarray, metric: str) -> float:
    """Mean distance of the objects from their middle, in the distances of the metric."""
    if metric == "cosine":
        return 1.0
    there = ~np.isnan(Y)
    mass = np.maximum(weights @ there, np.finfo(float).tiny)
    mean = (weights @ np.where(there, Y, 0.0)) / mass
    away = np.abs(np.where(there, Y - mean, 0.0))
    return max(float((weights @ (away if metric == "manhattan" else away**2) / mass).sum()), 1e-12)
