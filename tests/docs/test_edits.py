"""Edits that pages show are applied by their context, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.edits import EditFailed, apply

TEXT = "a = 1\nb = 2\nc = 3\nb = 4\n"


def edited(tmp_path: Path, diff: str) -> str:
    file = tmp_path / "file.py"
    file.write_text(TEXT)
    apply(diff, file)
    return file.read_text()


def test_lines_come_and_go_between_their_neighbours(tmp_path: Path) -> None:
    assert edited(tmp_path, "@@\n a = 1\n-b = 2\n+b = 5\n@@\n b = 4\n+d = 6\n") == "a = 1\nb = 5\nc = 3\nb = 4\nd = 6\n"


@pytest.mark.parametrize("diff", ["@@\n a = 2\n+b = 5\n", "@@\n b = 2\n b = 4\n+c = 5\n"])
def test_an_edit_whose_context_is_not_in_the_file_fails(tmp_path: Path, diff: str) -> None:
    with pytest.raises(EditFailed, match="0 places"):
        edited(tmp_path, diff)


def test_an_edit_whose_context_stands_in_several_places_fails(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("a = 1\na = 1\n")
    with pytest.raises(EditFailed, match="2 places"):
        apply("@@\n a = 1\n+b = 2\n", file)
