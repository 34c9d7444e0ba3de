"""Gaussian mixtures, and averages of several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..array.arrays import namespace, to_numpy
from ..array.docs import documented
from ..array.rows import Rows, has_missing
from ..array.types import Array, ArrayLike, RandomState
from ..array.validation import check_array, check_choice, check_number
from ..components import gaussian as families
from ..components.gaussian import Gaussian, Measured, Start, State
from ..components.incomplete import check_errors
from ..conjugate import NormalInverseWishart
from ..conjugate.normal import LOG_2PI, positive_definite
from ..data.constraints import Known
from ..data.features import check_features, observed_only
from ..engine.component import Component, Fit
from ..engine.mixture import Mixture, posterior
from ..engine.search import Objects, Plan, on_all
from ..numerics.distances import measure
from ..numerics.seeding import feature_sample
from ..selection.automatic import AutomaticMixture

__all__ = ["GaussianMixture"]


class Constant(NamedTuple):
    """Features without variance, which would make components degenerate; the fit leaves them out.
    Published parameters have all features: the constant as mean, no covariance with others, and a
    variance of ``regularization`` in its units. ``varying`` are those that vary."""

    varying: np.ndarray
    values: np.ndarray
    variances: np.ndarray

    def part(self, X: Array) -> Any:
        """The varying features, as a view if they are adjacent."""
        first, last = int(self.varying[0]), int(self.varying[-1]) + 1
        return X[:, first:last] if last - first == len(self.varying) else X[:, self.varying]

    def points(self, inner: np.ndarray) -> np.ndarray:
        """Points (m, d) made from the varying features."""
        found = np.tile(self.values, (len(inner), 1))
        found[:, self.varying] = inner
        return found

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Log density (n,) of the constant features with their published variance; 0 for NaN."""
        fixed = np.delete(np.arange(len(self.values)), self.varying)
        variances = self.variances[fixed]
        gaps = (np.asarray(X[:, fixed], dtype=np.float64) - self.values[fixed]) / variances**0.5
        with np.errstate(over="ignore"):  # the square of a very wide gap may overflow
            level = -0.5 * np.minimum(gaps**2, 1e300) - 0.5 * np.log(variances)
        return np.nansum(level - 0.5 * LOG_2PI, axis=1)

    def spread(self, found: np.ndarray, covariance_type: str, power: float = 1.0) -> np.ndarray:
        """Covariances of all features, or factors of their inverses (``power`` -1/2)."""
        if covariance_type == "spherical":
            return found
        own = self.variances**power
        if covariance_type == "diag":
            rows = np.tile(own, (len(found), 1))
            rows[:, self.varying] = found
            return rows
        matrices = np.zeros((*found.shape[:-2], len(own), len(own)))
        matrices[..., np.arange(len(own)), np.arange(len(own))] = own
        matrices[..., self.varying[:, None], self.varying] = found
        return matrices


class Member(NamedTuple):
    """A mixture of an average: weight, component, state, and how its columns map to clusters."""

    weight: float
    component: Gaussian
    state: State
    mapping: np.ndarray


@documented
class GaussianMixture(AutomaticMixture, Mixture):
    """Posterior probabilities of Gaussian components, fitted by maximum likelihood.

    Fitted by EM [1]_ with safeguarded squared extrapolation [2]_. The covariances belong to one of
    fourteen families [3]_, by default the one with the best BIC. Starts come from model-based
    agglomeration [4]_ and from k-means++. Missing values (NaN) are integrated out exactly, in
    ``fit`` and for new objects.

    Parameters
    ----------
    %(mixture_numbers)s
    covariance_type : str, default="auto"
        Family of the covariances: "full", "tied", "diag", "spherical", or one of mclust's names
        EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE, EEV, VEV, EVV, VVV, whose letters say
        whether volume, shape and orientation are equal (E), varying (V) or the identity (I). "auto"
        takes the family with the best ``criterion`` (the simpler one in a tie). The criterion is
        corrected for the gain from thin components of a few objects. "average" averages the
        memberships over all candidates, with weights ``exp(-BIC / 2)``; candidates with other
        numbers of components enter through their co-occurrence with the best one. With more than 48
        features, only families without separate matrices are tried.
    prior : {None, "default"} or NormalInverseWishart, default=None
        Prior of means and covariances, for maximum a posteriori estimation: no component can
        collapse. "default" is mclust's weak prior [5]_.
    noise_cluster : float, optional
        Adds a last column to the memberships: a component that is uniform over the data, with this
        starting weight.
    regularization : float, default=1e-9
        Smallest variance of a component in any direction, relative to that of the data
        (scikit-learn's ``reg_covar`` is absolute).
    init : Start, optional
        ``Start(weights=, means=, covariances=, frozen=)``: starting weights (k,), means (k, p) and
        covariances (shaped like ``covariances_``); those named in ``frozen`` keep their values.
    %(mixture_loop)s

    Attributes
    ----------
    %(posterior)s
        With ``noise_cluster``, the last column is the noise.
    means_ : array of shape (n_clusters, p)
        Means.
    covariances_ : array
        Covariances: (p, p) tied, (k, p) diag, (k,) spherical, otherwise (k, p, p).
    precisions_cholesky_ : array
        C such that ``C @ C.T`` is the inverse of a covariance, shaped like ``covariances_`` (square
        roots for diag and spherical).
    covariance_type_ : str
        The fitted family.
    %(search)s
    log_likelihood_, objective_ : float
        Log-likelihood; the objective adds the log prior density. ``history_`` has it at every step.
    %(ended)s

    References
    ----------
    .. [1] Dempster, Laird and Rubin, Maximum likelihood from incomplete data, JRSS B 39, 1977.
    .. [2] Varadhan and Roland, Accelerating any EM algorithm, Scand. J. Statistics 35, 2008.
    .. [3] Celeux and Govaert, Gaussian parsimonious clustering, Pattern Recognition 28, 1995.
    .. [4] Fraley and Raftery, Model-based clustering and density estimation, JASA 97, 2002.
    .. [5] Fraley and Raftery, Bayesian regularization for mixtures, J. Classification 24, 2007.
    .. [6] Bovy, Hogg and Roweis, Extreme deconvolution, Annals of Applied Statistics 5, 2011.

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
    >>> model.predict_proba([[3.0, 3.0]]).sum().round(9)
    np.float64(1.0)
    """

    _component: Gaussian
    _members: tuple[Member, ...]
    _constant: Constant | None

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        max_clusters: int = 9,
        covariance_type: str = "auto",
        criterion: str = "bic",
        prior: str | NormalInverseWishart | None = None,
        noise_cluster: float | None = None,
        regularization: float = 1e-9,
        init: Start | None = None,
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters, self.criterion = max_clusters, criterion
        self.covariance_type, self.regularization = covariance_type, regularization
        self.prior, self.noise_cluster, self.init = prior, noise_cluster, init
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @property
    def unit_free(self) -> bool:
        """Whether units of features do not matter (they do with common axes or spheres)."""
        return self._searches or families.is_unit_free(self.covariance_type)

    @property
    def _searches(self) -> bool:
        return self.covariance_type in ("auto", "average")

    def _read(self, X: Array, *, reset: bool) -> Any:
        """Checked features, without those that were constant in the fit."""
        X = check_features(self, X, reset=reset, missing=True)
        return X if reset or self._constant is None else self._constant.part(X)

    @documented
    @observed_only
    def fit(
        self,
        X: Array,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        measurement_error: ArrayLike | None = None,
    ) -> Any:
        """Learn the mixture.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features; NaN means missing.
        %(partial_labels)s
        %(sample_weight)s
        %(mixture_links)s
        measurement_error : array of shape (n, p) or (n, p, p), optional
            Known variances or covariances of the measurement error of every object. The mixture
            then describes the objects without errors (Bovy, Hogg and Roweis 2011), and
            ``memberships_`` take the errors into account. Needs full or diagonal covariances;
            "auto" chooses between the two."""
        return self._learn(X, y, sample_weight, (must_link, cannot_link), measurement_error)

    def _errors(self, X: Array, known: Known, measurement_error: Any) -> tuple[Any, ...]:
        if known.links is not None and self.covariance_type == "average":
            raise ValueError(
                "covariance_type='average' takes no must_link, cannot_link or labels of some "
                "objects: use 'auto'"
            )
        if measurement_error is None:
            return ()
        errors, given = check_errors(measurement_error, X, X.shape[1]), read_start(self.init)
        frozen = None if given is None else given.frozen or None
        others = {"noise_cluster": self.noise_cluster, "frozen": frozen, "links or y": known.links}
        if refused := [name for name, value in others.items() if value is not None]:
            raise ValueError(
                f"measurement_error cannot be combined with {refused[0]}: leave it out"
            )
        name = "covariance_type (with measurement_error)"
        check_choice(self.covariance_type, name, ("auto", "full", "VVV", "diag", "VVI"))
        return (errors,)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = (*families.ALIASES, *families.FAMILIES, "auto", "average")
        check_choice(self.covariance_type, "covariance_type", names)
        check_number(self.regularization, "regularization", low=0.0, high=1.0, strict=True)
        if self.noise_cluster is not None:
            check_number(self.noise_cluster, "noise_cluster", low=0.0, high=1.0, strict=True)
        if not (self.prior is None or isinstance(self.prior, NormalInverseWishart)):
            check_choice(self.prior, "prior", ("default",))
        read_start(self.init)

    def _varying(self, X: Array, weights: np.ndarray | None, measurement_error: Any) -> Any:
        """Features without those that do not vary, if the user gave no start or prior for them."""
        self._constant = None
        given = read_start(self.init) or isinstance(self.prior, NormalInverseWishart)
        if self._in_batches or given or measurement_error is not None:
            return X
        counted = X
        if weights is not None and isinstance(X, np.ndarray) and (weights == 0).any():
            counted = X[weights > 0]
        low, high = Rows(counted).extremes().astype(np.float64)
        varies = low != high
        if varies.all() or not varies.any():
            return X
        unit = np.where(low == 0, 1.0, np.clip(np.abs(low), 1e-100, 1e100))
        self._constant = Constant(np.flatnonzero(varies), low, self.regularization * unit**2)
        return self._constant.part(X)

    def _types(self, n: int, d: int, given: Start | None, errors: bool) -> tuple[str, ...]:
        if not self._searches:
            return (self.covariance_type,)
        if given is not None and "covariances" in given.frozen:
            return ("VVV",)
        return ("VVI", "VVV") if errors else families.suited(n, d)

    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        (n, d), errors, given = data.X.shape, len(data.columns) > 1, read_start(self.init)
        types = self._types(n, d, given, errors)
        plain = Rows(data.X, data.weights)
        missing = has_missing(plain)
        kinds = {families.kind_of(families.family_of(t)) for t in types}
        mix = not missing and "full" in kinds
        coordinates = measure(plain, per_feature=kinds != {"spherical"}, mix=mix)
        measured = Measured(coordinates, data.count, missing)
        box = None if self.noise_cluster is None else _box(data, measured)
        if isinstance(self.prior, NormalInverseWishart) and np.shape(self.prior.mean) != (d,):
            raise ValueError(
                f"prior must have a mean of shape ({d},), one for each feature, got shape "
                f"{np.shape(self.prior.mean)}"
            )
        if given is not None and not isinstance(self.n_clusters, (int, np.integer)):
            raise ValueError(
                f"init needs one number of components, got n_clusters={self.n_clusters!r}"
            )

        def components(k: int) -> list[Component]:
            own = Start()
            if given is not None:
                name = "VVV" if self._searches else self.covariance_type
                own = check_start(given, name, k, d, noise=self.noise_cluster is not None)
            rest = (self.regularization, self.noise_cluster, box, self.prior, own, errors)
            return [Gaussian(k, name, measured, *rest) for name in types]

        def sample(few: Objects) -> Any:
            return feature_sample(few.X, few.weights, coordinates, missing=missing)

        thorough = not missing and not errors
        plan = self._planned(components, sample, seed, fixed or given is not None, thorough)
        return plan if given is None or given.means is None else plan._replace(n_init=1)

    def _final_memberships(self, data: Objects, fits: list[Fit], best: Fit, plan: Plan) -> Any:
        self._members = ()
        if self.covariance_type != "average":
            return super()._final_memberships(data, fits, best, plan)
        self._members, U = average_over(data, fits, best, plan)
        return U.astype(self._dtype) if isinstance(U, np.ndarray) else U

    def _of_one(self, component: Component) -> bool:
        if self._component.measured.missing or self._component.errors:
            return False
        if not self._searches:
            return True
        return component.setting["covariance_type"] in ("EII", "EEI", "EEE")

    def _advice(self) -> str:
        return (
            'onto a few objects or a plane: lower n_clusters, give prior="default", raise '
            f"regularization={self.regularization:g}, or choose a simpler covariance_type than "
            f"{self._component.covariance_type!r}"
        )

    def _publish_parameters(self) -> None:
        """Publish parameters in the units of the data, in float64, as float32 may overflow."""
        state, component = self._state, self._component
        self.covariance_type_ = component.covariance_type
        self.weights_ = state.weights
        self.means_ = component.coordinates.outer(state.means)
        self.covariances_ = component.outer_covariances(state)
        self.precisions_cholesky_ = component.precision_factors(state)
        if self._constant is not None:
            put, kind = self._constant.spread, self.covariance_type_
            self.means_ = self._constant.points(self.means_)
            self.covariances_ = put(self.covariances_, kind)
            self.precisions_cholesky_ = put(self.precisions_cholesky_, kind, -0.5)
        # The given values themselves, without rounding from the change of coordinates.
        for name in component.given.frozen:
            setattr(self, f"{name}_", getattr(component.given, name))

    @documented
    def predict_proba(
        self, X: Array, *, n_clusters: int | None = None, measurement_error: ArrayLike | None = None
    ) -> Any:
        """Posterior probabilities of new objects; missing values (NaN) are integrated out, and so
        is ``measurement_error`` (n_new, p) or (n_new, p, p), as in ``fit``.

        %(new_objects)s
        """
        self._check_fitted()
        checked = self._read(X, reset=False)
        U = self._posterior(checked, 0, measurement_error)
        return self._new_at(U, n_clusters, X, measurement_error=measurement_error)

    def score_samples(self, X: Array, *, measurement_error: ArrayLike | None = None) -> Any:
        """Log density (n,) of every row of ``X`` (n, p), or of its observed values. It includes
        ``measurement_error`` (n, p) or (n, p, p), known variances or covariances of the errors."""
        self._check_fitted()
        return self._posterior(self._read(X, reset=False), 1, measurement_error)

    def _posterior(self, X: Array, which: int, measurement_error: ArrayLike | None = None) -> Any:
        columns: tuple[np.ndarray, ...] = ()
        if measurement_error is not None:
            if self._state.noise is not None:
                raise ValueError(
                    "measurement_error cannot be combined with noise_cluster: leave it out"
                )
            errors = check_errors(measurement_error, X, self.n_features_in_)
            if self._constant is not None:
                errors = errors[:, self._constant.varying][:, :, self._constant.varying]
            columns = (errors,)

        def of(component: Gaussian, state: State) -> Any:
            component = replace(component, errors=bool(columns))
            return posterior(X, component, state, which, *columns)

        if which or not self._members:
            return of(self._component, self._state)
        return averaged(self._members, [of(m.component, m.state) for m in self._members])

    def _drawn(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        drawn = self._component.draw(self._state, labels, rng)
        return drawn if self._constant is None else self._constant.points(drawn)


def _box(data: Objects, measured: Measured) -> np.ndarray:
    """Negated logarithms (d,) of the sides of the box around the data, for the uniform density."""
    view = measured.coordinates.unmixed().inner
    X = data.X
    if data.weights is not None and isinstance(X, np.ndarray):
        X = X[to_numpy(data.weights) > 0]
    low, high = Rows(X, view=view).extremes().astype(np.float64)
    return -np.log(np.maximum(high - low, 1e-3))


def averaged(members: tuple[Member, ...], parts: list[Any]) -> Any:
    """Memberships (n, k) averaged over mixtures, each mapped to the clusters of the best one."""
    xp = namespace(parts[0])
    total: Any = 0.0
    for member, U in zip(members, parts, strict=True):
        mapping = xp.asarray(member.weight * member.mapping, dtype=U.dtype, device=U.device)
        total = total + U @ mapping
    return total / xp.sum(total, axis=1, keepdims=True)


def mapping(U: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Matrix (k, k') that maps memberships ``U`` (n, k) to the clusters of ``reference`` (n, k').
    Equal numbers of clusters are matched one to one; otherwise the mass of a cluster is divided in
    proportion to its overlap with each reference cluster."""
    together = U.T.astype(np.float64) @ reference
    if U.shape[1] == reference.shape[1]:
        order = linear_sum_assignment(-together)[1]
        return np.eye(len(order))[order]
    return together / np.maximum(together.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def average_over(
    data: Objects, fits: list[Fit], best: Fit, plan: Plan
) -> tuple[tuple[Member, ...], Any]:
    """Mixtures with weights ``exp(-BIC / 2)``, and the averaged memberships (n, k). Thin components
    of few objects lower a weight, as in the choice of one mixture."""
    counted = [fit for fit in fits if np.isfinite(fit.candidate.bic)] or [best]
    values = np.array([fit.candidate.bic + fit.doubt() for fit in counted])
    weights = np.nan_to_num(np.exp(0.5 * (np.nanmin([*values, np.inf]) - values)), nan=1.0)
    reference = to_numpy(best.likelihood.memberships(best.run.state))
    members, parts = [], []
    # Members with less than a thousandth of the weight change no membership noticeably.
    for i in np.flatnonzero(weights >= 1e-3 * weights.sum()):
        fit = on_all(data, counted[i], plan)
        U = fit.likelihood.memberships(fit.run.state)
        columns, component = mapping(to_numpy(U), reference), fit.likelihood.component
        assert isinstance(component, Gaussian)
        members.append(Member(float(weights[i]), component, fit.run.state, columns))
        parts.append(U)
    return tuple(members), averaged(tuple(members), parts)


def read_start(init: Any) -> Start | None:
    """The start given by the user, or None; frozen parameters must have values."""
    if init is None:
        return None
    if not isinstance(init, (Start, Mapping)):
        raise TypeError(
            "init must be Start(weights=, means=, covariances=, frozen=) or a dict of these, got "
            f"{init!r}"
        )
    given = Start(**init) if isinstance(init, Mapping) else init
    names = ("weights", "means", "covariances")
    if not isinstance(given.frozen, (tuple, list, set, frozenset)) or any(
        not isinstance(name, str) or name not in names for name in given.frozen
    ):
        raise ValueError(
            f"init.frozen must be a tuple of names out of {', '.join(map(repr, names))}, got "
            f"{given.frozen!r}"
        )
    for name in given.frozen:
        if getattr(given, name) is None:
            raise ValueError(
                f"init.frozen={given.frozen!r} needs init.{name}: give the {name} to keep"
            )
    return None if all(value is None for value in given[:3]) else given


def check_start(given: Start, covariance_type: str, k: int, d: int, *, noise: bool) -> Start:
    """Starting values as finite arrays of the right shapes; weights sum to one."""
    forms: dict[str, tuple[int, ...]] = {"tied": (d, d), "diag": (k, d), "spherical": (k,)}
    shapes = (k + noise,), (k, d), forms.get(covariance_type, (k, d, d))
    weights, means, covariances = (
        None if value is None else check_array(value, f"init.{name}", shape)
        for name, value, shape in zip(Start._fields, given, shapes, strict=False)
    )
    if weights is not None:
        if weights.min() < 0 or weights.sum() <= 0:
            raise ValueError(f"init.weights must be nonnegative with a positive sum, got {weights}")
        weights = weights / weights.sum()
    if covariances is not None:
        if covariance_type not in ("diag", "spherical"):
            covariances = positive_definite(covariances, "init.covariances")
        elif covariances.min() <= 0:
            raise ValueError(
                f"init.covariances must be positive, got {covariances.min():g}: give variances"
            )
    return Start(weights, means, covariances, tuple(given.frozen))
