"""Gaussian mixtures as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import to_numpy
from ...core.rows import Rows
from ...core.validation import as_generator, check_features, check_number
from ...core.weights import check_weights
from . import kernel, merge
from .engine import MixtureEngine
from .evidence import warn_if_one_is_enough
from .parameters import has_holes, partial_labels
from .search import search, undecided

__all__ = ["GaussianMixture"]


class GaussianMixture(MixtureEngine):
    """Posterior probabilities of Gaussian components, fitted by maximum likelihood.

    Expectation and maximisation [1]_ on row blocks with safeguarded squared extrapolation [2]_, in coordinates in which the data are
    centred and (for the affine types) white: units and offsets do not matter. Starts come from model-based agglomeration [3]_ and from
    k-means++ on whitened objects. Missing values (NaN) are integrated out exactly, in ``fit`` and for new objects.

    Parameters
    ----------
    n_clusters : int, "auto" or a sequence of int, default=1
        Number of components; "auto" tries 1 to 9 and a sequence its members.
    covariance_type : {"full", "tied", "diag", "spherical", "auto"}, default="full"
        Shape of the components; "auto" tries all four.
    criterion : {"bic", "icl", "aic"}, default="bic"
        What "auto" minimises.
    noise : float, optional
        Adds a last column to the memberships, a component that is uniform over the data; the number is its weight at the start.
    reg_covar : float, default=1e-9
        Least variance of a component in any direction, relative to that of the data.
    weights_init, means_init, covariances_init : arrays, optional
        First weights (k,), means (k, p) and covariances (shaped as ``covariances_``).
    frozen : tuple of {"weights", "means", "covariances"}, default=()
        Parameters that keep their first values.
    n_init : int, default=10
        Number of starts, each the better of some drafts where objects are few; the best sound one is kept, and improved by moving
        components. With many objects the starts compete on a sample.
    max_iter : int, default=500
        Most steps of a run.
    tol : float, default=1e-6
        A run stops when a step raises the log-likelihood by less than this for each object.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts.
    n_jobs : int or None, default=None
        Threads over row blocks; None means every core. The answer does not depend on it.

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters) or (n, n_clusters + 1)
        Posterior probabilities; with ``noise`` the last column is the noise.
    labels_ : array of shape (n,)
        Component of the largest membership.
    weights_ : array of shape (n_clusters,) or (n_clusters + 1,)
        Shares of the components, noise last.
    means_ : array of shape (n_clusters, p)
        Means.
    covariances_ : array
        Covariances: (k, p, p) full, (p, p) tied, (k, p) diag, (k,) spherical.
    precisions_cholesky_ : array
        C with ``C @ C.T`` the inverse of a covariance, shaped as ``covariances_`` (square roots for diag and spherical).
    covariance_type_ : str
        The type that was fitted.
    candidates_ : list of Candidate
        With "auto": every model tried, its criteria, or the reason why it failed.
    objective_ : float
        Log-likelihood; ``history_`` at every step.
    n_clusters_, n_iter_, converged_ : int, int, bool
        Columns of the memberships, steps taken, whether ``tol`` was reached.

    See Also
    --------
    FuzzyCMeans : Memberships from distances alone.
    DirichletProcessMixture : Number of components inferred.

    References
    ----------
    .. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39, 1977.
    .. [2] R. Varadhan and C. Roland, Simple and globally convergent methods for accelerating the convergence of any EM algorithm,
       Scandinavian Journal of Statistics 35, 2008.
    .. [3] C. Fraley and A. E. Raftery, Model-based clustering, discriminant analysis, and density estimation, JASA 97, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (100, 2)), rng.normal(6, 1, (50, 2))])
    >>> model = GaussianMixture(n_clusters=2, random_state=0).fit(X)
    >>> model.weights_.round(2)
    array([0.67, 0.33])
    >>> model.predict_proba([[3.0, 3.0]]).sum()
    np.float64(1.0)
    """

    chooses_n_clusters = "auto"

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature: not if spherical."""
        return self.covariance_type not in ("spherical", "VII", "EII")

    def __init__(
        self,
        n_clusters: Any = 1,
        *,
        covariance_type: str = "full",
        criterion: str = "bic",
        noise: float | None = None,
        reg_covar: float = 1e-9,
        weights_init: Any = None,
        means_init: Any = None,
        covariances_init: Any = None,
        frozen: tuple[str, ...] = (),
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.covariance_type = covariance_type
        self.criterion = criterion
        self.noise = noise
        self.reg_covar = reg_covar
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.frozen = frozen
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the mixture.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features; NaN means missing.
        y : array of shape (n,), optional
            Partial labels: integers, -1 for unknown. An object of known label belongs to that component, the components being
            numbered by the sorted labels. A ``y`` without any -1 is ignored, as in other clusterers.
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object.

        Returns
        -------
        self
        """
        self._forget()
        self._check_parameters()
        if undecided(self):
            self._check_room(X)
            search(self, X, y, sample_weight)
            self._warn_about_structure()
        else:
            self._learn(X, y, sample_weight)
        warn_if_one_is_enough(self)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from one batch; the first one starts the model, later ones move it by a decreasing step.

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
            self.fit(X, y, sample_weight)
        X = check_features(self, X, reset=False, missing=True)
        if not self._missing and has_holes(Rows(X, n_jobs=self.n_jobs)):
            raise ValueError(
                "X has missing values (NaN), and the first batch had none: begin with a batch that has some"
            )
        labels = self._known(y, X.shape[0])
        self._absorb(self._rows(X, check_weights(sample_weight, X), labels), first)
        return self

    def _known(self, y: Any, n: int) -> np.ndarray | None:
        """Known labels of a batch as components."""
        labels, classes = partial_labels(y, n, len(self._state.means), self._classes)
        if classes is not None and self._classes is None:
            raise ValueError(
                "y marks labels as known (others -1), and the first batch had none: begin with a batch that has all labels"
            )
        return labels

    def score_samples(self, X: Any) -> Any:
        """Logarithm of the density at every object, of its observed features if some are missing.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)

        Returns
        -------
        log_density : array of shape (n,)
        """
        self._check_fitted()
        X = check_features(self, X, reset=False, missing=True)
        return self._map(X, 1) + self._log_volumes(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Log-likelihood per unit of weight."""
        return self._log_likelihood(X, sample_weight)[0]

    def _log_likelihood(self, X: Any, sample_weight: Any) -> tuple[float, float]:
        values = to_numpy(self.score_samples(X)).astype(np.float64)
        weights = check_weights(sample_weight, X)
        return float(np.average(values, weights=weights)), float(
            len(values) if weights is None else weights.sum()
        )

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Bayesian information criterion, ``-2 log L + p log n``: lower is better. R's mclust gives the negative of it."""
        mean, total = self._log_likelihood(X, sample_weight)
        return float(-2.0 * mean * total + self._n_parameters() * np.log(total))

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's information criterion, ``-2 log L + 2 p``: lower is better."""
        mean, total = self._log_likelihood(X, sample_weight)
        return float(-2.0 * mean * total + 2.0 * self._n_parameters())

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Integrated completed likelihood criterion: ``bic`` plus twice what the memberships leave open, lower is better.

        What is open is ``-sum_i w_i log max_j u_ij`` (Biernacki, Celeux and Govaert 2000, in the form R's mclust uses).
        """
        sure = np.log(to_numpy(self.predict_proba(X)).astype(np.float64).max(axis=1))
        weights = check_weights(sample_weight, X)
        return self.bic(X, sample_weight) - 2.0 * float(
            sure.sum() if weights is None else sure @ weights
        )

    def _n_parameters(self) -> int:
        k, d = self._state.means.shape
        return kernel.n_parameters(k, d, self.covariance_type_, self.noise is not None)

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
        labels = np.repeat(
            np.arange(k),
            rng.multinomial(n_samples, self._state.weights[:k] / self._state.weights[:k].sum()),
        )
        factors = np.linalg.cholesky(kernel.full_covariances(self._state))
        normal = rng.standard_normal((n_samples, d))
        inner = self._state.means[labels] + np.einsum("nij,nj->ni", factors[labels], normal)
        return self._coordinates.outer(inner), labels

    def merge(self, n_clusters: int) -> np.ndarray:
        """Groups of components that are one cluster, by the entropy criterion of Baudry et al. (2010).

        Merges, one pair after the other, the two components whose union takes most uncertainty out of the memberships. The clusters'
        memberships are the sums over their components: ``model.memberships_ @ np.eye(n_clusters)[groups]``. A noise column takes no
        part: it belongs to no group, and ``memberships_[:, :-1]`` are the components.

        Parameters
        ----------
        n_clusters : int
            Number of groups, at most the number of components.

        Returns
        -------
        groups : array of shape (m,), m the number of components
            The group of every component.
        """
        self._check_fitted()
        k = len(self._state.means)
        check_number(n_clusters, "n_clusters", low=1, high=k, integer=True)
        return merge.merge(to_numpy(self.memberships_)[:, :k].astype(np.float64), n_clusters)
