"""Choosing the number of clusters, and asking whether there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from ..core.validation import as_generator, check_number
from ..core.warn import warn
from ._evidence import as_evidence
from .trials import CRITERIA, Trial, held_out

__all__ = ["Candidate", "Choice", "Progress", "choose_n_clusters"]

_PERFECT = 0.97  # agreement above this is perfect but for objects on borders
_AGREED = 0.5  # halfway between chance and perfect agreement
_FLOOR = 0.005  # disagreement below this is as good as none


class Candidate(NamedTuple):
    """A row of the table: its score (higher is better), the standard error over splits, and why it failed if it did."""

    n_clusters: int
    score: float
    standard_error: float
    failure: str | None


class Choice(NamedTuple):
    """The chosen number of clusters and what speaks for it.

    ``preferred`` is what the criterion alone would choose. ``agreement`` is the held-out agreement at that number, ``reference`` the
    same for structureless evidence, one value a draw; ``supported`` says whether the first lies clearly above the second.
    ``estimator`` is fitted on all the evidence with ``n_clusters``.
    """

    n_clusters: int
    preferred: int
    criterion: str
    table: tuple[Candidate, ...]
    agreement: float
    reference: np.ndarray
    supported: bool
    estimator: Any

    def __str__(self) -> str:
        lines = [f"{'clusters':>8}  {self.criterion:>12}  {'std. error':>10}"]
        for row in self.table:
            mark = " <-" if row.n_clusters == self.preferred else ""
            lines.append(
                f"{row.n_clusters:>8}  {row.score:>12.4g}  {row.standard_error:>10.2g}{mark}  {row.failure or ''}".rstrip()
            )
        if len(self.reference):
            verdict = "supported" if self.supported else "not supported"
            lines.append(
                f"held-out agreement {self.agreement:.2f}, without structure {self.reference.mean():.2f}: {verdict}"
            )
        lines.append(f"chosen: {self.n_clusters}")
        return "\n".join(lines)


def choose_n_clusters(
    estimator: Any,
    evidence: Any,
    candidates: Iterable[int] = range(1, 11),
    *,
    criterion: str | Callable[[Trial, int], Any] = "auto",
    n_splits: int = 10,
    n_references: int = 10,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """The number of clusters that the evidence supports.

    Every candidate gets a score. Where several reach an agreement of 0.97 ("held-out"), the largest of them is preferred: clusters
    may have clusters inside. The best one is then put to a test that is the same for every criterion: fits on disjoint halves of
    the evidence must agree, to 0.5 at least and clearly better than they do on structureless evidence of the same shape (the logarithm
    of their disagreement lies 2.5 standard deviations lower). If they do not, the answer is one cluster, with an ``EvidenceWarning``.

    Parameters
    ----------
    estimator : clusterer
        Ours, or any of scikit-learn's with ``n_clusters`` or ``n_components`` and, for "held-out", ``predict``. It is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        As the estimator reads it: a similarity if ``similarity="precomputed"``, labelings if ``ensemble="precomputed"``.
    candidates : iterable of int
    criterion : str or callable
        "auto": "bic" for estimators that have it, else "held-out". Also "aic", "icl", "silhouette", "eigengap", "lifetime", "pac",
        or a function ``f(trial, n_clusters)`` that is better the higher it is.
    n_splits : int
        Splits into halves.
    n_references : int
        Draws of structureless evidence; 0 leaves the test out.
    sample_weight : array of shape (n,), optional
        Passed to ``fit``, with features.
    random_state : None, int, RandomState or Generator
    n_jobs : int, optional
        Candidates tried at once, as in joblib. The answer does not depend on it.
    progress : callable, optional
        Called as ``progress(done, total)`` after every candidate and reference.

    Returns
    -------
    choice : Choice
        ``n_clusters``, ``preferred``, ``table``, ``agreement``, ``reference``, ``supported``, ``estimator``; prints as a table. A
        candidate whose fit raised an error is kept with the reason.

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import choose_n_clusters
    >>> X = make_gaussians(200, 3, separation=6, random_state=0).evidence
    >>> choose_n_clusters(GaussianMixture(), X, range(1, 6), random_state=0).n_clusters
    3
    """
    data = as_evidence(estimator, evidence, sample_weight)
    sizes = sorted(
        {
            check_number(k, "candidates", low=1, high=data.n_objects, integer=True)
            for k in candidates
        }
    )
    if not sizes:
        raise ValueError("candidates is empty: name at least one number of clusters")
    name, function = _criterion(criterion, estimator)
    rng = as_generator(random_state)
    trial = Trial(
        estimator,
        data,
        check_number(n_splits, "n_splits", low=1, integer=True),
        int(rng.integers(2**31)),
    )
    n_references = check_number(n_references, "n_references", low=0, integer=True)
    report = Progress(progress, len(sizes) + 1 + n_references)
    table = tuple(
        report.each(
            Parallel(n_jobs=n_jobs, return_as="generator")(
                delayed(_candidate)(function, trial, k) for k in sizes
            )
        )
    )
    preferred = _preferred(table, held_out=function is held_out)
    agreement, reference = _test(trial, preferred, n_references, rng, n_jobs, report)
    supported = preferred > 1 and (not len(reference) or _clearly_above(agreement, reference))
    chosen = preferred if supported or 1 not in sizes else 1
    if preferred > 1 and not supported:
        warn(
            f"{name} prefers {preferred} clusters, but halves of the evidence agree on them too little ({agreement:.2f}) "
            f"to tell them from structureless evidence ({reference.mean():.2f})"
        )
    return Choice(
        chosen, preferred, name, table, agreement, reference, supported, trial.fit(chosen)
    )


class Progress:
    """Counts what comes and tells the listener."""

    def __init__(self, listener: Callable[[int, int], None] | None, total: int) -> None:
        self.listener, self.total, self.done = listener, total, 0

    def each(self, results: Iterable[Any]) -> Iterable[Any]:
        """The results one by one, counted."""
        for result in results:
            self.done += 1
            if self.listener is not None:
                self.listener(self.done, self.total)
            yield result


def _criterion(criterion: Any, estimator: Any) -> tuple[str, Callable[[Trial, int], Any]]:
    if callable(criterion):
        return getattr(criterion, "__name__", "criterion"), criterion
    name = (
        ("bic" if hasattr(estimator, "bic") else "held-out") if criterion == "auto" else criterion
    )
    if name not in CRITERIA:
        raise ValueError(
            f"criterion must be 'auto', a function, or one of {', '.join(map(repr, CRITERIA))}; got {criterion!r}"
        )
    return name, CRITERIA[name]


def _candidate(function: Callable[[Trial, int], Any], trial: Trial, n_clusters: int) -> Candidate:
    try:
        values = np.atleast_1d(np.asarray(function(trial, n_clusters), dtype=np.float64))
    except Exception as error:
        return Candidate(n_clusters, np.nan, np.nan, f"{type(error).__name__}: {error}")
    spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Candidate(n_clusters, float(values.mean()), spread, None)


def _preferred(table: tuple[Candidate, ...], *, held_out: bool) -> int:
    """The best score. Held-out: of several perfect agreements the largest number says most, and one cluster says nothing."""
    scores = {row.n_clusters: row.score for row in table if np.isfinite(row.score)}
    if not scores:
        reasons = {row.failure for row in table if row.failure}
        raise ValueError(
            f"every candidate failed: {'; '.join(sorted(reasons)) or 'the criterion is not defined for them'}"
        )
    if not held_out:
        return max(scores, key=lambda k: (scores[k], -k))
    capped = {k: min(score, _PERFECT) for k, score in scores.items() if k > 1}
    return max(capped, key=lambda k: (capped[k], k), default=1)


def _test(
    trial: Trial, n_clusters: int, n_references: int, rng: Any, n_jobs: int | None, report: Progress
) -> tuple[float, np.ndarray]:
    """Held-out agreement at ``n_clusters``, on the evidence and on structureless draws."""
    if n_clusters == 1 or n_references == 0:
        return (1.0 if n_clusters == 1 else np.nan), np.empty(0)
    brief = trial._replace(n_splits=(trial.n_splits + 1) // 2)
    draws = [
        trial,
        *(
            brief._replace(evidence=trial.evidence.structureless(draw))
            for draw in rng.spawn(n_references)
        ),
    ]
    rows = list(
        report.each(
            Parallel(n_jobs=n_jobs, return_as="generator")(
                delayed(_candidate)(held_out, draw, n_clusters) for draw in draws
            )
        )
    )
    if rows[0].failure:
        raise ValueError(
            f"{n_clusters} clusters cannot be tested on halves of the evidence ({rows[0].failure}): set n_references=0"
        )
    reference = np.array([row.score for row in rows[1:]])
    return rows[0].score, reference[np.isfinite(reference)]


def _clearly_above(agreement: float, reference: np.ndarray) -> bool:
    """Whether halves agree at all, and disagree less by 2.5 standard deviations of the logarithm (agreement ends at 1)."""
    ours, theirs = (np.log(_FLOOR + 1 - np.minimum(value, 1)) for value in (agreement, reference))
    spread = theirs.std(ddof=1) if len(reference) > 1 else 0.0
    return bool(agreement >= _AGREED and ours < theirs.mean() - 2.5 * spread)
