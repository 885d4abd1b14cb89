"""The range of versions is stated once, in `tawa.supported`: everything else that states it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tawa.machine.machines import MACHINES
from tawa.supported import PYTHON, PYTORCH, RANGES, TRITON, TRITON_OF_PYTORCH, Supported, parse_version
from tests.docs.versions import versions

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASED = re.compile(r"^RELEASES := (.+)$", re.MULTILINE)


def requirement(package: str, requirements: list[str]) -> Requirement:
    (found,) = [it for it in map(Requirement, requirements) if it.name == package]
    return found


def test_the_package_requires_the_triton_that_is_supported() -> None:
    found = requirement("triton", PROJECT["dependencies"])
    assert TRITON.last is not None
    for minor in range(TRITON.first[1] - 2, TRITON.last[1] + 3):
        for text in (f"3.{minor}.0", f"3.{minor}.1"):
            assert (text in found.specifier) == (parse_version(text) in TRITON)


def test_the_extra_requires_the_pytorch_that_is_supported() -> None:
    assert requirement("torch", PROJECT["optional-dependencies"]["torch"]) == Requirement(PYTORCH.requirement)


def test_the_package_requires_the_python_that_is_supported() -> None:
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, PYTHON.first))}"


def test_the_makefile_runs_every_triton_that_is_supported() -> None:
    (releases,) = RELEASED.findall((ROOT / "Makefile").read_text())
    first, *others = [version for version, _ in TRITON.runs]
    assert releases.split() == others
    assert f"triton=={first}" in (ROOT / "Makefile").read_text()
    assert TRITON.last is not None
    every = [(3, minor) for minor in range(TRITON.first[1], TRITON.last[1] + 1)]
    assert [parse_version(it)[:2] for it in (first, *others)] == every


def test_the_pages_state_the_ranges() -> None:
    readme = (ROOT / "README.md").read_text()
    assert str(TRITON) in readme and f"Python {PYTHON}" in readme
    stated = re.compile(r"(?:Triton[^|\n.]{0,60}?)(3\.\d+ to 3\.\d+)")
    found = {
        page.name: set(stated.findall(page.read_text()))
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    }
    assert found["README.md"] and all(ranges <= {str(TRITON)} for ranges in found.values()), found


def test_the_tables_of_the_pages_have_every_bound_with_its_reason() -> None:
    text = versions("ranges")
    assert all(part in text for it in RANGES for part in (str(it), it.why_first, it.why_last))
    assert versions("gpus").count("\n") == 1 + len(MACHINES)
    assert "| 3.7 | 3.7.1: the contract" in versions() and "| 2.12, 2.13 |" in versions()


def test_a_supported_pytorch_requires_a_supported_triton() -> None:
    for pytorch, triton in TRITON_OF_PYTORCH.items():
        assert parse_version(pytorch) in PYTORCH and parse_version(triton) in TRITON


@pytest.mark.parametrize("it", RANGES, ids=lambda it: it.name)
def test_every_bound_has_a_reason(it: Supported) -> None:
    assert it.why_first and it.why_last and it.runs
    assert all(parse_version(version) in it for version, _ in it.runs if version != "none")
