"""Park loads: a tile that is needed behind a loop is loaded before it, and waits in shared memory meanwhile.

    %k = load %p : #blocked                  %b = local_alloc
    %r = for …                               async_copy %p, %b; commit
    %q = load %t : #blocked           →      … the same for %q
    %x = f(%k) : #blocked                    %r = for …
    %c = convert %x : #blocked → #mma        async_wait 0
    %d = convert %q : #blocked → #mma        %k = local_load %b : #mma;  %c = f(%k) : #mma
                                             %d = local_load … : #mma

A load before a loop fills registers throughout the loop if its tile is used behind it only; where these are scarce, it
spills. A load behind a loop makes all warps wait for memory when nothing else is in flight. Triton's pipeliner copies
tiles to shared memory within loops only. A parked tile takes no registers, arrives while the loop runs, and is read in
each layout in which it is used, so that nothing that is computed from it alone has to be converted. Where a kernel
spills, what is loaded before a loop is loaded behind it instead (`late`): behind the loop, a parked tile would fill
registers again as early.

Requires: TTGIR behind Triton's pipeliner; nothing is specialised.
Ensures: the same values. The copies form the oldest group of cp.async, so the waits of the loop, which count the groups
behind it, stay right. A product whose conversion goes is rounded apart.
Declines: loads of memory that the kernel may write, of kernels with atomics, of less than four bytes at a time, with a
value for masked lanes other than 0, or whose address depends on the loop; of memory from which a later loop loads rows,
which a load leaves in L1 and cp.async does not; and what `room` does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from tawa.analysis.layout.axis_info import ModuleAxisInfo
from tawa.analysis.layout.layouts import tile_order
from tawa.analysis.layout.rebuilt import can_rebuild, rebuild
from tawa.analysis.loops.loads_around import WrittenInfo, loads_around, slice_behind, users_before
from tawa.dialects.arith import AddFOp, ConstantOp, SubFOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import LoadOp
from tawa.dialects.ttg import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    ConvertLayoutOp,
    LocalAllocOp,
    LocalLoadOp,
)
from tawa.ir import Builder, Module, Operation, ScalarType, TensorType, Value, parse_type, replace_op, source_of
from tawa.ir.attributes import array_attr, bool_attr, int_attr
from tawa.machine.fused_products import CARRIED, products_of, ways_of_products
from tawa.remarks import Remark
from tawa.transforms.result import PassResult

_SUMS = op_names(AddFOp, SubFOp)
_LEAST_BYTES = 4
"""The least width of a cp.async (PTX ISA)."""
_ROW_BYTES = 128
"""The banks of shared memory; rows of a buffer are permuted in chunks of 16 bytes within so many."""
_CHUNK = 16


@dataclass(frozen=True, slots=True)
class ParkLoads:
    """room: bytes of shared memory that a CTA may take for tiles that wait. late: whether registers are scarce."""

    room: int
    late: bool = False

    def run(self, module: Module) -> PassResult:
        """Parks the loads around every `scf.for`, outer loops first."""
        written, room, remarks = WrittenInfo.of(module), self.room, list[Remark]()
        for loop in [loop for op in module.walk() if (loop := ForOp.of(op))]:
            info = ModuleAxisInfo(module)
            around = list(loads_around(loop, written))
            late = [it for it in around if self.late and _is_before(it, loop)]
            loads = list[LoadOp]()
            for load in around if _counts_nothing(loop) else ():
                if load not in late and _fits(module, info, load) and _bytes(load) <= room:
                    room -= _bytes(load)
                    loads.append(load)
            place = source_of(module, loop.op)
            if late:
                remarks.append(Remark("done", f"{_named(late)}: loaded behind the loop, which spills less", place))
                _load_late(late, loop)
            if loads:
                remarks.append(Remark("done", f"{_named(loads)}: in shared memory while the loop runs", place))
                _Parking(module, loop, loads).run()
        return PassResult(bool(remarks), tuple(remarks))


def _named(loads: Sequence[LoadOp]) -> str:
    return ", ".join(it.op.result.hint or "a tile" for it in loads)


def _counts_nothing(loop: ForOp) -> bool:
    """Whether no wait beside a loop counts groups of cp.async: those of a pipelined loop around it do."""
    block = loop.op.parent
    assert block is not None
    return all(AsyncWaitOp(op).num == 0 for op in block.ops if AsyncWaitOp.matches(op))


def _is_before(load: LoadOp, loop: ForOp) -> bool:
    block = loop.op.parent
    assert block is not None
    return block.index_of(load.op) < block.index_of(loop.op)


def _load_late(loads: Sequence[LoadOp], loop: ForOp) -> None:
    """Loads behind a loop what is loaded before it, and computes there what is computed from it."""
    block = loop.op.parent
    assert block is not None
    moved = {op for load in loads for op in (load.op, *(users_before(load, loop) or ()))}
    behind = Builder.after(loop.op)
    for op in [it for it in block.ops if it in moved]:
        behind.insert(op.detach())


def _fits(module: Module, info: ModuleAxisInfo, load: LoadOp) -> bool:
    """Whether cp.async can do what a load does."""
    tile = load.tile
    assert tile is not None
    element = parse_type(tile.element)
    if not isinstance(element, ScalarType) or element.bits < 8 or len(tile.shape) != 2:
        return False
    other = ConstantOp.of(load.other.defining_op) if load.other is not None else None
    if load.other is not None and (other is None or not _is_zero(other.text)):
        return False
    return info.vector_width(load) * element.bits // 8 >= _LEAST_BYTES


def _bytes(load: LoadOp) -> int:
    tile = load.tile
    assert tile is not None
    element = parse_type(tile.element)
    assert isinstance(element, ScalarType)
    return prod(tile.shape) * element.bits // 8


def _is_zero(text: str) -> bool:
    return text.removeprefix("dense<").partition(">")[0].partition(" ")[0] in ("0", "0.000000e+00", "0.0")


@dataclass(slots=True)
class _Parking:
    """The loads of one loop.

    buffers: by tile. token: of the wait behind the loop. reads: of parked tiles, by tile and layout. made: what was
    computed from them, by value and layout.
    """

    module: Module
    loop: ForOp
    loads: list[LoadOp]
    token: Value = field(init=False)
    buffers: dict[Value, Value] = field(default_factory=dict[Value, Value])
    reads: dict[tuple[Value, str], Value] = field(default_factory=dict[tuple[Value, str], Value])
    made: dict[tuple[Value, str], Value] = field(default_factory=dict[tuple[Value, str], Value])

    def run(self) -> None:
        token = self._copy()
        behind = Builder.after(self.loop.op)
        block = self.loop.op.parent
        assert block is not None
        later = {it for load in self.loads for it in users_before(load, self.loop) or ()}
        self.token = behind.create(
            AsyncWaitOp.NAME, (token,), ("!ttg.async.token",), properties={"num": int_attr(0)}
        ).result
        for op in [it for it in block.ops if it in later]:
            behind.insert(op.detach())
        self._convert_less()
        for load in self.loads:
            self._read(load)

    # -- before the loop -----------------------------------------------------------------------------------------------

    def _copy(self) -> Value:
        """Issues the copies before those of the loop."""
        block = self.loop.op.parent
        assert block is not None
        at = block.index_of(self.loop.op)
        last = max((i for i, op in enumerate(block.ops[:at]) if ForOp.matches(op)), default=-1)
        places = [op for op in block.ops[last + 1 : at] if AsyncCopyGlobalToLocalOp.matches(op)]
        anchor = places[0] if places else self.loop.op
        builder, tokens = Builder.before(anchor), list[Value]()
        for load in self.loads:
            if block.index_of(load.op) > at:
                for op in slice_behind(load, self.loop) or ():
                    builder.insert(op.detach())
        for load in self.loads:
            tokens.append(self._issue(load, builder))
        return builder.create(AsyncCommitGroupOp.NAME, tokens, ("!ttg.async.token",)).result

    def _issue(self, load: LoadOp, builder: Builder) -> Value:
        tile = load.tile
        assert tile is not None
        builder.loc = load.op.loc
        shape = "x".join(map(str, tile.shape))
        type = f"!ttg.memdesc<{shape}x{tile.element}, {_buffer_layout(self.module, tile)}, #ttg.shared_memory, mutable>"
        buffer = builder.create(LocalAllocOp.NAME, (), (type,), hints=(load.op.result.hint,)).result
        self.buffers[load.op.result] = buffer
        mask = (load.mask,) if load.mask is not None else ()
        hints = {name: it for name, it in load.op.properties.items() if name in ("cache", "evict")}
        return builder.create(
            AsyncCopyGlobalToLocalOp.NAME,
            (load.pointers, buffer, *mask),
            ("!ttg.async.token",),
            properties={
                **hints,
                "contiguity": int_attr(1),
                "isVolatile": bool_attr(False),
                "operandSegmentSizes": array_attr([1, 1, len(mask), 0]),
            },
        ).result

    # -- behind the loop -----------------------------------------------------------------------------------------------

    def _tile(self, load: Value, encoding: str, at: Operation) -> Value:
        """A parked tile in a layout, read before `at` where it is not read yet."""
        key = load, encoding
        if key not in self.reads:
            kind = parse_type(load.type)
            assert isinstance(kind, TensorType)
            type = str(TensorType(kind.shape, kind.element, encoding))
            operands = (self.buffers[load], self.token)
            builder = Builder.before(at)
            self.reads[key] = builder.create(LocalLoadOp.NAME, operands, (type,), hints=(load.hint,)).result
            self.made[key] = self.reads[key]
        return self.reads[key]

    def _convert_less(self) -> None:
        """Computes what is converted from parked tiles in the layout that it is converted to."""
        block = self.loop.op.parent
        assert block is not None
        for op in list(block.ops[block.index_of(self.loop.op) :]):
            convert = ConvertLayoutOp.of(op)
            if convert is None:
                continue
            kind = parse_type(op.result.type)
            assert isinstance(kind, TensorType)
            sources = self._parked_in(convert.source)
            products = products_of(convert.source)
            if not sources or not all("xf32," in it.result.type for it in products):
                continue
            if ways_of_products(op.result) - {CARRIED}:  # the conversion only renames registers, and rounds nothing
                continue
            if self._adds_products(convert.source) or not can_rebuild(convert.source, kind.encoding, self.buffers):
                continue
            for it in sources:
                self._tile(it, kind.encoding, op)
            # Products that are rounded apart here may be added elsewhere: they are computed for this conversion alone.
            made = dict(self.reads) if products else self.made
            result = rebuild(convert.source, kind.encoding, Builder.before(op), made)
            for product in products_of(result):
                rounded = RoundedProductOp.create(Builder.before(product), product)
                result = rounded if result is product.result else result
                replace_op(product, [rounded])
            replace_op(op, [result])

    def _adds_products(self, tile: Value) -> bool:
        """Whether a product would be added to what is computed here without being rounded: a conversion rounds it."""
        return any(
            op.name in _SUMS
            and any(ConvertLayoutOp.matches(it.defining_op) and products_of(_source(it)) for it in op.operands)
            for op in self._behind(tile)
        )

    def _parked_in(self, tile: Value) -> list[Value]:
        """The parked tiles that a tile is computed from."""
        values = [tile, *(it for op in self._behind(tile) for it in op.operands)]
        return [it for it in self.buffers if it in values]

    def _behind(self, tile: Value) -> list[Operation]:
        """The operations of this block that a tile is computed by, as far back as parked tiles."""
        block = self.loop.op.parent
        found: dict[Operation, None] = {}
        work = [tile]
        while work:
            value = work.pop()
            op = value.defining_op
            if value in self.buffers or op is None or op in found or op.parent is not block or op.regions:
                continue
            found[op] = None
            work += op.operands
        return list(found)

    def _read(self, load: LoadOp) -> None:
        """Replaces the tile where it is still used, in its own layout."""
        tile = load.tile
        block = self.loop.op.parent
        assert tile is not None and block is not None
        for op in reversed(block.ops[block.index_of(self.loop.op) :]):
            if op.results and is_pure(op) and not any(it.uses for it in op.results):
                op.erase()
        users = [it for user in load.op.result.users if (it := user.within(block)) is not None]
        if users:
            first = min(users, key=block.index_of)
            load.op.result.replace_all_uses_with(self._tile(load.op.result, tile.encoding, first))
        load.op.erase()


def _source(value: Value) -> Value:
    """What a conversion converts."""
    assert value.defining_op is not None
    return value.defining_op.operands[0]


def _buffer_layout(module: Module, tile: TensorType) -> str:
    """A layout of shared memory in which neither rows of the copies nor rows of dots meet in a bank."""
    order = tile_order(module, tile.encoding)
    element = parse_type(tile.element)
    assert isinstance(element, ScalarType)
    bytes = element.bits // 8
    vec = max(1, _CHUNK // bytes)
    row = tile.shape[order[0]] * bytes
    per_phase = max(1, _ROW_BYTES // row)
    most = max(1, min(_ROW_BYTES // _CHUNK // per_phase, row // _CHUNK, prod(tile.shape) // tile.shape[order[0]]))
    return (
        f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {most}, "
        f"order = [{', '.join(map(str, order))}]}}>"
    )
