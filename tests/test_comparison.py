"""The table of the comparison page is what running gives, for every library that is installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture

import sfumato
from sfumato.similarity import gaussian

DOCS = Path(__file__).parents[1] / "docs"
X, Y = make_blobs(60, centers=3, cluster_std=2.0, random_state=0)
W = gaussian(X, bandwidth=1.0)
HOLED = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
LABELINGS = np.stack([KMeans(k, n_init=1, random_state=k).fit_predict(X) for k in (3, 4, 5)], 1)


def table():
    """The cells of the page by what they are about and by library."""
    lines = (DOCS / "comparison.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def column(name):
    """The cells that every model has in a column of the page "what works on what"."""
    spec = importlib.util.spec_from_file_location("works_on", DOCS / "works_on.py")
    works_on = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(works_on)
    lines = works_on.PAGE.read_text(encoding="utf-8").splitlines()
    at = works_on.COLUMNS.index(name)
    return {line.split("|")[2 + at].strip() for line in lines if line.startswith("| `")}


def simplex(U):
    return np.isfinite(U).all() and np.allclose(U.sum(axis=1), 1.0)


def refused(run):
    with pytest.raises((ValueError, TypeError, AttributeError)):
        run()
    return "no"


def sums_of_scikit_learn():
    assert simplex(GaussianMixture(3, random_state=0).fit(X).predict_proba(X))
    assert not hasattr(KMeans(3), "predict_proba")
    return "yes (mixtures)"


def new_objects_of_scikit_learn():
    assert KMeans(3, random_state=0).fit(X).predict(X[:5] + 0.1).shape == (5,)
    assert not hasattr(SpectralClustering(3), "predict")
    assert not hasattr(HDBSCAN(), "predict")
    return "some models"


def weights_of_scikit_learn():
    KMeans(3, random_state=0).fit(X, sample_weight=np.ones(60))
    refused(lambda: GaussianMixture(3).fit(X, sample_weight=np.ones(60)))
    return "not in mixtures"


def similarity_of_scikit_learn():
    model = SpectralClustering(3, affinity="precomputed", random_state=0).fit(W)
    assert model.labels_.shape == (60,)
    assert not hasattr(model, "predict_proba")
    return "hard"


def sums_of_ours():
    assert simplex(sfumato.EvidenceAccumulation(3, random_state=0).fit(X).memberships_)
    return "yes"


def soft_from_a_similarity():
    model = sfumato.PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0)
    U = model.fit(W).memberships_
    assert simplex(U)
    assert ((U > 0.05) & (U < 0.95)).any()
    return "soft"


def consensus_without_a_matrix():
    model = sfumato.EvidenceAccumulation(3, ensemble="precomputed", random_state=0)
    assert simplex(model.fit(LABELINGS).memberships_)
    # An n x n matrix of these would take 80 GB.
    many = np.repeat(Y, 100_000 // 60)[:, None] % np.array([[3, 2]])
    assert simplex(model.fit(np.hstack([many, many])).memberships_)
    return "soft, matrix-free"


def missing_values_in_ours():
    for name in ("GaussianMixture", "StudentMixture", "FactorMixture", "MixedMixture"):
        assert simplex(getattr(sfumato, name)(3, random_state=0).fit(HOLED).memberships_)
    return "yes"


RUN = {
    "memberships that sum to one": {"scikit-learn": sums_of_scikit_learn, "sfumato": sums_of_ours},
    "new objects": {
        "scikit-learn": new_objects_of_scikit_learn,
        "sfumato": lambda: "every model" if column("new") == {"yes"} else "some models",
    },
    "sample weights": {
        "scikit-learn": weights_of_scikit_learn,
        "sfumato": lambda: "every model" if column("weights") == {"yes"} else "some models",
    },
    "from a similarity": {
        "scikit-learn": similarity_of_scikit_learn,
        "sfumato": soft_from_a_similarity,
    },
    "consensus of clusterings": {
        "scikit-learn": lambda: "no",  # no class of it reads labelings
        "sfumato": consensus_without_a_matrix,
    },
    "missing values in mixtures": {
        "scikit-learn": lambda: refused(lambda: GaussianMixture(3).fit(HOLED)),
        "sfumato": missing_values_in_ours,
    },
}


def test_every_row_of_the_page_is_run():
    assert list(table()) == list(RUN)


@pytest.mark.parametrize("library", ["scikit-learn", "sfumato"])
@pytest.mark.parametrize("feature", RUN)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_a_cell_is_what_running_gives(feature, library):
    assert table()[feature][library] == RUN[feature][library]()


def test_no_cell_says_partly_without_saying_what():
    cells = {cell for row in table().values() for cell in row.values()}
    assert not cells & {"", "partly", "?"}
