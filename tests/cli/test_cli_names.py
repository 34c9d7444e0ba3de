"""Names that are no file, no folder, or nothing that the system takes: bad input, one sentence."""

import os

import pytest
from test_cli import data  # noqa: F401

FIT = ("-m", "fuzzy-c-means", "-k", 3, "--drop", "kind", "--drop", "weight", "--drop", "name")
NAMES = {
    "long": "x" * 300,
    "null": "a\0b",
    "circle": "circle",
    "in a circle": "circle/x",
    "in a file": "data.csv/x",
    "empty": "",
    "here": ".",
    "device": "/dev/null",
    "address": "https://example.org/x.csv",
    "windows": "C:\\no\\such.csv",
}
READ = {
    "fit": lambda name: ("fit", name, *FIT),
    "consensus": lambda name: ("consensus", name),
    "inspect": lambda name: ("inspect", name),
    "score": lambda name: ("score", name, name),
    "predict": lambda name: ("predict", "r", name),
    "predict with": lambda name: ("predict", name, "data.csv"),
    "report": lambda name: ("report", name),
    "choose": lambda name: ("choose", name, "-m", "fuzzy-c-means", "--to", 3),
}
WRITE = {
    "fit": lambda name: ("fit", "data.csv", *FIT, "--out", name),
    "predict": lambda name: ("predict", "r", "data.csv", "--out", name),
    "report": lambda name: ("report", "r", "--out", name),
}


@pytest.fixture
def fitted(run, data, tmp_path):
    os.symlink("circle", tmp_path / "circle")
    assert run("fit", "data.csv", *FIT, "--out", "r")[0] == 0
    return run


def refused(answer):
    code, _, err = answer
    assert code == 2, err
    assert err.startswith("sfumato: error: ")
    assert len(err.splitlines()) == 1
    assert "Error" not in err.replace("Value error", "")  # no exception of Python by its name


def test_every_name_to_read(fitted):
    for name in NAMES.values():
        for words in READ.values():
            refused(fitted(*words(name)))


def test_every_name_to_write(fitted, tmp_path):
    before = sorted(os.listdir(tmp_path))
    for kind, name in NAMES.items():
        if kind == "windows":  # a name like any other elsewhere
            continue
        for words in WRITE.values():
            refused(fitted(*words(name)))
    assert sorted(os.listdir(tmp_path)) == before


def test_what_is_wrong_is_said(fitted):
    said = {
        ("fit", "", *FIT): ". is a folder",
        ("fit", "x" * 300, *FIT): "cannot be read: File name too long",
        ("fit", "circle", *FIT): "cannot be read: Too many levels of symbolic links",
        ("fit", "data.csv/x", *FIT): "no file called data.csv/x",
        ("fit", "https://example.org/x.csv", *FIT): "is an address: download it",
        ("fit", "data.csv", *FIT, "--out", "x" * 300): "File name too long",
        ("fit", "data.csv", *FIT, "--out", "circle"): "is not a result folder",
    }
    for words, sentence in said.items():
        assert sentence in fitted(*words)[2]


def test_a_folder_that_is_gone_is_named(run, data, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    answer = run("fit", tmp_path / "data.csv", *FIT, "--out", "r")
    monkeypatch.chdir(tmp_path)
    refused(answer)
    assert "the folder you are in is gone" in answer[2]


def test_a_budget_that_is_no_number_is_not_blamed_on_the_file(run, data, monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "2 GB")
    answer = run("fit", "data.csv", *FIT)
    refused(answer)
    assert "SFUMATO_MEMORY_BUDGET must be bytes, such as 2e9, got '2 GB'" in answer[2]
