"""The API reference has every public name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

ENTRIES = {
    entry
    for page in (ROOT / "docs").rglob("*.md")
    for entry in re.findall(r"^::: (tawa[\w.]*)$", page.read_text(), re.M)
}


def names_of(package: str) -> set[str]:
    """The public names of a package, by its text alone: operators need PyTorch."""
    text = Path(str(importlib.util.find_spec(package).origin)).read_text()  # type: ignore[union-attr]
    return set(re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0])) - {
        "__version__",
        "ops",
        "rings",
    }


@pytest.mark.parametrize("package", ["tawa", "tawa.ops", "tawa.rings"])
def test_every_public_name_has_its_entry(package: str) -> None:
    shown = {entry.rpartition(".")[2] for entry in ENTRIES}
    errors = set(re.findall(r"^class (\w+)", (ROOT / "src" / "tawa" / "errors.py").read_text(), re.M))  # as a module
    assert "tawa.errors" in ENTRIES
    assert names_of(package) and not names_of(package) - shown - errors


def test_every_entry_is_a_name_that_exists() -> None:
    missing = set[str]()
    for entry in ENTRIES - {"tawa.errors"}:
        module, _, name = entry.rpartition(".")
        source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
        if not source.exists() or not re.search(rf"^(?:def|class) {name}\b", source.read_text(), re.M):
            missing.add(entry)
    assert not missing
