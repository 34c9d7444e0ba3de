"""No dependency may be as old as a version with a published vulnerability.

Made by the release step in CONTRIBUTING.md, which asks the advisory databases; this holds the
bounds to what was known then.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import sfumato

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GROUPS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
REQUIRED = [
    Requirement(line)
    for lines in GROUPS.values()
    for line in lines
    if not line.startswith("sfumato[")
]
FIXED = {  # package: first version without it, and what it is called
    "dask": ("2024.9.0", "CVE-2024-10096"),
    "distributed": ("2026.1.0", "CVE-2024-10096, CVE-2026-23528"),
    "jinja2": (
        "3.1.6",
        "CVE-2024-22195, CVE-2024-34064, CVE-2024-56201, CVE-2024-56326, CVE-2025-27516",
    ),
    "numpy": ("1.22", "CVE-2021-34141, CVE-2021-41495, CVE-2021-41496"),
    "pyarrow": ("23.0.1", "CVE-2023-47248, CVE-2026-25087"),
    "scikit-learn": ("1.5.0", "CVE-2024-5206"),
    "scipy": ("1.10.0", "CVE-2023-25399, CVE-2023-29824"),
    "skops": ("0.13.0", "CVE-2025-54412, CVE-2025-54413, CVE-2025-54886"),
    "torch": ("2.10.0", "CVE-2025-32434, CVE-2025-2953, CVE-2025-3730, CVE-2026-24747"),
}


def lowest(requirement):
    bounds = [
        Version(part.version)
        for part in requirement.specifier
        if part.operator in (">=", "==", "~=")
    ]
    assert bounds, f"{requirement} has no lower bound"
    return max(bounds)


@pytest.mark.parametrize("requirement", REQUIRED, ids=str)
def test_the_oldest_version_allowed_has_no_known_vulnerability(requirement):
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    if name in FIXED:
        version, advisories = FIXED[name]
        assert lowest(requirement) >= Version(version), f"{requirement} allows {advisories}"
    else:
        assert lowest(requirement)


def test_every_advisory_is_about_something_required():
    assert set(FIXED) <= {requirement.name for requirement in REQUIRED}


CONDA = {"matplotlib-base": "matplotlib"}  # names that differ there


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    found = {
        CONDA.get(requirement.name, requirement.name): str(requirement.specifier)
        for requirement in map(Requirement, re.findall(r"- (.+)", run))
    }
    wanted = {r.name: str(r.specifier) for r in REQUIRED if r.name in found}
    groups = [Requirement(line).name for g in ("", "plot", "cli") for line in GROUPS[g]]
    assert found == wanted | {"python": PROJECT["requires-python"]}
    assert set(groups) <= set(found)


def test_there_is_one_version_number():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r'^  version: "(.+)"$', recipe, re.M) == [sfumato.__version__]
    assert re.findall(r"^version: (.+)$", citation, re.M) == [sfumato.__version__]
    assert re.findall(r"^## (\S+)", changes, re.M)[0] == sfumato.__version__


def test_show_versions_names_everything_that_is_asked_for(capsys):
    sfumato.show_versions()
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    documentation = {Requirement(line).name for line in GROUPS["docs"]} - {"matplotlib"}
    assert {requirement.name for requirement in REQUIRED} - documentation <= shown
