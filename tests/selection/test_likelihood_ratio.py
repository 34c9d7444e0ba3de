"""Bootstrapped likelihood ratio tests: Old Faithful, calibration under the null, and refusals."""

from pathlib import Path

import joblib
import numpy as np
import pytest

from sfumato import EvidenceWarning, FuzzyCMeans, GaussianMixture, MixedMixture
from sfumato.selection import bootstrap_likelihood_ratio

DATA = Path(__file__).parents[1] / "models" / "gaussian" / "data" / "faithful.csv"
TIED = GaussianMixture(covariance_type="tied", n_init=1)


@pytest.mark.slow
def test_old_faithful():
    """R's mclust: 299.22 (p .01), 27.72 (p .01) with 99 draws.

    The third test is in docs/trust.md.
    """
    X = np.loadtxt(DATA, delimiter=",", skiprows=1)
    result = bootstrap_likelihood_ratio(TIED, X, max_clusters=3, n_resamples=99, random_state=0)
    assert result.n_clusters == 3
    assert result.tests[0].statistic == pytest.approx(299.22, abs=0.005)
    assert result.tests[1].statistic == pytest.approx(27.72, abs=0.05)
    assert [test.p_value for test in result.tests] == [0.01, 0.01]


def test_the_statistic_and_the_p_value_follow_from_the_likelihoods():
    X = np.loadtxt(DATA, delimiter=",", skiprows=1)[:100]
    result = bootstrap_likelihood_ratio(
        TIED, X, max_clusters=2, n_resamples=4, significance=0.2, random_state=0
    )
    one, two = (
        GaussianMixture(k, covariance_type="tied", n_init=2, random_state=0).fit(X) for k in (1, 2)
    )
    expected = 2 * len(X) * (two.score(X) - one.score(X))
    (test,) = result.tests
    assert test.statistic == pytest.approx(expected, abs=1e-2)
    assert test.p_value == (1 + np.sum(test.draws >= test.statistic)) / 5
    assert (test.draws > -1e-6).all()


def test_one_cluster_is_not_rejected_where_there_is_one():
    X = np.random.default_rng(1).normal(size=(80, 1))
    result = bootstrap_likelihood_ratio(TIED, X, n_resamples=19, random_state=1)
    assert result.n_clusters == 1
    assert len(result.tests) == 1


@pytest.mark.filterwarnings("ignore")  # threads share the filters that silence single fits
def test_the_answer_does_not_depend_on_the_number_of_jobs():
    X = np.random.default_rng(2).normal(size=(40, 1))
    with joblib.parallel_config(backend="threading"):
        runs = [
            bootstrap_likelihood_ratio(TIED, X, n_resamples=4, random_state=3, n_jobs=jobs)
            for jobs in (1, 2)
        ]
    np.testing.assert_array_equal(runs[0].tests[0].draws, runs[1].tests[0].draws)


def test_missing_values_and_data_frames():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(8, 1, (40, 2))])
    X[rng.random(X.shape) < 0.2] = np.nan
    mixture = MixedMixture(n_init=1)
    result = bootstrap_likelihood_ratio(mixture, X, max_clusters=2, n_resamples=19, random_state=0)
    assert result.tests[0].p_value == 0.05
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": rng.choice(["x", "y"], 30), "b": rng.poisson(2, 30)})
    bootstrap_likelihood_ratio(mixture, table, max_clusters=2, n_resamples=2, significance=0.5)
    table["c"] = np.where(np.arange(30) < 3, np.nan, 1.0)
    with pytest.raises(ValueError, match="missing values"):
        bootstrap_likelihood_ratio(mixture, table)


def test_a_poor_maximum_is_named():
    class Worse(GaussianMixture):
        def score(self, X, y=None, sample_weight=None):
            return super().score(X) - self.n_clusters

    X = np.random.default_rng(0).normal(size=(40, 1))
    with pytest.warns(EvidenceWarning, match="2 clusters were fitted worse than 1"):
        bootstrap_likelihood_ratio(
            Worse(covariance_type="tied", n_init=1),
            X,
            max_clusters=2,
            n_resamples=1,
            significance=0.5,
        )


def test_too_few_draws_to_reject_are_named():
    X = np.random.default_rng(1).normal(size=(40, 1))
    with pytest.warns(EvidenceWarning, match="n_resamples=2 draws.*at least 19"):
        bootstrap_likelihood_ratio(TIED, X, max_clusters=2, n_resamples=2, random_state=0)


def test_what_cannot_be_tested_is_refused():
    with pytest.raises(TypeError, match="method sample"):
        bootstrap_likelihood_ratio(FuzzyCMeans(), np.ones((4, 2)))
    with pytest.raises(ValueError, match="covariance_type='auto'"):
        bootstrap_likelihood_ratio(GaussianMixture(covariance_type="auto"), np.ones((4, 2)))
    for name, value in (("max_clusters", 1), ("n_resamples", 0), ("significance", 1.0)):
        with pytest.raises(ValueError, match=name):
            bootstrap_likelihood_ratio(TIED, np.ones((4, 2)), **{name: value})
