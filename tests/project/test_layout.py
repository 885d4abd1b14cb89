"""The tree: the folders of the design, a docstring on top of every module, tests that mirror the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tawa"
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_FILES = 16


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_what_it_does(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text())), f"{module} has no docstring"


@pytest.mark.parametrize("room", sorted({module.parent for module in MODULES}), ids=lambda path: path.name)
def test_a_room_can_be_taken_in_at_a_glance(room: Path) -> None:
    files = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, f"{room} has {len(files)} files: give it sub-rooms"


OUTSIDE = sorted(path for room in ("bench", "tests", "examples") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("module", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_bench_or_test_edits_the_import_path(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        edited: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            edited = [node.func.value]  # sys.path.insert(…)
        elif isinstance(node, ast.Assign):
            edited = [it.value if isinstance(it, ast.Subscript) else it for it in node.targets]
        assert "sys.path" not in map(ast.unparse, edited), f"{module}:{getattr(node, 'lineno', 0)}"


DATA = ("transforms/result.py", "verify/credits/state.py")  # what passes and runs are made of: their tests are others'
TESTED = [
    module
    for room in ("symbolic", "analysis", "plan", "transforms", "verify", "sim")
    for module in sorted((SOURCE / room).rglob("*.py"))
    if any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(module.read_text())))
    and module.name != "__init__.py"
    and str(module.relative_to(SOURCE)) not in DATA
]


@pytest.mark.parametrize("module", TESTED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_has_a_test_of_its_own_name(module: Path) -> None:
    room = ROOT / "tests" / module.parent.relative_to(SOURCE)
    assert list(room.glob(f"test_{module.stem}*.py")), f"no {room.relative_to(ROOT)}/test_{module.stem}.py"
