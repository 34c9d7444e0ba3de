"""scikit-learn's own checks over every estimator; what cannot pass is listed with its reason."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
import sklearn
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import sfumato
from sfumato import models

# Settings that keep the many small fits of the checks quick; what a model does not take is left
# out.
SMALL = {"n_clusters": 2, "n_init": 2, "n_members": 4, "random_state": 0}
SPECIAL = {
    "EvidenceAccumulation": {"ensemble": sfumato.ClusteringEnsemble(n_members=8), "n_init": 1},
    "DirichletProcessMixture": {"n_init": 1, "tol": 1e-12, "max_iter": 2000},
    # The likelihood is flat in the degrees of freedom: weights and copies agree to 1e-6 only.
    "StudentMixture": {"covariance_type": "diag", "degrees_of_freedom": 5.0},
    "DiscriminativeClustering": {"n_init": 1},
}


def estimators():
    """One estimator of every model in the table."""
    made = []
    for model in models.MODELS:
        kind = getattr(sfumato, model.name)
        settings = {**SMALL, **SPECIAL.get(model.name, {})}
        if getattr(kind, "chooses_n_clusters", "never") == "always":
            del settings["n_clusters"]
        known = inspect.signature(kind).parameters
        made.append(kind(**{key: value for key, value in settings.items() if key in known}))
    return made


NO_CLASSES = (
    "the check asks whatever has predict_proba for its classifier tags, which a clusterer does not "
    "have"
)
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
    "DiscriminativeClustering": {"check_clustering": NEEDS_CLASSES},
    "InformationBottleneck": {"check_clustering": NEEDS_COUNTS},
}


def expected(estimator):
    """Checks that cannot pass: those of the model, and of whatever takes sparse features."""
    sparse = get_tags(estimator).input_tags.sparse and hasattr(estimator, "predict_proba")
    return {**(SPARSE if sparse else {}), **EXPECTED.get(type(estimator).__name__, {})}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    estimators(),
    expected_failed_checks=expected,
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_are_copies_for_the_consensus_that_chooses_its_number():
    from sklearn.utils.estimator_checks import (
        check_sample_weight_equivalence_on_dense_data as check,
    )

    check("EvidenceAccumulation", sfumato.EvidenceAccumulation())


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="scikit-learn asks this of every estimator since 1.8",
)
def test_array_checks_pass_where_scipy_dispatches_on_arrays():
    """SciPy reads SCIPY_ARRAY_API when it is imported, so these checks have a process of their
    own.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, __file__, "-k", "check_array_api"],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-3000:]
    assert "SKIPPED" not in found.stdout
