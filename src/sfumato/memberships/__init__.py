"""Functions of memberships: arrays (n, k) whose rows are nonnegative and sum to one.

Row i of ``memberships`` says how object i is shared among the clusters. Nothing here depends on
where the memberships came from, and, ``align`` and ``average`` apart, nothing depends on the names
(the order) of the clusters beyond permuting the answer with them.
"""

from .combined import align, average, cooccurrence, predict_strongest, strongest
from .rows import (
    check_memberships,
    entropy,
    harden,
    margin,
    most_uncertain,
    one_hot,
    project_simplex,
    sizes,
)

__all__ = [
    "align",
    "average",
    "check_memberships",
    "cooccurrence",
    "entropy",
    "harden",
    "margin",
    "most_uncertain",
    "one_hot",
    "predict_strongest",
    "project_simplex",
    "sizes",
    "strongest",
]
