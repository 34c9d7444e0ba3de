"""One default number of clusters: the one that the data support, in Python and in a shell."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import sfumato
from sfumato import models
from sfumato.cli.app import make, parse_clusters

GROUPS = np.arange(60) % 3
X = np.random.default_rng(0).normal(size=(60, 3)) + 12 * np.eye(3)[GROUPS]
COUNTS = np.random.default_rng(1).poisson(1 + 30 * np.eye(3)[GROUPS]).astype(float)
CLUSTERERS = [model for model in models.MODELS if model.command]
CHOOSING = [model for model in CLUSTERERS if model.name != "DiscriminativeClustering"]


def default_of(model):
    return inspect.signature(getattr(sfumato, model.name)).parameters["n_clusters"].default


@pytest.mark.parametrize("model", CLUSTERERS, ids=lambda model: model.command)
def test_the_default_lets_the_data_decide_wherever_they_can(model):
    kind = getattr(sfumato, model.name)
    if kind.needs_classes:
        assert default_of(model) == 8  # the use of the clusters decides, no criterion
    else:
        assert default_of(model) == "auto"


@pytest.mark.parametrize("model", CLUSTERERS, ids=lambda model: model.command)
def test_a_shell_takes_the_default_of_python(model):
    number, default = parse_clusters(None, model.command), default_of(model)
    assert number == (default if isinstance(default, int) else None)
    assert make(model.command, number, seed=0).n_clusters == default


@pytest.mark.parametrize("model", CHOOSING, ids=lambda model: model.command)
def test_the_default_finds_three_groups_and_places_new_objects(model):
    evidence = COUNTS if model.evidence[0] == "counts" else X
    estimator = getattr(sfumato, model.name)()
    for name, few in {"random_state": 0, "n_init": 1, "max_clusters": 6}.items():
        if name in estimator.get_params():
            estimator.set_params(**{name: few})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(evidence)
    assert estimator.n_clusters_ == 3
    assert sfumato.metrics.adjusted_rand_index(GROUPS, estimator.labels_) == 1
    assert estimator.predict_proba(evidence[:5]).shape == (5, 3)


@pytest.mark.parametrize(
    "kind", [sfumato.PairwiseProbabilisticClustering, sfumato.SpectralClustering]
)
def test_what_a_search_cannot_read_asks_for_a_number(kind):
    W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    model = kind(similarity="precomputed")
    with pytest.raises(TypeError, match="n_clusters='auto' reads arrays .* give the number"):
        model.fit(aslinearoperator(W))
    assert not hasattr(model, "memberships_")
    some = np.where(np.arange(60) < 6, GROUPS, -1)
    np.testing.assert_array_equal(model.fit(W, some).labels_, GROUPS)


def test_numbers_below_that_of_the_known_labels_are_not_tried():
    some = np.where(np.arange(60) < 6, GROUPS, -1)
    model = sfumato.GaussianMixture(covariance_type="tied", random_state=0).fit(X, some)
    assert model.n_clusters_ == 3
    assert min(row.n_clusters for row in model.search_) == 3
    np.testing.assert_array_equal(model.labels_, GROUPS)
