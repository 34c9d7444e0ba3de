"""The page "what works on what" says what the models do."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

PAGE = Path(__file__).parents[1] / "docs" / "works_on.py"
spec = importlib.util.spec_from_file_location("works_on", PAGE)
works_on = importlib.util.module_from_spec(spec)
spec.loader.exec_module(works_on)


@pytest.fixture(scope="module")
def client():
    with distributed.Client(processes=False, dashboard_address=None) as client:
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("model", works_on.MODELS, ids=lambda model: model.name)
def test_rows_of_the_page_are_what_running_gives(model, client):
    written = works_on.PAGE.read_text(encoding="utf-8")
    assert works_on.row(model) in written.splitlines(), "run python docs/works_on.py"


def test_the_page_has_every_model_and_its_own_words():
    written = works_on.PAGE.read_text(encoding="utf-8")
    assert written.startswith(works_on.PAGE_TEXT.strip())
    rows = [line for line in written.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in rows] == [model.name for model in works_on.MODELS]
    gpu = json.loads(works_on.GPU.read_text(encoding="utf-8"))
    last = {line.split("`")[1]: line.split("|")[-2].strip() for line in rows}
    assert {name: "" if cell.startswith("[") else cell for name, cell in last.items()} == gpu


def test_no_cell_is_empty_without_a_reason_and_every_reason_has_a_cell():
    written = works_on.PAGE.read_text(encoding="utf-8")
    rows = [line for line in written.splitlines() if line.startswith("| `")]
    used = set()
    for line in rows:
        for cell, column in zip(line.split("|")[2:-1], works_on.COLUMNS, strict=True):
            if cell.strip() not in ("yes", "given"):
                why = works_on.reason(line.split("`")[1], column)
                assert why
                used.add(why)
    assert used == {why for _, _, why in works_on.REASONS}
    assert all(why in written for why in used)


def test_every_clusterer_is_on_the_page():
    import sfumato
    from sfumato.engine.base import Clusterer

    named = {getattr(sfumato, name) for name in sfumato.__all__}
    clusterers = {
        each.__name__ for each in named if isinstance(each, type) and issubclass(each, Clusterer)
    }
    assert clusterers == {model.name for model in works_on.MODELS}
