"""Ctrl-C in the middle of every long call from Python: it is soon over, with KeyboardInterrupt.

The limit is generous, for machines with much else to do; how long it took is printed (``pytest -m
slow -s``), and docs/trust.md has what was measured.
"""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

LIMIT = 20.0  # seconds; two are promised, on a machine that has time
START = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
from sfumato import *
from sfumato import selection, similarity
rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 6)) + 2.0 * np.eye(6)[np.arange(4000) % 3]
y = np.arange(4000) % 3
FuzzyCMeans(2, n_init=1, random_state=0).fit(X[:100])  # what is imported late is there by now
print("go", flush=True)
"""
LONG = {
    "consensus": (
        "EvidenceAccumulation(8, ensemble=MixtureEnsemble(9000, random_state=0), "
        "random_state=0).fit(X)"
    ),
    "consensus auto": "EvidenceAccumulation(random_state=0, max_clusters=60).fit(X)",
    "consensus many partitions": (
        "EvidenceAccumulation(8, ensemble=ClusteringEnsemble(20000, random_state=0), "
        "random_state=0).fit(X)"
    ),
    "consensus mcla": (
        "EvidenceAccumulation(8, consensus='mcla', ensemble=ClusteringEnsemble(2000, "
        "random_state=0), random_state=0).fit(X)"
    ),
    "consensus hbgf": (
        "EvidenceAccumulation(8, consensus='hbgf', ensemble=ClusteringEnsemble(2000, "
        "random_state=0), random_state=0).fit(X)"
    ),
    "consensus average": (
        "EvidenceAccumulation(8, consensus='average', ensemble=ClusteringEnsemble(10, "
        "algorithms='k-means', random_state=0), random_state=0).fit(np.tile(X, (3, 1)) + "
        "rng.normal(size=(12000, 6)))"
    ),
    "consensus likelihood": (
        "EvidenceAccumulation(8, consensus='coassociation-likelihood', random_state=0).fit(X)"
    ),
    "mixture ensemble": "MixtureEnsemble(5000, random_state=0).fit(X)",
    "clustering ensemble": "ClusteringEnsemble(20000, random_state=0).fit(X)",
    "pairwise": (
        "PairwiseProbabilisticClustering(8, n_init=400, tol=1e-300, max_iter=100000, "
        "random_state=0).fit(X)"
    ),
    "pairwise auto": (
        "PairwiseProbabilisticClustering(max_clusters=60, n_init=400, tol=1e-300, "
        "max_iter=100000, random_state=0).fit(np.tile(X, (20, 1)) + "
        "rng.normal(size=(80_000, 6)))"
    ),
    "pairwise dense": (
        "PairwiseProbabilisticClustering(8, similarity='gaussian', n_init=100, "
        "tol=1e-300, max_iter=10000, random_state=0).fit(X)"
    ),
    "factorization": (
        "CompletelyPositiveFactorization(8, n_init=100000, tol=1e-300, max_iter=100000, "
        "random_state=0).fit(X)"
    ),
    "factorization dense": (
        "CompletelyPositiveFactorization(8, similarity='gaussian', n_init=100, "
        "tol=1e-300, max_iter=10000, random_state=0).fit(X)"
    ),
    "spectral": "SpectralClustering(8, n_init=100000, random_state=0).fit(X)",
    "spectral dense": (
        "SpectralClustering(8, similarity='self-tuning', n_init=100000, random_state=0).fit(X)"
    ),
    "fuzzy": "FuzzyCMeans(8, n_init=100000, tol=0, max_iter=10000, random_state=0).fit(X)",
    "fuzzy gaussian": "FuzzyCMeans(8, metric='gaussian', n_init=1000, random_state=0).fit(X)",
    "fuzzy auto": "FuzzyCMeans(max_clusters=60, n_init=100, random_state=0).fit(X)",
    "gaussian": (
        "[GaussianMixture(60, tol=1e-300, max_iter=100000, random_state=seed).fit(X) "
        "for seed in range(100)]"
    ),
    "gaussian auto": "GaussianMixture(max_clusters=40, n_init=200, random_state=0).fit(X)",
    "gaussian average": (
        "GaussianMixture(range(1, 60), covariance_type='average', random_state=0).fit(X)"
    ),
    "gaussian errors": (
        "GaussianMixture(8, covariance_type='full', random_state=0, tol=1e-300, "
        "max_iter=100000).fit(X, measurement_error=np.full(X.shape, 0.1))"
    ),
    "classifier": "MixtureClassifier(range(1, 30), random_state=0).fit(X, y)",
    "student": (
        "StudentMixture(8, n_init=100000, tol=1e-300, max_iter=100000, random_state=0).fit("
        "np.tile(X, (25, 1)) + rng.normal(size=(100_000, 6)))"
    ),
    "student auto": (
        "StudentMixture(range(1, 60), covariance_type='auto', random_state=0).fit("
        "np.tile(X, (25, 1)) + rng.normal(size=(100_000, 6)))"
    ),
    "factor": (
        "FactorMixture(8, n_init=100000, tol=1e-300, max_iter=100000, random_state=0).fit(X)"
    ),
    "mixed": "MixedMixture(8, n_init=100000, tol=1e-300, max_iter=100000, random_state=0).fit(X)",
    "dirichlet": (
        "DirichletProcessMixture(n_init=100000, tol=1e-300, max_iter=100000, random_state=0).fit(X)"
    ),
    "dirichlet gibbs": (
        "DirichletProcessMixture(inference='gibbs', burn_in=1000000, random_state=0).fit(X)"
    ),
    "discriminative": ("DiscriminativeClustering(8, n_init=100000, random_state=0).fit(X, y)"),
    "discriminative online": (
        "DiscriminativeClustering(8, algorithm='online', n_init=100000, random_state=0).fit(X, y)"
    ),
    "bottleneck": (
        "InformationBottleneck(8, n_init=100000, tol=1e-300, max_iter=100000, "
        "random_state=0).fit(np.abs(X))"
    ),
    "choose": (
        "selection.choose_n_clusters(GaussianMixture(n_init=200, random_state=0), X, "
        "max_clusters=30)"
    ),
    "choose consensus": (
        "selection.choose_n_clusters(EvidenceAccumulation(random_state=0), X, max_clusters=30)"
    ),
    "bootstrap": "selection.bootstrap(FuzzyCMeans(8, random_state=0), X, 10000)",
    "parameter intervals": (
        "selection.parameter_intervals(GaussianMixture(4, covariance_type='full', "
        "random_state=0), X, 100000)"
    ),
    "likelihood ratio": (
        "selection.bootstrap_likelihood_ratio(GaussianMixture(covariance_type='full', "
        "random_state=0), X, n_resamples=9999)"
    ),
    "stability": (
        "selection.stability(GaussianMixture(4, n_init=500, random_state=0), X, n_resamples=1000)"
    ),
    "doubly stochastic": (
        "[similarity.doubly_stochastic(similarity.gaussian(X)) for _ in range(100)]"
    ),
    "learn scales": "similarity.learn_scales(X[:300], np.arange(300) % 3, max_iter=100000, tol=0)",
}


def interrupted(call, after):
    """Seconds from SIGINT, sent so long after the call began, to the end; and the last words."""
    words = [sys.executable, "-c", START + call]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        one.stdout.readline()
        time.sleep(after)
        assert one.poll() is None, one.stderr.read()
        one.send_signal(signal.SIGINT)
        start = time.monotonic()
        try:
            said = one.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            one.kill()
            raise
        return time.monotonic() - start, said


def test_a_fit_ends_with_keyboard_interrupt():
    said = interrupted(LONG["fuzzy"], 0.5)[1]
    assert said.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_it_ends_soon_after_ctrl_c(name):
    after = np.random.default_rng(list(LONG).index(name)).uniform(2.0, 6.0)
    took, said = interrupted(LONG[name], after)
    print(f"{name}: over after {took:.2f} s")
    assert said.rstrip().endswith("KeyboardInterrupt")
