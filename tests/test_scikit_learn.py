"""scikit-learn's own checks over every estimator; what cannot pass is listed with its reason."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sfumato

ESTIMATORS = [
    sfumato.PairwiseProbabilisticClustering(2, random_state=0),
    sfumato.SpectralClustering(2, random_state=0),
    sfumato.CompletelyPositiveFactorization(2, random_state=0),
    sfumato.EvidenceAccumulation(
        2, ensemble=sfumato.ClusteringEnsemble(n_partitions=8), random_state=0
    ),
    sfumato.ClusteringEnsemble(n_partitions=4, random_state=0),
    sfumato.FuzzyCMeans(2, random_state=0),
    sfumato.GaussianMixture(2, n_init=2, random_state=0),
    sfumato.MixedMixture(2, n_init=2, random_state=0),
    sfumato.DirichletProcessMixture(n_init=1, tol=1e-12, max_iter=2000, random_state=0),
    sfumato.DiscriminativeClustering(2, n_init=1, random_state=0),
    sfumato.InformationBottleneck(2, random_state=0),
]

NO_CLASSES = "the check asks whatever has predict_proba for its classifier tags, which a clusterer does not have"
SPARSE = {"check_estimator_sparse_array": NO_CLASSES, "check_estimator_sparse_matrix": NO_CLASSES}
DRAWN = (
    "fit_transform says -1 where a partition did not see the object; transform labels everything"
)
NEEDS_CLASSES = "fits with the auxiliary class, which the check does not give"
NEEDS_COUNTS = "takes counts, and the check gives negative numbers"
EXPECTED = {
    "ClusteringEnsemble": dict.fromkeys(
        ("check_transformer_general", "check_transformer_data_not_an_array"), DRAWN
    ),
    "MixedMixture": {},
    "DiscriminativeClustering": {**SPARSE, "check_clustering": NEEDS_CLASSES},
    "InformationBottleneck": {**SPARSE, "check_clustering": NEEDS_COUNTS},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    ESTIMATORS,
    expected_failed_checks=lambda estimator: EXPECTED.get(type(estimator).__name__, SPARSE),
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)
