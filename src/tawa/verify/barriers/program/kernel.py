"""A barrier-level kernel, prepared for repeated unrolling: the slice of operations that matter to the protocol.

The slice contains the protocol operations; the numbers that determine slots, parities and predicates, and everything
that these are computed from; the enclosing control flow; and each use of a tile that a wgmma may still write. A
descriptor that is created in a loop occupies one place in global memory, which copies read: it counts as an allocation.
Everything else (pointers, tiles, epilogues) is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import NamedTuple

from tawa.dialects import ttg, ttng
from tawa.dialects.arith import ConstantOp, SelectOp
from tawa.dialects.builtin import AssumeOp, BranchOp, CondBranchOp, GpuBarrierOp, InlineAsmOp
from tawa.dialects.control_flow import deciding, flow_of, outgoing
from tawa.dialects.declare.declaration import by_name, is_opaque, is_terminator, op_names
from tawa.dialects.inline.effects import NamedBarrier, acts, effects_of
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scalars import Scalar, scalar_of
from tawa.dialects.scf import CONTROL, LOOPS, ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tawa.dialects.tt import INLINE, CallOp, FuncOp, GetNumProgramsOp, GetProgramIdOp, LoadOp, MakeTensorDescOp
from tawa.dialects.ttg import VIEWS
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import EndOp, GroupOp
from tawa.ir import Block, MemDescType, Module, Operation, Region, Use, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.verify.barriers.program.names import allocation_names
from tawa.verify.barriers.program.outcomes import outcome_of, picks_flag
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.data_dependent_loops import loops_ended_by_memory
from tawa.verify.given_numbers import function_of, given_numbers
from tawa.verify.not_modelled import not_modelled


class NotUnderstood(Exception):
    """The program cannot be unrolled because of operation `op`."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op = op


class Memory(NamedTuple):
    """A region of an allocation: indices of the outer dimensions, then a box of the remaining ones.

    `reshaped`: a view of another shape, which cannot be indexed further. `view`: for each dimension of a view the one
    of the region, and how many elements of the region are one of the view along it; None for the region as it is.
    """

    alloc: int
    path: tuple[int, ...] = ()
    box: tuple[tuple[int, int], ...] | None = None
    reshaped: bool = False
    view: tuple[tuple[int, int], ...] | None = None

    @property
    def place(self) -> Memory:
        """The region, however it is viewed."""
        return Memory(self.alloc, self.path, self.box) if self.reshaped or self.view else self


NAMED = -1
"""The `alloc` of a named barrier, which is no allocation: the path of its `Memory` is its number."""


class Fewer(NamedTuple):
    """The trips that a shortened loop runs, and the period after which its loop-carried state recurs."""

    trips: int
    again: int


NUMBER_OPS = by_name({GetProgramIdOp: "program_id", GetNumProgramsOp: "num_programs"})
_SYNCHRONISERS = op_names(GpuBarrierOp, ttg.BarrierOp, ttg.LocalBarrierOp, ttng.FenceMBarrierInitReleaseClusterOp)
_GLOBAL_ONLY = op_names(
    ttg.GlobalScratchAllocOp, ttng.TensormapCreateOp, ttng.TensormapFenceproxyAcquireOp, ttng.ReinterpretTensorDescOp
)
"""Operations on descriptors that the kernel creates itself: global memory, not part of the protocol."""
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
    """The key of a program id or number of programs: ``program_id(0)``."""
    return f"{NUMBER_OPS[op.name]}({read_int(op.properties.get('axis', '0 : i32'))})"


class BarrierProgram:
    """A kernel, prepared for repeated unrolling: its protocol slice and the data flow between regions.

    coarse: the trip count of every `while` whose condition depends on memory is chosen, not computed.
    shortened: loops that run fewer trips than they have (`program.shortened`); set by the caller, empty by default.
    """

    def __init__(self, module: Module, also: Collection[str] = (), coarse: bool = False) -> None:
        self.module = module
        self.also = frozenset(also)
        functions = [op for op in module.body.ops if op.name == FuncOp.NAME]
        if len(functions) != 1:
            raise NotUnderstood(f"the module has {len(functions)} functions, not one", module.op)
        self.function = functions[0]
        self.entry = self.function.regions[0].blocks[0]
        if (stop := not_modelled(module, barriers=True)) is not None:
            raise NotUnderstood(stop.reason, stop.op)
        self.ops = list(self.function.walk())
        self._require_known_operations()
        self.allocations: list[Operation] = []
        self.described: list[Operation] = []
        self.crossed = crossed_numbers(self.ops)
        self.carried = {**flow_of(self.ops), **{value: [sent] for value, sent in self.crossed.sources.items()}}
        self.ended_by_memory = loops_ended_by_memory(self.ops, coarse, self.crossed)
        self.given = given_numbers(self.ops)
        found = ((op, function_of(op)) for op in self.ops)
        self.functions = {op: function for op, function in found if function is not None}
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
        self._names: list[str] = []
        self.plans: dict[Block, list[tuple[Callable[..., None], Operation]]] = {}
        self._scalars: dict[Operation, Scalar | None] = {}
        self.decisions: list[Operation] = [op for op in self.ops if self._decides(op)]
        self._trees: dict[Value, int | None] = {}
        self._numbers: dict[tuple[str, ...], int] = {}

    def name_of(self, memory: Memory) -> str:
        """The name of an allocation in messages."""
        if memory.alloc == NAMED:
            return "named barrier"
        if not self._names:
            self._names = allocation_names((*self.allocations, *self.described), self.ops, self.carried)
        return self._names[memory.alloc]

    def beyond(self, memory: Memory) -> tuple[int, int] | None:
        """The slot of an allocation that does not exist, and how many there are; None if all exist."""
        if not memory.path or not 0 <= memory.alloc < len(self.allocations):
            return None
        type = parse_type(self.allocations[memory.alloc].result.type)
        assert isinstance(type, MemDescType)
        slots = zip(memory.path, type.shape, strict=False)
        return next(((slot, size) for slot, size in slots if not 0 <= slot < size), None)

    def _require_known_operations(self) -> None:
        """Rejects unknown operations, even in code that no run reaches: they may take part in the protocol."""
        for op in self.ops:
            if op.name not in self.also and is_opaque(op.name) and not _is_known_here(op.name):
                if any("!ttg.memdesc" in value.type for value in (*op.operands, *op.results)):
                    raise NotUnderstood(f"{op.name} accesses shared memory in a way that this check does not model", op)
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
                self._keep(op, work)  # it selects one of two tiles
            if branch := CondBranchOp.of(op):
                self._keep(op, work)
                work.append(branch.condition)
        self._close(work)
        leaves = set(self._leaves())
        for op in self.ops:
            if op.name == AssumeOp.NAME and self._arguments_behind(AssumeOp(op).condition) <= leaves:
                self._keep(op, work)
                work.append(AssumeOp(op).condition)
        self._close(work)

    def tree(self, value: Value) -> int | None:
        """The value number of the expression tree that computes `value` from arguments and program ids.

        None if the expression has other leaves: an induction variable, a loaded number. Values with equal numbers are
        equal in a run, whichever partition computes them.
        """
        if value not in self._trees:
            self._trees[value] = None  # during the visit: a cycle has no tree
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
        """Adds everything that the values in `work` are computed from (the backward slice)."""
        while work:
            value = work.pop()
            if value in self.needed:
                continue
            self.needed.add(value)
            work += self.carried.get(value, ())
            op = value.defining_op or value.owner
            if isinstance(op, Operation):
                self._keep(op, work)
                if op in self.functions:
                    work += self.functions[op].inputs
                elif op.name not in _STRUCTURE:
                    work += [operand for operand in op.operands if is_number(operand.type)]
            elif op.parent_op is not None and op.parent_op.name in _STRUCTURE:
                self._keep(op.parent_op, work)

    def _keep(self, op: Operation, work: list[Value]) -> None:
        """Keeps `op` and the enclosing control flow; adds the operands that control it to `work`."""
        outer: Operation | None = op
        while outer is not None and outer not in self.kept:
            self.kept.add(outer)
            decides = deciding(outer)
            self.kept.update(use.op for use in decides)  # the `scf.condition` of a `while`
            if outer not in self.guards and outer not in self.ended_by_memory:
                work += [use.value for use in decides]
            outer = outer.parent_op

    def _tiles_in_flight(self) -> set[Value]:
        """Values that an asynchronous wgmma may still write, followed through loops and branches."""
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
        """The integer constants of the slice."""
        found: dict[Value, int] = {}
        for op in self.ops:
            compute = scalar_of(op) if op.name == ConstantOp.NAME and op in self.kept else None
            number = compute() if compute is not None else None
            if number is not None:
                found[op.result] = number
        return found

    def _deepest_ring(self) -> int:
        """The length of the longest array of mbarriers: D. With named barriers, also of other arrays with slots."""
        meets = any(acts(op) for op in self.kept)
        found = [1]
        for op in self.allocations:
            type = parse_type(op.result.type)
            if not isinstance(type, MemDescType) or len(type.shape) < 2:
                continue
            slots = meets and any(ttg.MemDescIndexOp.matches(use.op) for use in self._handed_on(op.result))
            if type.element == "i64" or slots:
                found.append(type.shape[0])
        return max(found)

    def _handed_on(self, value: Value) -> list[Use]:
        """The uses of a value, also inside of partitions."""
        inner = [target for use in value.uses for target in outgoing(use)]
        return [*value.uses, *(use for target in inner for use in target.uses)]

    def _decides(self, op: Operation) -> bool:
        """Whether the outcomes of `op` are recorded (`program.outcomes`)."""
        if op not in self.kept:
            return False
        return op.name == ForOp.NAME or ((outcome_of(op) is not None or picks_flag(op)) and self.scalar(op) is not None)

    def kept_in(self, block: Block) -> list[Operation]:
        """The operations of a block in the slice, without its terminator and `constants`."""
        kept, constants = self.kept, self.constants
        return [op for op in block.ops[:-1] if op in kept and not (op.results and op.results[0] in constants)]

    def is_loaded(self, op: Operation) -> bool:
        """Whether the number that `op` defines is chosen: from memory, given to the partitions, or a function's."""
        return op in self.given or op in self.functions or LoadOp.matches(op) or op in self.crossed.atomics

    def sends(self, region: Region) -> bool:
        """Whether a partition stores numbers that others load."""
        return any(op.within(block) is not None for op in self.crossed.stores for block in region.blocks)

    def scalar(self, op: Operation) -> Scalar | None:
        """The function that a scalar operation computes; None for any other operation."""
        if op not in self._scalars:
            self._scalars[op] = scalar_of(op)
        return self._scalars[op]


def _guards(ops: list[Operation]) -> dict[Operation, Block]:
    """The guards of the partitions: branches around the fork whose other side does nothing, with the block of the fork.

    Their conditions do not matter: a run that skips the partitions has no protocol events.
    """
    found: dict[Operation, Block] = {}
    for fork in ops:
        inside = fork.parent
        for op in fork.ancestors() if fork.name in _FORKS else ():
            blocks = [block for region in op.regions for block in region.blocks if block is not inside]
            others = [inner for block in blocks for it in block.ops for inner in it.walk()]
            if op.name == IfOp.NAME and not op.results and inside and not any(_takes_part(it) for it in others):
                found[op] = inside
            inside = op.parent
    return found


def _takes_part(op: Operation) -> bool:
    return op.name in PROTOCOL or acts(op)


def _decisive(op: Operation) -> list[Value]:
    """The scalar operands that determine a protocol event: the predicate, the parity of a wait, the slot of a view.

    Of inline assembly, the number of a named barrier and of its threads.
    """
    if op.name in INLINE:
        effects = effects_of(op)
        assert isinstance(effects, tuple)
        named = [(it.number, it.threads) for it in effects if isinstance(it, NamedBarrier)]
        return [part for parts in named for part in parts if isinstance(part, Value)]
    found = [operand for operand in op.operands if operand.type == "i1"]
    if wait := ttng.WaitBarrierOp.of(op):
        found.append(wait.parity)
    elif view := ttg.MemDescIndexOp.of(op):
        found.append(view.index)
    found += [operand for operand in op.operands if operand.type.startswith("!aref.index")]
    return found


def is_number(type: str) -> bool:
    """Whether a value of this type is a scalar: neither a tile nor memory nor a descriptor."""
    return not type.startswith(("tensor<", "!ttg.memdesc", "!tt.tensordesc"))


def chooses_tile(op: Operation) -> bool:
    """Whether `op` selects one of two tiles, like the yields of an ``scf.if``."""
    select = SelectOp.of(op)
    return select is not None and select.condition.type == "i1" and op.result.type.startswith("tensor<")


def _kind(op: Operation, tiles: set[Value]) -> str:
    """protocol: an event, whose scalar operands are needed. value: kept for its result or its uses. ignore: neither."""
    kind = _kind_by_name(op.name)
    if kind or acts(op):
        return kind or "protocol"
    for operand in op.operands:
        if operand in tiles or "!ttg.memdesc" in operand.type:
            return "value"
    return "value" if any("!ttg.memdesc" in result.type for result in op.results) else "ignore"


def _is_known_here(name: str) -> bool:
    """Whether this check models an operation that no dialect declares, as protocol, structure or without effect.

    Inline assembly is included: `not_modelled` has rejected any that does more than compute on registers.
    """
    return any(name in known for known in (_STRUCTURE, _WRITERS_OF_FLOW, _OUTSIDE, PROTOCOL, INLINE))


@cache
def _kind_by_name(name: str) -> str:
    """The kind of an operation by its name alone; empty if its operands decide."""
    if name in PROTOCOL or name in VIEWS or name == ttg.LocalAllocOp.NAME:
        return "protocol"
    if (_is_known_here(name) and name not in INLINE) or is_terminator(name):
        return "ignore"
    return "value" if is_opaque(name) and name.startswith(CLOSED) else ""
