"""One evidence, one answer: however the number of clusters is asked for."""

import csv
import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons

from sfumato import (
    CompletelyPositiveFactorization,
    EvidenceAccumulation,
    FactorMixture,
    FuzzyCMeans,
    GaussianMixture,
    InformationBottleneck,
    MixedMixture,
    PairwiseProbabilisticClustering,
    SpectralClustering,
    StudentMixture,
)
from sfumato.cli import main
from sfumato.datasets import make_gaussians, make_uniform
from sfumato.selection import choose_n_clusters

COMMON = {"max_clusters": 4, "random_state": 0}
MODELS = {
    "fuzzy-c-means": FuzzyCMeans("auto", n_init=2, **COMMON),
    "spectral": SpectralClustering("auto", n_init=2, **COMMON),
    "pairwise": PairwiseProbabilisticClustering("auto", n_init=1, **COMMON),
    "completely-positive": CompletelyPositiveFactorization("auto", n_init=1, **COMMON),
    "gaussian-mixture": GaussianMixture("auto", n_init=1, **COMMON),
    "student-mixture": StudentMixture("auto", n_init=1, tol=1e-4, **COMMON),
    "factor-mixture": FactorMixture("auto", n_factors=1, n_init=1, **COMMON),
    "mixed-mixture": MixedMixture("auto", n_init=1, **COMMON),
    "consensus": EvidenceAccumulation("auto", **COMMON),
    "average linkage": EvidenceAccumulation("auto", consensus="average", **COMMON),
}


def draws():
    """Twenty small data sets, some without clusters."""
    rng = np.random.default_rng(0)
    for k in (1, 2, 3, 4, 6):
        for separation in (3, 7):
            made = make_gaussians(30 * k + 30, k, separation=separation, random_state=k)
            yield f"{k} groups, {separation} apart", made.evidence
    yield "moons", make_moons(100, noise=0.06, random_state=0)[0]
    yield "circles", make_circles(100, noise=0.05, factor=0.4, random_state=0)[0]
    for seed in range(2):
        yield f"noise {seed}", make_uniform(80, random_state=seed).evidence
    yield "exponential", rng.exponential(size=(90, 2))
    yield "t", rng.standard_t(3, size=(90, 3))
    yield "few objects", make_gaussians(36, 3, separation=8, random_state=0).evidence
    yield "one feature", np.concatenate([rng.normal(size=(40, 1)), rng.normal(9, 1, size=(40, 1))])
    yield "whole numbers", rng.poisson(np.array([[5, 60], [60, 5]])[np.arange(90) % 2])
    yield "sizes 6:3:1", make_gaussians(100, 3, separation=8, random_state=1).evidence[:70]


DATA = dict(draws())


def agree(model, X):
    """Fit with "auto", choose, and fit with the number that was found: all three are one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, choice = clone(model).fit(X), choose_n_clusters(model, X)
        given = clone(model).set_params(n_clusters=fitted.n_clusters_).fit(X)
    assert str(fitted.selection_) == str(choice)
    assert fitted.n_clusters_ == choice.n_clusters
    np.testing.assert_array_equal(given.memberships_, fitted.memberships_)
    np.testing.assert_array_equal(choice.estimator.memberships_, fitted.memberships_)
    return fitted.n_clusters_


@pytest.mark.parametrize("name", MODELS)
def test_auto_choose_and_the_number_given_are_one_fit(name):
    assert agree(MODELS[name], DATA["3 groups, 7 apart"][::2]) == 3


def test_counts_too():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(6, 0.3), size=3)
    counts = np.array([rng.multinomial(200, shares[i % 3]) for i in range(90)])
    assert agree(InformationBottleneck("auto", beta=50, **COMMON), counts) == 3


def by_command(name, X, run):
    """The answers of ``sfumato choose`` and ``sfumato fit --clusters auto``."""
    with open("x.csv", "w", newline="") as file:
        csv.writer(file).writerows([[f"x{j}" for j in range(X.shape[1])], *X.tolist()])
    model = clone(MODELS[name])
    words = ["x.csv", "--model", name, "--scale", "none"]
    for key in ("n_init", "tol", "n_factors", "max_clusters"):
        if key in model.get_params(deep=False):
            words += ["--set", f"{key}={getattr(model, key)}"]
    found = json.loads(run("choose", *words, "--json"))
    run("fit", *words, "--clusters", "auto", "--out", "r", "--force", "--quiet")
    with open("r/summary.json") as file:
        return found["n_clusters"], json.load(file)["n_clusters"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return call


def test_the_command_line_gives_the_same_answer(run):
    X = DATA["3 groups, 7 apart"][::2]
    assert by_command("fuzzy-c-means", X, run) == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(DATA)), ids=list(DATA))
def test_twenty_data_sets_and_all_models(place, run):
    X = DATA[list(DATA)[place]]
    found = {name: agree(model, X) for name, model in MODELS.items()}
    commands = [name for name in MODELS if "-" in name or name in ("spectral", "consensus")]
    for name in (commands[place % 4], commands[4 + place % (len(commands) - 4)]):
        assert by_command(name, X, run) == (found[name], found[name])
