"""Methods of fitted Gaussian mixtures.

Memberships and densities of new objects, criteria, draws, merging.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array.arrays import to_numpy
from ...array.rows import Rows, has_holes
from ...array.types import ArrayLike
from ...array.validation import as_generator, check_choice, check_number, check_weights
from ...data.features import check_features
from ...engine.base import Clusterer, blended, weight_of
from ...engine.loop import Run
from . import kernel, merge, missing, noisy
from .average import Member, averaged
from .constant import Constant
from .kernel import State, Stats
from .likelihood import Likelihood, View, unmixed
from .merge import MergeTree
from .parameters import Given, partial_labels
from .prior import Prior

__all__ = ["FittedMixture"]


class FittedMixture(Clusterer):
    """Methods of a mixture that has a view of the data, a state, and perhaps an average of
    several.
    """

    _view: View
    _state: State
    _members: tuple[Member, ...]
    _prior: Prior | None
    _frozen: tuple[str, ...]
    _given: Given
    _classes: np.ndarray | None
    _constant: Constant | None
    reg_covar: float
    _keeps_constant = False  # whether features without variance stay in the fit

    def _streams(self) -> bool:
        return True

    def _leave_out(self, X: Any, low: np.ndarray, varies: np.ndarray) -> Any:
        """The features that vary; the others keep their one value ``low``."""
        self._constant = Constant.of(low, varies, self.reg_covar)
        return self._constant.part(X)

    def _of_features(self, X: Any) -> Any:
        """New objects, checked, without features that were constant in the fit."""
        X = check_features(self, X, reset=False, missing=True)
        return X if self._constant is None else self._constant.part(X)

    def predict_proba(
        self,
        X: Any,
        *,
        n_clusters: int | None = None,
        measurement_error: ArrayLike | None = None,
    ) -> Any:
        """Posterior probabilities of new objects; missing values (NaN) are integrated out.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)
        n_clusters : int, optional
            Memberships at another level, a number in ``levels_``.
        measurement_error : array of shape (n_new, p) or (n_new, p, p), optional
            Known variances or covariances of the error of every object, as in ``fit``: errors
            make components that lie near each other harder to tell apart.

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        self._check_fitted()
        varying = self._of_features(X)
        errors = self._errors_of(varying, measurement_error)
        if not self._members:
            U = self._posterior(varying, self._view, self._state, 0, errors)
        else:
            U = averaged(
                [(m, self._posterior(varying, m.view, m.state, 0, errors)) for m in self._members],
            )
        return self._new_at(U, n_clusters, X, measurement_error=measurement_error)

    def _errors_of(self, X: Any, measurement_error: ArrayLike | None) -> np.ndarray | None:
        """Error covariances (n, p, p) of new objects."""
        if measurement_error is None:
            return None
        if self._state.noise is not None:
            raise ValueError("measurement_error cannot be combined with noise: leave it out")
        if not isinstance(X, np.ndarray) or np.isnan(X).any():
            raise ValueError("measurement_error needs X as a NumPy array without missing values")
        errors = noisy.check_errors(measurement_error, len(X), self.n_features_in_)
        if self._constant is None:
            return errors
        return errors[:, self._constant.varying][:, :, self._constant.varying]

    def _posterior(
        self, X: Any, view: View, state: State, which: int, errors: np.ndarray | None = None
    ) -> Any:
        """Posterior probabilities (0) or log-densities (1) of objects, in inner coordinates."""
        if errors is not None:
            inner = view.coordinates.inner(np.array(X, dtype=np.float64))
            errors = noisy.inner_errors(errors, view.coordinates)
            return noisy.memberships(inner, errors, state)[which]
        if view.layout == "missing" or not has_holes(Rows(X, n_jobs=self.n_jobs)):
            return view.rows(X, n_jobs=self.n_jobs).map(view.posterior(state, which))
        state, coordinates = unmixed(state, view.coordinates)
        rows = Rows(X, n_jobs=self.n_jobs, view=coordinates.inner)
        return rows.map(lambda block: missing.memberships(block, state)[which])

    def score_samples(self, X: Any, *, measurement_error: ArrayLike | None = None) -> Any:
        """Logarithm of the density at every object, of its observed features if some are missing.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
        measurement_error : array of shape (n, p) or (n, p, p), optional
            Known variances or covariances of the error of every object: the density is that of
            objects measured with these errors.

        Returns
        -------
        log_density : array of shape (n,)
        """
        self._check_fitted()
        X = self._of_features(X)
        errors = self._errors_of(X, measurement_error)
        coordinates = self._view.coordinates
        if has_holes(Rows(X, n_jobs=self.n_jobs)):
            volume = (~np.isnan(X)) @ np.log(coordinates.scale)
        else:
            volume = coordinates.log_volume()
        return self._posterior(X, self._view, self._state, 1, errors) + volume

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log-likelihood per unit of weight."""
        return self._log_likelihood(X, sample_weight)[0]

    def _log_likelihood(
        self,
        X: Any,
        sample_weight: ArrayLike | None,
        measurement_error: ArrayLike | None = None,
    ) -> tuple[float, float]:
        """Mean log-density and total weight."""
        density = self.score_samples(X, measurement_error=measurement_error)
        values = to_numpy(density).astype(np.float64)
        weights = check_weights(sample_weight, X)
        total = len(values) if weights is None else weights.sum()
        return float(np.average(values, weights=weights)), float(total)

    def bic(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        measurement_error: ArrayLike | None = None,
    ) -> float:
        """Bayesian information criterion, ``-2 log L + p log n``: lower is better.

        R's mclust gives the negative of it. Objects are taken without error unless
        ``measurement_error`` is given, as in ``score_samples``.
        """
        mean, total = self._log_likelihood(X, sample_weight, measurement_error)
        return float(-2.0 * mean * total + self._n_parameters() * np.log(total))

    def aic(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        measurement_error: ArrayLike | None = None,
    ) -> float:
        """Akaike's information criterion, ``-2 log L + 2 p``: lower is better."""
        mean, total = self._log_likelihood(X, sample_weight, measurement_error)
        return float(-2.0 * mean * total + 2.0 * self._n_parameters())

    def icl(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        measurement_error: ArrayLike | None = None,
    ) -> float:
        """Integrated completed likelihood criterion, lower is better.

        ``bic - 2 sum_i w_i log max_j u_ij`` (Biernacki, Celeux and Govaert 2000, in the form that
        R's mclust uses).
        """
        checked = self._of_features(X)
        errors = self._errors_of(checked, measurement_error)
        posterior = self._posterior(checked, self._view, self._state, 0, errors)
        U = to_numpy(posterior).astype(np.float64)
        sure = np.log(U.max(axis=1))
        weights = check_weights(sample_weight, checked)
        open_ = float(sure.sum() if weights is None else sure @ weights)
        return self.bic(X, sample_weight, measurement_error=measurement_error) - 2.0 * open_

    def _n_parameters(self) -> int:
        return self._view.n_parameters(len(self._state.means), self._state.noise is not None)

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw objects from the components (never from the noise).

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : array of shape (n_samples, p)
        labels : array of shape (n_samples,)
            The component each object came from, in ascending order.
        """
        self._check_fitted()
        check_number(n_samples, "n_samples", low=1, integer=True)
        rng = as_generator(self.random_state)
        k, d = self._state.means.shape
        shares = self._state.weights[:k] / self._state.weights[:k].sum()
        labels = np.repeat(np.arange(k), rng.multinomial(n_samples, shares))
        factors = kernel.cholesky(kernel.matrices(self._state), self._state.floor)
        normal = rng.standard_normal((n_samples, d))
        inner = self._state.means[labels] + np.einsum("nij,nj->ni", factors[labels], normal)
        drawn = self._view.coordinates.outer(inner)
        return (drawn if self._constant is None else self._constant.points(drawn)), labels

    def merge(self, n_clusters: int | str) -> np.ndarray:
        """Groups of components that are one cluster, by the entropy criterion of Baudry et al.

        Merges, one pair after the other, the two components whose union takes most uncertainty out
        of the memberships. The clusters' memberships are the sums over their components:
        ``model.memberships_ @ np.eye(n_clusters)[groups]``. A noise column takes no part: it
        belongs to no group, and ``memberships_[:, :-1]`` are the components.

        Parameters
        ----------
        n_clusters : int or "auto"
            Number of groups, at most the number of components; "auto" takes the elbow of the
            entropies (see ``merge_tree``).

        Returns
        -------
        groups : array of shape (m,), m the number of components
            The group of every component.
        """
        tree = self.merge_tree()
        if isinstance(n_clusters, str):
            check_choice(n_clusters, "n_clusters", ("auto",))
            n_clusters = tree.elbow
        check_number(n_clusters, "n_clusters", low=1, high=len(tree.entropies), integer=True)
        return tree.groups[int(n_clusters) - 1]

    def merge_tree(self) -> MergeTree:
        """All solutions of ``merge``, from every component by itself to one cluster.

        Returns
        -------
        tree : MergeTree
            ``groups`` (m, m): row c - 1 the groups of c clusters; ``entropies`` (m,) of their
            memberships; ``elbow``, the number of clusters at which two straight lines fit the
            entropies best.
        """
        self._check_fitted()
        k = self.memberships_.shape[1] - (self._state.noise is not None)
        return merge.merge_tree(to_numpy(self.memberships_)[:, :k].astype(np.float64))

    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Learn from one batch; the first one starts the model, later ones move it.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            A batch of objects, enough for the components in the first one.
        y : array of shape (n,), optional
            Partial labels as in ``fit``; the first batch must have all of them.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
            ``memberships_`` and ``labels_`` are those of this batch.
        """
        first = not hasattr(self, "memberships_")
        if first:
            self._begin(X, y, sample_weight)
        X = self._of_features(X)
        if self._view.layout != "missing" and has_holes(Rows(X, n_jobs=self.n_jobs)):
            raise ValueError(
                "X has missing values (NaN), and the first batch had none: begin with a batch that "
                "has some"
            )
        labels = self._known(y, X.shape[0])
        rows = self._view.rows(X, check_weights(sample_weight, X), labels, n_jobs=self.n_jobs)
        self._absorb(rows, first)
        return self

    def _begin(self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        """Fit the first batch; a later one may vary in features that are constant here."""
        before, self._keeps_constant = self._keeps_constant, True
        try:
            self.fit(X, y, sample_weight=sample_weight)  # type: ignore[call-arg]
        finally:
            self._keeps_constant = before

    def _known(self, y: ArrayLike | None, n: int) -> np.ndarray | None:
        """Known labels of a batch as components."""
        labels, classes = partial_labels(y, n, len(self._state.means), self._classes)
        if classes is not None and self._classes is None:
            raise ValueError(
                "y marks labels as known (others -1), and the first batch had none: begin with a "
                "batch that has all labels"
            )
        return labels

    def _absorb(self, rows: Rows, first: bool) -> None:
        """One step of stochastic approximation (Cappe and Moulines 2009).

        The first batch, to which the model has just been fitted, only leaves its statistics.
        """
        total = weight_of(rows)
        stats = rows.sum(self._view.summarizer(self._state))
        self._batches_ = blended(getattr(self, "_batches_", None), stats, total)
        if first:
            return
        seen = Stats(self._batches_.stats.sums * self._batches_.total, 0.0)
        kind = self._view.kind_of_sums()
        self._state = kernel.update(seen, self._state, self._frozen, kind, self._prior)
        likelihood = Likelihood(self._view, rows, total, total, self._frozen, self._prior)
        value = float(likelihood.objective(self._state)) + likelihood.log_volume()
        past, n_iter = self.history_, self.n_iter_
        U = rows.map(self._view.posterior(self._state, 0))
        self._publish(U, Run(self._state, value, np.array([value]), 1, True))
        self._publish_parameters()
        self.history_, self.n_iter_ = np.append(past, value), n_iter + 1
