"""Cells of an AnnData object: memberships land where scanpy's tools write theirs."""

import numpy as np
import pytest

anndata = pytest.importorskip("anndata")

from sfumato import GaussianMixture, SpectralClustering
from sfumato.anndata import cluster, consensus


@pytest.fixture
def cells():
    rng = np.random.default_rng(0)
    group = np.arange(90) % 3
    X = rng.normal(size=(90, 5)) + 8 * np.eye(3, 5)[group]
    data = anndata.AnnData(X)
    data.obs["true"] = group.astype(str)
    data.obsm["X_pca"] = X[:, :3]
    return data


def test_memberships_labels_certainty_and_parameters(cells, tmp_path):
    model = GaussianMixture(3, random_state=0)
    fitted = cluster(cells, model)
    assert not hasattr(model, "memberships_")
    np.testing.assert_array_equal(cells.obsm["sfumato"], fitted.memberships_)
    assert cells.obs["sfumato"].cat.categories.tolist() == ["0", "1", "2"]
    assert cells.obs["sfumato"].astype(int).tolist() == fitted.labels_.tolist()
    np.testing.assert_allclose(cells.obs["sfumato_certainty"], fitted.memberships_.max(axis=1))
    assert cells.uns["sfumato"]["params"]["use_rep"] == "obsm['X_pca']"
    cells.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert again.uns["sfumato"]["params"]["model"] == "GaussianMixture"


def test_other_evidence(cells):
    assert cluster(cells, GaussianMixture(2), use_rep="X", key_added="a").n_features_in_ == 5
    W = np.exp(-((cells.X[:, None] - cells.X) ** 2).sum(axis=2) / 20)
    cells.obsp["connectivities"] = W
    model = SpectralClustering(3, similarity="precomputed", random_state=0)
    cluster(cells, model, obsp="connectivities", key_added="b")
    assert {"a", "b"} <= set(cells.obsm)


def test_a_consensus_of_several_clusterings(cells):
    rng = np.random.default_rng(1)
    for run in range(6):
        labels = cells.obs["true"].to_numpy().copy()
        labels[rng.random(90) < 0.1] = "0"
        cells.obs[f"leiden_{run}"] = labels
    model = consensus(cells, [f"leiden_{run}" for run in range(6)], 3)
    from sklearn.metrics import adjusted_rand_score

    assert adjusted_rand_score(cells.obs["true"], model.labels_) > 0.9
    assert cells.obsm["sfumato_consensus"].shape == (90, 3)
    assert "sfumato" not in cells.obsm


def test_errors_say_what_there_is(cells):
    with pytest.raises(ValueError, match="use_rep: the object has no 'X_umap'; it has 'X_pca'"):
        cluster(cells, GaussianMixture(2), use_rep="X_umap")
    with pytest.raises(ValueError, match="at least two columns"):
        consensus(cells, ["true"])


def test_the_cells_that_come_with_scanpy():
    scanpy = pytest.importorskip("scanpy")
    data = scanpy.datasets.pbmc68k_reduced()
    model = cluster(data, GaussianMixture(6, random_state=0, n_init=1), use_rep="X_pca")
    assert data.obsm["sfumato"].shape == (700, model.n_clusters_)
