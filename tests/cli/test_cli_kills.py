"""kill -9 at any moment: the next run cleans up, goes on where there is a checkpoint, and ends with
the same bytes.
"""

import os
import signal

import numpy as np
import pytest
from kills import killed

from sfumato.cli.app import commands

LABELS = np.arange(90) % 3
SETTINGS = {
    **dict.fromkeys(commands(), ()),
    "information-bottleneck": ("n_init=1", "max_iter=40"),  # a write a step, and many steps
    "gibbs": ("inference=gibbs", "burn_in=10", "n_draws=10"),
    "online": ("algorithm=online", "max_iter=20"),
    "auto": (),
}
NAMES = {"gibbs": "dirichlet-process", "online": "discriminative", "auto": "gaussian-mixture"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(90, 3)) + 4 * np.eye(3)[LABELS])
    rows = "".join(f"{a},{b},{c},{label}\n" for (a, b, c), label in zip(X, LABELS, strict=True))
    (place / "x.csv").write_text("a,b,c,kind\n" + rows)
    return place


def words(case, out):
    chosen = [word for setting in SETTINGS[case] for word in ("--set", setting)]
    clusters = "auto" if case == "auto" else "3"
    return [
        "fit",
        "x.csv",
        "--class-column",
        "kind",
        "-m",
        NAMES.get(case, case),
        "-k",
        clusters,
        *chosen,
        "--out",
        out,
    ]


def names(folder):
    return sorted(
        set(os.listdir(folder))
        - {"stderr", "writes", "x.csv"}
        - {f"whole-{case}" for case in SETTINGS}
    )


def whole(folder, case):
    if not (folder / f"whole-{case}").exists():
        assert killed(folder, words(case, f"whole-{case}")) == 0, (folder / "stderr").read_text()
    return (folder / f"whole-{case}" / "memberships.csv").read_bytes()


def check_the_next_run(folder, case):
    """After a kill: a result is whole or not there.

    --resume ends with the same bytes, and nothing is left lying about.
    """
    expected = whole(folder, case)
    result = folder / "r"
    if result.exists():
        assert (result / "memberships.csv").read_bytes() == expected
        assert (result / "summary.json").exists()
    kept = (folder / "r.checkpoint").exists()
    code = killed(folder, [*words(case, "r"), "--resume", "--force"])
    said = (folder / "stderr").read_text()
    assert code == 0, said
    assert ("continuing after" in said) == kept
    assert (result / "memberships.csv").read_bytes() == expected
    assert names(folder) == ["r"]
    for path in result.iterdir():
        path.unlink()
    result.rmdir()


def kill_everywhere(folder, case, places):
    kills = 0
    for place in places:
        code = killed(folder, words(case, "r"), place=place)
        assert code in (0, -signal.SIGKILL), (folder / "stderr").read_text()
        kills += code != 0
        check_the_next_run(folder, case)
    return kills


@pytest.mark.parametrize("case, places", [("fuzzy-c-means", (30,)), ("gibbs", (20,))])
def test_killed_at_some_writes(folder, case, places):
    assert kill_everywhere(folder, case, places) == len(places)


@pytest.mark.slow
@pytest.mark.parametrize("case", SETTINGS)
def test_killed_at_twenty_writes(folder, case):
    assert killed(folder, words(case, "r")) == 0
    writes = int((folder / "writes").read_text())
    check_the_next_run(folder, case)
    rng = np.random.default_rng(list(SETTINGS).index(case))
    kills = kill_everywhere(folder, case, rng.integers(1, writes + 1, size=20).tolist())
    print(f"{case}: {kills} kills among {writes} writes")
    assert kills >= 18  # the number of steps may differ a little from run to run


@pytest.mark.slow
@pytest.mark.parametrize("case", SETTINGS)
def test_killed_at_random_moments(folder, case):
    for after in np.random.default_rng(0).uniform(0, 0.6, size=5):
        code = killed(folder, words(case, "r"), after=after)
        assert code in (0, -signal.SIGKILL)
        check_the_next_run(folder, case)


@pytest.mark.parametrize("place", [40, pytest.param(12, marks=pytest.mark.slow)])
def test_a_result_that_is_being_replaced_is_there_whenever_it_is_killed(folder, place):
    old = words("fuzzy-c-means", "r")
    assert killed(folder, [*old, "--seed", "5"]) == 0
    before = (folder / "r/memberships.csv").read_bytes()
    killed(folder, [*old, "--force"], place=place)
    assert (folder / "r/memberships.csv").read_bytes() in (before, whole(folder, "fuzzy-c-means"))
    assert killed(folder, [*old, "--force"]) == 0, (folder / "stderr").read_text()
    assert (folder / "r/memberships.csv").read_bytes() == whole(folder, "fuzzy-c-means")
    assert names(folder) == ["r"]
    for path in (folder / "r").iterdir():
        path.unlink()
    (folder / "r").rmdir()
