"""The source of a kernel, and which partition does what in each line.

    25  for k in range(0, K, BK):
    26      acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)       producer: TMA copy, barrier
                                                                    consumer: barrier, matrix multiply

The operations of the program that runs say so by their locations. An operation of a function that was inlined counts
for its own line and for the lines of the calls that lead there.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tawa.dialects.arith import ConstantOp
from tawa.dialects.declare.declaration import is_terminator, op_names
from tawa.dialects.scf import LOOPS
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, WarpSpecializeOp, partition_of
from tawa.dialects.warp import order_beside
from tawa.ir import Module, Operation
from tawa.ir.locations import frames_of, user_frames
from tawa.machine.classes import FREE
from tawa.plan import Plan
from tawa.sim.time.kinds import Kind, Kinds

ALL_WARPS = "all warps"
"""Before the partitions start, and in a kernel without partitions."""
_NOTHING = FREE | VIEWS | op_names(ConstantOp)
_WORDS: dict[Kind, str] = {
    "tma": "TMA copy",
    "load": "load",
    "wgmma": "matrix multiply",
    "tensor memory": "tensor memory",
    "cuda core": "arithmetic",
    "epilogue": "epilogue, store",
    "barrier": "barrier",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source. work: what each partition does in it, in words; empty where nothing is executed."""

    number: int
    text: str
    work: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function of the kernel's source: the kernel itself, a function that it calls, or a partition in Gluon."""

    name: str
    file: str
    lines: tuple[Line, ...]


def source_of_kernel(module: Module | None, names: Mapping[str, str], start: str | None) -> tuple[SourceFunction, ...]:
    """The functions of a kernel, the kernel itself first, as far as their files are there.

    module: the program that runs; None if only the text is needed. names: of its partitions, for people. start: where
    the kernel begins, ``file:line``; None if unknown.
    """
    work = _work(module, names) if module is not None else {}
    places = list(work)
    if start is not None:
        file, _, line = start.rpartition(":")
        places.insert(0, (file, int(line)))
    functions = dict.fromkeys(found for file, line in places if (found := function_around(file, line)))
    return tuple(_with_work(it, work) for it in functions)


def names_of_plan(plan: Plan) -> dict[str, str]:
    """The Plan's names of the partitions of a program, which are numbered as `OutlinePartitions` orders them.

    Empty without partitions.
    """
    if not plan.partitions:
        return {}
    consumers = [it for it in plan.partitions if it.role == "consumer"]
    beside = [it for it in plan.partitions if it.role != "consumer"]
    beside.sort(key=lambda it: order_beside(it.num_warps, it.role))
    names = ["default", *(f"partition{number}" for number in range(len(plan.partitions) - 1))]
    return dict(zip(names, (it.name for it in (*consumers, *beside)), strict=True))


def _work(module: Module, names: Mapping[str, str]) -> dict[tuple[str, int], dict[str, tuple[str, ...]]]:
    """What each partition does, by file and line."""
    found: dict[tuple[str, int], dict[str, dict[str, None]]] = {}
    kinds = Kinds()
    kernels = [place for op in module.body.ops if FuncOp.matches(op) for place in frames_of(module, op)]
    for op, partition in _executed(module):
        who, what = names.get(partition, partition), _words(op, kinds)
        for place in user_frames(module, op):
            # An operation that serves no line is at the kernel's; and partitions in Gluon are called there.
            if place not in kernels:
                own = found.setdefault((place.file, place.line), {}).setdefault(who, {})
                own[what] = None
    return {place: {who: tuple(what) for who, what in work.items()} for place, work in found.items()}


def _executed(module: Module) -> Iterator[tuple[Operation, str]]:
    """The operations that cost something, and the partitions that execute them."""
    started = not any(WarpSpecializeOp.matches(op) for op in module.walk())
    alone = started
    for op in module.walk():
        if WarpSpecializeOp.matches(op):
            started = True
        elif op.name in LOOPS or not (op.regions or op.name in _NOTHING or is_terminator(op.name)):
            inside = partition_of(op)
            name = "default" if inside is None else f"partition{inside[1]}"
            yield op, ALL_WARPS if alone or not started else name


def _words(op: Operation, kinds: Kinds) -> str:
    if op.name in LOOPS:
        return "loop"
    scalar = bool(op.results) and not any("tensor<" in it.type or "memdesc" in it.type for it in op.results)
    kind = kinds.of(op)
    return "numbers" if scalar and kind in ("cuda core", "epilogue") else _WORDS[kind]


# --- the text ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    file: str
    first: int
    last: int


def function_around(file: str, line: int) -> _Function | None:
    """The innermost function that contains a line of a file or notebook cell; None for a line outside of functions."""
    around = [it for it in _functions(file, _stamp(file)) if it.first <= line <= it.last]
    return max(around, key=lambda it: it.first) if around else None


def _stamp(file: str) -> int:
    """Changes with the text of the file."""
    linecache.checkcache(file)
    return hash(tuple(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _functions(file: str, stamp: int) -> tuple[_Function, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (ValueError, SyntaxError):
        return ()
    found = [it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef)]
    starts = [min([it.lineno, *(decorator.lineno for decorator in it.decorator_list)]) for it in found]
    return tuple(
        _Function(it.name, file, start, it.end_lineno or it.lineno) for start, it in zip(starts, found, strict=True)
    )


def _with_work(function: _Function, work: Mapping[tuple[str, int], Any]) -> SourceFunction:
    numbers: Sequence[int] = range(function.first, function.last + 1)
    lines = (
        Line(number, linecache.getline(function.file, number).rstrip("\n"), work.get((function.file, number), {}))
        for number in numbers
    )
    return SourceFunction(function.name, function.file, tuple(lines))
