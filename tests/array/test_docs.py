"""Shared texts of docstrings are where readers look for them."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import sfumato
from sfumato.array.docs import PLACE, TEXTS, documented

ROOT = Path(sfumato.__file__).parent


def test_texts_are_indented_like_the_line_that_asks_for_them():
    @documented
    def function():
        """First.

            %(ended)s
        Last %(ended)s
        """

    lines = function.__doc__.splitlines()
    margin = len(lines[-1]) - len("Last %(ended)s") if lines[-1].strip() else 8
    text = TEXTS["ended"].splitlines()
    assert [line[margin:] for line in lines[2 : 2 + len(text)]] == ["    " + line for line in text]
    assert "Last %(ended)s" in function.__doc__


def test_an_unknown_text_is_an_error():
    with pytest.raises(KeyError, match="no_such_text"):

        @documented
        def function():
            """First.

            %(no_such_text)s
            """


def test_every_text_is_asked_for_more_than_once():
    asked = re.findall(
        PLACE.pattern, "\n".join(path.read_text() for path in ROOT.rglob("*.py")), re.MULTILINE
    )
    names = [name for _, name in asked]
    assert all(names.count(name) > 1 for name in TEXTS), names


def test_no_public_docstring_is_left_with_a_gap():
    for info in pkgutil.iter_modules([str(ROOT)]):
        if info.name in ("__main__", "dask", "cli", "anndata"):
            continue
        module = import_module(f"sfumato.{info.name}")
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            members = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
            assert not any(PLACE.search(getattr(each, "__doc__", "") or "") for each in members)


def test_a_measure_of_agreement_shows_its_own_parameters():
    from sfumato.metrics import pair_f1

    parameters = list(inspect.signature(pair_f1).parameters)
    assert parameters[:3] == ["reference", "clustering", "sample_weight"]
    assert "Level of a bootstrap interval" in inspect.getdoc(pair_f1)
    assert (pair_f1.__name__, pair_f1.__module__) == ("pair_f1", "sfumato.metrics.agreement")
