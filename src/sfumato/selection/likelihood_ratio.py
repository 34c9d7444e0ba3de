"""Number of clusters of a mixture from a sequence of bootstrapped likelihood ratio tests."""

import warnings
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..array.docs import documented
from ..array.types import Array, ArrayLike, Estimator, RandomState
from ..array.validation import as_generator, check_number
from ..array.warn import warn
from ._evidence import with_clusters
from .choose import Jobs, Progress


class RatioTest(NamedTuple):
    """A test of ``n_clusters`` against one more: statistic, p-value and bootstrap draws."""

    n_clusters: int
    statistic: float
    p_value: float
    draws: np.ndarray


class LikelihoodRatio(NamedTuple):
    """The first number of clusters that is not rejected, and all tests made."""

    n_clusters: int
    tests: tuple[RatioTest, ...]


@documented
def bootstrap_likelihood_ratio(
    estimator: Estimator,
    X: Array,
    *,
    max_clusters: int = 9,
    n_resamples: int = 99,
    significance: float = 0.05,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> LikelihoodRatio:
    """Number of clusters of a mixture: k is tested against k + 1 until a test does not reject.

    The statistic is twice the gain in log-likelihood. Its usual chi-squared distribution does not
    hold for mixtures, so its distribution is simulated with data drawn from the fitted mixture of k
    clusters (McLachlan 1987, Applied Statistics 36). The p-value is (1 + number of draws at least
    as large) / (1 + number of draws).

    Parameters
    ----------
    estimator : mixture
        With ``n_clusters``, ``score`` (log-likelihood per object) and ``sample``; its covariance
        family must be fixed, as in ``GaussianMixture(covariance_type="tied")``. It is cloned.
    X : array or data frame of shape (n, p)
        Values missing in an array are also missing in the drawn data.
    max_clusters : int, default=9
        Largest k + 1 to test.
    n_resamples : int, default=99
        Data sets drawn for each test. The least p-value is 1 / (n_resamples + 1).
    significance : float, default=0.05
        A p-value at most this large rejects k.
    %(resamples)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GaussianMixture
    >>> from sfumato.selection import bootstrap_likelihood_ratio
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, 60), rng.normal(7, 1, 60)])[:, None]
    >>> mixture = GaussianMixture(covariance_type="tied", n_init=1)
    >>> bootstrap_likelihood_ratio(mixture, X, n_resamples=19, random_state=0).n_clusters
    2
    """
    _check(estimator, X)
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    n_resamples = check_number(n_resamples, "n_resamples", low=1, integer=True)
    highest = check_number(max_clusters, "max_clusters", low=2, integer=True)
    significance = check_number(significance, "significance", low=0, high=1, strict=True)
    if 1.0 / (1.0 + n_resamples) > significance:
        warn(
            f"n_resamples={n_resamples} draws cannot give a p-value below "
            f"{1 / (1 + n_resamples):.2g}, so that nothing is rejected at "
            f"significance={significance:g}: draw at least "
            f"{int(np.ceil(round(1 / significance - 1, 6)))}"
        )
    rng = as_generator(random_state)
    jobs = Jobs(n_jobs, progress, (highest - 1) * n_resamples)
    seed = int(rng.integers(2**31))
    null, tests = _fit(estimator, X, 1, seed), []
    for k in range(1, highest):
        other = _fit(estimator, X, k + 1, seed)
        statistic = 2.0 * X.shape[0] * (other.score(X) - null.score(X))
        if statistic < -1e-6 * X.shape[0]:
            warn(
                f"{k + 1} clusters were fitted worse than {k} (statistic {statistic:.2f}), a poor "
                "local maximum: raise the n_init of the estimator"
            )
        streams = rng.spawn(n_resamples)
        draws = np.array(jobs(_draw, [(estimator, null, X, k, stream) for stream in streams]))
        # Fits to the same optimum differ by rounding, so ties count as at least as large.
        reached = draws >= statistic - 1e-9 * abs(statistic)
        p_value = (1.0 + reached.sum()) / (1.0 + n_resamples)
        tests.append(RatioTest(k, float(statistic), float(p_value), draws))
        if p_value > significance:
            return LikelihoodRatio(k, tuple(tests))
        null = other
    return LikelihoodRatio(highest, tuple(tests))


def _check(estimator: Estimator, X: Any) -> None:
    for method in ("sample", "score"):
        if not hasattr(estimator, method):
            raise TypeError(
                f"estimator must be a mixture with a method {method}, such as GaussianMixture; "
                f"got {type(estimator).__name__}"
            )
    for name in ("covariance_type", "n_factors"):
        if isinstance(value := estimator.get_params(deep=False).get(name), str) and value == "auto":
            raise ValueError(
                f"{name}='auto' may differ between the mixtures that are compared: name one, "
                "such as that of a fit to the data"
            )
    if hasattr(X, "columns"):
        missing = X.isna() if hasattr(X, "isna") else X.null_count()
        if missing.to_numpy().any():
            raise ValueError("X is a data frame with missing values: give an array, or drop rows")


def _fit(estimator: Estimator, X: ArrayLike, n_clusters: int, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too many components, on purpose
        return with_clusters(estimator, n_clusters, np.random.default_rng(seed)).fit(X)


def _draw(estimator: Estimator, null: Any, X: Array, k: int, rng: np.random.Generator) -> float:
    """The statistic on data drawn from the mixture of ``k`` clusters."""
    seed = int(rng.integers(2**31))
    twin = copy(null)  # the model is shared, and drawing would change its seed
    if "random_state" in twin.get_params(deep=False):
        twin.random_state = seed
    drawn = twin.sample(X.shape[0])[0]
    if isinstance(X, np.ndarray):
        drawn = np.where(np.isnan(X), np.nan, drawn)
    if hasattr(null, "columns_"):  # drawn values must not change the type of a column
        estimator = clone(estimator).set_params(columns=null.columns_)
    one, other = _fit(estimator, drawn, k, seed), _fit(estimator, drawn, k + 1, seed)
    return 2.0 * X.shape[0] * (other.score(drawn) - one.score(drawn))
