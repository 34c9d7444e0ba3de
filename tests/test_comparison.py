"""The table of the comparison page is what running gives, for every library that is installed.

``benchmarks/peers/requirements.txt`` lists those that are not among our dependencies. R's clue is
not run: its column is what its manual says.
"""

import importlib.util
import inspect
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


def lacks(function, *names):
    """No, since the function has no parameter of these names."""
    assert not set(names) & set(inspect.signature(function).parameters)
    return "no"


WEIGHTS = ("sample_weight", "weights", "w")
PAIRS = ("affinity", "similarity", "distances")


def scikit_fuzzy(feature):
    import skfuzzy

    centers, U = skfuzzy.cmeans(X.T, 3, 2.0, 1e-6, 200, seed=0)[:2]
    new = skfuzzy.cmeans_predict(X[:5].T, centers, 2.0, 1e-6, 200, seed=0)[0]
    return {
        "memberships": lambda: "yes" if simplex(U.T) else "no",
        "new": lambda: "yes" if simplex(new.T) else "no",
        "weights": lambda: lacks(skfuzzy.cmeans, *WEIGHTS),
        "similarity": lambda: lacks(skfuzzy.cmeans, *PAIRS),
        "consensus": lambda: "no",
        "missing": lambda: "no",  # it has no mixture
    }[feature]()


def fuzzy_c_means(feature):
    from fcmeans import FCM

    model = FCM(n_clusters=3, random_state=0)
    model.fit(X)
    return {
        "memberships": lambda: "yes" if simplex(model.soft_predict(X)) else "no",
        "new": lambda: "yes" if model.predict(X[:5] + 0.1).shape == (5,) else "no",
        "weights": lambda: lacks(model.fit, *WEIGHTS),
        "similarity": lambda: lacks(FCM, *PAIRS),
        "consensus": lambda: "no",
        "missing": lambda: "no",  # it has no mixture
    }[feature]()


def soft_clustering(feature):
    import soft_clustering as library

    def pairs():
        model = library.EVCLUS(3, metric="precomputed", random_state=0)
        model.fit(1.0 - W)
        return "soft" if simplex(model.memberships_) else "hard"

    def consensus():
        U = [np.eye(k)[labels] for k, labels in zip((3, 4, 5), LABELINGS.T, strict=True)]
        found = {library.SCSPA(3), library.SMCLA(3), library.SHBGF(3)}
        return "hard" if all(model.fit_predict(U).shape == (60,) for model in found) else "soft"

    def new():
        model = library.GMM(random_state=0)
        model.fit_predict(X, 3)
        with pytest.raises(NotImplementedError):
            model.predict(X[:5])
        return "no"

    def missing():
        return "yes" if simplex(library.GMM(random_state=0).fit_predict(HOLED, 3)) else "no"

    return {
        "memberships": lambda: "yes" if simplex(library.FCM().fit_predict(X, 3)) else "no",
        "new": new,
        "weights": lambda: lacks(library.GMM().fit_predict, *WEIGHTS),
        "similarity": pairs,
        "consensus": consensus,
        "missing": missing,
    }[feature]()


def hdbscan(feature):
    import hdbscan as library

    clear = make_blobs(60, centers=3, cluster_std=0.5, random_state=0)[0]
    model = library.HDBSCAN(min_cluster_size=5, prediction_data=True).fit(clear)

    def pairs():
        found = library.HDBSCAN(metric="precomputed").fit(1.0 - W)
        assert not hasattr(found, "predict_proba")
        return "hard" if found.labels_.shape == (60,) else "no"

    U = library.all_points_membership_vectors(model)
    return {
        "memberships": lambda: "yes" if simplex(U) else "no",
        "new": lambda: "approximate" if library.approximate_predict(model, clear[:5]) else "no",
        "weights": lambda: lacks(model.fit, *WEIGHTS),
        "similarity": pairs,
        "consensus": lambda: "no",
        "missing": lambda: "no",  # it has no mixture
    }[feature]()


def scikit_learn(feature):
    return {
        "memberships": sums_of_scikit_learn,
        "new": new_objects_of_scikit_learn,
        "weights": weights_of_scikit_learn,
        "similarity": similarity_of_scikit_learn,
        "consensus": lambda: "no",  # no class of it reads labelings
        "missing": lambda: refused(lambda: GaussianMixture(3).fit(HOLED)),
    }[feature]()


def ours(feature):
    return {
        "memberships": sums_of_ours,
        "new": lambda: "every model" if column("new") == {"yes"} else "some models",
        "weights": lambda: "every model" if column("weights") == {"yes"} else "some models",
        "similarity": soft_from_a_similarity,
        "consensus": consensus_without_a_matrix,
        "missing": missing_values_in_ours,
    }[feature]()


ROWS = {
    "memberships": "memberships that sum to one",
    "new": "new objects",
    "weights": "sample weights",
    "similarity": "from a similarity",
    "consensus": "consensus of clusterings",
    "missing": "missing values in mixtures",
}
RUN = {
    "scikit-learn": ("sklearn", scikit_learn),
    "scikit-fuzzy": ("skfuzzy", scikit_fuzzy),
    "fuzzy-c-means": ("fcmeans", fuzzy_c_means),
    "soft-clustering": ("soft_clustering", soft_clustering),
    "hdbscan": ("hdbscan", hdbscan),
    "sfumato": ("sfumato", ours),
}


def test_every_row_and_column_of_the_page_is_run():
    assert list(table()) == list(ROWS.values())
    assert all(list(row) == [*list(RUN)[:-1], "R clue", "sfumato"] for row in table().values())


@pytest.mark.parametrize("library", RUN)
@pytest.mark.parametrize("feature", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_a_cell_is_what_running_gives(feature, library):
    module, run = RUN[library]
    pytest.importorskip(module)
    assert table()[ROWS[feature]][library] == run(feature)


def test_no_cell_says_partly_without_saying_what():
    cells = {cell for row in table().values() for cell in row.values()}
    assert not cells & {"", "partly", "?"}
