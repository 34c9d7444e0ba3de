"""What is public, name by name with its signature: a change must be meant.

After a change that is meant, run ``python tests/test_public_surface.py`` and commit the new record.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import sfumato
from sfumato import models

RECORD = Path(__file__).parent / "public_surface.json"
MODULES = (
    "anndata",
    "conjugate",
    "dask",
    "datasets",
    "growth",
    "memberships",
    "metrics",
    "papers",
    "plot",
    "report",
    "selection",
    "similarity",
)


def describe(thing: object) -> object:
    """The signature of a function; of a class its parameters and the signatures of its methods."""
    if inspect.isclass(thing):
        methods = {
            name: str(inspect.signature(member)).replace("'", "")
            for name, member in inspect.getmembers(thing, callable)
            if not name.startswith("_")
            and (getattr(member, "__module__", "") or "").startswith("sfumato")
        }
        return {"parameters": _names(thing), "methods": sorted(methods)}
    return _names(thing) if callable(thing) else type(thing).__name__


def _names(thing: object) -> list[str]:
    """Parameters in order; ``*`` before those that can only be given by name, defaults included."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    names = []
    for parameter in parameters:
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        keyword = "*" if parameter.kind is parameter.KEYWORD_ONLY else ""
        names.append(f"{keyword}{parameter.name}{default if ' at 0x' not in default else '=...'}")
    return names


def surface() -> dict[str, object]:
    found = {name: describe(getattr(sfumato, name)) for name in sfumato.__all__ if name[0] != "_"}
    for name in MODULES:
        module = importlib.import_module(f"sfumato.{name}")
        found[name] = {public: describe(getattr(module, public)) for public in module.__all__}
    return json.loads(json.dumps({k: v for k, v in found.items() if v != "module"}))


def test_every_module_of_the_api_page_is_recorded():
    page = Path(__file__).parent.parent / "docs" / "api.md"
    modules = set(re.findall(r"\{all sfumato\.(\w+)", page.read_text(encoding="utf-8")))
    assert modules == set(MODULES)


def test_the_public_surface_is_the_recorded_one():
    pytest.importorskip("dask.array")  # the record holds everything
    recorded, found = json.loads(RECORD.read_text(encoding="utf-8")), surface()
    changed = sorted(
        name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name)
    )
    assert not changed, f"changed: {changed}; if meant, run python tests/test_public_surface.py"


ESTIMATORS = [getattr(sfumato, model.name) for model in models.MODELS] + [sfumato.MixtureClassifier]
every = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)


def parameters(function):
    """Names by kind: those that may be given by position, and those that are given by name."""
    found = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    named = {p.name for p in found if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)}
    return [p.name for p in found if p.name not in named], named


@every
def test_constructors_have_at_most_twelve_parameters(kind):
    by_position, named = parameters(kind)
    assert len(by_position) == 1
    assert len(named) <= 11


@every
def test_the_number_of_clusters_and_its_cap_have_one_name(kind):
    by_position, named = parameters(kind)
    assert not {"n_components", "k", "max_components", "n_clusters_max"} & named
    if hasattr(kind, "n_clusters_") or by_position == ["n_clusters"]:
        assert by_position == ["n_clusters"]
        assert "max_clusters" in named
    else:  # ensembles count their members, and the classifier the components of a class
        assert by_position[0] in ("n_members", "n_components")


@every
def test_names_with_one_meaning_elsewhere_are_no_parameters_of_models(kind):
    """``noise`` is the spread of simulated data, ``selection`` and ``evidence`` are no settings."""
    named = set.union(*(parameters(kind)[1], *(parameters(f)[1] for f in methods(kind).values())))
    assert not {"noise", "selection", "evidence", "n_jobs", "reg_covar", "n_partitions"} & named


def methods(kind):
    found = inspect.getmembers(kind, callable)
    return {name: member for name, member in found if name[0] != "_" and inspect.isroutine(member)}


@every
def test_fits_take_data_and_classes_by_position_and_the_rest_by_name(kind):
    for name in ("fit", "partial_fit", "fit_predict", "fit_transform"):
        if name in methods(kind):
            assert parameters(methods(kind)[name])[0] == ["X", "y"], name


@every
def test_scores_take_what_those_of_scikit_learn_take_by_position(kind):
    """``score(X, y=None, sample_weight=None)``, as ``KMeans`` and ``ClassifierMixin`` have it."""
    found = methods(kind)
    if "score" in found:
        assert parameters(found["score"])[0] == ["X", "y", "sample_weight"]
    for name in ("bic", "aic", "icl"):
        if name in found:
            expected = ["X", "y"] if kind is sfumato.MixtureClassifier else ["X"]
            assert parameters(found[name])[0] == expected


@every
def test_predictions_take_only_objects_by_position(kind):
    for name in ("predict", "predict_proba", "transform", "score_samples"):
        if name in methods(kind):
            assert parameters(methods(kind)[name])[0] == ["X"], name


def functions():
    """Public functions and classes of the modules with their parameters, ``module.name``."""
    for each in MODULES:
        module = importlib.import_module(f"sfumato.{each}")
        for name in module.__all__:
            if callable(thing := getattr(module, name)):
                yield f"{each}.{name}", {part.strip("*").split("=")[0] for part in _names(thing)}


def test_jobs_are_counted_only_where_whole_fits_run_side_by_side():
    counting = {name for name, parameters in functions() if "n_jobs" in parameters}
    names = "bootstrap", "bootstrap_likelihood_ratio", "choose_n_clusters", "parameter_intervals"
    assert counting == {f"selection.{name}" for name in names}


def test_names_have_one_meaning_in_functions_too():
    found = dict(functions())
    simulated = {name for name in found if name.startswith("datasets.make_")}
    # weights of objects are sample_weight, of clusterings partition_weight; these are proportions
    assert {name for name in found if "weights" in found[name]} == {"datasets.make_gaussians"}
    assert {name for name in found if "noise" in found[name]} < simulated
    used = set.union(*found.values())
    assert not {"n_bootstrap", "n_partitions", "n_components_max", "reg_covar", "seed"} & used
    # levels are clusterings, coarser and finer; probabilities are called confidence, significance
    assert {name for name in found if "level" in found[name]} == {"report.ColumnProfile"}
    settings = {name for name in found if {"selection", "criterion"} & found[name]}
    assert settings == {"report.Facts", "selection.Choice", "selection.choose_n_clusters"}


def test_helpers_of_searches_are_private():
    assert not {"Trial", "CRITERIA", "RatioTest", "Interval"} & set(sfumato.selection.__all__)


def test_the_report_takes_a_model_and_works_the_rest_out():
    assert parameters(sfumato.report.write)[0] == ["path", "model", "X"]
    by_position, named = parameters(sfumato.report.render)
    assert by_position == ["model", "X"]
    assert len(named) <= 6


if __name__ == "__main__":
    RECORD.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
