"""The mixture of factor analyzers as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.docs import documented
from ..array.rows import Rows, has_missing
from ..array.types import RandomState
from ..array.validation import check_number, check_numbers
from ..array.warn import warn
from ..components.factor import Factors, factor_sample, most_factors
from ..engine.component import Component
from ..engine.mixture import Mixture
from ..engine.search import Objects, Plan
from ..numerics.distances import measure
from ..selection.automatic import AutomaticMixture

__all__ = ["FactorMixture"]


@documented
class FactorMixture(AutomaticMixture, Mixture):
    """Posterior probabilities of Gaussian clusters in many features.

    Mixture of factor analyzers [1]_ [2]_: within a cluster, features are correlated through a few
    factors, ``Sigma = L L' + Psi``, where ``L`` has ``n_factors`` columns and ``Psi`` is diagonal.
    The number of parameters grows with the number of features, not with its square, and no p x p
    matrix is ever formed. Missing values (NaN) are integrated out.

    Parameters
    ----------
    %(mixture_numbers)s
    n_factors : int, sequence of int or "auto", default=2
        Number of factors of every cluster, or several to choose from by ``criterion``. ``"auto"``
        tries 1 to 6, within the identifiability bound of Ledermann [3]_.
    shared_uniquenesses : bool, default=False
        Whether all clusters have the same uniquenesses, the diagonal of ``Psi``.
    regularization : float, default=1e-3
        Smallest uniqueness, relative to the variance of the feature (scikit-learn's ``reg_covar``
        is absolute). The default is larger than in other mixtures, since a factor may reproduce a
        single feature.
    %(mixture_loop)s

    Attributes
    ----------
    %(posterior)s
    means_ : array of shape (n_clusters, p)
        Means.
    loadings_ : array of shape (n_clusters, p, n_factors)
        Loadings ``L``, determined up to a rotation of the factors.
    uniquenesses_ : array of shape (n_clusters, p)
        Uniquenesses, the diagonals of ``Psi``: variances that the factors do not explain.
    n_factors_ : int
        Number of factors.
    %(search)s
    %(log_likelihood)s
    %(ended)s

    References
    ----------
    .. [1] Ghahramani and Hinton, Mixtures of factor analyzers, Toronto CRG-TR-96-1, 1996.
    .. [2] McLachlan and Peel, Mixtures of factor analyzers, ICML, 2000.
    .. [3] Ledermann, On the rank of the reduced correlational matrix, Psychometrika 2, 1937.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import FactorMixture
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat([0, 1], 80)
    >>> factor = rng.normal(size=(160, 1)) * rng.normal(size=(2, 30))[group]
    >>> X = factor + rng.normal(size=(160, 30)) + 1.5 * group[:, None]
    >>> model = FactorMixture(2, n_factors=1, random_state=0).fit(X)
    >>> np.bincount(model.labels_).tolist()
    [80, 80]
    >>> model.loadings_.shape
    (2, 30, 1)
    """

    _component: Factors

    def __init__(
        self,
        n_clusters: Any = "auto",
        *,
        n_factors: Any = 2,
        shared_uniquenesses: bool = False,
        max_clusters: int = 9,
        criterion: str = "bic",
        regularization: float = 1e-3,
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.n_factors, self.shared_uniquenesses = n_factors, shared_uniquenesses
        self.regularization = regularization
        self.max_clusters, self.criterion = max_clusters, criterion
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self.regularization, "regularization", low=0.0, high=1.0, strict=True)
        if not isinstance(self.shared_uniquenesses, (bool, np.bool_)):
            raise TypeError(
                f"shared_uniquenesses must be True or False, got {self.shared_uniquenesses!r}"
            )

    def _numbers_of_factors(self, d: int) -> list[int]:
        """Numbers of factors to try, at most the number of features."""
        factors = check_numbers(self.n_factors, "n_factors")
        if factors is None:
            factors = list(range(1, min(6, most_factors(d)) + 1))
        most, bound = max(factors), most_factors(d)
        # The default of two need not be changed for tables with few features.
        if most > max(d, 2):
            warn(f"n_factors={most} is more than the {d} features: {d} factors are fitted")
        elif most > max(bound, 2):
            warn(
                f"n_factors={most} is beyond the Ledermann bound of {bound} for {d} features: the "
                "covariances are as free as full ones; use fewer factors, or GaussianMixture"
            )
        return [min(d, q) for q in factors]

    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        plain = Rows(data.X, data.weights)
        coordinates, missing = measure(plain, per_feature=True, mix=False), has_missing(plain)
        numbers = self._numbers_of_factors(data.X.shape[1])
        rest = (float(self.regularization), bool(self.shared_uniquenesses), missing)

        def components(k: int) -> list[Component]:
            return [Factors(k, q, coordinates, *rest) for q in numbers]

        return self._planned(components, lambda few: factor_sample(few, coordinates), seed, fixed)

    def _advice(self) -> str:
        return "ask for fewer clusters or fewer factors"

    def _publish_parameters(self) -> None:
        state, coordinates = self._state, self._component.coordinates
        scale = coordinates.scale
        self.weights_ = state.weights
        self.means_ = coordinates.outer(state.means)
        self.loadings_ = state.loadings / scale[:, None]
        self.uniquenesses_ = state.uniquenesses / scale / scale
        self.n_factors_ = self._component.setting["n_factors"]
