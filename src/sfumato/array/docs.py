"""Texts shared by several docstrings, each written once.

A docstring includes one by a separate line ``%(name)s``, as in SciPy and Matplotlib; ``help`` and
the pages show the full text.
"""

import re
from textwrap import indent
from typing import TypeVar

__all__ = ["TEXTS", "documented"]

Thing = TypeVar("Thing")
PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)

TEXTS = {
    "sample_weight": """\
sample_weight : array of shape (n,), optional
    A weight of w counts as w copies of the object.""",
    "partial_labels": """\
y : array of shape (n,), optional
    Labels of some objects, -1 for the others. Labelled objects belong to the cluster of their
    label; clusters are numbered in the order of the labels. A ``y`` without any -1 is ignored, as
    in other clusterers.""",
    "bootstrap": """\
interval : float, optional
    Level of a bootstrap interval over objects, such as 0.95; then the result is an
    ``Estimate(value, low, high)``.
random_state : None, int or Generator
    Seed of the bootstrap.""",
    "axes": """\
ax : matplotlib axes, optional

Returns
-------
ax : matplotlib axes""",
    "simulated": """\
noise : float
    Standard deviation of the noise in both coordinates.""",
    "learning_spectral": """\
References
----------
Bach and Jordan (2006). Learning spectral clustering, with application to speech separation.
JMLR 7.""",
    "similarity_gradient": """\
gradient : array of shape (n, n)
    G, symmetric, with dJ = sum_ij G_ij dW_ij for every symmetric change of W.""",
    "automatic": """\
n_clusters : int, sequence of int or "auto", default="auto"
    Number of clusters, or several to choose from. The choice is that of
    ``selection.choose_n_clusters``.
max_clusters : int, default=20
    Largest number that ``"auto"`` tries at first; more if the best is the largest one tried.""",
    "spectrum": """\
n_clusters : int, sequence of int or "auto", default="auto"
    Number of clusters, or several to choose from. The choice is the number with the largest
    eigengap of the normalised similarity, reduced by the misfit of the clusters to the
    eigenvectors; it is one if no number is above noise.
max_clusters : int, default=20
    Largest number that ``"auto"`` tries at first; more if the best is near the largest.""",
    "similarity": """\
    ``"precomputed"``: ``fit`` is given a similarity (n, n), dense, sparse or an operator.
    Otherwise it is given features, and the similarity is computed by the named function or by
    a function ``f(X, Y=None)``.""",
    "descent": """\
max_iter, tol : int, float
    Largest number of sweeps, and the relative decrease of the objective at which to stop.
random_state : int, Generator, RandomState or None
    Random seed.""",
    "new_objects": """\
Parameters
----------
X : array or sparse array of shape (n_new, p)
n_clusters : int, optional
    Memberships at another level, a number in ``levels_``.

Returns
-------
memberships : array of shape (n_new, n_clusters)""",
    "posterior": """\
memberships_ : array of shape (n, n_clusters)
    Posterior probabilities.
labels_ : array of shape (n,)
    Cluster of the largest membership.
weights_ : array of shape (n_clusters,)
    Shares of the clusters, largest first.""",
    "search": """\
search_ : ModelSearch
    Every candidate with its criteria, or why it failed or was not fitted; prints as a table.
selection_ : Choice
    The best candidate of every number of clusters, if several were tried.""",
    "mixture_numbers": """\
n_clusters : int, sequence of int or "auto", default="auto"
    Number of clusters, or several to choose from by ``criterion``. ``"auto"`` tries 1 to
    ``max_clusters``, and more if the best is the largest one tried.
max_clusters : int, default=9
    Largest number that "auto" tries at first; the search goes up to four times this number.
criterion : {"bic", "icl", "aic"}, default="bic"
    How to choose among candidates.""",
    "mixture_loop": """\
n_init : int
    Number of starts; the best ones after a few steps continue, then clusters are moved. With
    many objects they compete on a sample.
max_iter, tol : int, float
    Largest number of steps per start, which stops when a step raises the objective per object
    by less than ``tol``.
random_state : int, RandomState, Generator or None, default=None
    Random seed.""",
    "log_likelihood": """\
log_likelihood_, objective_ : float
    Log-likelihood of the fitted objects; ``history_`` at every step.""",
    "mixture_links": """\
must_link : array of shape (m, 2) or (m, 3), optional
    Pairs of rows that belong together: they share one row of memberships. With a third
    column of weights w, labels that separate the pair are less probable by exp(-w) instead.
cannot_link : array of shape (m, 2) or (m, 3), optional
    Pairs of rows that belong apart: labels that join them are ruled out if that is possible
    for all pairs or, with a third column of weights w, less probable by exp(-w). A warning
    gives the number of broken links.""",
    "filled": """\
If ``pair_weight`` is below the largest weight, the missing part is filled with the product of the
mean similarities of both objects, divided by the overall mean.""",
    "resamples": """\
random_state : None, int, RandomState or Generator
n_jobs : int, optional
    Number of resamples fitted in parallel, as in joblib. The result does not depend on it.
progress : callable, optional
    Called as ``progress(done, total)`` after every resample.""",
    "ended": """\
n_clusters_, n_iter_, converged_ : int, int, bool
    Number of clusters, steps taken, whether ``tol`` was reached.""",
}


def documented(thing: Thing) -> Thing:
    """The same function or class, with shared texts filled into its docstring."""
    if thing.__doc__:  # no docstrings with ``python -OO``
        thing.__doc__ = PLACE.sub(lambda found: indent(TEXTS[found[2]], found[1]), thing.__doc__)
    return thing
