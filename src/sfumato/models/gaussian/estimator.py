"""Gaussian mixtures as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ...array.docs import documented
from ...array.rows import Rows, one_blas_thread
from ...array.types import ArrayLike, RandomState
from ...array.validation import as_generator, check_choice, check_number, check_weights
from ...array.warn import warn
from ...conjugate import NormalInverseWishart
from ...data.constraints import Known
from ...data.features import check_features, observed_only
from ...engine.kept import publish_kept
from ...engine.linked import Linked
from ...engine.model_search import ModelCandidate, ModelSearch
from ...numerics import families
from ...numerics.families import ALIASES, FAMILIES
from ...selection.automatic import AutomaticMixture
from . import search
from .average import average_over
from .data import MixtureData
from .fitted import FittedMixture
from .likelihood import outer_covariances, precision_factors
from .parameters import Given, Settings, check_frozen, check_given, partial_labels

__all__ = ["GaussianMixture"]


@documented
class GaussianMixture(AutomaticMixture, FittedMixture):
    """Posterior probabilities of Gaussian components, fitted by maximum likelihood.

    Expectation and maximisation [1]_ on row blocks with safeguarded squared extrapolation [2]_.
    The covariances belong to one of fourteen families [3]_, by default the one with the best BIC.
    Starts come from model-based agglomeration [4]_ and from k-means++. Missing values (NaN) are
    integrated out exactly, in ``fit`` and for new objects.

    Parameters
    ----------
    n_clusters : int, "auto" or a sequence of int, default="auto"
        Number of components; a sequence tries its members, "auto" 1 to ``max_clusters``, and more
        while the best is the largest one tried (with the families of the three best candidates).
    max_clusters : int, default=9
        Largest number that "auto" tries at first; four times as many at most.
    covariance_type : str, default="auto"
        Family of the covariances: "full", "tied", "diag", "spherical", or one of mclust's names
        EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE, EEV, VEV, EVV, VVV, whose letters say
        whether volume, shape and orientation are equal (E), varying (V) or the identity (I). "auto"
        takes the one with the best ``criterion``, the simpler of two that tie. The criterion is
        corrected for what a fit gains from thin components of a few objects.
    criterion : {"bic", "icl", "aic"}, default="bic"
        What "auto" minimises.
    average : bool or "bootstrap", default=False
        Average the memberships over the candidates of a search with weights ``exp(-BIC / 2)``.
        Those of other numbers of components enter through their co-occurrence with the best one's.
        "bootstrap" averages over 24 draws of the weighted likelihood bootstrap [6]_ of the families
        of the best number: less confident where few objects leave family or parameters open.
    prior : {None, "default"} or NormalInverseWishart, default=None
        Prior of means and covariances: maximum a posteriori instead of maximum likelihood, so that
        no component collapses. "default" is mclust's weak prior [5]_.
    noise : float, optional
        Adds a last column to the memberships, a component that is uniform over the data; the number
        is its weight at the start.
    reg_covar : float, default=1e-9
        Least variance of a component in any direction, relative to that of the data.
    weights_init, means_init, covariances_init : arrays, optional
        First weights (k,), means (k, p) and covariances (shaped as ``covariances_``).
    frozen : tuple of {"weights", "means", "covariances"}, default=()
        Parameters that keep their first values.
    n_init : int, default=10
        Number of starts. All make some steps of EM; the best ones go on until some of them agree.
        If none agree, components of the best one are moved. With many objects the starts are
        compared on a sample; where clusters are clear, one start is used.
    max_iter : int, default=500
        Most steps of a run.
    tol : float, default=1e-6
        A run stops when a step raises the log-likelihood by less than this for each object.
    %(seed_and_threads)s

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
        Covariances: (p, p) tied, (k, p) diag, (k,) spherical, otherwise (k, p, p).
    precisions_cholesky_ : array
        C with ``C @ C.T`` the inverse of a covariance, shaped as ``covariances_`` (square roots for
        diag and spherical).
    covariance_type_ : str
        The type that was fitted.
    search_ : ModelSearch
        Every candidate, its criteria, or the reason why it failed; prints as a table.
    selection_ : Choice
        The best candidate of every number of components, if several were tried.
    objective_ : float
        Log-likelihood, with a prior plus the logarithm of the prior density; ``history_`` at every
        step.
    n_clusters_, n_iter_, converged_ : int, int, bool
        Columns of the memberships, steps taken, whether ``tol`` was reached.

    See Also
    --------
    FuzzyCMeans : Memberships from distances alone.
    DirichletProcessMixture : Number of components inferred.
    MixtureClassifier : The same with known classes.

    References
    ----------
    .. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via
       the EM algorithm, JRSS B 39, 1977.
    .. [2] R. Varadhan and C. Roland, Simple and globally convergent methods for accelerating the
       convergence of any EM algorithm, Scandinavian Journal of Statistics 35, 2008.
    .. [3] G. Celeux and G. Govaert, Gaussian parsimonious clustering models, Pattern Recognition
       28, 1995.
    .. [4] C. Fraley and A. E. Raftery, Model-based clustering, discriminant analysis, and density
       estimation, JASA 97, 2002.
    .. [5] C. Fraley and A. E. Raftery, Bayesian regularization for normal mixture estimation and
       model-based clustering, Journal of Classification 24, 2007.
    .. [6] M. A. Newton and A. E. Raftery, Approximate Bayesian inference with the weighted
       likelihood bootstrap, JRSS B 56, 1994.
    .. [7] J. Bovy, D. W. Hogg and S. T. Roweis, Extreme deconvolution, Annals of Applied Statistics
       5, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (100, 2)), rng.normal(6, 1, (50, 2))])
    >>> model = GaussianMixture(n_clusters=2, random_state=0).fit(X)
    >>> model.weights_.round(2)
    array([0.67, 0.33])
    >>> model.covariance_type_
    'EII'
    >>> model.predict_proba([[3.0, 3.0]]).sum()
    np.float64(1.0)
    """

    chooses_n_clusters = "auto"

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        max_clusters: int = 9,
        covariance_type: str = "auto",
        criterion: str = "bic",
        average: bool | str = False,
        prior: str | NormalInverseWishart | None = None,
        noise: float | None = None,
        reg_covar: float = 1e-9,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        frozen: tuple[str, ...] = (),
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.max_clusters, self.criterion, self.average = max_clusters, criterion, average
        self.covariance_type, self.reg_covar = covariance_type, reg_covar
        self.prior, self.noise = prior, noise
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.frozen = frozen
        self.n_jobs = n_jobs
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @property
    def unit_free(self) -> bool:
        """Whether the answer is the same whatever the units of each feature.

        Not of spherical clusters, nor of families with shapes or axes in common (EVE, VVE, EEV,
        VEV).
        """
        return families.is_unit_free(self.covariance_type)

    @documented
    @observed_only
    @one_blas_thread()  # what is not cut into blocks is small: threads would wait for each other
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        measurement_error: ArrayLike | None = None,
    ) -> Any:
        """Learn the mixture.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features; NaN means missing.
        y : array of shape (n,), optional
            Partial labels: integers, -1 for unknown. An object of known label belongs to that
            component, the components being numbered by the sorted labels. A ``y`` without any -1 is
            ignored, as in other clusterers: ``MixtureClassifier`` learns from it.
        %(sample_weight)s
        %(mixture_links)s
        measurement_error : array of shape (n, p) or (n, p, p), optional
            Known variances or covariances of the error of every object: the mixture is that of the
            objects without their errors (Bovy, Hogg and Roweis 2011), which ``memberships_`` take
            into account. For full and diagonal covariances; "auto" chooses between the two.

        Returns
        -------
        self
        """
        self._forget()
        frozen = self._check_parameters()
        self._check_room(X)
        X = check_features(self, X, reset=True, missing=True)
        weights = check_weights(sample_weight, X)
        X = self._without_constant(X, weights, measurement_error)
        n, d = X.shape
        sizes = search.sizes_of(self.n_clusters, X, self.max_clusters, weights)
        k = max(sizes)
        labels, self._classes = (None, None) if y is None else self._labels_from(y, n, k)
        if self._classes is not None:  # fewer components than known labels have no place for them
            sizes = [k for k in sizes if k >= len(self._classes)]
        settings = self._settings(frozen, sizes, d, labels is not None)
        types = search.types_of(self.covariance_type, frozen, n, d)
        if measurement_error is not None:
            types = self._types_with_errors(X, y, linked=(must_link, cannot_link))
        names = tuple(ALIASES.get(name, name) for name in types)
        linked = must_link is not None or cannot_link is not None
        known = Known.of(must_link, cannot_link, y, X, k) if linked else None
        if linked and self.average:
            raise ValueError(
                f"average={self.average!r} takes no must_link or cannot_link: leave it False"
            )
        data = MixtureData.measure(X, weights, labels, names, self.n_jobs)
        data = data.with_links(None if known is None else Linked.of(known))
        if isinstance(self.n_clusters, str):
            fits = search.fit_growing(data, sizes, types, settings, self.max_clusters)
            fits = search.settled(data, fits, types, settings)
        else:
            fits = search.fit_all(data, [k for k in sizes if k <= n], types, settings)
        if measurement_error is not None:
            fits = search.with_errors(data, fits, measurement_error, settings)
        self._publish_search(data, fits, settings)
        if known is not None:
            publish_kept(self, known)
        self._beside_one: tuple[float, float] | None = None
        if measurement_error is None:
            self._compare_with_one(data, settings)
        if not isinstance(self.n_clusters, Integral):
            self._tabulate()
        return self

    def _check_parameters(self) -> tuple[str, ...]:
        """Check what ``__init__`` stored; the names of frozen parameters."""
        self._check_loop_parameters()
        check_choice(self.covariance_type, "covariance_type", (*ALIASES, *FAMILIES, "auto"))
        check_choice(self.criterion, "criterion", ("bic", "icl", "aic"))
        if not isinstance(self.average, (bool, np.bool_)):
            check_choice(self.average, "average", ("bootstrap",))
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        check_number(self.reg_covar, "reg_covar", low=0.0, high=1.0, strict=True)
        if self.noise is not None:
            check_number(self.noise, "noise", low=0.0, high=1.0, strict=True)
        if not (self.prior is None or isinstance(self.prior, NormalInverseWishart)):
            check_choice(self.prior, "prior", ("default",))
        if isinstance(self.frozen, tuple) and not self.frozen:
            return ()
        return check_frozen(self.frozen, self._first_values())

    def _without_constant(
        self, X: Any, weights: np.ndarray | None, measurement_error: ArrayLike | None
    ) -> Any:
        """The features that vary, where others do not and the user says nothing of these."""
        self._constant = None
        if self._keeps_constant or self._speaks_of_all(measurement_error):
            return X
        counted = X
        if weights is not None and isinstance(X, np.ndarray) and (weights == 0).any():
            counted = X[weights > 0]
        low, high = Rows(counted, n_jobs=self.n_jobs).extremes().astype(np.float64)
        varies = low != high
        if varies.all() or not varies.any():
            return X
        return self._leave_out(X, low, varies)

    def _speaks_of_all(self, measurement_error: ArrayLike | None) -> bool:
        """Whether something given has a number for every feature, constant or not."""
        given = any(value is not None for value in self._first_values().values())
        prior = isinstance(self.prior, NormalInverseWishart)
        return given or prior or measurement_error is not None

    def _types_with_errors(self, X: Any, y: Any, linked: tuple[Any, Any]) -> tuple[str, ...]:
        """Covariance types to try where objects have known errors."""
        plain = isinstance(X, np.ndarray) and not np.isnan(X).any()
        if not plain:
            raise ValueError("measurement_error needs X as a NumPy array without missing values")
        unused = {
            "noise": self.noise,
            "average": self.average or None,
            "frozen": self.frozen or None,
        }
        others = {**unused, "y": y, "must_link": linked[0], "cannot_link": linked[1]}
        if given := [name for name, value in others.items() if value is not None]:
            raise ValueError(f"measurement_error cannot be combined with {given[0]}: leave it out")
        if self.covariance_type == "auto":
            return ("VVI", "VVV")
        name = "covariance_type (with measurement_error)"
        check_choice(self.covariance_type, name, ("auto", "full", "VVV", "diag", "VVI"))
        return (self.covariance_type,)

    def _labels_from(
        self, y: ArrayLike, n: int, k: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Known labels as components, -1 for unknown, and the label of each component."""
        return partial_labels(y, n, k)

    def _first_values(self) -> dict[str, ArrayLike | None]:
        return {
            "weights": self.weights_init,
            "means": self.means_init,
            "covariances": self.covariances_init,
        }

    def _settings(
        self, frozen: tuple[str, ...], sizes: list[int], d: int, labelled: bool
    ) -> Settings:
        """The checked parameters as one record."""
        values, first = self._first_values(), Given()
        begun = any(value is not None for value in values.values())
        if begun and len(sizes) > 1:
            raise ValueError(
                "weights_init, means_init and covariances_init need one number of components, got "
                f"n_clusters={self.n_clusters!r}"
            )
        if begun:
            noise = self.noise is not None
            first = check_given(values, self.covariance_type, sizes[0], d, noise=noise)
        if isinstance(self.prior, NormalInverseWishart) and np.shape(self.prior.mean) != (d,):
            raise ValueError(
                f"prior must have a mean of shape ({d},), one for each feature, got shape "
                f"{np.shape(self.prior.mean)}"
            )
        return Settings(
            criterion=self.criterion,
            reg_covar=self.reg_covar,
            noise=self.noise,
            frozen=frozen,
            prior=self.prior,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            seed=int(as_generator(self.random_state).integers(2**63)),
            given=first,
            fixed=labelled or begun,
        )

    def _publish_search(
        self, data: MixtureData, fits: list[search.Fit], settings: Settings
    ) -> None:
        """The best fit, the table, and the average if there is one."""
        best = search.on_all(data, search.choose(data, fits, self.criterion), settings)
        self.search_ = ModelSearch([fit.candidate for fit in fits], self.criterion)
        self.covariance_type_ = best.candidate.covariance_type
        self._prior, self._frozen, self._given = (
            best.likelihood.prior,
            settings.frozen,
            settings.given,
        )
        self._view, self._state, self._members = best.likelihood.view, best.run.state, ()
        U = best.likelihood.memberships(self._state)
        if self.average:
            bootstrap = self.average == "bootstrap"
            self._members, U = average_over(data, fits, best, settings, bootstrap=bootstrap)
        history = best.run.history + best.likelihood.log_volume()
        self._publish(U, best.run._replace(history=history), best.run.objective)
        self._publish_parameters()
        self._warn_if_collapsed(best.candidate)

    def _compare_with_one(self, data: MixtureData, settings: Settings) -> None:
        """Warn where one component describes the data no worse."""
        k = len(self._state.means)
        tried = {row.n_clusters for row in self.search_}
        known = data.labels is not None or data.linked is not None
        if 1 in tried or data.holes or known or settings.frozen:
            return
        own = next(
            row
            for row in self.search_
            if (row.n_clusters, row.covariance_type) == (k, self.covariance_type_)
        )
        types = (
            ("EII", "EEI", "EEE") if self.covariance_type == "auto" else (self.covariance_type_,)
        )
        one = min(search.one_component(data, name, settings) for name in types)
        if np.isfinite(own.bic):
            self._beside_one = (own.bic, one)
            if own.bic > one:
                warn(
                    f"{k} components describe the data no better than one (BIC {own.bic:.1f} "
                    f"against {one:.1f}, lower is better): memberships may be confident without "
                    "reason; try n_clusters='auto', or a simpler covariance_type than "
                    f"{self.covariance_type_!r}"
                )

    def _warn_if_collapsed(self, candidate: ModelCandidate) -> None:
        if not candidate.reason:
            return
        warn(
            f"{candidate.reason} onto a few objects or a plane: lower n_clusters, give "
            f'prior="default", raise reg_covar={self.reg_covar:g}, or choose a simpler '
            f"covariance_type than {candidate.covariance_type!r}"
        )

    def _publish_parameters(self) -> None:
        """Parameters in the units of the data, in float64: squares need not fit into float32."""
        state, coordinates = self._state, self._view.coordinates
        self.weights_ = state.weights
        self.means_ = coordinates.outer(state.means)
        self.covariances_ = outer_covariances(state, self.covariance_type_, coordinates)
        self.precisions_cholesky_ = precision_factors(state, self.covariance_type_, coordinates)
        if self._constant is not None:
            put, kind = self._constant.spread, self.covariance_type_
            self.means_ = self._constant.points(self.means_)
            self.covariances_ = put(self.covariances_, kind)
            self.precisions_cholesky_ = put(self.precisions_cholesky_, kind, -0.5)
        # As given, without the rounding of a change of coordinates and back.
        for name in self._frozen:
            setattr(self, f"{name}_", getattr(self._given, name))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
