"""A location is shown with its source line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt


def test_the_line_and_a_caret_are_shown_with_a_path_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("one\n    acc = tl.dot(a, b)\n")
    monkeypatch.chdir(tmp_path)
    assert excerpt(SourceLocation(str(file), 2, 10)).splitlines() == [
        "  --> kernel.py:2",
        "   2 |     acc = tl.dot(a, b)",
        "     |           ^",
    ]
    assert "^" not in excerpt(SourceLocation(str(file), 2))


def test_a_file_that_cannot_be_read_is_named_all_the_same() -> None:
    assert excerpt(SourceLocation("/no/such/file.py", 3)) == "  --> /no/such/file.py:3"
