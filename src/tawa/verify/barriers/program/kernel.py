"""A barrier-level kernel, made ready to be unrolled many times: which operations matter to the protocol.

Protocol operations matter, with the numbers that decide slots, parities and predicates; so does the control flow
around them, whatever those numbers are computed from, and each use of a tile that a wgmma may still write. A descriptor
that is made in a loop lies in one place of global memory, which copies read: it counts as an allocation. Everything
else (pointers, tiles, epilogues) is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import NamedTuple

from tawa.dialects import ttg, ttng
from tawa.dialects.arith import ConstantOp, SelectOp
from tawa.dialects.builtin import AssumeOp, BranchOp, CondBranchOp, GpuBarrierOp, InlineAsmOp
from tawa.dialects.control_flow import deciding, flow_of
from tawa.dialects.declare.declaration import by_name, is_opaque, is_terminator, op_names
from tawa.dialects.scalars import Scalar, scalar_of
from tawa.dialects.scf import CONTROL, LOOPS, ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tawa.dialects.tt import INLINE, CallOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, MakeTensorDescOp, SameNumberOp
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import EndOp, GroupOp
from tawa.ir import Block, MemDescType, Module, Operation, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.verify.barriers.program.outcomes import outcome_of, picks_flag
from tawa.verify.data_dependent_loops import loops_ended_by_memory
from tawa.verify.not_modelled import not_modelled


class NotUnderstood(Exception):
    """The program cannot be unrolled; `op` is the operation that stands in the way."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op = op


class Memory(NamedTuple):
    """Part of an allocation: slot by slot from the outside in, then a box of what is left.

    `reshaped`: seen through another shape, so that it cannot be indexed further.
    """

    alloc: int
    path: tuple[int, ...] = ()
    box: tuple[tuple[int, int], ...] | None = None
    reshaped: bool = False


class Fewer(NamedTuple):
    """How many of its trips a loop is run with, and after how many all that it hands on is what it was."""

    trips: int
    again: int


NUMBER_OPS = by_name({GetProgramIdOp: "program_id", GetNumProgramsOp: "num_programs"})
_SYNCHRONISERS = op_names(GpuBarrierOp, ttg.BarrierOp, ttg.LocalBarrierOp, ttng.FenceMBarrierInitReleaseClusterOp)
_GLOBAL_ONLY = op_names(
    ttg.GlobalScratchAllocOp, ttng.TensormapCreateOp, ttng.TensormapFenceproxyAcquireOp, ttng.ReinterpretTensorDescOp
)
"""Descriptors that the kernel makes itself: global memory, and no part of the protocol."""
_OUTSIDE = _SYNCHRONISERS | _GLOBAL_ONLY | op_names(AssumeOp)
CLOSED = ("ttng.", "ttg.", "nvws.", "nvgpu.", "nvg.", "nvvm.", "gpu.", InlineAsmOp.NAME, CallOp.NAME)
_WRITERS_OF_FLOW = op_names(YieldOp, ConditionOp, BranchOp, CondBranchOp, ttg.WarpYieldOp, EndOp)
_FORKS = op_names(ttg.WarpSpecializeOp, GroupOp)
_STRUCTURE = CONTROL | _FORKS
PROTOCOL = op_names(
    ttng.InitBarrierOp,
    ttng.InvalBarrierOp,
    ttng.WaitBarrierOp,
    ttng.ArriveBarrierOp,
    ttng.BarrierExpectOp,
    ttng.AsyncTMACopyGlobalToLocalOp,
    ttng.AsyncTMACopyLocalToGlobalOp,
    ttng.AsyncTMAReduceOp,
    ttng.AsyncTMAStoreWaitOp,
    ttng.FenceAsyncSharedOp,
    ttg.LocalStoreOp,
    ttg.LocalLoadOp,
    ttg.LocalDeallocOp,
    ttg.AsyncCopyGlobalToLocalOp,
    ttg.AsyncCommitGroupOp,
    ttng.AsyncCopyMbarrierArriveOp,
    ttg.AsyncWaitOp,
    WarpGroupDotOp,
    ttng.WarpGroupDotWaitOp,
)
"""The operations that take part in the protocol."""


def number_key(op: Operation) -> str:
    """What a program's index, or the number of programs, is called: ``program_id(0)``."""
    return f"{NUMBER_OPS[op.name]}({read_int(op.properties.get('axis', '0 : i32'))})"


class BarrierProgram:
    """A kernel, made ready to be unrolled many times: which operations matter and how values flow between regions.

    coarse: where memory decides how often a `while` goes round, in whatever way, that is chosen as a whole.
    shortened: loops that are run with fewer trips than they have (`barrier_shortened`); none unless somebody says so.
    """

    def __init__(self, module: Module, also: Collection[str] = (), coarse: bool = False) -> None:
        self.module = module
        self.also = frozenset(also)
        functions = [op for op in module.body.ops if op.name == FuncOp.NAME]
        if len(functions) != 1:
            raise NotUnderstood(f"the module has {len(functions)} functions, not one", module.op)
        self.function = functions[0]
        self.entry = self.function.regions[0].blocks[0]
        if (stop := not_modelled(module)) is not None:
            raise NotUnderstood(stop.reason, stop.op)
        self.ops = list(self.function.walk())
        self._require_known_operations()
        self.allocations: list[Operation] = []
        self.described: list[Operation] = []
        self.carried = flow_of(self.ops)
        self.ended_by_memory = loops_ended_by_memory(self.ops, anywhere=coarse)
        self.guards = _guards(self.ops)
        self.kept: set[Operation] = set()
        self.needed: set[Value] = set()
        self._find_kept()
        self.leaves = self._leaves()
        self.most_in_flight = max(
            (read_int(op.properties["pendings"]) for op in self.kept if op.name == ttng.WarpGroupDotWaitOp.NAME),
            default=0,
        )
        self.assumes = any(op.name == AssumeOp.NAME for op in self.kept)
        self.loops = [op for op in self.ops if (op.name == ForOp.NAME or op.name == WhileOp.NAME) and op in self.kept]
        self.outer_loops = {outer for op in self.loops for outer in op.ancestors() if outer in self.kept}
        self.depth = self._deepest_ring()
        self.shortened: dict[Operation, Fewer] = {}
        self.constants = self._constants()
        self.alloc_numbers = {op: number for number, op in enumerate((*self.allocations, *self.described))}
        self.plans: dict[Block, list[tuple[Callable[..., None], Operation]]] = {}
        self._scalars: dict[Operation, Scalar | None] = {}
        self.decisions: list[Operation] = [op for op in self.ops if self._decides(op)]
        self._trees: dict[Value, int | None] = {}
        self._numbers: dict[tuple[str, ...], int] = {}

    def name_of(self, memory: Memory) -> str:
        """What people call an allocation: the name it has in the text."""
        op = (*self.allocations, *self.described)[memory.alloc]
        return op.result.hint or f"alloc{memory.alloc}"

    def _require_known_operations(self) -> None:
        """An unknown operation counts even where no run reaches it: it may take part in the protocol."""
        for op in self.ops:
            if op.name not in self.also and is_opaque(op.name) and not _is_known_here(op.name):
                if any("!ttg.memdesc" in value.type for value in (*op.operands, *op.results)):
                    raise NotUnderstood(f"{op.name} touches shared memory in a way this check does not know", op)
                raise NotUnderstood(f"{op.name} is not known to this check", op)

    # -- what matters ------------------------------------------------------------------------------------------------

    def _find_kept(self) -> None:
        tiles = self._tiles_in_flight()
        work: list[Value] = []
        for op in self.ops:
            if op.name == ttg.LocalAllocOp.NAME:
                self.allocations.append(op)
            if op.name == MakeTensorDescOp.NAME and any(outer.name in LOOPS for outer in op.ancestors()):
                self.described.append(op)
                self._keep(op, work)
            kind = "protocol" if op.name in self.also else _kind(op, tiles)
            if kind == "ignore":
                continue
            self._keep(op, work)
            work += _decisive(op) if kind == "protocol" else []
        for op in self.ops:
            if op.name == IfOp.NAME and any(result in tiles for result in op.results):
                self._keep(op, work)  # which of two tiles it hands on
        for block in self.function.regions[0].blocks:
            if block.terminator.name == CondBranchOp.NAME:
                work.append(CondBranchOp(block.terminator).condition)
        self._close(work)
        leaves = set(self._leaves())
        for op in self.ops:
            if op.name == AssumeOp.NAME and self._arguments_behind(AssumeOp(op).condition) <= leaves:
                self._keep(op, work)
                work.append(AssumeOp(op).condition)
        self._close(work)

    def tree(self, value: Value) -> int | None:
        """A number for the operations that compute `value` from arguments and program ids: the same for the same tree.

        None where something else comes in: a loop's variable, a number from memory. What has a tree has one value in a
        run, whichever partition computes it.
        """
        if value not in self._trees:
            self._trees[value] = None  # while it is looked at: a cycle has no tree
            self._trees[value] = self._find_tree(value)
        return self._trees[value]

    def _find_tree(self, value: Value) -> int | None:
        op = value.defining_op
        if op is None:
            sources = self.carried.get(value, ())
            if len(sources) == 1:
                return self.tree(sources[0])
            key = ("argument", str(value.index)) if value in self.entry.args else None
            return None if key is None else self._numbers.setdefault(key, len(self._numbers))
        if op.regions or len(op.results) != 1 or not (op.name.startswith("arith.") or op.name in NUMBER_OPS):
            return None
        operands = [self.tree(operand) for operand in op.operands]
        if None in operands:
            return None
        key = (op.name, str(sorted(op.properties.items())), *map(str, operands))
        return self._numbers.setdefault(key, len(self._numbers))

    def _arguments_behind(self, value: Value) -> set[Value]:
        """The kernel arguments and other unknowns that a number depends on."""
        found: set[Value] = set()
        seen: set[Value] = set()
        work = [value]
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            op = value.defining_op
            work += self.carried.get(value, ())
            if op is None or not (op.name.startswith("arith.") or op.name in NUMBER_OPS or SameNumberOp.matches(op)):
                found.update([value] if value not in self.carried else [])
            else:
                work += op.operands
        return found

    def _close(self, work: list[Value]) -> None:
        """Everything that the numbers in `work` are computed from matters too."""
        while work:
            value = work.pop()
            if value in self.needed:
                continue
            self.needed.add(value)
            work += self.carried.get(value, ())
            op = value.defining_op or value.owner
            if isinstance(op, Operation):
                self._keep(op, work)
                if op.name not in _STRUCTURE:
                    work += [operand for operand in op.operands if is_number(operand.type)]
            elif op.parent_op is not None and op.parent_op.name in _STRUCTURE:
                self._keep(op.parent_op, work)

    def _keep(self, op: Operation, work: list[Value]) -> None:
        """Keeps `op` and the control flow around it, and asks for the numbers that decide that control flow."""
        outer: Operation | None = op
        while outer is not None and outer not in self.kept:
            self.kept.add(outer)
            decides = deciding(outer)
            self.kept.update(use.op for use in decides)  # the `scf.condition` of a `while`
            if outer not in self.guards and outer not in self.ended_by_memory:
                work += [use.value for use in decides]
            outer = outer.parent_op

    def _tiles_in_flight(self) -> set[Value]:
        """Values that an asynchronous wgmma may still write, wherever they are carried."""
        found: set[Value] = set()
        forward: dict[Value, list[Value]] = {}
        for target, sources in self.carried.items():
            for source in sources:
                forward.setdefault(source, []).append(target)
        work = [op.result for op in self.ops if op.name == WarpGroupDotOp.NAME and WarpGroupDotOp(op).is_async]
        while work:
            value = work.pop()
            if value in found:
                continue
            found.add(value)
            work += forward.get(value, ())
            for use in value.uses:
                if use.op.name == ttng.WarpGroupDotWaitOp.NAME:
                    work.append(use.op.results[use.index])
                elif chooses_tile(use.op):
                    work.append(use.op.result)
        return found

    def _leaves(self) -> list[Value]:
        """The arguments of the kernel that control flow depends on."""
        return [arg for arg in self.entry.args if arg in self.needed and not arg.type.startswith("!")]

    def _constants(self) -> dict[Value, int]:
        """The numbers that stand in the program."""
        found: dict[Value, int] = {}
        for op in self.ops:
            compute = scalar_of(op) if op.name == ConstantOp.NAME and op in self.kept else None
            number = compute() if compute is not None else None
            if number is not None:
                found[op.result] = number
        return found

    def _deepest_ring(self) -> int:
        """The largest number of mbarriers in a row: D."""
        types = [parse_type(op.result.type) for op in self.allocations]
        rows = [it.shape for it in types if isinstance(it, MemDescType) and it.element == "i64" and len(it.shape) > 1]
        return max((shape[0] for shape in rows), default=1)

    def _decides(self, op: Operation) -> bool:
        """Whether `op` is one whose outcomes are taken down (`barrier_outcomes`)."""
        if op not in self.kept:
            return False
        return op.name == ForOp.NAME or ((outcome_of(op) is not None or picks_flag(op)) and self.scalar(op) is not None)

    def kept_in(self, block: Block) -> list[Operation]:
        """The operations of a block that matter, without its terminator and `constants`."""
        kept, constants = self.kept, self.constants
        return [op for op in block.ops[:-1] if op in kept and not (op.results and op.results[0] in constants)]

    def scalar(self, op: Operation) -> Scalar | None:
        """What a scalar operation computes; None where it is none."""
        if op not in self._scalars:
            self._scalars[op] = scalar_of(op)
        return self._scalars[op]


def _guards(ops: list[Operation]) -> dict[Operation, Block]:
    """The branches around the partitions, each with the block that leads to them, where the other one does nothing.

    What they are decided by is of no interest: without the partitions nothing happens that could go wrong.
    """
    found: dict[Operation, Block] = {}
    for fork in ops:
        inside = fork.parent
        for op in fork.ancestors() if fork.name in _FORKS else ():
            blocks = [block for region in op.regions for block in region.blocks if block is not inside]
            others = [inner for block in blocks for it in block.ops for inner in it.walk()]
            if op.name == IfOp.NAME and not op.results and inside and not any(it.name in PROTOCOL for it in others):
                found[op] = inside
            inside = op.parent
    return found


def _decisive(op: Operation) -> list[Value]:
    """The numbers that a protocol operation depends on: its predicate; the parity of a wait, the slot of a view."""
    found = [operand for operand in op.operands if operand.type == "i1"]
    if wait := ttng.WaitBarrierOp.of(op):
        found.append(wait.parity)
    elif view := ttg.MemDescIndexOp.of(op):
        found.append(view.index)
    found += [operand for operand in op.operands if operand.type.startswith("!aref.index")]
    return found


def is_number(type: str) -> bool:
    """Whether a value of this type may be a number: neither a tile nor memory nor a descriptor."""
    return not type.startswith(("tensor<", "!ttg.memdesc", "!tt.tensordesc"))


def chooses_tile(op: Operation) -> bool:
    """Whether `op` hands on one of two tiles as it is, like the yields of an ``scf.if``."""
    select = SelectOp.of(op)
    return select is not None and select.condition.type == "i1" and op.result.type.startswith("tensor<")


def _kind(op: Operation, tiles: set[Value]) -> str:
    """protocol: an event, all scalar operands matter. value: kept for its result or its uses. ignore: neither."""
    kind = _kind_by_name(op.name)
    if kind:
        return kind
    for operand in op.operands:
        if operand in tiles or "!ttg.memdesc" in operand.type:
            return "value"
    return "value" if any("!ttg.memdesc" in result.type for result in op.results) else "ignore"


def _is_known_here(name: str) -> bool:
    """Whether it is no part of the protocol, or structure around it, though no dialect declares what it does.

    Assembly computes on registers, or `not_modelled` has found it.
    """
    return any(name in known for known in (_STRUCTURE, _WRITERS_OF_FLOW, _OUTSIDE, PROTOCOL, INLINE))


@cache
def _kind_by_name(name: str) -> str:
    """What an operation is whatever its operands are; empty where these decide."""
    if name in PROTOCOL or name in VIEWS or name == ttg.LocalAllocOp.NAME:
        return "protocol"
    if (_is_known_here(name) and name not in INLINE) or is_terminator(name):
        return "ignore"
    return "value" if is_opaque(name) and name.startswith(CLOSED) else ""
