"""From features or labelings to similarities, and from similarities to better ones."""

from .cluster_kernel import ClusterKernel, cluster_kernel
from .graphs import cosine, gaussian, knn, self_tuning
from .operators import Factored

__all__ = [
    "ClusterKernel",
    "Factored",
    "cluster_kernel",
    "cosine",
    "gaussian",
    "knn",
    "self_tuning",
]
