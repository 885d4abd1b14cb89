"""Ten faults of a protocol, for programs with layouts: each is a kind of change, at every place where it applies.

Changes of mbarriers are those of ``tests/verify/mutations_barrier.py``; changes of named barriers edit the text of
inline assembly. A commit of a tcgen05 dot is an arrival, also where the dot makes it
(``tests/verify/mutations_tensor_memory.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.dialects.inline.effects import NamedBarrier, effects_of
from tawa.dialects.ttg import AsyncCopyGlobalToLocalOp, LocalLoadOp
from tawa.ir import Builder, Operation
from tests.verify.mutations_barrier import (
    copy_barrier,
    copy_target,
    flip_parity,
    next_slot,
    one_tile_less,
    one_tile_more,
)
from tests.verify.mutations_edits import (
    ARRIVE,
    COMMIT,
    COPY,
    DOT,
    DOT_WAIT,
    EXPECT,
    INIT,
    LOCAL_STORE,
    MMA,
    STORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT,
    Change,
    Edit,
    Kind,
    Mutant,
    add,
    all_mutants,
    before_the_wait,
    double,
    drop,
    place,
)
from tests.verify.mutations_tensor_memory import barrier_in_next_slot, before_the_dot, without_first_barrier

ASSEMBLY = ElementwiseInlineAsmOp.NAME
CP_ASYNC = AsyncCopyGlobalToLocalOp.NAME
LOCAL_LOAD = LocalLoadOp.NAME
_FILLS, _READS = (EXPECT, COPY, CP_ASYNC, LOCAL_STORE, TMEM_STORE), (DOT, LOCAL_LOAD, STORE, MMA, TMEM_LOAD)
_MEETING = re.compile(r"(bar(?:rier)?[.\w]*\s+)([\w$%]+)(\s*,\s*)(\d+)")
_WARP = 32


@dataclass(frozen=True, slots=True)
class Fault:
    """One of the ten: its name, and the kinds of change that make it."""

    name: str
    kinds: tuple[Kind, ...]

    def mutants(self, text: str) -> Iterator[Mutant]:
        """The program with this fault, once for each place."""
        return all_mutants(text, self.kinds)


def _where(holds: Callable[[Operation], bool], change: Change) -> Change:
    """The change, only at operations of which `holds` is true."""
    return lambda op: change(op) if holds(op) else None


def _waits_for_empty(op: Operation) -> bool:
    """Whether a wait comes before a write: what follows it in its block fills a buffer before anything reads one."""
    block, at = place(op)
    nested = (it.name for after in block.ops[at + 1 :] for it in after.walk())
    return next((name for name in nested if name in (*_FILLS, *_READS)), "") in _FILLS


def _waits_for_full(op: Operation) -> bool:
    return not _waits_for_empty(op)


def _meeting(op: Operation) -> NamedBarrier | None:
    """The named barrier of inline assembly, if it is at one."""
    found = effects_of(op)
    named = [it for it in found if isinstance(it, NamedBarrier)] if isinstance(found, tuple) else []
    return named[0] if len(named) == 1 else None


def _arrives_at(op: Operation) -> bool:
    named = _meeting(op)
    return named is not None and not named.waits


def _waits_at(op: Operation) -> bool:
    named = _meeting(op)
    return named is not None and named.waits


def _edit_meeting(op: Operation, new: Callable[[re.Match[str]], str]) -> Edit | None:
    text = op.properties["asm_string"]
    if _meeting(op) is None or not _MEETING.search(text):
        return None
    op.properties["asm_string"] = _MEETING.sub(new, text, count=1)
    return Edit()


def _more_threads(op: Operation) -> Edit | None:
    """Waits for, or counts, the threads of one warp more."""
    return _edit_meeting(op, lambda it: f"{it[1]}{it[2]}{it[3]}{int(it[4]) + _WARP}")


def _next_meeting(op: Operation) -> Edit | None:
    """Goes to the named barrier of the next number."""
    named = _meeting(op)
    if named is None:
        return None
    if isinstance(named.number, int):
        return _edit_meeting(op, lambda it: f"{it[1]}{int(it[2]) + 1}{it[3]}{it[4]}")
    builder = Builder.before(op)
    one = builder.constant(1, named.number.type)
    more = builder.create("arith.addi", (named.number, one), (named.number.type,)).result
    op.set_operand(op.operands.index(named.number), more)
    return Edit()


FAULTS: tuple[Fault, ...] = (
    Fault(
        "an arrival is missing",
        (
            Kind("drop", (ARRIVE, COMMIT), drop),
            Kind("drop", (ASSEMBLY,), _where(_arrives_at, drop)),
            Kind("without the first barrier", (MMA,), without_first_barrier),
        ),
    ),
    Fault(
        "an arrival is made twice",
        (Kind("double", (ARRIVE, COMMIT), double), Kind("double", (ASSEMBLY,), _where(_arrives_at, double))),
    ),
    Fault(
        "a wrong count of arrivals",
        (
            Kind("count of arrivals + 1", (INIT,), add("count", 1)),
            Kind("count of arrivals - 1", (INIT,), add("count", -1, least=1)),
        ),
    ),
    Fault("the other parity", (Kind("flip parity", (WAIT,), flip_parity),)),
    Fault(
        "no wait for full",
        (
            Kind("drop", (WAIT,), _where(_waits_for_full, drop)),
            Kind("drop", (ASSEMBLY,), _where(lambda op: _waits_at(op) and _waits_for_full(op), drop)),
        ),
    ),
    Fault(
        "no wait for empty",
        (
            Kind("drop", (WAIT,), _where(_waits_for_empty, drop)),
            Kind("drop", (ASSEMBLY,), _where(lambda op: _waits_at(op) and _waits_for_empty(op), drop)),
        ),
    ),
    Fault(
        "wrong transaction bytes",
        (
            Kind("one byte more", (EXPECT,), add("size", 1)),
            Kind("one tile more", (EXPECT,), one_tile_more),
            Kind("one tile less", (EXPECT,), one_tile_less),
        ),
    ),
    Fault(
        "the next slot",
        (
            Kind("next slot", (WAIT, ARRIVE, EXPECT, INIT, COMMIT), next_slot(0)),
            Kind("barrier in the next slot", (MMA,), barrier_in_next_slot),
            Kind("copy to the next slot", (COPY,), copy_target),
            Kind("copy signals the next slot", (COPY,), copy_barrier),
            Kind("next slot", (ASSEMBLY,), _next_meeting),
        ),
    ),
    Fault(
        "released before the dot is done",
        (
            Kind("before the wgmma is done", (ARRIVE,), before_the_wait),
            Kind("drop", (DOT_WAIT,), drop),
            Kind("before the dot", (COMMIT,), before_the_dot),
        ),
    ),
    Fault("a wrong count of threads at a named barrier", (Kind("one warp more", (ASSEMBLY,), _more_threads),)),
)
"""The ten faults."""
