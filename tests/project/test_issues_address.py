"""The address for reports is one: in the package, in its metadata, in internal errors and in the docs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tawa.errors import ISSUES_URL, InternalError

ROOT = Path(__file__).parents[2]


def test_the_metadata_names_the_same_address() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Issues"] == ISSUES_URL
    assert f"{urls['Source']}/issues" == ISSUES_URL


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/command-line.md", "docs/runtime.md"])
def test_the_pages_name_it(page: str) -> None:
    assert ISSUES_URL in (ROOT / page).read_text()


@pytest.mark.parametrize("folder", [None, Path("/reproducers/gemm-0123")])
def test_an_internal_error_names_it(folder: Path | None) -> None:
    text = str(InternalError("slot 3 of 2", folder))
    assert text.endswith(ISSUES_URL) and "cure: please report it" in text
    assert ("tawa replay /reproducers/gemm-0123" in text) == (folder is not None)
