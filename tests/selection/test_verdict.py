"""One verdict for every combination of what is known."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from sfumato import EvidenceAccumulation, GaussianMixture
from sfumato.engine.structure import Structure
from sfumato.selection import verdict

SURE = np.repeat(np.eye(4), 20, axis=0)
APART = Structure(9.0, 1.1, 0.0, 4, True, None)
SOME = Structure(0.0, 1.1, 0.5, 2, False, None)
NONE = Structure(0.0, 1.1, 0.5, 1, False, None)


@pytest.mark.parametrize(
    ("structure", "stability", "kind", "begins"),
    [
        (APART, 0.95, "good", "Clear clusters: the data separate all 4, and fits"),
        (APART, None, "good", "Clear clusters"),
        (APART, 0.51, "caution", "Separate clusters whose borders move"),
        (APART, 0.2, "caution", "Separate clusters of this sample"),
        (SOME, 0.95, "note", "Clusters that shade into each other: the data separate 2"),
        (SOME, 0.5, "caution", "Too many clusters"),
        (NONE, 0.95, "note", "Clusters that shade into each other: no gap"),
        (NONE, 0.2, "caution", "No clusters to rely on"),
        (NONE, None, "caution", "No clusters to rely on"),
        (None, 0.9, "good", "Stable clusters"),
        (None, 0.3, "caution", "Unstable clusters"),
        (None, None, "note", "Untested"),
    ],
)
def test_every_combination(structure, stability, kind, begins):
    found = verdict(SURE, structure=structure, stability=stability)
    assert found.kind == kind
    assert found.text.startswith(begins)


def test_advice_fits_how_the_number_came_about():
    assert "Try 2 clusters" in verdict(SURE, structure=SOME).text
    chosen = verdict(SURE, structure=SOME, automatic=True).text
    assert chosen.startswith("More clusters than separate groups: the data separate 2 groups")
    assert "Try" not in chosen
    assert "as asked for" in verdict(np.ones((9, 1))).text
    assert "no division" in verdict(np.ones((9, 1)), automatic=True).text
    vague = SURE * 0.4 + 0.15
    assert verdict(vague, structure=NONE).text.startswith("Vague memberships")
    vague[:4] = np.eye(4)  # one sure object in each cluster does not make the others sure
    assert verdict(vague, structure=NONE).text.startswith("Vague memberships")


def test_a_model_knows_what_is_needed(rng):
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 12])
    model = GaussianMixture(n_init=1, random_state=0).fit(X)
    assert verdict(model).text == "Clear clusters: the data separate both."


def test_labelings_that_agree_do_not_show_gaps_between_objects(rng):
    X = rng.random((200, 2))  # noise, which k-means cuts in similar places
    L = np.column_stack([KMeans(k, n_init=1, random_state=0).fit(X).labels_ for k in (4, 4, 8)])
    model = EvidenceAccumulation(4, ensemble="precomputed", random_state=0).fit(L)
    for agreed in (None, 0.95, 0.7):
        found = verdict(model, structure=APART, stability=agreed)
        assert "the labelings separate all 4" in found.text
        assert found.kind != "good"


def test_failed_fits_do_not_speak_for_one_cluster(rng):
    codes = np.repeat(np.eye(3), 20, axis=0)  # no spread within the groups
    X = np.column_stack([9 * codes @ [0.0, 1.0, 2.0] + rng.normal(size=60), codes])
    model = GaussianMixture(covariance_type="VVI", random_state=0).fit(X)
    found = verdict(model)
    assert model.n_clusters_ == 1
    assert found.kind == "caution"
    assert found.text.startswith("One cluster, because no fit of several succeeded: component 0 of")
