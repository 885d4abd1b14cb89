"""The tree: the folders of the design, a docstring on top of every module, tests that mirror the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tawa"
MODULES = sorted(SOURCE.rglob("*.py"))
# Longer only with a reason in the module docstring.
MOST_LINES = 400


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_what_it_does_and_stays_readable(module: Path) -> None:
    text = module.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, f"{module} has no docstring"
    lines = len(text.splitlines())
    assert lines <= MOST_LINES or "Longer than" in docstring, f"{module}: {lines} lines"
