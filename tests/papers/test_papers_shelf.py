"""Data sets from a folder, from OpenML (never the real one), or left out with a line that says what
to do.
"""

import hashlib
import io
import json
import socket
from http.client import RemoteDisconnected
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from sfumato.papers import Shelf, similarity


def votes():
    """As fetch_openml gives them: codes in an order of its own, NaN where missing."""
    X = np.random.default_rng(0).integers(2, size=(435, 16)).astype(float)
    X[0, 3] = np.nan
    names = [f"issue-{column}" for column in range(16)]
    target = np.where(np.arange(435) % 3, "democrat", "republican").astype(object)
    return Bunch(
        data=X,
        target=target,
        feature_names=names,
        categories={name: ["y", "n"] for name in names},
        details={"name": "vote"},
    )


@pytest.fixture
def openml(monkeypatch):
    """Sets what OpenML answers: an exception or a data set; gives what it was asked."""
    asked = []

    def answer(outcome):
        def fetch_openml(**options):
            asked.append((options, socket.getdefaulttimeout()))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        return asked

    return answer


def test_openml_is_asked_by_number_with_little_patience(openml):
    asked, said = openml(votes()), []
    before = socket.getdefaulttimeout()
    found = Shelf(online=True, say=said.append).find("house votes")
    (options, timeout), *more = asked
    assert not more
    assert options["data_id"] == 56
    assert options["n_retries"] <= 1
    assert timeout <= 15
    assert socket.getdefaulttimeout() == before
    assert found.X.shape == (434, 16)
    np.testing.assert_array_equal(
        found.X[0], 1 - votes().data[1]
    )  # "y" is 1, whatever its place among the categories
    assert set(found.labels) == {0, 1}
    assert said == ["asking OpenML for house votes (vote, data set 56)"]


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (URLError("Name or service not known"), "could not be reached (Name or service not known)"),
        (TimeoutError("timed out"), "could not be reached (timed out)"),
        (TimeoutError(), "could not be reached (TimeoutError)"),
        (RemoteDisconnected("closed"), "could not be reached (closed)"),
        (
            HTTPError("https://x", 503, "Service Unavailable", {}, None),
            "answered 503 Service Unavailable",
        ),
        (
            ValueError("md5 checksum of local file for x\ndoes not match"),
            "did not send vote (md5 checksum of local file for x does",
        ),
        (
            Bunch(data=np.ones((3, 2)), details={"name": "vote"}),
            "did not send vote ('vote' of shape (3, 2), not (435, 16))",
        ),
        (KeyError("data"), "did not send vote"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_fails_takes_one_line_that_says_what_to_do(openml, outcome, why):
    openml(outcome)
    said = []
    shelf = Shelf(online=True, say=said.append)
    assert shelf.find("house votes") is None
    assert said[-1] == shelf.notes["house votes"]
    assert said[-1].startswith("house votes: left out, OpenML")
    assert why in said[-1]
    assert (
        "pass --data DIR with house-votes-84.csv, a table with a header and columns Class and V1 "
        "to V16" in said[-1]
    )
    assert "\n" not in said[-1]


def test_an_unreachable_openml_is_asked_once(openml):
    asked = openml(URLError("down"))
    shelf = Shelf(online=True)
    assert [
        shelf.find(name) for name in ("house votes", "breast cancer", "vehicle", "house votes")
    ] == [None] * 4
    assert len(asked) == 1
    assert all("could not be reached (down)" in note for note in shelf.notes.values())


def test_an_openml_that_answers_is_asked_again(openml):
    asked = openml(HTTPError("https://x", 500, "Oh", {}, None))
    shelf = Shelf(online=True)
    assert [shelf.find(name) for name in ("house votes", "breast cancer")] == [None] * 2
    assert len(asked) == 2


def test_nothing_is_asked_when_offline_or_where_there_is_no_such_data_set(openml):
    asked = openml(votes())
    assert Shelf().find("house votes") is None
    shelf = Shelf(online=True)
    assert shelf.find("yeast cell cycle") is None
    assert "OpenML does not have it" in shelf.notes["yeast cell cycle"]
    assert not asked


def test_the_folder_comes_first(openml, tmp_path):
    asked = openml(votes())
    (tmp_path / "house-votes-84.csv").write_text(
        '"Class","V1","V2"\n"democrat","y","n"\n"republican","n","y"\n"democrat",?,"y"\n'
    )
    shelf = Shelf(tmp_path, online=True)
    found = shelf.find("house votes")
    np.testing.assert_array_equal(found.X, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(found.labels, [0, 1])
    assert shelf.notes["house votes"] == "house votes: house-votes-84.csv, 2 complete cases."
    assert not asked


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Class,V1\nx,maybe\n", "Class,V1,V2\nx,y\n"])
def test_a_file_of_another_layout_is_named(tmp_path, text):
    (tmp_path / "house-votes-84.csv").write_text(text)
    with pytest.raises(ValueError, match="house-votes-84.csv must"):
        Shelf(tmp_path).find("house votes")


def test_figures_ask_for_nothing(openml):
    asked = openml(votes())
    evidence = similarity.evidence(Shelf(online=True))
    assert [next(evidence).name for _ in range(3)] == ["S-Block", "Iris", "Digits"]
    assert not asked
    assert next(evidence).name == "House votes"


class Reply(io.BytesIO):
    def info(self):
        return {}


@pytest.fixture
def server(monkeypatch, tmp_path):
    """OpenML as scikit-learn sees it: descriptions and a file, by address.

    Nothing leaves this process.
    """
    lines = [
        ",".join("ny?"[(row + column) % (3 if row == 7 else 2)] for column in range(16))
        for row in range(435)
    ]
    names = [f"issue-{column}" for column in range(16)]
    header = [
        "@relation vote",
        *(f"@attribute '{name}' {{'n','y'}}" for name in names),
        "@attribute 'Class' {'democrat','republican'}",
        "@data",
    ]
    rows = [f"{line},{('democrat', 'republican')[row % 2]}" for row, line in enumerate(lines)]
    file = "\n".join([*header, *rows]).encode()
    features = [
        {
            "index": str(place),
            "name": name,
            "data_type": "nominal",
            "is_target": str(name == "Class").lower(),
        }
        for place, name in enumerate([*names, "Class"])
    ]
    about = {
        "name": "vote",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "",
        "url": "https://host/file/56",
    }
    replies = {
        "/data/56": {
            "data_set_description": {**about, "md5_checksum": hashlib.md5(file).hexdigest()}
        },
        "/data/features/56": {
            "data_features": {
                "feature": [
                    {
                        **one,
                        "is_ignore": "false",
                        "is_row_identifier": "false",
                        "number_of_missing_values": "0",
                    }
                    for one in features
                ]
            }
        },
        "/data/qualities/56": {
            "data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "435"}]}
        },
    }

    def urlopen(request):
        if request.full_url.endswith("/file/56"):
            return Reply(file)
        return Reply(
            json.dumps(
                next(reply for end, reply in replies.items() if request.full_url.endswith(end))
            ).encode()
        )

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    return replies


def test_the_whole_way_through_scikit_learn(server, monkeypatch):
    found = Shelf(online=True).find("house votes")
    assert found.X.shape == (434, 16)
    np.testing.assert_array_equal(found.X[0], np.arange(16) % 2)
    np.testing.assert_array_equal(found.labels[:2], [0, 1])
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", None)
    np.testing.assert_array_equal(
        Shelf(online=True).find("house votes").X, found.X
    )  # kept: asked once


def test_a_file_that_was_changed_on_the_way_is_refused(server):
    server["/data/56"]["data_set_description"]["md5_checksum"] = "0" * 32
    shelf = Shelf(online=True)
    assert shelf.find("house votes") is None
    note = shelf.notes["house votes"]
    assert "OpenML did not send vote (" in note
    assert "md5 checksum" in note


def test_no_network(monkeypatch, tmp_path):
    def urlopen(request):
        raise URLError("no network")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda seconds: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    shelf = Shelf(online=True)
    assert shelf.find("vehicle") is None
    assert "could not be reached (no network)" in shelf.notes["vehicle"]
