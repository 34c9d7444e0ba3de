"""The memory guard: budgets, arrays, and whole fits that are refused before they start."""

import subprocess
import sys
import tracemalloc
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato import (
    ClusteringEnsemble,
    CompletelyPositiveFactorization,
    DirichletProcessMixture,
    DiscriminativeClustering,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    InformationBottleneck,
    MemoryBudgetError,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.array import validation
from sfumato.array.validation import InputSize
from sfumato.similarity import coassociation, knn


def test_a_budget_is_found_and_can_be_set(monkeypatch):
    monkeypatch.delenv("SFUMATO_MEMORY_BUDGET", raising=False)
    assert 2**20 < validation.memory_budget() < 2**60
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "2e9")
    assert validation.memory_budget() == 2_000_000_000


@pytest.mark.parametrize("budget", ["abc", "nan", "inf", "-5", "2 GB"])
def test_a_budget_that_is_no_number_of_bytes_is_named(monkeypatch, budget):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", budget)
    with pytest.raises(ValueError, match=f"SFUMATO_MEMORY_BUDGET must be .* got '{budget}'"):
        validation.memory_budget()


def test_what_fits_passes_and_what_does_not_is_refused_with_size_and_advice(monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "8e6")
    validation.reserve((100, 100), np.float64, "a matrix", "use less")
    with pytest.raises(
        MemoryBudgetError,
        match=r"a matrix \(1,000 x 1,000, 7.6 MiB\).*7.6 MiB available\): use less",
    ):
        validation.reserve((1000, 1000), np.float64, "a matrix", "use less")
    assert issubclass(MemoryBudgetError, MemoryError)
    assert issubclass(MemoryBudgetError, ValueError)


@pytest.mark.parametrize(("size", "fits"), [(899, True), (901, False)])
def test_a_tenth_of_the_budget_is_left_for_what_is_not_counted(monkeypatch, size, fits):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1000")
    with pytest.raises(MemoryBudgetError) as error:
        validation.require("a task", {"a matrix": 2000.0}, [("use less", size), ("sample", 0)])
    assert str(error.value).endswith("): use less, or sample" if fits else "): sample")
    calls = (
        lambda: validation.require("a task", {"a matrix": size}, []),
        lambda: validation.reserve((size,), np.uint8, "a matrix", "use less"),
    )
    for call in calls:
        if fits:
            call()
        else:
            with pytest.raises(MemoryBudgetError):
                call()


def test_cgroup_limits_count(monkeypatch):
    monkeypatch.delenv("SFUMATO_MEMORY_BUDGET", raising=False)
    monkeypatch.setattr(validation, "_cgroup_left", lambda: [12345])
    assert validation.memory_budget() == 12345


def test_limits_of_cgroups_above_count_and_cached_files_do_not(tmp_path):
    """Files kept in memory are given up when it is asked for.

    Reading a mapped array must not use up the budget.
    """
    job = tmp_path / "slice" / "job"
    job.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/slice/job\n")
    for folder, limit, usage, files in ((job, "max", 0, 0), (job.parent, 1000, 900, 700)):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{usage}\n")
        (folder / "memory.stat").write_text(f"anon 5\nfile {files}\nshmem 50\n")
    assert validation._cgroup_left(tmp_path, tmp_path / "own") == [1000 - 900 + 700 - 50]


def test_an_outline_is_known_without_reading():
    X = np.zeros((6, 3), dtype=np.int16)
    assert InputSize.of(X) == InputSize(6, 3, 18, 8, True, False)
    assert InputSize.of(X).copy() == 18 * 8
    assert InputSize.of(X.astype(np.float32)) == InputSize(6, 3, 18, 4, False, False)
    assert InputSize.of(sp.csr_array(np.eye(4))) == InputSize(4, 4, 4, 8, False, True)
    assert InputSize.of(coassociation(np.zeros((5, 2), int))).stored == 0
    assert InputSize.of([[1.0], [2.0]]) is None


def features(n, p=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) + 6 * (np.arange(n) % 10)[:, None]


def similarity(n):
    X = features(n, 2)
    return np.exp(-np.abs(X[:, :1] - X[:, 0]))


def labelings(n, m=20):
    return (np.arange(n) % 10)[:, None] + np.random.default_rng(0).integers(2, size=(n, m))


@contextmanager
def traced():
    """A function that tells how much memory was taken at most in this context."""
    tracemalloc.start()
    most = []
    try:
        yield lambda: most[0] if most else tracemalloc.get_traced_memory()[1]
    finally:
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


LOOP = {"max_iter": 2, "random_state": 0}
GIVEN = {"similarity": "precomputed", **LOOP}
CASES = {
    "fuzzy": (FuzzyCMeans(40, n_init=1, **LOOP), lambda: features(40_000)),
    "fuzzy, float32": (
        FuzzyCMeans(40, n_init=1, **LOOP),
        lambda: features(60_000).astype(np.float32),
    ),
    "fuzzy, integers": (
        FuzzyCMeans(40, n_init=1, **LOOP),
        lambda: features(40_000).astype(np.int32),
    ),
    "mixture": (
        GaussianMixture(40, covariance_type="diag", n_init=1, **LOOP),
        lambda: features(40_000),
    ),
    "bottleneck": (
        InformationBottleneck(8, n_init=1, **LOOP),
        lambda: np.abs(features(20_000, 40)).round(),
    ),
    "pairwise, integers": (
        PairwiseProbabilisticClustering(10, **GIVEN),
        lambda: (100 * similarity(3000)).astype(np.int32),
    ),
    "pairwise, gaussian": (
        PairwiseProbabilisticClustering(10, similarity="gaussian", **LOOP),
        lambda: features(3000),
    ),
    "pairwise, graph": (
        PairwiseProbabilisticClustering(10, **GIVEN),
        lambda: knn(features(10_000)),
    ),
    "pairwise, cluster kernel": (
        PairwiseProbabilisticClustering(10, **LOOP),
        lambda: features(10_000),
    ),
    "spectral, self-tuning": (
        SpectralClustering(10, similarity="self-tuning", **LOOP),
        lambda: features(3000),
    ),
    "spectral, graph": (SpectralClustering(10, **GIVEN), lambda: knn(features(10_000))),
    "factorization": (CompletelyPositiveFactorization(10, **GIVEN), lambda: similarity(1500)),
    "linkage of a consensus": (
        EvidenceAccumulation(10, ensemble="precomputed", consensus="average", **LOOP),
        lambda: labelings(1500),
    ),
    "consensus": (
        EvidenceAccumulation(10, ensemble="precomputed", **LOOP),
        lambda: labelings(10_000),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_fit_is_said_to_take_is_most_of_what_it_takes_and_never_more(name):
    model, evidence = CASES[name]
    evidence = evidence()
    said = sum(model._memory_needed(InputSize.of(evidence)).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(evidence)  # imports and compiles what the first fit needs
        with traced() as peak:
            model.fit(evidence)
        taken = peak()
    assert 0.25 * taken < said < 1.05 * taken


@pytest.mark.parametrize(
    ("model", "evidence", "budget", "message"),
    [
        (
            FuzzyCMeans(20),
            features(1000),
            1.5e5,
            r"FuzzyCMeans.fit would take 164.1 KiB \(memberships 156.2 KiB, labels 7.8 KiB\)",
        ),
        (
            FuzzyCMeans(20),
            features(1000),
            1.5e5,
            r"146.5 KiB available\): convert it with .astype\('float32'\), or use partial_fit",
        ),
        (
            FuzzyCMeans(20),
            features(1000),
            3e4,
            "available.: use partial_fit on batches, or give a dask array",
        ),
        (
            GaussianMixture(20),
            features(1000),
            3e4,
            "use partial_fit on batches, or give a dask array",
        ),
        (GaussianMixture([2, 20]), features(1000), 1e5, "memberships 156.2 KiB"),
        (DiscriminativeClustering(20), features(1000), 3e4, "use partial_fit on batches"),
        (InformationBottleneck(2), np.ones((1000, 9)), 1e5, "give the counts as a sparse array"),
        (
            DirichletProcessMixture(inference="gibbs"),
            features(1000),
            5e5,
            "set inference='variational'",
        ),
        (
            PairwiseProbabilisticClustering(3, similarity="gaussian"),
            features(1000),
            5e6,
            "set similarity='cluster-kernel' or 'knn'",
        ),
        (
            PairwiseProbabilisticClustering(50, **GIVEN),
            knn(features(1000)),
            5e6,
            "memberships .*set n_init=1, or .*fit a sample",
        ),
        (
            PairwiseProbabilisticClustering(3, **GIVEN),
            similarity(500).astype(int),
            1e6,
            r"a copy of X 1.9 MiB.*sparse graph \(sfumato",
        ),
        (
            SpectralClustering(3, similarity="self-tuning"),
            features(1000),
            5e6,
            "'knn', which stay sparse",
        ),
        (
            CompletelyPositiveFactorization(3, **GIVEN),
            similarity(500),
            1.5e6,
            "the scaled similarity 1.9 MiB",
        ),
        (
            EvidenceAccumulation(3, ensemble="precomputed", consensus="single"),
            labelings(1000),
            1e7,
            "set consensus='cluster-kernel'",
        ),
        (
            EvidenceAccumulation(3, ensemble="precomputed"),
            labelings(1000),
            1e5,
            "fit a sample of the objects, then predict_proba",
        ),
        (
            EvidenceAccumulation(3, ensemble=ClusteringEnsemble(100)),
            features(1000),
            1e5,
            "fit a sample of the objects, then predict_proba",
        ),
        (ClusteringEnsemble(100), features(1000), 5e5, "ask for fewer partitions"),
    ],
)
def test_a_fit_that_would_not_fit_says_so_and_names_the_form_that_would(
    monkeypatch, model, evidence, budget, message
):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", str(budget))
    y = np.arange(1000) % 2 if isinstance(model, DiscriminativeClustering) else None
    for _ in range(2):  # the first time also imports what a fit needs
        with traced() as peak, pytest.raises(MemoryBudgetError, match=message):
            model.fit(evidence, y)
    assert peak() < 1e5  # nothing was made for it
    assert not hasattr(model, "memberships_")


def test_the_form_that_is_named_does_fit(monkeypatch):
    X = features(4000, 2)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "3e7")
    with pytest.raises(MemoryBudgetError, match="set similarity='cluster-kernel' or 'knn'"):
        PairwiseProbabilisticClustering(10, similarity="gaussian").fit(X)
    assert PairwiseProbabilisticClustering(10, random_state=0).fit(X).memberships_.shape == (
        4000,
        10,
    )


DENSE = {  # most copies of the dense similarity that a fit to features may take
    PairwiseProbabilisticClustering: 1.7,  # one, and twice that of a sample of 1000 objects, less
    SpectralClustering: 1.5,
    CompletelyPositiveFactorization: 2.3,
}


@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("similarity", ["gaussian", "self-tuning"])
def test_a_dense_similarity_is_not_copied_again_and_again(kind, similarity):
    X = features(1500, 4)
    model = kind(4, similarity=similarity, n_init=1, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
        with traced() as peak:
            model.fit(X)
    assert peak() < DENSE[kind] * 8 * 1500**2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["EvidenceAccumulation", "GaussianMixture", "FuzzyCMeans"])
def test_a_fit_with_defaults_takes_memory_linear_in_the_objects(name):
    """20 000 x 8 and twice as much, in processes of their own; an n x n matrix would be 3.2 GB."""
    few, many = (_resident(name, n) for n in (20_000, 40_000))
    print(f"{name}: {few / 2**20:.0f} MiB, {many / 2**20:.0f} MiB")
    assert many < 20_000 * 40_000
    assert many < 2.5 * few


def _resident(name, n):
    """Bytes that a fit to n objects adds to the resident memory of a process at most."""
    words = [sys.executable, "-W", "ignore", "-c", RESIDENT, name, str(n)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return int(told)


RESIDENT = """
import sys
from pathlib import Path
import numpy as np
import sfumato

def most():
    # not getrusage, whose maximum a new process takes over from the one that started it
    told = Path("/proc/self/status").read_text().split("VmHWM:")[1]
    return 1024 * int(told.split()[0])

rng, n = np.random.default_rng(0), int(sys.argv[2])
X = rng.normal(size=(n, 8)) + 6 * (np.arange(n) % 5)[:, None]
model = getattr(sfumato, sys.argv[1])(random_state=0)
model.fit(X[:500])
before = most()
model.fit(X)
print(most() - before)
"""
