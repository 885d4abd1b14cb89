"""The notebooks run without a GPU and show what is stored with them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tawa.bridge.triton.versions import triton_version
from tests.docs.changed import concerns_pages
from tests.docs.notebooks import NOTEBOOKS, executed, faults
from tests.docs.running import Workplace
from tests.support.sample import EVERY_CASE


@pytest.mark.skipif(triton_version()[:2] != (3, 6), reason="the notebooks show what Triton 3.6 makes")
@pytest.mark.skipif(not (EVERY_CASE or concerns_pages()), reason="the change does not concern what they print")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_cells_print(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    found = executed(path, Workplace(folder, tmp_path / "cache"))
    assert not faults(nbformat.read(path, as_version=4), found), "python -m tests.docs.notebooks stores what they show"


def test_another_output_is_noticed() -> None:
    new = nbformat.v4
    cells = [
        new.new_code_cell("x", outputs=[new.new_output("stream", text=text)]) for text in ("3 slots\n", "4 slots\n")
    ]
    stored, found = (new.new_notebook(cells=[cell]) for cell in cells)
    assert faults(stored, found) and not faults(stored, stored)
