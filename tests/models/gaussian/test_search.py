"""A search that goes on keeps what it knows and adds what a search from the beginning would add."""

import numpy as np

from sfumato import GaussianMixture
from sfumato.models.gaussian import search


def test_more_sizes_beside_known_fits_are_those_of_the_whole_search():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) + 5.0 * rng.normal(size=(5, 3))[rng.integers(5, size=120)]
    settings = GaussianMixture(2, random_state=0)._settings((), [2], 3, False)
    data = search.MixtureData.measure(X, None, None, ("EEI",), None)
    first = search.fit_all(data, [1, 2], ("EEI",), settings)
    grown = search.fit_all(data, [1, 2, 3, 4], ("EEI",), settings, first)
    whole = search.fit_all(data, [1, 2, 3, 4], ("EEI",), settings)
    assert [fit.candidate.n_clusters for fit in grown] == [1, 2, 3, 4]
    assert grown[:2] == first
    for one, other in zip(grown[2:], whole[2:], strict=True):
        assert one.candidate == other.candidate


def test_one_family_that_grows_ends_where_its_number_given_ends():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2)) + 12.0 * rng.normal(size=(20, 2))[np.arange(300) % 20]
    auto = GaussianMixture("auto", covariance_type="EII", max_clusters=40, random_state=0).fit(X)
    k = len(auto.means_)
    alone = GaussianMixture(k, covariance_type="EII", random_state=0).fit(X)
    assert k > 9  # it went on beyond the first numbers
    assert sorted(row.n_clusters for row in auto.search_) == list(range(1, len(auto.search_) + 1))
    np.testing.assert_allclose(auto.memberships_, alone.memberships_, atol=1e-6)
