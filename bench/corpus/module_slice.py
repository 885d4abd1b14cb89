"""Loads single functions from a script that runs a benchmark when it is imported.

Only the statements that bind the wanted names, and those that they depend on, are executed, in their order and with
their own line numbers, so that Triton finds the source of each kernel and remarks have the right location.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


def load_slice(path: Path, wanted: Iterable[str]) -> ModuleType:
    """A module with the wanted names of a script. Raises KeyError for a name that it does not bind at its top level."""
    text = path.read_text()
    tree = ast.parse(text, str(path))
    kept = slice_statements(tree.body, wanted)
    module = ModuleType(path.stem.replace("-", "_"))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(ast.Module(kept, []), str(path), "exec"), vars(module))
    return module


def slice_statements(body: list[ast.stmt], wanted: Iterable[str]) -> list[ast.stmt]:
    """The statements that `wanted` needs: imports, and whatever binds a name that a kept statement uses.

    If several statements bind a name, the last one before its use is kept; if that one is conditional (`if`), the one
    before it as well. A statement that binds nothing, such as a call, is left out.
    """
    bindings: dict[str, list[int]] = {}
    for at, statement in enumerate(body):
        for name in sorted(_bound(statement)):
            bindings.setdefault(name, []).append(at)
    keep = {at for at, statement in enumerate(body) if isinstance(statement, (ast.Import, ast.ImportFrom))}
    todo = [(name, len(body)) for name in wanted]
    for name, _ in todo:
        if name not in bindings:
            raise KeyError(name)
    while todo:
        name, user = todo.pop()
        places = bindings.get(name, [])
        before = [at for at in places if at < user] or places[:1]
        if not before or before[-1] in keep:
            continue
        keep.add(before[-1])
        at, statement = before[-1], body[before[-1]]
        early, late = _used(statement)
        todo += [(it, at) for it in sorted(early)] + [(it, len(body)) for it in sorted(late)]
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.AugAssign)):
            todo.append((name, at))
    return [body[at] for at in sorted(keep)]


def _used(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement uses when it is executed, and those that its functions use when they are called."""
    if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return _names(statement, ast.Load), set()
    early = {name for decorator in statement.decorator_list for name in _names(decorator, ast.Load)}
    own = _names(statement, ast.Store)
    own |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    annotations = {name for node in ast.walk(statement) if isinstance(node, ast.arg) and node.annotation
                   for name in _names(node.annotation, ast.Load)}  # fmt: skip
    return early | annotations, _names(statement, ast.Load) - own


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {it.id for it in ast.walk(node) if isinstance(it, ast.Name) and isinstance(it.ctx, context)}


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds at the top level of its module."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Expr):
        return set()
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return names
