"""Estimators as the clustering step of a topic model (BERTopic's ``hdbscan_model``)."""

import numpy as np
import pytest

import sfumato
from sfumato import FuzzyCMeans, GaussianMixture, SpectralClustering

WORDS = [
    ["goal", "match", "team", "league", "coach"],
    ["bread", "flour", "oven", "yeast", "salt"],
    ["star", "planet", "orbit", "comet", "moon"],
]
TOPIC = np.repeat([0, 1, 2], [20, 30, 25])
RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.choice(WORDS[topic], 6)) for topic in TOPIC]
EMBEDDINGS = np.eye(3, 8)[TOPIC] * 3 + RNG.normal(scale=0.3, size=(75, 8))
MODELS = [
    GaussianMixture(3, random_state=0),
    FuzzyCMeans(3, fuzzifier=1.3, random_state=0),
    SpectralClustering(3, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_what_a_topic_model_asks_of_its_clusterer(model):
    """``fit(X, y=None)``, ``labels_``, ``probabilities_`` and ``predict``; nothing before a fit."""
    fresh = type(model)(**model.get_params())
    assert not hasattr(fresh, "probabilities_")
    fresh.fit(EMBEDDINGS, y=None)
    np.testing.assert_array_equal(fresh.probabilities_, fresh.memberships_)
    np.testing.assert_array_equal(fresh.probabilities_.argmax(axis=1), fresh.labels_)
    assert fresh.predict(EMBEDDINGS[:4]).shape == (4,)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_topics_of_the_real_package_have_probabilities(model):
    bertopic = pytest.importorskip("bertopic")
    from bertopic.dimensionality import BaseDimensionalityReduction

    topics = bertopic.BERTopic(
        embedding_model=None, umap_model=BaseDimensionalityReduction(), hdbscan_model=model
    )
    found, probabilities = topics.fit_transform(TEXTS, EMBEDDINGS)
    assert sfumato.metrics.adjusted_rand_index(TOPIC, np.asarray(found)) == 1
    assert probabilities.shape == (75, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), found)
    assert topics.get_topic_freq()["Count"].tolist() == [30, 25, 20]
    assert len(set(dict(topics.get_topic(0))) & set(WORDS[1])) == 5  # words of the largest topic
    new, _ = topics.transform(TEXTS[:7], EMBEDDINGS[:7])
    order = topics.topic_mapper_.get_mappings(original_topics=True)
    memberships = model.predict_proba(EMBEDDINGS[:7])[:, sorted(order, key=order.get)]
    np.testing.assert_array_equal(memberships.argmax(axis=1), new)
