"""The names of a program for a mapping: its loads, stores and loops, with their lines.

    load    k.1      the second load of the argument k, in program order
    loop    n        the loop over n in the source; n.0, n.1 if there are several; "line 42" by its line

Induction variables are not in the IR: they are read from the source, at the location of the loop.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from tawa.analysis.names import LOADS, STORES, Name, argument_of, loop_number, name_module, name_of
from tawa.dialects.declare.declaration import global_address
from tawa.dialects.parameters import parameter_name
from tawa.dialects.scf import LOOPS, enclosing_loops
from tawa.dialects.tt import DOTS, AtomicCASOp, AtomicRMWOp, DescriptorLoadOp, DescriptorStoreOp, DotOp, FuncOp
from tawa.ir import Module, Operation, TensorDescType, Value, parse_type, source_of
from tawa.ir.locations import resolve
from tawa.ir.text import match_bracket
from tawa.ir.types import TRITON_NAMES

_CALLSITE = re.compile(r"callsite\((.*) at .*\)", re.DOTALL)
_POINTER = re.compile(r"!tt\.ptr<(.*?)(?:, \d+)?>")
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)', re.DOTALL)
_T = TypeVar("_T")
_MOST = 16
"""The most call sites and aliases that are followed."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store. key: its name in a Plan. text: its name in a mapping. tma: whether it uses a descriptor.

    made: whether the kernel makes that descriptor. line: file:line.
    """

    key: Name
    text: str
    tma: bool
    made: bool
    line: str


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with dots. number: in a Plan. text: its name in a mapping. lines: that name it. line: file:line.

    left: the loads of the left operand of each dot, in program order; None where it is computed. inside: the loads in
    the loop.
    """

    number: int
    text: str
    lines: tuple[int, ...]
    line: str
    left: tuple[Name | None, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """An access of memory that has no entry in a Plan: an atomic. loop: the innermost loop around it."""

    argument: str
    loop: int | None


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as a mapping sees it. line: file:line. types: run-time arguments with their types, by name.

    lefts, rights: the arguments whose loads are left and right operands of dots. plain: loops without dots, in words.
    """

    name: str
    line: str
    types: dict[str, str]
    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    loops: tuple[Loop, ...]
    atomics: tuple[Touch, ...]
    lefts: tuple[str, ...]
    rights: tuple[str, ...]
    plain: tuple[str, ...]

    @property
    def place(self) -> str:
        """The kernel, for messages."""
        return f"{self.name} ({short(self.line)})" if self.line else self.name

    def load(self, key: Name) -> Access | None:
        """The load of that name in a Plan."""
        return next((it for it in self.loads if it.key == key), None)

    def loop(self, number: int | None) -> Loop | None:
        """The loop of that number in a Plan."""
        return next((it for it in self.loops if it.number == number), None)

    @property
    def signature(self) -> str:
        """The types of the run-time arguments, in Triton's notation."""
        return ", ".join(f"{name}={type}" for name, type in self.types.items())


def program_of(module: Module) -> Program:
    """The names of a structured module in TTIR; gives its operations their names."""
    name_module(module)
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    ops = list(function.op.walk())
    numbered = {number: op for op in ops if op.name in LOOPS and (number := loop_number(op)) is not None}
    dots = [op for op in ops if op.name in DOTS]
    own = {number: [dot for dot in dots if _innermost(dot) is loop] for number, loop in numbered.items()}
    with_dots = {number: loop for number, loop in numbered.items() if own[number]}
    variables = {number: variable_of(module, loop) for number, loop in numbered.items()}
    texts = _numbered_texts(
        [(number, variables[number] or f"line {_line_of(module, loop)}") for number, loop in with_dots.items()]
    )
    loops = tuple(
        Loop(
            number, texts[number], _lines(module, loop), str(source_of(module, loop) or ""),
            tuple(_left(dot) for dot in own[number]),
        )
        for number, loop in with_dots.items()
    )  # fmt: skip
    plain = tuple(variables[number] or f"line {_line_of(module, it)}" for number, it in numbered.items())
    views = [view for dot in dots if (view := DotOp.of(dot))]
    return Program(
        function.name,
        str(source_of(module, function.op) or ""),
        _types(module, function),
        _accesses(module, [op for op in ops if op.name in LOADS]),
        _accesses(module, [op for op in ops if op.name in STORES]),
        loops,
        tuple(_atomics(module, ops)),
        tuple(dict.fromkeys(_argument(view.a) for view in views)),
        tuple(dict.fromkeys(_argument(view.b) for view in views)),
        tuple(it for number, it in zip(numbered, plain, strict=True) if number not in with_dots),
    )


def short(line: str) -> str:
    """``/home/me/fa.py:18`` → ``fa.py:18``."""
    return PurePath(line).name


# -- loads and stores --------------------------------------------------------------------------------------------------


def _accesses(module: Module, ops: list[Operation]) -> tuple[Access, ...]:
    keyed = {op: key for op in ops if (key := name_of(op))[0] is not None}
    texts = _numbered_texts([(op, str(key[0])) for op, key in keyed.items()])
    found: list[Access] = []
    for op, key in keyed.items():
        view = DescriptorLoadOp.of(op) or DescriptorStoreOp.of(op)
        made = view is not None and isinstance(view.descriptor.owner, Operation)
        line = str(source_of(module, op) or "")
        found.append(Access(key, texts[op], view is not None, made, line))
    return tuple(found)


def _numbered_texts(named: list[tuple[_T, str]]) -> dict[_T, str]:
    """The names, with a number where there are several of one name."""
    names = [name for _, name in named]
    found: dict[_T, str] = {}
    for at, (it, name) in enumerate(named):
        found[it] = name if names.count(name) == 1 else f"{name}.{names[:at].count(name)}"
    return found


def _atomics(module: Module, ops: list[Operation]) -> Iterator[Touch]:
    for op in ops:
        if AtomicRMWOp.of(op) or AtomicCASOp.of(op):
            loop = next((it for it in map(loop_number, enclosing_loops(op)) if it is not None), None)
            yield Touch(argument_of(module, global_address(op)), loop)


def _types(module: Module, function: FuncOp) -> dict[str, str]:
    """The first block argument of each parameter: a descriptor brings its shape and strides along."""
    found: dict[str, str] = {}
    for argument in function.body.args:
        name = parameter_name(module, argument)
        found.setdefault(name, triton_type(argument.type))
    return found


def triton_type(text: str) -> str:
    """A type in Triton's notation."""
    described = parse_type(text)
    if isinstance(described, TensorDescType):
        element, sizes = described.described, ",".join(map(str, described.block.shape))
        return f"tensordesc<{TRITON_NAMES.get(element, element)}[{sizes}]>"
    if found := _POINTER.fullmatch(text):
        return f"*{TRITON_NAMES.get(found.group(1), found.group(1))}"
    return TRITON_NAMES.get(text, text)


def _left(dot: Operation) -> Name | None:
    """The load that a dot's left operand is; None if it is computed."""
    load = _load_of(dot.operands[0])
    return name_of(load) if load is not None else None


def _argument(value: Value) -> str:
    load = _load_of(value)
    return str(name_of(load)[0]) if load is not None else ""


def _load_of(value: Value) -> Operation | None:
    """The load that a tile comes from, through operations with one operand; None if it is computed otherwise."""
    for _ in range(_MOST):
        op = value.owner
        if not isinstance(op, Operation):
            return None
        if op.name in LOADS:
            return op if name_of(op)[0] is not None else None
        if len(op.operands) != 1:
            return None
        value = op.operands[0]
    return None


# -- loops -------------------------------------------------------------------------------------------------------------


def _innermost(op: Operation) -> Operation | None:
    return next(iter(enclosing_loops(op)), None)


def variable_of(module: Module, loop: Operation) -> str:
    """The name of a loop's induction variable in the source; empty for a while loop and where the source is missing."""
    place = innermost_place(module, loop.loc)
    if place is None:
        return ""
    linecache.checkcache(place[0])
    return _variables("".join(linecache.getlines(place[0]))).get(place[1], "")


def innermost_place(module: Module, loc: str) -> tuple[str, int] | None:
    """The file and line of a location in the function that contains it: the callee, if it was called."""
    for _ in range(_MOST):
        loc = module.locs.get(loc.strip(), loc).strip()
        if loc.startswith("loc(") and match_bracket(loc, 3) == len(loc):
            loc = loc[4:-1]
        elif found := _CALLSITE.fullmatch(loc) or _NAMED.fullmatch(loc):
            loc = found.group(1)
        else:
            break
    place = resolve(module, loc)
    return (place.file, place.line) if place is not None else None


@functools.lru_cache(maxsize=64)
def _variables(text: str) -> dict[int, str]:
    """The induction variables of a source, by each line of the head of their loop."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            for line in range(node.lineno, (node.iter.end_lineno or node.lineno) + 1):
                found[line] = node.target.id
    return found


def _lines(module: Module, loop: Operation) -> tuple[int, ...]:
    inner, outer = innermost_place(module, loop.loc), source_of(module, loop)
    return tuple(dict.fromkeys([*([inner[1]] if inner else []), *([outer.line] if outer else [])]))


def _line_of(module: Module, loop: Operation) -> int:
    return next(iter(_lines(module, loop)), 0)
