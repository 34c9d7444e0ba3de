"""Choice of the number of clusters, with a test whether there are any."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ..array.types import ArrayLike, Estimator, RandomState
from ..array.validation import as_generator, check_number
from ..array.warn import warn
from ..engine.mixture import GROWTH
from ..engine.structure import FEWEST, LEVEL, PREFIX, SEARCH_TESTS, Structure, convinces
from ._evidence import TUNING, Evidence, Features, as_evidence
from .criteria import CRITERIA, Trial, criterion_weights, supported_numbers

Progress: TypeAlias = Callable[[int, int], None] | None  # called with how much is done, of how much
INFORMATION = ("bic", "icl", "aic")  # criteria that also rate one cluster


class Candidate(NamedTuple):
    """A row of the table: score (higher is better), its error, probability, reason of a failure."""

    n_clusters: int
    score: float
    standard_error: float
    probability: float
    failure: str | None


class Choice(NamedTuple):
    """The chosen number of clusters, with the scores of all candidates; prints as a table.

    ``preferred`` is the choice of the criterion alone. ``structure`` is the result of the structure
    test for the answer, if it applies; ``supported`` says whether all clusters are separate.
    ``estimator`` is fitted on all the evidence with ``n_clusters``.
    """

    n_clusters: int
    preferred: int
    criterion: str
    table: tuple[Candidate, ...]
    structure: Structure | None
    supported: bool
    estimator: Any

    @property
    def distribution(self) -> dict[int, float]:
        """Probability of each number of clusters that was tried."""
        return {row.n_clusters: row.probability for row in self.table}

    @property
    def score_name(self) -> str:
        """Name of the scores, of which the highest is best: the criterion, or minus it."""
        lower = self.criterion in INFORMATION
        return f"minus {self.criterion.upper()}" if lower else self.criterion

    def __str__(self) -> str:
        lines = [f"{'clusters':>8}  {self.score_name:>18}  {'std. error':>10}  {'probability':>11}"]
        for row in self.table:
            mark = " <-" if row.n_clusters == self.n_clusters else ""
            lines.append(
                f"{row.n_clusters:>8}  {row.score:>18.4g}  {row.standard_error:>10.2g}  "
                f"{row.probability:>11.2f}{mark}  {row.failure or ''}".rstrip()
            )
        if self.structure is not None:
            verdict = "supported" if self.supported else "not supported"
            lines.append(f"structure test: p = {self.structure.p_value:.2g}, {verdict}")
        lines.append(f"chosen: {self.n_clusters} (higher scores are better)")
        return "\n".join(lines)


def choose_n_clusters(
    estimator: Estimator,
    evidence: ArrayLike,
    candidates: Iterable[int] | None = None,
    *,
    max_clusters: int | None = None,
    criterion: str | Callable[[Trial, int], Any] = "auto",
    n_splits: int = 5,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> Choice:
    """Chosen number of clusters, the same as with ``n_clusters="auto"``, and the table of
    candidates.

    Estimators with a criterion of their own (mixtures, models of similarities, the consensus)
    choose as with "auto". For others, every candidate gets a score, and the structure test of
    ``fit`` tests them, best first, until it supports one; if it supports none, the answer is one
    cluster, with an ``EvidenceWarning``. If BIC, ICL or AIC is asked for, its best number is the
    answer, and the test only says whether it is supported.

    Parameters
    ----------
    estimator : clusterer
        Of this library or scikit-learn, with ``n_clusters`` or ``n_components``. It is cloned.
    evidence : features (n, p), similarity (n, n) or labelings (n, m)
        In the form that the estimator takes.
    candidates : iterable of int, optional
        By default 1 to ``max_clusters``, and more as long as the best is the largest one tried.
    max_clusters : int, optional
        Largest number tried at first; by default that of the estimator (20 if it has none). The
        search goes up to four times this number, with a warning.
    criterion : str or callable
        "auto": the criterion of the estimator if it has one (mixtures: BIC, models of similarities
        and the consensus: "penalized-eigengap"), else "structure": the largest number whose
        clusters are all separated (fewer than 50 objects: "few-objects", Ward's scatter against
        uniform clouds). Also "held-out", "penalized-eigengap", "silhouette", "lifetime", "bic",
        "aic", "icl", or a function ``f(trial, n_clusters)`` (higher is better). For a Dirichlet
        process only "posterior", which needs one fit and takes no candidates.
    n_splits : int
        Number of splits into halves, for "held-out".
    sample_weight : array of shape (n,), optional
        With features, passed to ``fit``. With similarities and labelings, whole numbers: a weight
        of w counts as w copies.
    random_state : None, int, RandomState or Generator
        Seed of the splits; the default is that of "auto". Fits use the seed of the estimator.
    n_jobs : int, optional
        Number of candidates tried in parallel, as in joblib. The answer does not depend on it.
    progress : callable, optional
        Called as ``progress(done, total)`` after every candidate.

    Examples
    --------
    >>> from sfumato import GaussianMixture
    >>> from sfumato.datasets import make_gaussians
    >>> from sfumato.selection import choose_n_clusters
    >>> X = make_gaussians(200, 3, separation=6, random_state=0).evidence
    >>> choose_n_clusters(GaussianMixture(random_state=0), X, [1, 2, 3, 4]).n_clusters
    3
    """
    data = as_evidence(estimator, evidence, sample_weight)
    n = data.n_objects
    sizes = None if candidates is None else _checked(candidates, n)
    if max_clusters is not None:
        max_clusters = check_number(max_clusters, "max_clusters", low=2, integer=True)
    n_splits = check_number(n_splits, "n_splits", low=1, integer=True)
    by_itself = _chosen_by_itself(estimator, data, sizes, max_clusters, criterion)
    if by_itself is not None:
        if progress is not None:
            progress(len(by_itself.table), len(by_itself.table))
        return by_itself
    name, function = _criterion(criterion, estimator, data)
    seed = int(as_generator(random_state).integers(2**31))
    trial = Trial(estimator, data, n_splits, seed, {})
    if max_clusters is None:
        max_clusters = estimator.get_params(deep=False).get("max_clusters", TUNING.max_clusters)
    largest = min(max_clusters, n)
    jobs = Jobs(n_jobs, progress, len(sizes) if sizes else largest)

    def tried(numbers: Iterable[int]) -> list[Candidate]:
        # Threads share the cache of fits and eigenvectors.
        return jobs(_candidate, [(function, trial, k) for k in numbers], prefer="threads")

    table = tried(range(1, largest + 1) if sizes is None else sizes)
    if sizes is None:
        cap = min(GROWTH * largest, n // 2)
        while largest < cap and _wants_more(trial, table, name):
            more = range(largest + 1, min(largest + max(TUNING.step, largest // 4), cap) + 1)
            jobs.total += len(more)
            table, largest = table + tried(more), more[-1]
        if largest == cap > 2 and _ranked(table, name)[0] == largest:
            warn(f"the best number is the largest one tried, {largest}: raise max_clusters")
    return _settled(trial, name, table, one=1 in (sizes or [1]))


def _checked(candidates: Iterable[int], n: int) -> list[int]:
    sizes = sorted({check_number(k, "candidates", low=1, high=n, integer=True) for k in candidates})
    if not sizes:
        raise ValueError("candidates is empty: name at least one number of clusters")
    return sizes


def _chosen_by_itself(
    estimator: Estimator,
    data: Evidence,
    sizes: list[int] | None,
    max_clusters: int | None,
    criterion: object,
) -> Choice | None:
    """The choice made by the search of the estimator itself, if it has this criterion."""
    if getattr(estimator, "chooses_n_clusters", None) == "always":
        return _inferred(estimator, data, sizes, criterion)
    known = getattr(estimator, "own_criteria", ())
    if callable(criterion) or not known or criterion not in ("auto", *known):
        return None
    model = clone(estimator).set_params(n_clusters="auto" if sizes is None else sizes)
    if criterion != "auto" and len(known) > 1:
        model.set_params(criterion=criterion)
    if sizes is None and max_clusters is not None:
        model.set_params(max_clusters=max_clusters)
    model = data.fit(model)
    return model.selection_._replace(estimator=model)


def _inferred(
    estimator: Estimator, data: Evidence, sizes: list[int] | None, criterion: object
) -> Choice:
    """The choice of a model that infers the number of clusters; its posterior gives the scores."""
    name = type(estimator).__name__
    if criterion not in ("auto", "posterior"):
        raise ValueError(
            f"criterion must be 'auto' or 'posterior' for {name}, which infers the number of "
            f"clusters; got {criterion!r}"
        )
    if sizes is not None:
        raise ValueError(f"candidates must be None for {name}, which infers them; got {sizes}")
    model = data.fit(clone(estimator))
    posterior = dict(enumerate(map(float, model.n_clusters_posterior_[1:]), 1))
    return reported(model, "posterior", posterior)._replace(estimator=model)


def _criterion(criterion: Any, estimator: Estimator, data: Evidence) -> tuple[str, Any]:
    """Name and function of a criterion."""
    if callable(criterion):
        return getattr(criterion, "__name__", "criterion"), criterion
    if criterion == "auto":
        criterion = _usual(estimator, data)
    if criterion not in CRITERIA:
        names = ", ".join(map(repr, CRITERIA))
        raise ValueError(f"criterion must be 'auto', a function or of {names}; got {criterion!r}")
    return criterion, CRITERIA[criterion]


def _usual(estimator: Estimator, data: Evidence) -> str:
    """The criterion behind "auto" for estimators without one of their own."""
    if hasattr(estimator, "bic"):
        return "bic"
    if data.n_objects >= FEWEST:
        return "structure"
    if isinstance(data, Features):
        return "few-objects"
    if data.n_objects > 2:
        warn(
            f"{data.n_objects} objects are too few to test for clusters: the number of clusters is "
            "the one on which halves of them agree best; give n_clusters if you know it"
        )
    return "held-out"


def _wants_more(trial: Trial, table: list[Candidate], name: str) -> bool:
    """Whether the best number is near the largest, or that one still splits clusters."""
    best, largest = _ranked(table, name)[0], table[-1].n_clusters
    if best >= TUNING.near * largest:
        return True
    if name != "structure" or table[-1].failure is not None:
        return False
    found = trial.structure(largest)
    if found is None or found.n_apart < largest / 2:
        return False
    return found.n_apart > best or found.split is not None


class Jobs:
    """Calls run by joblib, which report their progress."""

    def __init__(self, n_jobs: int | None, progress: Progress, total: int) -> None:
        self.n_jobs, self.progress, self.total, self.done = n_jobs, progress, total, 0

    def __call__(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any
    ) -> list[Any]:
        """Results of ``function(*call)``, in the order of the calls."""
        run = Parallel(n_jobs=self.n_jobs, return_as="generator", **options)
        results = []
        for result in run(delayed(function)(*call) for call in calls):
            results.append(result)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        return results


def _candidate(function: Callable[[Trial, int], Any], trial: Trial, n_clusters: int) -> Candidate:
    try:
        with warnings.catch_warnings(action="ignore"):
            values = np.atleast_1d(np.asarray(function(trial, n_clusters), dtype=np.float64))
    except Exception as error:
        return Candidate(n_clusters, np.nan, np.nan, 0.0, f"{type(error).__name__}: {error}")
    spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Candidate(n_clusters, float(values.mean()), spread, np.nan, None)


def _ranked(table: list[Candidate], name: str) -> list[int]:
    """Numbers of clusters that have a score, best first."""
    scores = {row.n_clusters: row.score for row in table if np.isfinite(row.score)}
    if not scores:
        if [row.n_clusters for row in table] == [1]:
            return [1]  # a single object cannot be split into halves
        why = "; ".join(sorted({row.failure for row in table if row.failure}))
        why = why or "the criterion is not defined for them"
        raise ValueError(f"every candidate failed: {why}")
    if name == "structure":
        return supported_numbers(scores) or [1]
    # If several numbers agree perfectly, the largest is the most informative.
    if name == "held-out":
        capped = {k: min(score, TUNING.perfect) for k, score in scores.items() if k > 1} or scores
        return sorted(capped, key=lambda k: (capped[k], k), reverse=True)
    order = sorted(scores, key=lambda k: (scores[k], -k), reverse=True)
    if name == "few-objects" and 1 in order:  # one cluster has the score of noise
        return order[: order.index(1)] or [1]
    return order


def _with_probabilities(table: list[Candidate], name: str) -> tuple[Candidate, ...]:
    """The table with probabilities: normalised scores where they are comparable, else the share of
    splits in which a candidate wins. For the structure test, p divided by the largest accepted p is
    the probability that these clusters do not exist.
    """
    scores = np.array([row.score for row in table])
    if name in INFORMATION:
        shares = criterion_weights(-scores)
    elif name in ("penalized-eigengap", "posterior"):
        shares = np.nan_to_num(scores)
    elif name == "structure":
        absent = np.minimum(10.0 ** -np.nan_to_num(scores) * SEARCH_TESTS / LEVEL, 1.0)
        later = np.append(np.cumprod(absent[::-1])[::-1][1:], 1.0)
        shares = (1 - absent) * later
        shares[[row.n_clusters == 1 for row in table]] = absent.prod()
    else:
        errors = np.nan_to_num([row.standard_error for row in table])
        rng = np.random.default_rng(0)
        draws = scores + errors * rng.standard_normal((500, len(table)))
        top = np.nanargmax(np.where(np.isfinite(draws), draws, -np.inf), axis=1)
        shares = np.bincount(top, minlength=len(table)) / 500
    total = np.nansum(shares)
    shares = np.nan_to_num(shares) / total if total > 0 else np.full(len(table), np.nan)
    pairs = zip(table, shares.tolist(), strict=True)
    return tuple(row._replace(probability=share) for row, share in pairs)


def _settled(trial: Trial, name: str, table: list[Candidate], one: bool) -> Choice:
    """The best candidate that the structure test supports, or one cluster."""
    order, rows = _ranked(table, name), _with_probabilities(table, name)
    for k in order[:1] if name in INFORMATION else order:
        found = trial.structure(k) if k > 1 else None
        supported = k > 1 and (found is None or found.supported)
        if name in INFORMATION or (k > 1 and (found is None or convinces(found))):
            model = trial.fit(k)
            if hasattr(model, "_warn_about_structure"):  # ignored while candidates were compared
                model._warn_about_structure()
            return Choice(k, order[0], name, rows, found, supported, model)
    chosen = 1 if one else max(order[0], rows[0].n_clusters)
    found = trial.structure(chosen) if chosen > 1 else None
    n = trial.evidence.n_objects
    if n > 1:
        warn(
            f"{n} objects are no closer in clusters than noise would be: one cluster is the answer"
            if name == "few-objects"
            else f"{PREFIX}no number of clusters from {max(2, rows[0].n_clusters)} to "
            f"{rows[-1].n_clusters} is supported: the clusters do not stand apart"
        )
    return Choice(chosen, order[0], name, rows, found, n == 1, trial.fit(chosen))


def reported(
    model: Estimator,
    criterion: str,
    scores: Mapping[int, float],
    failures: Mapping[int, str | None] | None = None,
) -> Choice:
    """The search over numbers of clusters made by a fitted model (without the model)."""
    reasons = failures or {}
    table = [Candidate(k, score, 0.0, np.nan, reasons.get(k)) for k, score in scores.items()]
    found = int(model.n_clusters_) - (getattr(model, "noise_cluster", None) is not None)
    known = {k: score for k, score in scores.items() if np.isfinite(score)}
    best = max(known, key=lambda k: known[k], default=found)
    structure = getattr(model, "structure_", None)
    supported = found > 1 and (structure is None or structure.supported)
    rows = _with_probabilities(table, criterion)
    return Choice(found, best, criterion, rows, structure, supported, None)
