"""Statements of the user's source, by line: their text, the comments above them, and the variable that they assign.

# a block of keys
k = load(            line 8   →   text `k = load(desc, [n, 0])`, comments (`# a block of keys`,), target `k`
    desc, [n, 0])
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field

from tawa.emit.python.text import WIDTH, cut


@dataclass(frozen=True, slots=True)
class Statement:
    """A simple statement, or the first lines of a loop or branch. comments: the lines of comments right above it."""

    text: str
    comments: tuple[str, ...] = ()
    target: str = ""


@dataclass
class Sources:
    """Reads the user's files, each once."""

    files: dict[str, dict[int, Statement]] = field(default_factory=dict[str, dict[int, Statement]])

    def statement(self, file: str, line: int) -> Statement | None:
        """The statement that this line is a part of; None for the head of a function and where there is no source."""
        if file not in self.files:
            self.files[file] = dict(_statements(linecache.getlines(file)))
        return self.files[file].get(line)


def _statements(lines: list[str]) -> Iterator[tuple[int, Statement]]:
    """Every line that belongs to a statement; of nested ones, the inner statement comes last."""
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return
    for node in ast.walk(tree):  # outer statements first
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
            end = max(end, node.lineno)
            found = Statement(_text(lines[node.lineno - 1 : end]), _comments(lines, node.lineno), _target(node))
            yield from ((line, found) for line in range(node.lineno, end + 1))


def _text(lines: list[str]) -> str:
    """The lines as one; a comment behind a statement stays only if it has one line."""
    if len(lines) == 1:
        return cut(lines[0].strip(), WIDTH)
    words = " ".join(line.partition("  #")[0].strip() for line in lines if not line.strip().startswith("#"))
    for bracket in "([{":
        words = words.replace(f"{bracket} ", bracket)
    for end in (",)", ", )", " )"):
        words = words.replace(end, ")")
    return cut(words.replace(" ]", "]"), WIDTH)


def _comments(lines: list[str], line: int) -> tuple[str, ...]:
    found: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.strip().startswith("#"):
            break
        found.insert(0, cut(text.strip(), WIDTH))
    return tuple(found)


def _target(node: ast.stmt) -> str:
    """The one variable that a statement assigns; empty for others."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""
