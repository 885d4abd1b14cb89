"""No module of `tawa` imports, through others, itself: imports inside functions count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.house import SOURCE, executed

MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}


def imported(path: Path) -> Iterator[str]:
    """The modules of `tawa` that a module imports; what only a type checker follows does not count."""
    for node in executed(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tawa"):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else str(node.module) for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def circles(edges: dict[str, list[str]]) -> list[list[str]]:
    """Each circle of imports that a depth-first walk closes."""
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for other in edges.get(name, ()):
                walk(other, [*path, name])
            done.add(name)

    for name in edges:
        walk(name, [])
    return found


def test_no_imports_go_in_a_circle() -> None:
    assert circles({name: sorted(set(imported(path))) for name, path in MODULES.items()}) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"]}) == [["b", "c", "b"]]
