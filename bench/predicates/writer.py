"""Writes MLIR's generic form: values with names, and constants once for each region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.predicates.terms import EXTEND, SELECT, Term, operation

INT, BOOL = "i32", "i1"


@dataclass
class Writer:
    """The lines so far. Constants stand at the start of the function or partition that uses them."""

    lines: list[str] = field(default_factory=list[str])
    named: int = 0
    depth: int = 1
    _constants: dict[str, str] = field(default_factory=dict[str, str])
    _top: tuple[int, int] = (0, 0)

    def name(self) -> str:
        """A new name of a value."""
        self.named += 1
        return f"%{self.named}"

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("  " * self.depth + text)

    def op(self, name: str, args: Sequence[str], types: Sequence[str], result: str = "", attributes: str = "") -> str:
        """Adds an operation; returns its result, if it has one."""
        made = self.name() if result else ""
        left = f"{made} = " if result else ""
        self.line(f'{left}"{name}"({", ".join(args)}){attributes} : ({", ".join(types)}) -> {result or "()"}')
        return made

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """A region that has its own constants."""
        outer = self._constants, self._top
        self._constants, self._top = {}, (len(self.lines), self.depth)
        yield
        self._constants, self._top = outer

    def constant(self, value: int | str, kind: str = INT) -> str:
        """A constant of a type."""
        key = f"{value} : {kind}"
        if key not in self._constants:
            self._constants[key] = made = self.name()
            at, depth = self._top
            text = str(value) if kind == BOOL else key
            self.lines.insert(at, "  " * depth + f'{made} = "arith.constant"() <{{value = {text}}}> : () -> {kind}')
        return self._constants[key]

    def term(self, it: Term, names: Mapping[str, str]) -> str:
        """Writes a term; names: of the values of its variables."""
        if it.op == "variable":
            return names[str(it.of)]
        if it.op == "constant":
            return self.constant(int(it.of))
        if it.op == "true":
            return self.constant("true", BOOL)
        found, args = operation(it.op), [self.term(arg, names) for arg in it.args]
        types = [BOOL if arg.is_truth else INT for arg in it.args]
        if it.op == "not":
            args, types = [*args, self.constant("true", BOOL)], [BOOL, BOOL]
        result = BOOL if it.is_truth else INT
        assert it.op not in (EXTEND, SELECT) or result == INT
        return self.op(found.name, args, types, result, found.attributes)
