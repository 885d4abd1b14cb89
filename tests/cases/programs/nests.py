"""Random kernels: nested loops, branches and whiles, with dots anywhere, over two accumulators.

A nest is a tree of statements; `text` writes it as a kernel, `fills` counts its loads for given arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from hypothesis import strategies as st

from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, binary, compare, for_loop, kernel, op, store

Upper = Literal["n", "m", "two"]


@dataclass(frozen=True, slots=True)
class Step:
    """Two loads and a dot into accumulator 0 or 1."""

    accumulator: int


@dataclass(frozen=True, slots=True)
class Store:
    """An epilogue inside the nest: accumulator 0 is stored."""


@dataclass(frozen=True, slots=True)
class Loop:
    """``for i in range(upper)``."""

    upper: Upper
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """``while i < upper``: works on accumulators of its own, which it stores."""

    upper: Upper
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """``if`` the innermost loop variable is even (or n is, outside loops)."""

    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


Statement = Step | Store | Loop | While | Branch


def nests() -> st.SearchStrategy[tuple[Statement, ...]]:
    """Kernels with at least one load inside a loop."""
    leaves = st.sampled_from((Step(0), Step(0), Step(1), Store()))
    uppers = st.sampled_from(("n", "m", "two"))

    def grow(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
        some = st.lists(inner, min_size=1, max_size=3).map(tuple)
        few = st.lists(inner, max_size=2).map(tuple)
        return st.builds(Loop, uppers, some) | st.builds(Branch, few, few) | st.builds(While, uppers, some)

    loops = st.builds(
        Loop, uppers, st.lists(st.recursive(leaves, grow, max_leaves=5), min_size=1, max_size=3).map(tuple)
    )
    return st.lists(loops, min_size=1, max_size=2).map(tuple).filter(lambda nest: any(_steps(it) for it in nest))


def _steps(statement: Statement) -> bool:
    match statement:
        case Step():
            return True
        case Store():
            return False
        case Loop(_, body) | While(_, body):
            return any(map(_steps, body))
        case Branch(then, other):
            return any(map(_steps, (*then, *other)))


def fills(nest: tuple[Statement, ...], numbers: dict[str, int]) -> int:
    """The number of tile loads in a run with these arguments."""
    return _fills(nest, {**numbers, "two": 2}, numbers["n"])


def _fills(body: tuple[Statement, ...], numbers: dict[str, int], variable: int) -> int:
    total = 0
    for statement in body:
        match statement:
            case Step():
                total += 1
            case Store():
                pass
            case Loop(upper, inner) | While(upper, inner):
                total += sum(_fills(inner, numbers, index) for index in range(numbers[upper]))
            case Branch(then, other):
                total += _fills(then if variable % 2 == 0 else other, numbers, variable)
    return total


def text(nest: tuple[Statement, ...]) -> str:
    """The kernel; both accumulators are stored at the end."""
    writer = _Writer()
    lines, (first, second) = writer.body(nest, ("zeros", "zeros"), "n")
    total = op("arith.addf", f"%{first}, %{second}", f"{ACC}, {ACC}", "%total", ACC)
    return kernel("\n".join((*lines, total, store("total"))))


@dataclass
class _Writer:
    numbers: Iterator[int] = field(default_factory=count)

    def body(
        self, statements: tuple[Statement, ...], accs: tuple[str, str], variable: str
    ) -> tuple[list[str], tuple[str, str]]:
        lines: list[str] = []
        for statement in statements:
            more, accs = self.statement(statement, accs, variable)
            lines += more
        return lines, accs

    def statement(
        self, statement: Statement, accs: tuple[str, str], variable: str
    ) -> tuple[list[str], tuple[str, str]]:
        tag = f"x{next(self.numbers)}"
        match statement:
            case Step(which):
                lines = [programs.iteration(accs[which], f"next{tag}", tag, f"%zero, %{variable}")]
                return lines, (f"next{tag}", accs[1]) if which == 0 else (accs[0], f"next{tag}")
            case Store():
                copy = op("arith.mulf", f"%{accs[0]}, %{accs[0]}", f"{ACC}, {ACC}", f"%out{tag}", ACC)
                return [copy, store(f"out{tag}")], accs
            case Loop(upper, inner):
                inside = (f"one{tag}", f"two{tag}")
                lines, after = self.body(inner, inside, f"i{tag}")
                carried = {name: (init, last, ACC) for name, init, last in zip(inside, accs, after, strict=True)}
                loop = for_loop(
                    "\n".join(lines), induction=f"i{tag}", upper=upper, carried=carried, results=f"%r{tag}:2"
                )
                return [loop], (f"r{tag}#0", f"r{tag}#1")
            case While(upper, inner):
                lines, _ = self.body((*inner, Store()), ("zeros", "zeros"), f"i{tag}")
                return [programs.while_loop("\n".join(lines), counter=f"i{tag}", upper=upper)], accs
            case Branch(then, other):
                blocks: list[str] = []
                for side in (then, other):
                    lines, (first, second) = self.body(side, accs, variable)
                    blocks.append("\n".join((*lines, f'"scf.yield"(%{first}, %{second}) : ({ACC}, {ACC}) -> ()')))
                lines = [
                    binary(f"odd{tag}", "remsi", variable, "two"),
                    compare(f"even{tag}", f"odd{tag}", "zero", 0),
                    f'%r{tag}:2 = "scf.if"(%even{tag}) ({{\n{blocks[0]}\n}}, {{\n{blocks[1]}\n'
                    f"}}) : (i1) -> ({ACC}, {ACC})",
                ]
                return lines, (f"r{tag}#0", f"r{tag}#1")
