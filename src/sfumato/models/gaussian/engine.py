"""What a Gaussian mixture does with its rows: coordinates, layout of the statistics, starts, steps, and what it publishes.

Three layouts, one mixture: quadratic features (``kernels.gaussian``), deviations in many dimensions (``gaussian_direct``), and
holes in the data (``gaussian_missing``). All give the same sums, so the M step is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core import loop
from ...core.arrays import to_numpy
from ...core.base import InductiveClusterer, weight_of
from ...core.rows import Rows
from ...core.validation import check_choice, check_features, check_n_clusters, check_number
from ...core.weights import check_weights
from ...numerics import distances, seeding
from ...numerics.coordinates import measure
from . import direct, evidence, kernel, missing, parameters, starts
from .contest import contest

__all__ = ["TYPES", "MixtureEngine"]

TYPES = ("full", "tied", "diag", "spherical")
MOST_FEATURES = (
    48  # beyond, d (d + 1) / 2 quadratic features cost more than a product for each component
)
SAMPLE = 4096  # objects that a start looks at
LAYOUTS = {"missing": missing, "direct": direct}


class _Reach(NamedTuple):
    """Least and largest values (d,); the sum of two is that of both together."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, block: np.ndarray) -> _Reach:
        return cls(np.fmin.reduce(block, initial=np.inf), np.fmax.reduce(block, initial=-np.inf))

    def __add__(self, other: Any) -> _Reach:
        return _Reach(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


class MixtureEngine(InductiveClusterer):
    """The hooks of ``GaussianMixture``."""

    _larger = True
    _relative = False
    _screen = 8192

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self.covariance_type, "covariance_type", (*TYPES, "auto"))
        check_choice(self.criterion, "criterion", ("bic", "icl", "aic"))
        check_number(self.reg_covar, "reg_covar", low=0.0, high=1.0, strict=True)
        if self.noise is not None:
            check_number(self.noise, "noise", low=0.0, high=1.0, strict=True)
        given = {
            "weights": self.weights_init,
            "means": self.means_init,
            "covariances": self.covariances_init,
        }
        self._frozen = parameters.check_frozen(self.frozen, given)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit one model, its size and type being given."""
        self._check_room(X)
        X = check_features(self, X, reset=True, missing=True)
        k = check_n_clusters(self.n_clusters, X.shape[0])
        labels, self._classes = parameters.partial_labels(y, X.shape[0], k)
        self._labelled = labels is not None
        self._named = self._labelled or any(
            value is not None
            for value in (self.weights_init, self.means_init, self.covariances_init)
        )
        rows = self._measure(X, check_weights(sample_weight, X), labels)
        self._blank = self._blank_state(rows)
        self._finish(rows, self._ordered(self._best_run(rows)))
        collapsed = self._collapsed(self._state, rows, weight_of(rows)).any()
        self._beside_one = (
            None if collapsed else evidence.compare_with_one(self, rows, weight_of(rows))
        )
        return self

    def _measure(self, X: Any, weights: Any, labels: Any) -> Rows:
        """Find coordinates and a layout, and cut the data accordingly."""
        plain = Rows(X, weights, n_jobs=self.n_jobs)
        self.covariance_type_ = self.covariance_type
        affine = self.covariance_type in ("full", "tied")
        self._missing = parameters.has_holes(plain)
        self._layout = (
            "missing"
            if self._missing
            else "direct"
            if affine and X.shape[1] > MOST_FEATURES
            else "features"
        )
        if self._missing and np.isnan(plain.extremes()).any():
            empty = np.flatnonzero(np.isnan(plain.extremes()[0]))
            raise ValueError(
                f"X has no value at all in feature {empty[0]}, only NaN: drop that feature"
            )
        self._coordinates = measure(
            plain, per_feature=self.covariance_type != "spherical", mix=affine and not self._missing
        )
        return self._rows(X, weights, labels, keep=True)

    def _rows(self, X: Any, *columns: Any, keep: bool = False) -> Rows:
        rows = Rows(X, *columns, n_jobs=self.n_jobs, view=self._coordinates.inner)
        if (
            self._layout == "features" and not self._affine
        ):  # products of features are made in the pass
            rows = rows.through(
                lambda block: distances.features(block.T, kernel.KINDS[self.covariance_type_]).T
            )
        return rows.kept() if keep else rows

    def _whole(self, k: int) -> kernel.State:
        """``k`` components each of which is the whole data: its moments, in inner coordinates."""
        d, kind = self.n_features_in_, self.covariance_type
        variances = np.maximum(self._coordinates.variances, self.reg_covar)
        matrix = np.eye(d) if self._coordinates.mix is not None else np.diag(variances)
        covariances = {
            "full": np.repeat(matrix[None], k, 0),
            "tied": matrix,
            "diag": np.repeat(variances[None], k, 0),
        }
        shape = covariances.get(kind, np.full(k, variances.mean()))
        return kernel.State(np.full(k, 1.0 / k), np.zeros((k, d)), shape, kind, self.reg_covar)

    def _blank_state(self, rows: Rows) -> kernel.State:
        """Components that are the whole data, with noise and what the user gave put in."""
        state = self._whole(self.n_clusters)
        if self.noise is not None:
            share = float(self.noise)
            state = state._replace(
                weights=np.append((1.0 - share) * state.weights, share),
                noise=self._noise_density(rows),
            )
        return self._put_in(state)

    def _put_in(self, state: kernel.State) -> kernel.State:
        """The state with the parameters given by the user."""
        weights, means, covariances = self._given(state)
        if weights is not None:
            state = state._replace(weights=weights)
        if means is not None:
            state = state._replace(
                means=np.asarray(self._coordinates.inner(means), dtype=np.float64)
            )
        if covariances is not None:
            inner = parameters.inner_covariances(
                covariances, self.covariance_type, self._coordinates
            )
            if "covariances" not in self._frozen:
                inner = starts.widened(inner, self.covariance_type, self.reg_covar)
            state = state._replace(covariances=inner)
        return state

    def _given(
        self, like: kernel.State
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Weights, means and covariances given by the user, in the units of the data, for a state of this shape."""
        return (
            parameters.check_weights_init(self.weights_init, like.weights.shape),
            parameters.check_initial(self.means_init, "means_init", like.means.shape),
            parameters.check_covariances_init(
                self.covariances_init, self.covariance_type, like.covariances.shape
            ),
        )

    def _noise_density(self, rows: Rows) -> np.ndarray:
        """Logarithms (d,) of the uniform density over the box around the data."""
        weights = rows.columns[0]
        if weights is None or (weights > 0).all():
            low, high = rows.through(self._features).extremes().astype(np.float64)
        else:
            low, high = rows.sum(
                lambda block, w, *_: (_Reach.of(to_numpy(self._features(block))[w > 0]),)
            )[0]
        return -np.log(np.maximum(high - low, 1e-3))

    @property
    def _affine(self) -> bool:
        return kernel.KINDS[self.covariance_type_] == "full"

    def _features(self, block: Any) -> Any:
        """Inner coordinates out of a block as the kernels see it."""
        return (
            block[:, 1 : self.n_features_in_ + 1]
            if self._layout == "features" and not self._affine
            else block
        )

    def _look(
        self, rows: Rows, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Objects (n, d), few and without holes, in an order of their own, with their weights and known labels."""
        few = rows if rows.shape[0] <= SAMPLE else rows.sample(SAMPLE, rng)
        X = to_numpy(few.map(lambda block, *_: self._features(block))).astype(np.float64)
        weights = np.ones(len(X)) if few.columns[0] is None else few.columns[0]
        order = seeding.sort(X, weights)
        X, weights = X[order], weights[order]
        labels = None if few.columns[1] is None else few.columns[1][order]
        return starts.complete(X, weights) if self._missing else X, weights, labels

    def _start(self, rows: Rows, rng: np.random.Generator, how: str = "whitened") -> kernel.State:
        X, weights, labels = self._look(rows, rng)
        if self.means_init is not None:
            groups = seeding.nearest(X, self._blank.means)
        else:
            groups = starts.partition(self._plain(X, how), weights, self.n_clusters, how, rng)
        if labels is not None:
            groups = starts.match(groups, labels, weights, self.n_clusters)
        return self._put_in(starts.from_labels(X, weights, groups, self._blank))

    def _plain(self, X: np.ndarray, how: str) -> np.ndarray:
        """Inner objects as a start wants them: in the units of the data, each feature in units of its own, or as they are."""
        if how == "units":
            return X @ self._coordinates.outer_matrix()
        return (
            X @ np.linalg.inv(self._coordinates.mix)
            if how == "features" and self._coordinates.mix is not None
            else X
        )

    @property
    def _movable(self) -> bool:
        """Whether components are all alike and may change places."""
        return not (self._named or self._missing or self._frozen)

    def _runs(self, rows: Rows, seeds: np.ndarray, total: float) -> list[loop.Run]:
        return [contest(self, rows, seeds, total)]

    def _collapsed(self, state: kernel.State, rows: Rows, total: float) -> np.ndarray:
        return starts.collapsed(state, evidence.count_of(rows, total), self._coordinates.thinnest)

    def _poor(self, rows: Rows, total: float) -> bool:
        """Whether there are fewer than two objects for each free parameter: the likelihood is then no guide to clusters."""
        free = kernel.n_parameters(
            self.n_clusters, self.n_features_in_, self.covariance_type, self.noise is not None
        )
        return evidence.count_of(rows, total) < 2 * free

    def _ready(self, state: kernel.State) -> Any:
        return kernel.ready(state) if self._layout == "features" else state

    def _summarize(self, block: Any, weights: Any, state: Any, labels: Any = None) -> kernel.Stats:
        if self._layout == "features":
            return kernel.summarize(block.T, weights, state, labels)
        return LAYOUTS[self._layout].summarize(block, weights, state, labels)

    def _update(self, stats: kernel.Stats, state: kernel.State) -> kernel.State:
        kinds = {
            "features": None,
            "direct": "full",
            "missing": missing.kind_of_sums(state.covariance_type),
        }
        return kernel.update(stats, state, self._frozen, kinds[self._layout])

    def _posterior(self, block: Any, state: Any, labels: Any = None) -> tuple[Any, Any]:
        if self._layout == "features":
            return kernel.memberships(block.T, state, labels)
        return LAYOUTS[self._layout].memberships(block, state, labels)

    def _assign(self, block: Any, state: Any, labels: Any = None) -> Any:
        return self._posterior(block, state, labels)[0]

    _pack = staticmethod(kernel.pack)

    def _unpack(self, vector: np.ndarray, like: kernel.State) -> kernel.State:
        state = kernel.unpack(vector, like)
        return state._replace(**{name: getattr(like, name) for name in self._frozen})

    def _ordered(self, run: loop.Run) -> loop.Run:
        return run if self._named else run._replace(state=kernel.ordered(run.state))

    def _outer(self, objective: Any, total: float) -> Any:
        return objective + self._volume

    def _log_volumes(self, X: Any) -> Any:
        """What the density of every object gains by the change of coordinates: one number, or one for each object with holes."""
        if not parameters.has_holes(Rows(X, n_jobs=self.n_jobs)):
            return self._coordinates.log_volume()
        return (~np.isnan(X)) @ np.log(self._coordinates.scale)

    def _map(self, X: Any, which: int) -> Any:
        """Posterior probabilities (0) or log-densities (1) of new objects, in inner coordinates."""
        if not parameters.has_holes(Rows(X, n_jobs=self.n_jobs)) or self._missing:
            ready = self._ready(self._state)
            return self._rows(X).map(lambda block: self._posterior(block, ready)[which])
        state, coordinates = parameters.unmixed(self._state, self._coordinates)
        rows = Rows(X, n_jobs=self.n_jobs, view=coordinates.inner)
        return rows.map(lambda block: missing.memberships(block, state)[which])

    def predict_proba(self, X: Any) -> Any:
        """Posterior probabilities of new objects; missing values (NaN) are integrated out.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        self._check_fitted()
        return self._map(check_features(self, X, reset=False, missing=True), 0)

    def _finish(self, rows: Rows, run: loop.Run) -> None:
        total = weight_of(rows)
        if self._missing:
            scale = np.log(self._coordinates.scale)
            self._volume = rows.sum(
                lambda X, w, *_: (
                    float(np.sum(((~np.isnan(X)) @ scale) * (1.0 if w is None else w))),
                )
            )[0]
        else:
            self._volume = total * self._coordinates.log_volume()
        super()._finish(rows, run)
        self._publish_parameters(run.state)
        evidence.warn_if_collapsed(self, self._collapsed(run.state, rows, total))

    def _publish_parameters(self, state: kernel.State) -> None:
        """Parameters in the units of the data, in float64: squares of float32 values need not fit into float32."""
        self.weights_ = state.weights
        self.means_ = self._coordinates.outer(state.means)
        self.covariances_ = parameters.outer_covariances(
            state.covariances, state.covariance_type, self._coordinates
        )
        self.precisions_cholesky_ = parameters.precision_factors(state, self._coordinates)
        for name, value in zip(
            ("weights", "means", "covariances"), self._given(state), strict=True
        ):
            if name in self._frozen:  # as it was given, without the rounding of the way in and out
                setattr(self, f"{name}_", value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
