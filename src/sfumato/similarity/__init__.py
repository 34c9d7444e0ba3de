"""Functions that make similarities from features, labelings or other similarities."""

from ..numerics.operators import Factored
from .cluster_kernel import ClusterKernel, cluster_kernel
from .coassociation import Coassociation, coassociation
from .doubly_stochastic import doubly_stochastic
from .graphs import cosine, gaussian, knn, self_tuning
from .learn import learn_scales, pair_cost_gradient, spectral_cost_gradient

__all__ = [
    "ClusterKernel", "Coassociation", "Factored", "cluster_kernel", "coassociation", "cosine",
    "doubly_stochastic", "gaussian", "knn", "learn_scales", "pair_cost_gradient", "self_tuning",
    "spectral_cost_gradient",
]  # fmt: skip
