"""How much memberships, labels and parameters vary over resamples of the data."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from ..array.docs import documented
from ..array.types import ArrayLike, Estimator, RandomState
from ..array.validation import as_generator, check_choice, check_number, check_weights, reserve
from ..array.warn import warn
from ..memberships import align, cooccurrence
from ..metrics import Estimate, adjusted_rand_index
from ._evidence import (
    Evidence,
    Features,
    as_evidence,
    check_estimator,
    labels_of,
    memberships_of,
    seeded,
    with_clusters,
)
from .choose import Jobs, Progress


class Uncertainty(NamedTuple):
    """Memberships (n, k) of the fit, and ``draws`` (n_resamples, n, k) with matched clusters."""

    memberships: np.ndarray
    draws: np.ndarray
    estimator: Any

    @property
    def standard_error(self) -> np.ndarray:
        """Standard deviation (n, k) of every membership over the resamples."""
        return self.draws.std(axis=0, ddof=1)

    def interval(self, confidence: float = 0.95) -> Estimate:
        """Percentile intervals of the memberships, (n, k)."""
        return Estimate(self.memberships, *_percentiles(self.draws, confidence))

    def cooccurrence(self, pairs: ArrayLike, confidence: float = 0.95) -> Estimate:
        """Percentile intervals of u_i'u_j for pairs (m, 2); the order of clusters is irrelevant."""
        values = np.stack([cooccurrence(draw, pairs) for draw in self.draws])
        return Estimate(cooccurrence(self.memberships, pairs), *_percentiles(values, confidence))


def _percentiles(values: np.ndarray, confidence: float) -> np.ndarray:
    confidence = check_number(confidence, "confidence", low=0, high=1, strict=True)
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)


@documented
def bootstrap(
    estimator: Estimator,
    evidence: ArrayLike,
    n_resamples: int = 100,
    *,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> Uncertainty:
    """Memberships of every object under fits to resampled data.

    Each time, objects (features), halves of the objects (similarities) or partitions (labelings)
    are drawn and the estimator is fitted to them. Its memberships of **all** objects are matched
    with those of the fit to all the data by optimal assignment.

    Parameters
    ----------
    estimator : clusterer
        With a fixed number of clusters. It is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        In the form that the estimator takes.
    n_resamples : int
    sample_weight : array of shape (n,), optional
        Passed to ``fit``, with features.
    %(resamples)s

    Examples
    --------
    >>> from sfumato import FuzzyCMeans
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import bootstrap
    >>> X = make_gaussians(100, 2, separation=6, random_state=0).evidence
    >>> uncertainty = bootstrap(FuzzyCMeans(2), X, n_resamples=20, random_state=0)
    >>> value, low, high = uncertainty.cooccurrence([(0, 1)])
    >>> bool(low[0] <= value[0] <= high[0])
    True
    """
    data = as_evidence(estimator, evidence, sample_weight)
    n_resamples = check_number(n_resamples, "n_resamples", low=2, integer=True)
    rng = as_generator(random_state)
    model = data.fit(seeded(clone(estimator), rng))
    memberships = np.asarray(
        model.memberships_ if hasattr(model, "memberships_") else memberships_of(model, data.data)
    )
    shape, what = (n_resamples, *memberships.shape), "the memberships of all resamples"
    reserve(shape, memberships.dtype, what, "ask for fewer resamples")
    calls = [(estimator, data, memberships, stream) for stream in rng.spawn(n_resamples)]
    draws = Jobs(n_jobs, progress, n_resamples)(_resampled, calls)
    return Uncertainty(memberships, np.stack(draws), model)


def _resampled(
    estimator: Estimator, evidence: Evidence, reference: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Memberships of all objects from a fit to a resample, clusters as in the reference."""
    chosen, k = evidence.resample(rng), reference.shape[1]
    with warnings.catch_warnings(action="ignore"):
        model = evidence.part(chosen).fit(with_clusters(estimator, k, rng))
        aligned = align(memberships_of(model, evidence.seen_from(chosen)), reference)
    # Clusters without a partner are dropped, and their share is spread over the others.
    rest = aligned[:, k:].sum(axis=1, keepdims=True)
    return aligned[:, :k] + rest / k if aligned.shape[1] > k else aligned


class Stability(NamedTuple):
    """Mean adjusted Rand index between the fit and fits to resamples, and its single values."""

    agreement: float
    values: np.ndarray


def stability(
    estimator: Estimator,
    evidence: ArrayLike,
    n_clusters: int | None = None,
    *,
    n_resamples: int = 5,
    max_objects: int = 2000,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Stability:
    """How far fits to resamples agree with the fit to all: 1 is identical, 0 is chance.

    Resamples as in ``bootstrap`` are fitted with the same settings, including a search over numbers
    of clusters, and each model labels all objects.

    Parameters
    ----------
    estimator : clusterer
        Fitted to the evidence or not; it is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        In the form that the estimator takes.
    n_clusters : int, optional
        Number of clusters that replaces that of the estimator.
    n_resamples, max_objects : int
        Number of resamples, and their largest size.
    sample_weight : array of shape (n,), optional
        Passed to ``fit``, with features.
    random_state : None, int, RandomState or Generator

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import stability
    >>> X = make_gaussians(200, 3, separation=8, random_state=0).evidence
    >>> stability(GaussianMixture(3), X, n_resamples=1, random_state=0).agreement
    1.0
    """
    n_resamples = check_number(n_resamples, "n_resamples", low=1, integer=True)
    max_objects = check_number(max_objects, "max_objects", low=4, integer=True)
    rng = as_generator(random_state)
    data = as_evidence(estimator, evidence, sample_weight)
    if n_clusters is not None:
        check_number(n_clusters, "n_clusters", low=1, high=data.n_objects, integer=True)
        estimator = with_clusters(estimator, n_clusters, None)
    values = []
    with warnings.catch_warnings(action="ignore"):
        known = len(getattr(estimator, "labels_", ())) == data.n_objects
        reference = estimator if known else data.fit(clone(estimator))
        labels = labels_of(reference, data.data)
        for _ in range(n_resamples):
            drawn = data.resample(rng)
            if len(drawn) > max_objects:
                drawn = np.sort(rng.choice(drawn, max_objects, replace=False))
            model = data.part(drawn).fit(clone(estimator))
            found = np.asarray(model.predict(data.seen_from(drawn)))
            values.append(float(adjusted_rand_index(labels, found)))
    return Stability(float(np.mean(values)), np.array(values))


class ParameterUncertainty(NamedTuple):
    """Parameters of the fit by name, and their values (n_resamples, ...) over resampled fits."""

    values: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]
    estimator: Any

    @property
    def standard_errors(self) -> dict[str, np.ndarray]:
        """Standard deviation of every parameter over the resamples."""
        return {name: draws.std(axis=0, ddof=1) for name, draws in self.draws.items()}

    def intervals(self, confidence: float = 0.95) -> dict[str, Estimate]:
        """Percentile intervals of every parameter; warns if there are too few resamples."""
        confidence = check_number(confidence, "confidence", low=0, high=1, strict=True)
        m = len(next(iter(self.draws.values())))
        least = int(np.ceil(round(2 / (1 - confidence), 6))) - 1
        if m < least:
            warn(
                f"n_resamples={m} draws are too few for the ends of {confidence:.0%} intervals, "
                f"which may miss even the value of the fit: draw at least {least}"
            )
        ends = {name: _percentiles(draws, confidence) for name, draws in self.draws.items()}
        return {name: Estimate(value, *ends[name]) for name, value in self.values.items()}


@documented
def parameter_intervals(
    estimator: Estimator,
    X: ArrayLike,
    n_resamples: int = 200,
    *,
    method: str = "nonparametric",
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> ParameterUncertainty:
    """Bootstrap standard errors and intervals of the parameters of a mixture.

    The mixture is fitted to every resample; its clusters are matched with those of the fit to all
    objects by overlap of memberships.

    Parameters
    ----------
    estimator : mixture
        A mixture, which is cloned. If its family or number of clusters is "auto", all resamples use
        those of the fit to all objects.
    X : array or data frame of shape (n, p)
    n_resamples : int, default=200
    method : {"nonparametric", "weighted"}
        ``"nonparametric"`` draws objects with replacement. ``"weighted"`` gives every object an
        exponential weight instead (Newton and Raftery 1994): no object is ever left out, so small
        clusters do not vanish.
    sample_weight : array of shape (n,), optional
    %(resamples)s

    Returns
    -------
    uncertainty : ParameterUncertainty
        ``values``, ``draws``, ``standard_errors`` and ``intervals(confidence)``, dicts keyed by
        parameter (``"means"``; for a column of a ``MixedMixture`` ``"age mean"``), and the
        fitted ``estimator``.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GaussianMixture
    >>> from sfumato.selection import parameter_intervals
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, 100), rng.normal(7, 1, 100)])[:, None]
    >>> mixture = GaussianMixture(2, covariance_type="tied", n_init=1)
    >>> found = parameter_intervals(mixture, X, n_resamples=20, random_state=0)
    >>> errors = found.standard_errors["means"]
    >>> bool(0.05 < errors.min() < errors.max() < 0.2)
    True
    """
    check_estimator(estimator)
    if not hasattr(estimator, "n_clusters"):
        raise TypeError(f"{type(estimator).__name__} has no parameter n_clusters: give a mixture")
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    n_resamples = check_number(n_resamples, "n_resamples", low=2, integer=True)
    check_choice(method, "method", ("nonparametric", "weighted"))
    data = Features(X, check_weights(sample_weight, X))
    rng = as_generator(random_state)
    model = data.fit(with_clusters(estimator, estimator.n_clusters, rng))
    fixed = _fixed(estimator, model)
    reference, values = memberships_of(model, X), parameters_of(model)
    if not values:
        raise TypeError(f"{type(estimator).__name__} publishes no parameters: give a mixture")
    calls = [(fixed, data, method, reference, stream) for stream in rng.spawn(n_resamples)]
    found = Jobs(n_jobs, progress, n_resamples)(_refitted, calls)
    # Categories absent from a resample have probability zero there.
    none = {name: np.zeros_like(value) for name, value in values.items()}
    draws = {name: np.stack([draw.get(name, none[name]) for draw in found]) for name in values}
    return ParameterUncertainty(values, draws, model)


def parameters_of(model: Estimator) -> dict[str, np.ndarray]:
    """Published parameters of a model, by name."""
    published = ["weights_", "means_", "covariances_", "scale_matrices_"]
    published += ["degrees_of_freedom_", "uniquenesses_"]
    values = ((name.removesuffix("_"), getattr(model, name, None)) for name in published)
    found = {name: np.asarray(value, np.float64) for name, value in values if value is not None}
    for column, parts in getattr(model, "parameters_", {}).items():
        found |= {f"{column} {part}": np.asarray(value) for part, value in parts.items()}
    return found


def _fixed(estimator: Estimator, model: Estimator) -> Any:
    """The estimator with the family and number of clusters chosen by the fit to all objects."""
    noise = getattr(model, "noise_cluster", None) is not None  # a further column
    fixed = with_clusters(estimator, int(model.n_clusters_) - noise, np.random.default_rng(0))
    chosen = {
        name: getattr(model, f"{name}_")
        for name in ("covariance_type", "n_factors", "columns")
        if name in fixed.get_params(deep=False) and hasattr(model, f"{name}_")
    }
    return fixed.set_params(**chosen)


def _refitted(
    estimator: Estimator,
    data: Features,
    method: str,
    reference: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Parameters of a fit to a resample, clusters in the order of the reference."""
    X, weights, n = data.data, data.weights, data.n_objects
    model = with_clusters(estimator, estimator.n_clusters, rng)
    with warnings.catch_warnings(action="ignore"):
        if method == "weighted":
            drawn = rng.exponential(size=n)
            drawn *= 1.0 if weights is None else weights
            total = n if weights is None else weights.sum()
            model.fit(X, sample_weight=drawn * (total / drawn.sum()))
        else:
            chosen = data.resample(rng)
            part = X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]
            Features(part, None if weights is None else weights[chosen]).fit(model)
        found = memberships_of(model, X)
    k = reference.shape[1] - (
        getattr(model, "noise_cluster", None) is not None
    )  # the noise column is not matched
    order = linear_sum_assignment(reference[:, :k].T @ found[:, :k], maximize=True)[1]
    shared = getattr(model, "covariance_type_", "") in ("tied", "EEE")
    values = {}
    for name, value in parameters_of(model).items():
        one_for_all = name == "covariances" and shared and value.ndim == 2
        values[name] = value if one_for_all else np.concatenate([value[:k][order], value[k:]])
    return values
