"""Draws the house: every room, what it holds, its sub-rooms, and the rooms that it imports.

Drawn from the source alone: the first line of each package's docstring, and the import statements of its modules
(those that only a type checker follows do not count). A room stands above all rooms that it imports. `declines`,
`errors`, `html`, `outside` and `remarks`, which every room may import, are left out.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "tawa"
_WIDTH, _NAME = 118, 12
_EVERYWHERE = ("declines", "errors", "html", "outside", "remarks")


def rooms() -> dict[str, list[Path]]:
    """The modules of each room of `tawa`, by its name; a module that stands alone is a room, too."""
    found = {path.stem: [path] for path in SOURCE.glob("*.py") if path.stem != "__init__"}
    found |= {path.parent.name: sorted(path.parent.rglob("*.py")) for path in SOURCE.glob("*/__init__.py")}
    return dict(sorted(found.items()))


def imported(module: Path) -> Iterator[str]:
    """The rooms that a module imports."""
    for node in executed(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tawa":
            parts = (node.module or "").split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tawa."))


def executed(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements of a module, without what stands under `if TYPE_CHECKING`."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.expr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        yield node
        left += reversed(list(ast.iter_child_nodes(node)))


@functools.cache
def graph() -> dict[str, set[str]]:
    """What each room imports of the others."""
    known = rooms()
    return {
        name: {it for module in modules for it in imported(module) if it in known and it != name}
        for name, modules in known.items()
    }


def height(name: str, edges: dict[str, set[str]], above: tuple[str, ...] = ()) -> int:
    """How many rooms lie below one, at most; raises ValueError where rooms import each other in a circle."""
    if name in above:
        raise ValueError(f"a circle of imports: {' → '.join((*above, name))}")
    return 1 + max((height(below, edges, (*above, name)) for below in edges[name]), default=-1)


def _holds(modules: list[Path]) -> str:
    first = next((it for it in modules if it.name == "__init__.py"), modules[0])
    return (ast.get_docstring(ast.parse(first.read_text())) or "").partition("\n")[0]


def _sub_rooms(modules: list[Path]) -> str:
    top = modules[0].parent if modules[0].parent != SOURCE else None
    if top is None:
        return ""
    return " · ".join(
        sorted(path.parent.name for path in modules if path.name == "__init__.py" and path.parent.parent == top)
    )


def drawing() -> str:
    """The house, ground floor last."""
    edges, known = graph(), rooms()
    lines: list[str] = []
    for name in sorted(known, key=lambda it: (-height(it, edges), it)):
        if name in _EVERYWHERE:
            continue
        below = [it for it in sorted(edges[name], key=lambda it: (-height(it, edges), it)) if it not in _EVERYWHERE]
        lines += _wrapped(name, _holds(known[name]))
        if sub := _sub_rooms(known[name]):
            lines += _wrapped("", f"[{sub}]")
        if below:
            lines += _wrapped("", f"↳ {', '.join(below)}")
    return "\n".join(lines)


def _wrapped(name: str, text: str) -> list[str]:
    first, *rest = textwrap.wrap(text, _WIDTH - _NAME)
    return [f"{name:{_NAME}}{first}", *(" " * _NAME + line for line in rest)]


if __name__ == "__main__":
    print(drawing())
