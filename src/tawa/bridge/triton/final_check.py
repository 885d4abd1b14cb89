"""The check of the final TTGIR: Triton's passes after Tawa's must not invalidate what the checks proved.

    proved, barrier level            final TTGIR
    %q = ttg.local_load %slot        ttng.arrive_barrier %released
    ttng.arrive_barrier %released    scf.for … {
    scf.for … {                        %q = ttg.local_load %slot       the slot may be filled again already

Triton's ``tritongpu-reorder-instructions`` moves reads of shared memory; it does not know who else writes a slot. The
*order* of a program is the sequence of its operations on shared memory and barriers, each with its partition, the loops
and branches around it, and the allocation that it accesses. If the final program has the order of the barrier level,
nothing moved, and the proof holds for it too. Triton may add fences and copies to allocations of its own. Comparing
costs one search in a text that is made anyway. If the order is another, the barrier check runs on the final program: it
proves a read that moved within the lifetime of its slot, and refutes any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from tawa.bridge.triton.generic_print import print_generic
from tawa.dialects.control_flow import incoming
from tawa.dialects.scf import CONTROL
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import VIEWS, LocalAllocOp, WarpSpecializeOp
from tawa.dialects.ttng import InitBarrierOp, WarpGroupDotWaitOp
from tawa.ir import Module, Operation, Region, Value, parse_module
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Verdict

Token = tuple[int, int, str]
"""One operation: the region of its partition (0: the function itself), its depth there, and its name."""

_BRANCH = "|"
"""Between the regions of one operation."""
_ROOT = " of "
"""Between the name of an operation and the number of the allocation that it accesses."""
_EFFECTS = r"local_load|local_store|local_dealloc|async_copy_global_to_local|async_commit_group|async_wait|barrier"
_SHARED = re.compile(rf"ttng\.\w+|ttg\.(?:{_EFFECTS})")
_INIT = InitBarrierOp.NAME
_LINE = re.compile(
    rf"^( *)(?:(tt\.func|default \{{|partition\d+\(|\}} else \{{|\}} do \{{)|(?:(%[\w#:]+)[^=\n]* = )?"
    rf"(scf\.(?:for|if|while)|ttng\.\w+|ttg\.(?:{_EFFECTS}|local_alloc|warp_specialize|memdesc_\w+))\b[( ]*(%[\w#]+)?)",
    re.MULTILINE,
)
_NAME = re.compile(r"%[\w#]+")
_PARAMETER = re.compile(r"(%\w+): ")


def check_final(proved: Module, mod: Any, text: str) -> Verdict | None:
    """The verdict on a final program that is ordered differently from the one that was proved; None if it is not.

    proved: the barrier level. mod: Triton's module after all passes on TTGIR. text: how Triton prints it.
    """
    if same_order(order_of_module(proved), order_of_text(text)):
        return None
    module = parse_module(print_generic(mod))
    return check_barriers(module, effort="fast")


def same_order(proved: list[Token], final: list[Token]) -> bool:
    """Whether a final program only adds operations that access no allocation of the proved one."""
    rest = iter(final)
    for token in proved:
        for other in rest:
            if other == token:
                break
            if _ROOT in other[2]:
                return False
        else:
            return False
    return not any(_ROOT in name for _, _, name in rest)


# --- the order of a module of ours ------------------------------------------------------------------------------------


def order_of_module(module: Module) -> list[Token]:
    """The order of a program at the barrier level."""
    found: list[Token] = []
    for op in module.body.ops:
        view = FuncOp.of(op)
        if view:
            found += _of_region(op.regions[0], 0, 0, _shared_by_all(op))
    return _without_empty(found)


def _shared_by_all(function: Operation) -> dict[Value, int]:
    """The allocations before the partitions, with their numbers."""
    before = takewhile(lambda op: op.name != WarpSpecializeOp.NAME, function.walk())
    return {op.results[0]: place for place, op in enumerate(op for op in before if op.name == LocalAllocOp.NAME)}


def _of_region(region: Region, number: int, depth: int, allocs: dict[Value, int]) -> Iterator[Token]:
    for block in region.blocks:
        for op in block.ops:
            if op.name == WarpSpecializeOp.NAME:
                bodies = [op.regions[0], *(it for holder in op.regions[1].block.ops for it in holder.regions)]
                for place, body in enumerate(bodies, 1):
                    yield from _of_region(body, place, 0, allocs)
            elif op.name in CONTROL:
                yield number, depth, op.name
                for place, body in enumerate(op.regions):
                    if place:
                        yield number, depth, _BRANCH
                    yield from _of_region(body, number, depth + 1, allocs)
            elif op.name != _INIT and _SHARED.fullmatch(op.name):
                yield number, depth, _with_roots(op.name, _accessed(op, allocs))


def _accessed(op: Operation, allocs: dict[Value, int]) -> list[int]:
    """The numbers of the allocations that an operation accesses."""
    roots = (allocs.get(_root(it, allocs)) for it in op.operands if it.type.startswith("!ttg.memdesc"))
    return [root for root in roots if root is not None]


def _root(value: Value, allocs: dict[Value, int]) -> Value:
    """The allocation that a value views, through captures; the value itself if it is no view."""
    while value not in allocs:
        source = value.defining_op
        if source is not None and source.name in VIEWS:
            value = source.operands[0]
        elif source is None and len(captured := incoming(value)) == 1:
            value = captured[0].value
        else:
            break
    return value


# --- the order of Triton's text ---------------------------------------------------------------------------------------


def order_of_text(text: str) -> list[Token]:
    """The same of a program as Triton prints it: nested operations are indented by two spaces."""
    reader = _Reader(text)
    for match in _LINE.finditer(text):
        reader.read(match)
    return _without_empty(reader.found)


class _Reader:
    """One search: the place in the program, and the views in scope by name, each with its depth and its allocation."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Token] = []
        self.views: dict[str, tuple[int, int]] = {}
        self._function(0)

    def read(self, match: re.Match[str]) -> None:
        """One line."""
        spaces, mark, result, name, operand = match.groups()
        depth = len(spaces) // 2
        if mark == FuncOp.NAME:
            self._function(depth + 1)
        elif mark is not None and not mark.startswith("}"):
            self._partition(depth + 1, match.start(2))
        else:
            self._operation(depth, name or _BRANCH, result, operand, match.start(4))

    def _function(self, base: int) -> None:
        self.number, self.base, self.function = 0, base, base
        self.views.clear()
        self.outer: dict[str, tuple[int, int]] | None = None
        self.captures: list[str] = []
        self.allocs = 0

    def _partition(self, base: int, start: int) -> None:
        """Enters the region of a partition. All but the first are isolated from the values above."""
        outer = self.outer or {}
        self.number, self.base = self.number + 1, base
        self.views = dict(outer)
        if self.number > 1:
            inside = _PARAMETER.findall(_line(self.text, start))
            pairs = zip(inside, self.captures, strict=False)
            self.views = {new: (0, outer[old][1]) for new, old in pairs if old in outer}

    def _operation(self, depth: int, name: str, result: str, operand: str, start: int) -> None:
        if depth < self.base:
            self.number, self.base, self.views = 0, self.function, self.outer or {}
        while self.views and next(reversed(self.views.values()))[0] > depth:
            self.views.popitem()  # a name is used again behind its region
        if name == LocalAllocOp.NAME:
            if self.number == 0 and self.outer is None:
                self._name(result, depth, self.allocs)
                self.allocs += 1
        elif name in VIEWS:
            if operand in self.views:
                self._name(result, depth, self.views[operand][1])
        elif name == WarpSpecializeOp.NAME:
            self.outer = self.views
            self.captures = _NAME.findall(_line(self.text, start).partition(")")[0])
        elif name == _BRANCH or name in CONTROL:
            self.found.append((self.number, depth - self.base, name))
        elif name != _INIT:
            operands = _NAME.findall(_line(self.text, start).partition(" : ")[0])
            roots = [self.views[it][1] for it in operands if it in self.views]
            self.found.append((self.number, depth - self.base, _with_roots(name, roots)))

    def _name(self, result: str, depth: int, root: int) -> None:
        self.views.pop(result, None)  # to the end of the order
        self.views[result] = depth, root


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:end]


def _with_roots(name: str, roots: list[int]) -> str:
    """A name with the allocations. A wait for dots has none: Triton adds those that the dots read."""
    return name if name == WarpGroupDotWaitOp.NAME else "".join([name, *(f"{_ROOT}{root}" for root in sorted(roots))])


def _without_empty(tokens: list[Token]) -> list[Token]:
    """Without loops and branches that hold no operation of the order: Triton may simplify them."""
    kept: list[Token] = []
    for token in reversed(tokens):
        number, depth, name = token
        if name == _BRANCH or name in CONTROL:
            inner = kept[-1] if kept else (-1, 0, "")
            holds = inner[0] == number and (inner[1] > depth or (inner[1] == depth and inner[2] == _BRANCH))
            if not holds:
                continue
        kept.append(token)
    return kept[::-1]


__all__ = ["check_final", "order_of_module", "order_of_text"]
