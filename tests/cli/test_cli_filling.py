"""Missing cells are filled in with values expected from the other columns."""

import numpy as np
import pytest

from sfumato.cli import main
from sfumato.cli.evidence import Joint, fill_in, joint_of
from sfumato.io.results import load

RNG = np.random.default_rng(0)
LATENT = RNG.normal(size=300)
X = np.stack([LATENT, 100 * LATENT + RNG.normal(size=300), RNG.normal(size=300)], axis=1)
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
GAPS[0] = [1.0, np.nan, 0.0]


def test_a_cell_is_the_conditional_mean_of_its_row():
    joint = joint_of(GAPS)
    filled = fill_in(GAPS, np.nanmedian(GAPS, axis=0), joint)
    there = ~np.isnan(GAPS)
    np.testing.assert_array_equal(filled[there], GAPS[there])
    held, gone = [0, 2], [1]
    C = joint.covariance
    slope = np.linalg.inv(C[np.ix_(held, held)]) @ C[np.ix_(held, gone)]
    expected = joint.mean[gone] + (GAPS[0, held] - joint.mean[held]) @ slope
    assert filled[0, 1] == pytest.approx(expected[0], rel=1e-4)
    assert filled[0, 1] == pytest.approx(100.0, abs=3)  # the second column is a hundred first ones
    assert np.isnan(GAPS).any()  # the input is as it was


def test_rows_without_any_cell_and_far_values():
    joint = Joint(np.zeros(2), np.array([[1.0, 0.9], [0.9, 1.0]]), -np.ones(2), np.ones(2))
    rows = np.array([[np.nan, np.nan], [50.0, np.nan]])
    np.testing.assert_array_equal(fill_in(rows, np.array([0.3, 0.4]), joint), [[0.3, 0.4], [50, 1]])
    np.testing.assert_array_equal(fill_in(rows, np.array([0.3, 0.4]), None)[1], [50, 0.4])


def test_few_rows_are_left_to_the_median():
    assert joint_of(GAPS[:8]) is None
    assert joint_of(X) is None


def test_new_objects_are_filled_in_alike(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    group = np.arange(90) % 2
    rows = RNG.normal(size=(90, 2)) + 9 * group[:, None]
    lines = [f"{a:.3f},{'' if i % 10 == 0 else f'{b:.3f}'}" for i, (a, b) in enumerate(rows)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines]))
    sampler = ["-m", "dirichlet-process", "--set", "inference=gibbs", "--set", "n_draws=4"]
    arguments = ["fit", "t.csv", *sampler, "--out", "r"]
    assert main(arguments) == 0
    assert "values expected from the other columns" in capsys.readouterr().err
    kept = load(tmp_path / "r" / "model.skops")._scaling
    assert np.shape(kept["joint"]["covariance"]) == (2, 2)
    (tmp_path / "new.csv").write_text("a,b\n9,\n0,\n")
    assert main(["predict", "r", "new.csv"]) == 0
    labels = [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert labels[0] != labels[1]
