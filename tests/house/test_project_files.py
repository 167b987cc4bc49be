"""What the project says of itself agrees: versions, workflows, templates and hooks."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from source_tree import ROOT

from kvicreg import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
YAML_FILES = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"])


def requirements() -> dict[str, Requirement]:
    """What the package and its extras need, by name; not what only developers and the site do."""
    extras = [needs for name, needs in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")]
    lines = [*PROJECT["dependencies"], *(line for needs in extras for line in needs)]
    return {r.name: r for r in map(Requirement, lines) if r.name != "kvicreg"}


def pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines if line)}


def workflow(name: str) -> dict:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_can_be_read(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize("name", ["tests", "docs", "release"])
def test_workflows_run_what_is_there(name):
    content = workflow(name)
    steps = [step for job in content["jobs"].values() for step in job["steps"]]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    used = {target for step in steps for target in re.findall(r"make ([a-z-]+)", step.get("run", ""))}
    assert used <= set(targets)


def test_every_python_that_is_claimed_is_tested():
    claimed = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language")}
    matrix = workflow("tests")["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == claimed
    oldest = min(claimed, key=lambda version: int(version.partition(".")[2]))
    assert PROJECT["requires-python"] == f">={oldest}"
    assert {"python": oldest, "versions": "oldest"} in matrix["include"]


def test_the_oldest_versions_are_those_that_are_claimed():
    claimed = {name.lower(): next(s.version for s in r.specifier) for name, r in requirements().items()}
    assert pins("constraints-oldest.txt") == claimed


def test_the_versions_we_test_are_allowed():
    pinned = pins("constraints.txt")
    for name, requirement in requirements().items():
        if name.lower() in pinned:
            assert requirement.specifier.contains(pinned[name.lower()]), name
    assert "torch" in pinned


def test_hooks_are_the_tools_of_make_check():
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["id"] for repo in repositories for hook in repo["hooks"]] == ["ruff-check", "ruff-format", "mypy"]


def test_one_version_everywhere():
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    assert {newest[1], citation["version"], recipe["package"]["version"]} == {__version__}


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    needs = [line.replace("torch", "pytorch").replace(">=", " >=") for line in PROJECT["dependencies"]]
    assert recipe["requirements"]["run"] == [f"python {PROJECT['requires-python']}", *needs]
    constrained = dict(line.split() for line in recipe["requirements"]["run_constraints"])
    claimed = {name: str(requirement.specifier) for name, requirement in requirements().items()}
    assert {name: claimed[name.removesuffix("-base")] for name in constrained} == constrained


def test_containers_begin_from_a_named_version_and_are_not_run_as_root():
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert [re.match(r"\S+:[\w.-]*\d[\w.-]* AS (\w+)", stage)[1] for stage in stages] == ["cpu", "cuda"]
    assert all(re.search(r"^USER \d+$", stage, flags=re.MULTILINE) for stage in stages)
    extras = {name for group in re.findall(r"/source\[([\w,]+)\]", text) for name in group.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])
