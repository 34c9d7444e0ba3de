"""How much the parameters of a mixture would change if the objects were drawn again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment

from ..array.types import Array, ArrayLike, Estimator, RandomState
from ..array.validation import as_generator, check_choice, check_number, check_weights
from ..array.warn import warn
from ._evidence import check_estimator, memberships_of, with_clusters
from .choose import Progress
from .resampling import Interval

__all__ = ["ParameterUncertainty", "parameter_intervals"]

PUBLISHED = (
    "weights_",
    "means_",
    "covariances_",
    "scale_matrices_",
    "degrees_of_freedom_",
    "noise_variances_",
)


class ParameterUncertainty(NamedTuple):
    """Parameters of the fit by name, and their values (n_resamples, ...) in resampled fits."""

    values: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]
    estimator: Any

    @property
    def standard_errors(self) -> dict[str, np.ndarray]:
        """Standard deviation of every parameter over the resamples."""
        return {name: draws.std(axis=0, ddof=1) for name, draws in self.draws.items()}

    def intervals(self, level: float = 0.95) -> dict[str, Interval]:
        """Percentile intervals of every parameter; a warning where the resamples are too few."""
        level = check_number(level, "level", low=0, high=1, strict=True)
        m, least = len(next(iter(self.draws.values()))), int(np.ceil(round(2 / (1 - level), 6))) - 1
        if m < least:
            warn(
                f"n_resamples={m} draws are too few for the ends of {level:.0%} intervals, which "
                f"may miss even the value of the fit: draw at least {least}"
            )
        ends = [(1 - level) / 2, (1 + level) / 2]
        return {
            name: Interval(value, *np.quantile(self.draws[name], ends, axis=0))
            for name, value in self.values.items()
        }


def parameter_intervals(
    estimator: Estimator,
    X: ArrayLike,
    n_resamples: int = 200,
    *,
    method: str = "nonparametric",
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ParameterUncertainty:
    """Standard errors and intervals of the parameters of a mixture, by the bootstrap.

    The mixture is fitted to every resample; its clusters are matched to those of the fit to all
    objects by the overlap of the memberships of all objects, so that the order of clusters in a fit
    does not matter.

    Parameters
    ----------
    estimator : mixture
        With the number of clusters wanted. It is cloned; a shape or number of clusters of "auto" is
        that of the fit to all objects.
    X : array or data frame of shape (n, p)
    n_resamples : int, default=200
    method : {"nonparametric", "weighted"}
        ``"nonparametric"`` draws objects with replacement. ``"weighted"`` gives every object an
        exponential weight instead (weighted likelihood bootstrap [1]_): no object is ever absent,
        so small clusters do not vanish.
    sample_weight : array of shape (n,), optional
    random_state : None, int, RandomState or Generator
    n_jobs : int, optional
        Resamples fitted at once, as in joblib. The answer does not depend on it.
    progress : callable, optional
        Called as ``progress(done, total)`` after every resample.

    Returns
    -------
    uncertainty : ParameterUncertainty
        ``values``, ``standard_errors`` and ``intervals(level)``, dicts by the names of the
        parameters (``"weights"``, ``"means"``, ``"covariances"``, ...; for columns of a
        ``MixedMixture`` ``"age mean"``), ``draws``, and the fitted ``estimator``.

    References
    ----------
    .. [1] M. A. Newton and A. E. Raftery, Approximate Bayesian inference with the weighted
       likelihood bootstrap, JRSS B 56, 1994.

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
    weights = check_weights(sample_weight, X)
    rng = as_generator(random_state)
    model = _fit(_seeded(estimator, estimator.n_clusters, rng), X, weights)
    fixed = _fixed(estimator, model)
    reference, values = memberships_of(model, X), parameters_of(model)
    if not values:
        raise TypeError(f"{type(estimator).__name__} publishes no parameters: give a mixture")
    jobs = (
        delayed(_resampled)(fixed, X, weights, method, reference, stream)
        for stream in rng.spawn(n_resamples)
    )
    found = list(
        Progress(progress, n_resamples).each(Parallel(n_jobs=n_jobs, return_as="generator")(jobs))
    )
    # A category that a resample does not hold has probability zero there.
    draws = {
        name: np.stack([draw.get(name, np.zeros_like(value)) for draw in found])
        for name, value in values.items()
    }
    return ParameterUncertainty(values, draws, model)


def parameters_of(model: Estimator) -> dict[str, np.ndarray]:
    """Published parameters of a model by name."""
    found = {
        name.removesuffix("_"): np.asarray(getattr(model, name), dtype=np.float64)
        for name in PUBLISHED
        if getattr(model, name, None) is not None
    }
    for column, parts in getattr(model, "parameters_", {}).items():
        found |= {f"{column} {part}": np.asarray(value) for part, value in parts.items()}
    return found


def _seeded(estimator: Estimator, n_clusters: Any, rng: np.random.Generator) -> Any:
    return with_clusters(estimator, n_clusters, rng)


def _fixed(estimator: Estimator, model: Estimator) -> Any:
    """The estimator with what the fit to all objects has chosen."""
    fixed = _seeded(estimator, int(model.n_clusters_), np.random.default_rng(0))
    chosen = {
        name: getattr(model, f"{name}_")
        for name in ("covariance_type", "n_factors", "columns")
        if name in fixed.get_params(deep=False) and hasattr(model, f"{name}_")
    }
    if getattr(model, "noise", None) is not None:  # the noise is a column of the memberships
        chosen["n_clusters"] = int(model.n_clusters_) - 1
    return fixed.set_params(**chosen)


def _fit(model: Estimator, X: ArrayLike, weights: np.ndarray | None) -> Any:
    return model.fit(X) if weights is None else model.fit(X, sample_weight=weights)


def _resampled(
    estimator: Estimator,
    X: Array,
    weights: np.ndarray | None,
    method: str,
    reference: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    n = X.shape[0]
    model = _seeded(estimator, estimator.n_clusters, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "weighted":
            drawn = rng.exponential(size=n)
            drawn *= 1.0 if weights is None else weights
            total = n if weights is None else weights.sum()
            model.fit(X, sample_weight=drawn * (total / drawn.sum()))
        else:
            chosen = np.sort(rng.integers(n, size=n))
            part = X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]
            _fit(model, part, None if weights is None else weights[chosen])
        return _in_order(model, reference, memberships_of(model, X))


def _in_order(model: Estimator, reference: np.ndarray, found: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters with clusters in the order of the reference; a noise column keeps its place."""
    k = reference.shape[1] - (getattr(model, "noise", None) is not None)
    order = linear_sum_assignment(reference[:, :k].T @ found[:, :k], maximize=True)[1]
    shared = getattr(model, "covariance_type_", "") in ("tied", "EEE")
    values = {}
    for name, value in parameters_of(model).items():
        one_for_all = name == "covariances" and shared and value.ndim == 2
        values[name] = value if one_for_all else np.concatenate([value[:k][order], value[k:]])
    return values
