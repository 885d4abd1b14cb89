"""Runs the notebooks of the site, without a GPU: ``python -m tests.docs.notebooks`` stores what they show.

A notebook is kept with its outputs, which the site shows. A test runs each anew and compares the text of all outputs,
apart from times, versions and folders, as for the blocks of the pages.
"""

from __future__ import annotations

import copy
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.docs.pages import ROOT
from tests.docs.running import Workplace, difference

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LIMIT_S = 120


def executed(path: Path, place: Workplace) -> Any:
    """The notebook as it is after a run in the folder of `place`; raises CellExecutionError if a cell fails."""
    place.prepare()
    notebook = copy.deepcopy(nbformat.read(path, as_version=4))
    place_of = {"metadata": {"path": str(place.folder)}}
    client = NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", resources=place_of, coalesce_streams=True)
    client.execute(env=place.environment())
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    notebook.metadata.pop("language_info", None)
    return notebook


def texts(notebook: Any) -> list[str]:
    """What each cell of code shows, as text; of a picture, its kind."""
    return ["\n".join(_text(it) for it in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    pictures = [kind for kind in sorted(output.data) if kind.startswith("image/")]
    table = re.sub(r"<[^>]+>", "\n", output.data.get("text/html", ""))
    return " ".join(pictures) or table or output.data["text/plain"]


def faults(stored: Any, found: Any) -> list[str]:
    """How the outputs of two runs of a notebook differ."""
    pairs = zip(texts(stored), texts(found), strict=True)
    return [f"cell {number}: {it}" for number, pair in enumerate(pairs, 1) if (it := difference(*pair))]


def main() -> None:
    """Runs every notebook and stores its outputs."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            found = executed(path, Workplace(Path(folder), Path(cache)))
        changed = bool(faults(nbformat.read(path, as_version=4), found))
        if changed:
            nbformat.write(found, path)
        print(f"{path.name}: {'written' if changed else 'up to date'}")


if __name__ == "__main__":
    main()
