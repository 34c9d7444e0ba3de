"""The workflows parse, and every target and script that they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def read(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))


def targets(workflow):
    """Targets of make that a workflow runs, also those of a matrix."""
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            for target in re.findall(r"\bmake (\"\$TARGET\"|[a-z-]+)", step.get("run", "")):
                yield from matrix["target"] if "$" in target else [target]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_names_exists(path):
    workflow = read(path.stem)
    assert set(targets(workflow)) <= TARGETS
    scripts = re.findall(r"\.ci/\w+\.py", path.read_text("utf-8"))
    assert all((ROOT / script).is_file() for script in scripts)


def test_slow_tests_and_development_versions_have_their_times():
    when = {name: read(name)[True]["schedule"] for name in ("weekly", "nightly")}  # "on" is True
    assert all(
        re.fullmatch(r"(\S+ ){4}\S+", entry["cron"]) for each in when.values() for entry in each
    )
    assert "test-all" in targets(read("weekly"))
    assert "--pre" in (ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8")


def test_pages_are_deployed_with_their_version():
    assert "docs" in targets(read("docs"))
    deploy = read("docs")["jobs"]["deploy"]
    assert deploy["needs"] == "build"
    assert any("gh-pages" in step.get("run", "") for step in deploy["steps"])


def test_hooks_parse():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert {"ruff-check", "ruff-format", "codespell", "mypy"} == {
        hook["id"] for repo in hooks["repos"] for hook in repo["hooks"]
    }
