"""The tree: rooms that can be taken in at a glance, a docstring on top of every module, no edited import path."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tawa"
MODULES = sorted(SOURCE.rglob("*.py"))
OUTSIDE = sorted(path for room in ("bench", "tests", "examples") for path in (ROOT / room).rglob("*.py"))
MOST_FILES = 16


def test_every_module_says_what_it_does() -> None:
    silent = [str(it.relative_to(ROOT)) for it in MODULES if not ast.get_docstring(ast.parse(it.read_text()))]
    assert silent == [], "modules without a docstring"


def test_every_room_can_be_taken_in_at_a_glance() -> None:
    rooms = sorted({module.parent for module in MODULES})
    files = {room: [path for path in room.glob("*.py") if path.name != "__init__.py"] for room in rooms}
    crowded = [f"{room.relative_to(ROOT)}: {len(own)}" for room, own in files.items() if len(own) > MOST_FILES]
    assert crowded == [], f"rooms with more than {MOST_FILES} files: give them sub-rooms"


def edits(tree: ast.Module) -> Iterator[int]:
    """The lines that change `sys.path`."""
    for node in ast.walk(tree):
        edited: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            edited = [node.func.value]  # sys.path.insert(…)
        elif isinstance(node, ast.Assign):
            edited = [it.value if isinstance(it, ast.Subscript) else it for it in node.targets]
        edited = [it for it in edited if isinstance(it, ast.Attribute)]
        if "sys.path" in map(ast.unparse, edited):
            yield getattr(node, "lineno", 0)


def test_no_bench_and_no_test_edits_the_import_path() -> None:
    texts = {it: text for it in OUTSIDE if "path" in (text := it.read_text()) and "sys" in text}
    found = [f"{it.relative_to(ROOT)}:{line}" for it, text in texts.items() for line in edits(ast.parse(text))]
    assert found == []


def test_edits_of_the_import_path_are_found() -> None:
    written = "import sys\nsys.path.insert(0, '.')\nsys.path[:] = []\nsys.path = []\nprint(sys.path)\n"
    assert sorted(edits(ast.parse(written))) == [2, 3, 4]
