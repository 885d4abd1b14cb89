"""What fills registers while a loop runs that does not need it: tiles that are needed behind it only, for instance.

%g = load                       fills registers while the loop runs
for …
%q = load                       waits for memory when nothing else is to be done
… %g … %q …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.analysis.memory.provenance import Root, memory_roots
from tawa.dialects.declare.declaration import address_of
from tawa.dialects.effects import effects_of, is_plain_load, is_pure
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import ATOMICS, DOTS, LoadOp
from tawa.ir import Module, Operation
from tawa.symbolic.dim_relations import has_rows


@dataclass(frozen=True, slots=True)
class WrittenInfo:
    """What a kernel writes: the roots, None if one is unknown. ordered: whether it has atomics."""

    roots: frozenset[Root] | None
    ordered: bool

    @staticmethod
    def of(module: Module) -> WrittenInfo:
        """What the kernel of a module writes."""
        roots: set[Root] | None = set()
        ordered = False
        for op in module.walk():
            ordered |= op.name in ATOMICS
            for effect in effects_of(op) if not op.regions else ():
                if effect.kind == "any":
                    roots = None
                elif effect.kind == "write" and effect.space == "global":
                    address = address_of(op, effect)
                    found = memory_roots(address) if address is not None else None
                    roots = roots | set(found) if roots is not None and found is not None else None
        return WrittenInfo(frozenset(roots) if roots is not None else None, ordered)

    def may_move(self, load: LoadOp) -> bool:
        """Whether a load gives the same wherever it is executed."""
        roots = memory_roots(load.pointers)
        return not self.ordered and self.roots is not None and roots is not None and not self.roots & set(roots)


def has_loads_around_loops(module: Module) -> bool:
    """Whether a loop of a kernel has such loads."""
    written = WrittenInfo.of(module)
    return any(True for op in module.walk() if (loop := ForOp.of(op)) for _ in loads_around(loop, written))


def has_dots_before_loops(module: Module) -> bool:
    """Whether a dot stands before a loop that loads tiles: the addresses of the loop fill registers while it runs."""
    return any(_is_behind_dot(loop) for op in module.walk() if (loop := ForOp.of(op)))


def _is_behind_dot(loop: ForOp) -> bool:
    block = loop.op.parent
    assert block is not None
    before = block.ops[: block.index_of(loop.op)]
    last = max((index for index, op in enumerate(before) if op.regions), default=-1)
    loads = (load for op in loop.body.ops if (load := LoadOp.of(op)))
    return any(op.name in DOTS for op in before[last + 1 :]) and any(it.tile is not None for it in loads)


def loads_around(loop: ForOp, written: WrittenInfo) -> Iterator[LoadOp]:
    """The loads beside a loop whose tiles are used behind it only, and whose addresses do not depend on it.

    Left out: loads of memory from which a loop behind them loads rows.
    """
    block = loop.op.parent
    assert block is not None
    at = block.index_of(loop.op)
    following = next((i for i in range(at + 1, len(block.ops)) if ForOp.matches(block.ops[i])), len(block.ops))
    for index, op in enumerate(block.ops[:following]):
        load = LoadOp.of(op)
        if load is None or not is_plain_load(op) or load.tile is None or not has_rows(op.result):
            continue
        if not written.may_move(load) or _brings_rows(load, block.ops[index:]):
            continue
        if index < at:
            if op.result.uses and users_before(load, loop) is not None:
                yield load
        elif slice_behind(load, loop) is not None:
            yield load


def _brings_rows(load: LoadOp, following: Sequence[Operation]) -> bool:
    """Whether loops load rows of the same memory: a load leaves them in L1, and a copy by cp.async does not."""
    roots = set(memory_roots(load.pointers) or ())
    inner = (LoadOp.of(op) for loop in following if ForOp.matches(loop) for op in loop.walk())
    rows = (it for it in inner if it is not None and it.tile is not None and not has_rows(it.op.result))
    return any(roots & set(memory_roots(it.pointers) or ()) for it in rows)


def users_before(load: LoadOp, loop: ForOp) -> list[Operation] | None:
    """What is computed from a load before a loop, in order, but can be computed behind it; None if some cannot."""
    block = loop.op.parent
    assert block is not None
    at = block.index_of(loop.op)
    found: dict[Operation, None] = {}
    work = [load.op]
    while work:
        for user in work.pop().result.users:
            beside = user.within(block)
            if beside is None or beside is loop.op:
                return None
            if beside in found or block.index_of(beside) > at:
                continue
            if not is_pure(user) or user.regions or user.parent is not block or len(user.results) != 1:
                return None
            found[user] = None
            work.append(user)
    return sorted(found, key=block.index_of)


def slice_behind(load: LoadOp, loop: ForOp) -> list[Operation] | None:
    """What a load behind a loop needs of what is computed behind it, in order; None if that depends on the loop."""
    block = loop.op.parent
    assert block is not None
    at = block.index_of(loop.op)
    found: dict[Operation, None] = {}
    work = list(load.op.operands)
    while work:
        op = work.pop().defining_op
        if op is None or op in found or op.parent is not block or block.index_of(op) < at:
            continue
        if op is loop.op or op.regions or not is_pure(op):
            return None
        found[op] = None
        work += op.operands
    return sorted(found, key=block.index_of)
