"""environment.yml gives conda users what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def dependencies() -> list:
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


@pytest.fixture(scope="module")
def pip_lines(dependencies) -> list[str]:
    return next(entry["pip"] for entry in dependencies if isinstance(entry, dict))


def test_conda_gets_a_python_that_the_project_admits(project, dependencies):
    python = next(entry for entry in dependencies if str(entry).startswith("python="))
    assert python == "python=3.11", "3.11 is the version that everything is tested on"
    assert SpecifierSet(project["requires-python"]).contains(python.removeprefix("python=") + ".0")


def test_conda_has_what_the_makefile_calls(dependencies):
    assert {"pip", "make", "git"} <= {entry for entry in dependencies if isinstance(entry, str)}


def test_the_project_is_installed_with_all_its_extras(project, pip_lines):
    line = next(line for line in pip_lines if line.startswith("--editable "))
    extras = re.fullmatch(r"--editable \.\[([\w,-]+)\]", line)
    assert extras, f"expected '--editable .[extra,...]', got {line!r}"
    assert set(extras[1].split(",")) == set(project["optional-dependencies"])


def test_nothing_but_the_project_and_its_lock_is_named(pip_lines):
    """A package named here would be a second source of truth beside pyproject.toml."""
    assert [line.split(" ")[0] for line in pip_lines] == ["--constraint", "--editable"]
    assert "--constraint constraints.txt" in pip_lines


def test_the_lock_holds_every_requirement_at_a_version_that_it_admits(project):
    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([\w.-]+)==([^\s;]+)", line):
            pins[canonicalize_name(match[1])] = match[2]
    asked = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"constraints.txt does not pin {name}: run `make lock`"
        admits = requirement.specifier.contains(pins[name], prereleases=True)
        assert admits, f"pyproject.toml asks for {requirement}, constraints.txt locks {pins[name]}"


def test_the_citation_names_the_version_of_the_library():
    library = (ROOT / "src/tutorial_lib/__init__.py").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'__version__ = "{citation["version"]}"' in library
