"""Every model of the command line can be saved, loaded, and stopped anywhere without changing its
answer.
"""

import pickle
import warnings

import numpy as np
import pytest

from sfumato import models
from sfumato.cli.app import make
from sfumato.engine.loop import checkpoints
from sfumato.io.results import Checkpoint, load, save, untrusted

LABELS = np.arange(60) % 3
X = np.random.default_rng(0).normal(size=(60, 3)) + 4 * np.eye(3)[LABELS]
COUNTS = np.random.default_rng(1).poisson(np.exp(X / 2)) + 1.0
L = np.column_stack(
    [
        np.where(np.random.default_rng(seed).random(60) < 0.9, LABELS, (LABELS + 1) % 3)
        for seed in range(9)
    ]
)
CASES = {
    **{
        model.command: (model.command, COUNTS if model.evidence[0] == "counts" else X, ())
        for model in models.MODELS
        if model.command
    },
    "auto mixture": ("gaussian-mixture", X, ("n_init=2",)),
    "auto consensus": ("consensus", L, ("ensemble=precomputed", "n_init=2")),
    "labelings": ("consensus", L, ("ensemble=precomputed",)),
    "similarity": (
        "pairwise",
        np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 4),
        ("similarity=precomputed",),
    ),
    "gibbs": ("dirichlet-process", X, ("inference=gibbs", "burn_in=5", "n_draws=6", "n_init=2")),
    "online": ("discriminative", X, ("algorithm=online", "max_iter=20", "n_init=2")),
    "Baum-Eagon": ("pairwise", X, ("solver=baum-eagon", "max_iter=20")),
    "uncertainty": ("consensus", L, ("ensemble=precomputed", "n_resamples=3", "n_init=2")),
    "full and noise": ("fuzzy-c-means", X, ("metric=mahalanobis", "noise_cluster=0.5", "n_init=2")),
    "deterministic annealing": ("information-bottleneck", COUNTS, ("beta=50", "n_init=2")),
}


class Stopping(Checkpoint):
    """A checkpoint that is written at every step and pulls the plug after some."""

    def __init__(self, path, left):
        super().__init__(path, "test", every=0)
        self.left = left

    def keep(self, *arguments):
        super().keep(*arguments)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def fit(case):
    name, evidence, settings = CASES[case]
    estimator = make(name, 3, seed=1, settings=settings)
    if case.startswith("auto"):
        estimator.set_params(n_clusters="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.fit(evidence, **({"y": LABELS} if name == "discriminative" else {}))


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_taken_up_again(case, tmp_path):
    whole = fit(case)
    for left in (1, 4, 11):
        path = tmp_path / f"{left}.checkpoint"
        try:
            with checkpoints(Stopping(path, left)):
                fit(case)
        except KeyboardInterrupt:
            again = Checkpoint(path, "test")
            again.resume()
            assert again.resumed == again.reached == left
            with checkpoints(again):
                np.testing.assert_array_equal(fit(case).memberships_, whole.memberships_)


class Watching:
    """Sees whether a step writes to the state it was given.

    Then Ctrl-C in the middle of it would spoil what was kept.
    """

    def __init__(self):
        self.state, self.seen, self.spoilt, self.kept = None, b"", 0, 0

    def recall(self, state):
        self.state, self.seen = state, pickle.dumps(state)
        return 0, state, []

    def keep(self, place, state, history):
        self.kept += 1
        self.spoilt += pickle.dumps(self.state) != self.seen
        self.recall(state)


@pytest.mark.parametrize("case", CASES)
def test_steps_leave_their_state_alone(case):
    watching = Watching()
    with checkpoints(watching):
        fit(case)
    assert watching.spoilt == 0


@pytest.mark.parametrize("case, least", [("gibbs", 5 + 6), ("discriminative", 30), ("online", 8)])
def test_searches_with_a_loop_of_their_own_are_kept_as_they_go(case, least):
    watching = Watching()
    with checkpoints(watching):
        fit(case)
    assert watching.kept >= least


@pytest.mark.parametrize("case", CASES)
def test_saved_and_loaded(case, tmp_path):
    model = fit(case)
    save(model, tmp_path / "model.skops")
    assert untrusted(tmp_path / "model.skops") == []
    back = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(back.memberships_, model.memberships_)
    evidence = CASES[case][1]
    np.testing.assert_array_equal(back.predict_proba(evidence), model.predict_proba(evidence))


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(ValueError, match="--model must be one of"):
        make("magic", 3, seed=0)
    with pytest.raises(ValueError, match="--set takes name=value"):
        make("pairwise", 3, seed=0, settings=["n_clusters=4"])
    model = make(
        "fuzzy-c-means",
        3,
        seed=0,
        settings=["fuzzifier=1.5", "noise_cluster=None", "metric=gaussian"],
    )
    assert (model.fuzzifier, model.noise_cluster, model.metric) == (1.5, None, "gaussian")
    assert make("fuzzy-c-means", 3, seed=0, settings=["fuzzifier=auto"]).fuzzifier == "auto"


def test_a_consensus_of_linkages_is_saved_and_loaded(tmp_path):
    from sfumato import ClusteringEnsemble, EvidenceAccumulation

    model = EvidenceAccumulation(
        3, ensemble=ClusteringEnsemble(4, algorithms="All"), random_state=0
    ).fit(X)
    save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(
        load(tmp_path / "model.skops").predict_proba(X + 0.1), model.predict_proba(X + 0.1)
    )
