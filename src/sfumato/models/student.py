"""Mixtures of t distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array.docs import documented
from ..array.rows import Rows, has_missing
from ..array.types import RandomState
from ..array.validation import check_choice, check_number
from ..components import gaussian as families
from ..components.gaussian import Measured, matrices
from ..components.student import Student
from ..engine.component import Component
from ..engine.mixture import Mixture
from ..engine.search import Objects, Plan
from ..numerics.distances import measure
from ..numerics.seeding import feature_sample
from ..selection.automatic import AutomaticMixture

__all__ = ["StudentMixture"]


@documented
class StudentMixture(AutomaticMixture, Mixture):
    """Posterior probabilities of clusters with heavy tails.

    A mixture of multivariate t distributions [1]_, fitted by EM. Objects far from their cluster get
    a weight ``(nu + d) / (nu + distance**2)``, so outliers neither stretch clusters nor form
    clusters. Missing values are integrated out.

    Parameters
    ----------
    %(mixture_numbers)s
        Candidates with a cluster of outliers are not chosen: one that is wide and surrounds
        another, or has fewer than 2 p + 2 objects.
    covariance_type : str, default="auto"
        Family of the scale matrices: one of the fourteen names of R's mclust (``"VVV"``, ``"EEE"``,
        ...), ``"full"``, ``"tied"``, ``"diag"``, ``"spherical"``, or ``"auto"`` for the best by
        ``criterion`` of those that the numbers of objects and features allow. Candidates that are
        far behind stop early.
    degrees_of_freedom : {"common", "each"} or float, default="common"
        "common": one number for all clusters; "each": one per cluster; both are estimated between 1
        and 200. A float is used as given.
    regularization : float, default=1e-9
        Smallest variance in any direction, relative to that of the data (scikit-learn's
        ``reg_covar`` is absolute).
    %(mixture_loop)s

    Attributes
    ----------
    %(posterior)s
    means_ : array of shape (n_clusters, p)
        Centers.
    scale_matrices_ : array of shape (n_clusters, p, p)
        Scale matrices; covariances are ``nu / (nu - 2)`` times these if ``nu`` exceeds 2.
    degrees_of_freedom_ : array of shape (n_clusters,)
        Degrees of freedom ``nu``.
    covariance_type_ : str
        The family.
    %(search)s
    %(log_likelihood)s
    %(ended)s

    References
    ----------
    .. [1] Peel and McLachlan, Robust mixture modelling, Statistics and Computing 10, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import StudentMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (80, 2)), rng.normal(8, 1, (80, 2)), [[60, -60]]])
    >>> model = StudentMixture(2, random_state=0).fit(X)
    >>> np.sort(np.bincount(model.labels_)).tolist()
    [80, 81]
    >>> sorted(model.means_.round(0).astype(int).tolist())
    [[0, 0], [8, 8]]
    """

    _component: Student

    def __init__(
        self,
        n_clusters: int | str | Sequence[int] = "auto",
        *,
        covariance_type: str = "auto",
        degrees_of_freedom: Any = "common",
        max_clusters: int = 9,
        criterion: str = "bic",
        regularization: float = 1e-9,
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: RandomState = None,
    ) -> None:
        self.covariance_type, self.regularization = covariance_type, regularization
        self.degrees_of_freedom = degrees_of_freedom
        self.max_clusters, self.criterion = max_clusters, criterion
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    @property
    def unit_free(self) -> bool:
        """Whether the units of features do not matter to this covariance family."""
        return families.is_unit_free(self.covariance_type)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = (*families.FAMILIES, *families.ALIASES, "auto")
        check_choice(self.covariance_type, "covariance_type", names)
        check_number(self.regularization, "regularization", low=0.0, high=1.0, strict=True)
        nu = self.degrees_of_freedom
        if isinstance(nu, str):
            check_choice(nu, "degrees_of_freedom", ("common", "each"))
        else:
            check_number(nu, "degrees_of_freedom", low=1e-100, high=np.inf, strict=True)

    def _plan(self, data: Objects, seed: int, *, fixed: bool) -> Plan:
        types = families.suited(*data.X.shape)
        if self.covariance_type != "auto":
            types = (families.family_of(self.covariance_type),)
        plain = Rows(data.X, data.weights)
        missing, kinds = has_missing(plain), {families.kind_of(name) for name in types}
        coordinates = measure(plain, per_feature=True, mix=not missing and "full" in kinds)
        measured, nu = Measured(coordinates, data.count, missing), self.degrees_of_freedom
        freedom = nu if isinstance(nu, str) else float(nu)

        def components(k: int) -> list[Component]:
            return [
                Student(k, name, measured, self.regularization, tails=freedom) for name in types
            ]

        def sample(few: Objects) -> Any:
            return feature_sample(few.X, few.weights, coordinates, missing=missing, trimmed=True)

        return self._planned(components, sample, seed, fixed)

    def _of_one(self, component: Component) -> bool:
        if self.covariance_type != "auto":
            return super()._of_one(component)
        return component.setting["covariance_type"] in ("EII", "EEI", "EEE")

    def _advice(self) -> str:
        return (
            "ask for fewer clusters or a simpler covariance_type than "
            f"{self._component.setting['covariance_type']!r}"
        )

    def _publish_parameters(self) -> None:
        state, coordinates = self._state, self._component.coordinates
        self.weights_, self.degrees_of_freedom_ = state.weights, state.freedom
        self.means_ = coordinates.outer(state.means)
        A = coordinates.outer_matrix()
        back = A.T @ matrices(state) @ A
        self.scale_matrices_ = (back + np.swapaxes(back, 1, 2)) / 2.0
        self.covariance_type_ = self._component.setting["covariance_type"]
