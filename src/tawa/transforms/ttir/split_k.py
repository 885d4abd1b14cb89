"""Split K: S programs share the iterations of a tile's loop, and the last of them adds up the sums, on TTIR.

    %pid = program_id x                     %own = program_id x;  %pid = %own / S;  %share = %own mod S
    %acc = for %k in range(0, %K, 64) {     %acc = for %k in range(first(%share), first(%share + 1), 64) {
      … dot(%a, %b, %acc)                     … dot(%a, %b, %acc)
    }                                       }
    store f(%acc)                     →     store %workspace[%tile, %share], %acc
                                            barrier
                                            %arrived = atomic_rmw add, acq_rel, %semaphores[%tile], 1
                                            if %arrived == S - 1 {
                                              %sum = (%workspace[%tile, 0] + %workspace[%tile, 1]) + …
                                              store f(%sum)
                                              store %semaphores[%tile], 0 }

The grid has S times as many programs along x. No program waits for another, so any number of them may run at a time.
The last one adds all partial sums in the order of the iterations, its own included. Hence the result is the same in
every run, whoever is the last, but the sums are rounded in another order than in the kernel as written: a user must
allow it (``precision="relaxed"``, or a Plan).

What one program wrote is visible to the last one: the barrier orders the stores of all its threads before the atomic,
which one thread executes; the atomic releases them and acquires those of the programs before (both at the scope of the
GPU); and its result reaches the other threads by shared memory behind another barrier (Triton's lowering of an atomic
on one number). In a specialised kernel, only the consumer's warps execute all of that, and Triton makes the barriers
those of its warps. The partial sums are read past L1 (``cg``).

The last program also resets the semaphore, for the next launch on the stream. Workspace and semaphores are added
arguments (`tawa.bridge.launch.workspaces`).

Requires: TTIR without layouts, one structured function; runs before the tile is split.
Ensures: launched with S times as many programs, the kernel has the effects of the grid, up to the rounding of sums.
Declines when `tawa.analysis.loops.split_sums` finds no loop that programs can share.
Source: M. Osama et al., "Stream-K" (PPoPP 2023), section 3; PTX ISA, "Memory Consistency Model" (causality order).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.analysis.loops.split_sums import SplitSums, find_split_sums
from tawa.dialects.arith import (
    AddFOp,
    AddIOp,
    CmpIOp,
    DivSIOp,
    ExtSIOp,
    MaxSIOp,
    MinSIOp,
    MulIOp,
    Predicate,
    RemSIOp,
    SubIOp,
    TruncIOp,
)
from tawa.dialects.builtin import GpuBarrierOp
from tawa.dialects.parameters import SEMAPHORES, WORKSPACE
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.tt import (
    ACQ_REL,
    AddPtrOp,
    AtomicRMWOp,
    BroadcastOp,
    ExpandDimsOp,
    FuncOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    LoadOp,
    MakeRangeOp,
    RmwKind,
    SplatOp,
    StoreOp,
)
from tawa.dialects.ttg import BarrierOp
from tawa.ir import Block, Builder, Module, Region, TensorType, Value, parse_type, source_of
from tawa.ir.attributes import array_attr, int_attr, read_int
from tawa.machine.nvidia import WARP
from tawa.plan import Plan
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import Shared
from tawa.transforms.result import PassResult
from tawa.transforms.ttir.added_arguments import add_pointer

_ID, _COUNT = GetProgramIdOp.NAME, GetNumProgramsOp.NAME
_GPU_SCOPE = 1
_PAST_L1 = 3  # tt.CacheModifier: cg
_ALL_SPACES = 31  # of ttg.barrier
_HELD = 64
"""Registers per thread of partial sums that are loaded together: so many latencies of L2 overlap."""


@dataclass(frozen=True, slots=True)
class SplitResult(PassResult):
    """shared: what launches need; None if the kernel was declined."""

    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class SplitK:
    """Options: S; the warps of the launch; whether barriers are spelled as in Triton 3.6."""

    shares: int
    num_warps: int = 4
    gpu_barrier: bool = True

    def run(self, module: Module) -> SplitResult:
        """Rewrites the kernel, or returns a `declined` remark."""
        found = find_split_sums(module)
        if isinstance(found, Remark):
            return SplitResult(False, (found,))
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        elements = sum(prod(tile.shape) for tile in found.tiles)
        _Rewrite(function, found, self).run()
        text = f"{self.shares} programs share the loop of a tile; the last one adds up {found.bytes} bytes of each"
        remarks = (Remark("note", text, source_of(module, found.loop.op)),)
        return SplitResult(True, remarks, Plan(split_k=self.shares), Shared(self.shares, elements))


class _Rewrite:
    """The rewrite of one kernel."""

    def __init__(self, function: FuncOp, found: SplitSums, options: SplitK) -> None:
        self.function, self.found, self.options = function, found, options
        self.shares = options.shares
        self.elements = sum(prod(tile.shape) for tile in found.tiles)

    def run(self) -> None:
        """Rewrites the program ids, then the loop, then what is behind it."""
        loop, body = self.found.loop, self.function.body
        workspace = add_pointer(self.function, WORKSPACE, "f32", aligned=True)
        semaphores = add_pointer(self.function, SEMAPHORES, "i32", aligned=True)
        behind = body.ops[body.index_of(loop.op) + 1 : -1]
        share, tile = self._ids(Builder.at_start(body, self.function.op.loc))
        self._bounds(Builder.before(loop.op), share)

        b = Builder(body, body.terminator, loop.op.loc)
        first = MulIOp.create(b, tile, b.constant(self.shares), "first")
        own = self._partial(b, workspace, AddIOp.create(b, first, share))
        for sum, pointers in zip(self._sums, self._tiles(b, own), strict=True):
            b.create(StoreOp.NAME, (pointers, sum))
        semaphore = _moved(b, semaphores, tile, "semaphore")
        arrived = self._arrive(b, semaphore)
        is_last = CmpIOp.create(b, Predicate.EQ, arrived, b.constant(self.shares - 1), "is_last")
        then = Block()
        b.create(IfOp.NAME, (is_last,), (), regions=[Region([then]), Region([])])

        inside = Builder.at_end(then, loop.op.loc)
        moved = {nested for op in behind for nested in op.walk()}
        used = [[use for use in sum.uses if use.op in moved] for sum in self._sums]
        for uses, total in zip(used, self._totals(inside, self._partial(inside, workspace, first)), strict=True):
            for use in uses:
                use.op.set_operand(use.index, total)
        for op in behind:
            then.append(op.detach())
        inside.create(StoreOp.NAME, (semaphore, inside.constant(0)))
        inside.create(YieldOp.NAME)

    @property
    def _sums(self) -> list[Value]:
        """The results of the loop that are sums."""
        return [self.found.loop.op.results[number] for number in self.found.sums]

    def _ids(self, top: Builder) -> tuple[Value, Value]:
        """The share of a program, and the number of its tile; S neighbours along x have one tile."""
        queries = [op for op in self.function.op.walk() if op.name in (_ID, _COUNT)]
        shares = top.constant(self.shares)
        own, programs = _query(top, _ID, 0, "own"), _query(top, _COUNT, 0, "programs")
        share, pid = RemSIOp.create(top, own, shares, "share"), DivSIOp.create(top, own, shares, "pid")
        width = DivSIOp.create(top, programs, shares, "width")
        plane = MulIOp.create(top, _query(top, _COUNT, 1), _query(top, _ID, 2))
        row = AddIOp.create(top, _query(top, _ID, 1), plane)
        tile = AddIOp.create(top, pid, MulIOp.create(top, width, row), "tile")
        for op in queries:
            if read_int(op.properties["axis"]) == 0:
                op.result.replace_all_uses_with(pid if op.name == _ID else width)
                op.erase()
        return share, tile

    def _bounds(self, b: Builder, share: Value) -> None:
        """Lets the loop iterate over the share: ceil(trips / S) iterations from its first one, as far as there are."""
        loop, (lower, upper, step) = self.found.loop, self.found.loop.bounds
        kind = lower.type
        zero, one = b.constant(0, kind), b.constant(1, kind)
        span = MaxSIOp.create(b, SubIOp.create(b, upper, lower), zero)
        trips = DivSIOp.create(b, AddIOp.create(b, span, SubIOp.create(b, step, one)), step, "trips")
        shares = b.constant(self.shares, kind)
        size = DivSIOp.create(b, AddIOp.create(b, trips, b.constant(self.shares - 1, kind)), shares, "size")
        number = share if kind == "i32" else _wide(b, share)
        first = MinSIOp.create(b, MulIOp.create(b, number, size), trips, "first_trip")
        end = MinSIOp.create(b, AddIOp.create(b, first, size), trips)
        for number, increment in self.found.steps.items():
            start = _after(b, loop.inits[number], increment, first)
            loop.op.set_operand(ForOp.inits.first + number, start)
        loop.op.set_operand(0, AddIOp.create(b, lower, MulIOp.create(b, first, step), "lower"))
        loop.op.set_operand(1, AddIOp.create(b, lower, MulIOp.create(b, end, step), "upper"))

    def _partial(self, b: Builder, workspace: Value, number: Value) -> Value:
        """The address of partial sums, by their number in the workspace."""
        return _moved(b, workspace, MulIOp.create(b, _wide(b, number), b.constant(self.elements, "i64")), "partial")

    def _tiles(self, b: Builder, partial: Value) -> list[Value]:
        """The pointers to the elements of each sum, row by row."""
        found: list[Value] = []
        start = 0
        for tile in self.found.tiles:
            found.append(_elements(b, _moved(b, partial, b.constant(start)) if start else partial, tile))
            start += prod(tile.shape)
        return found

    def _arrive(self, b: Builder, semaphore: Value) -> Value:
        """How many programs of the tile arrived before this one."""
        if self.options.gpu_barrier:
            b.create(GpuBarrierOp.NAME)
        else:
            b.create(BarrierOp.NAME, properties={"addrSpace": int_attr(_ALL_SPACES)})
        properties = {"atomic_rmw_op": int_attr(RmwKind.ADD), "scope": int_attr(_GPU_SCOPE), "sem": int_attr(ACQ_REL)}
        operands = (semaphore, b.constant(1), b.constant(1, "i1"))
        return b.create(AtomicRMWOp.NAME, operands, ("i32",), properties=properties, hints=("arrived",)).result

    def _totals(self, b: Builder, first: Value) -> list[Value]:
        """The sums over all shares, in the order of the iterations.

        Small tiles are loaded together, as far as registers suffice. Large ones are loaded one by one in a loop, whose
        trips LLVM must not know: it would unroll the loop, and ptxas would load a tile before it has added the one
        before, and spill.
        """
        held = self.elements // (self.options.num_warps * WARP)
        if held > _HELD:
            return self._totals_in_order(b, first)
        totals: list[Value] = []
        together = max(1, _HELD // max(1, held))
        for start in range(0, self.shares, together):
            numbers = range(start, min(start + together, self.shares))
            places = [_moved(b, first, b.constant(number * self.elements, "i64")) for number in numbers]
            for part in [self._loaded(b, place) for place in places]:
                pairs = zip(totals, part, strict=True)
                totals = [AddFOp.create(b, total, one, "total") for total, one in pairs] if totals else part
        return totals

    def _totals_in_order(self, b: Builder, first: Value) -> list[Value]:
        inits = self._loaded(b, first)
        one = b.constant(1)
        programs = _query(b, _COUNT, 0)
        shares = DivSIOp.create(b, programs, DivSIOp.create(b, programs, b.constant(self.shares)))
        body = Block(("i32", *(it.type for it in inits)), ("number", *("total" for _ in inits)))
        inside = Builder.at_end(body, b.loc)
        distance = MulIOp.create(inside, _wide(inside, body.args[0]), inside.constant(self.elements, "i64"))
        part = self._loaded(inside, _moved(inside, first, distance))
        pairs = zip(body.args[1:], part, strict=True)
        inside.create(YieldOp.NAME, [AddFOp.create(inside, total, it, "total") for total, it in pairs])
        operands, types = (one, shares, one, *inits), [it.type for it in inits]
        return b.create(ForOp.NAME, operands, types, regions=[Region([body])]).results

    def _loaded(self, b: Builder, partial: Value) -> list[Value]:
        return [_load(b, pointers) for pointers in self._tiles(b, partial)]


def _query(b: Builder, name: str, axis: int, hint: str = "") -> Value:
    return b.create(name, (), ("i32",), properties={"axis": int_attr(axis)}, hints=(hint,)).result


def _wide(b: Builder, value: Value) -> Value:
    """An i32, or a tile of them, as i64."""
    if value.type == "i64" or value.type.endswith("xi64>"):
        return value
    return b.create(ExtSIOp.NAME, (value,), (value.type.replace("i32", "i64"),), hints=(value.hint,)).result


def _moved(b: Builder, pointer: Value, by: Value, hint: str = "") -> Value:
    return b.create(AddPtrOp.NAME, (pointer, by), (pointer.type,), hints=(hint,)).result


def _after(b: Builder, init: Value, step: Value, trips: Value) -> Value:
    """What the loop carries after so many iterations, each of which adds `step`; pointers move by 64 bits."""
    kind = parse_type(init.type)
    element = kind.element if isinstance(kind, TensorType) else init.type
    if "ptr" in element:
        step, trips = _wide(b, step), _wide(b, trips)
    elif element == "i64":
        trips = _wide(b, trips)
    elif trips.type == "i64":
        trips = b.create(TruncIOp.NAME, (trips,), ("i32",)).result
    if isinstance(kind, TensorType):
        trips = b.create(SplatOp.NAME, (trips,), (step.type,)).result
    distance = MulIOp.create(b, step, trips)
    return _moved(b, init, distance, init.hint) if "ptr" in element else AddIOp.create(b, init, distance, init.hint)


def _elements(b: Builder, start: Value, tile: TensorType) -> Value:
    """Pointers to the elements of a tile that lies row by row from `start`."""
    rows, columns = tile.shape
    numbers = f"tensor<{rows}x{columns}xi32>"
    down = MulIOp.create(b, _expanded(b, rows, 1), _splat(b, b.constant(columns), f"tensor<{rows}x1xi32>"))
    along = _expanded(b, columns, 0)
    rowwise, columnwise = (b.create(BroadcastOp.NAME, (it,), (numbers,)).result for it in (down, along))
    offsets = AddIOp.create(b, rowwise, columnwise)
    return _moved(b, _splat(b, start, f"tensor<{rows}x{columns}x{start.type}>"), offsets)


def _expanded(b: Builder, size: int, axis: int) -> Value:
    """The numbers from 0 to `size`, as a row (axis 0) or a column (axis 1)."""
    type = f"tensor<1x{size}xi32>" if axis == 0 else f"tensor<{size}x1xi32>"
    properties = {"axis": int_attr(axis)}
    return b.create(ExpandDimsOp.NAME, (_range(b, size),), (type,), properties=properties).result


def _range(b: Builder, size: int) -> Value:
    properties = {"end": int_attr(size), "start": int_attr(0)}
    return b.create(MakeRangeOp.NAME, (), (f"tensor<{size}xi32>",), properties=properties).result


def _splat(b: Builder, value: Value, type: str) -> Value:
    return b.create(SplatOp.NAME, (value,), (type,)).result


def _load(b: Builder, pointers: Value) -> Value:
    kind = parse_type(pointers.type)
    assert isinstance(kind, TensorType)
    properties = {
        "cache": int_attr(_PAST_L1), "isVolatile": "false", "operandSegmentSizes": array_attr([1, 0, 0]),
    }  # fmt: skip
    type = f"tensor<{'x'.join(map(str, kind.shape))}xf32>"
    return b.create(LoadOp.NAME, (pointers,), (type,), properties=properties, hints=("part",)).result
