"""The workload of a kernel: what each block computes and moves when control reaches it once.

    loop body:   dot 128 x 256 x 64 (fp16), 48 KiB of operands by TMA        work of the CUDA cores: none
    around it:   64 KiB stored, 32768 conversions

Read from TTIR, before layouts, so that it holds for every Plan of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tawa.analysis.dims.exchanged import exchanged_dots
from tawa.analysis.layout.axis_info import ModuleAxisInfo
from tawa.analysis.work.units import Unit, best_unit
from tawa.dialects import tt
from tawa.dialects.aref import Fill
from tawa.dialects.arith import is_zero
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.scf import LOOPS, IfOp
from tawa.ir import Block, Module, Operation, TensorType, Value, parse_type
from tawa.machine.classes import LOADS, STORES, TMA_STORES
from tawa.machine.nvidia import CP_ASYNC_BYTES, ROW_BYTES, VECTOR_BYTES
from tawa.machine.work import NOTHING, Work, work_of


@dataclass(frozen=True, slots=True)
class DotWork:
    """One dot: rows x columns x inner, and the bits of its operands' elements.

    chained: whether an operand is computed from another dot of the same loop. computed: whether operand A is computed
    by the CUDA cores, so that it comes from registers. transposed: an operand that wgmma cannot read as it is stored.
    unit: what computes it. exchanged: whether consumer groups that divide the rows of the other dots would exchange its
    operands (`tawa.analysis.dims.exchanged`).
    """

    rows: int
    columns: int
    inner: int
    bits: int
    batch: int = 1
    chained: bool = False
    computed: bool = False
    transposed_bytes: int = 0
    unit: Unit = "wgmma"
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class LoadWork:
    """One load of a tile. op: None in a stated workload. operand: whether it feeds a dot. tma: by descriptor.

    row_bytes: of a row along the fastest dimension. run_bytes: of these, those that are contiguous in memory for sure.
    vector: elements that one instruction of a thread loads. fill: how a producer fills a slot with the tile, if TMA
    does not load it in place of pointers. serves: whether only addresses and masks of loads that feed dots need it.
    """

    op: Operation | None
    bytes: int
    elements: int
    row_bytes: int
    operand: bool
    tma: bool
    run_bytes: int = ROW_BYTES
    vector: int = 1
    fill: Fill = "tma"
    serves: bool = False

    @property
    def rows(self) -> int:
        """Rows of the tile, in parts of at most `ROW_BYTES`."""
        return self.bytes // min(self.row_bytes, ROW_BYTES)

    @property
    def runs(self) -> int:
        """Parts of these rows, each of which is contiguous in memory for sure."""
        return self.bytes // min(self.row_bytes, self.run_bytes, ROW_BYTES)

    @property
    def pieces(self) -> float:
        """Load instructions of single threads that the tile takes through pointers."""
        return self.elements / self.vector


@dataclass(frozen=True, slots=True)
class BlockWork:
    """What one block does itself, without the loops and branches inside it.

    work: of the CUDA cores, without `addresses`, which only serve loads that feed dots. depth: of loops around it.
    scalar_loads: loads of single numbers.
    """

    dots: tuple[DotWork, ...] = ()
    loads: tuple[LoadWork, ...] = ()
    work: Work = NOTHING
    addresses: Work = NOTHING
    stored_bytes: int = 0
    pointer_stored_bytes: int = 0
    depth: int = 0
    scalar_loads: int = 0

    @property
    def operand_bytes(self) -> int:
        """Bytes of the tiles that feed dots."""
        return sum(load.bytes for load in self.loads if load.operand)

    @property
    def addresses_computed(self) -> float:
        """The part of `addresses` that is computed: one of each vector."""
        found = [load for load in self.loads if load.operand and not load.tma]
        return sum(load.pieces for load in found) / sum(load.elements for load in found) if found else 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """The blocks of a kernel, outermost first. loops: the loop that each block is the body of, or None."""

    function: tt.FuncOp
    blocks: dict[Block, BlockWork]
    loops: dict[Block, Operation | None]

    @property
    def dots(self) -> Iterator[DotWork]:
        """All dots."""
        return (dot for block in self.blocks.values() for dot in block.dots)


def find_workload(module: Module) -> Workload | None:
    """The workload of a structured kernel in TTIR; None if the module has several functions or jumps."""
    function = structured_kernel(module)
    if function is None:
        return None
    blocks: dict[Block, BlockWork] = {}
    loops: dict[Block, Operation | None] = {}
    operands = _operand_loads(module)
    addresses = _addresses(module, operands)
    axes = ModuleAxisInfo(module)
    exchanged = {it.op for it in exchanged_dots(module)}

    def visit(block: Block, loop: Operation | None, depth: int) -> None:
        blocks[block] = _block_work(block, operands, addresses, axes, depth, exchanged)
        loops[block] = loop
        for op in block.ops:
            inside = op if op.name in LOOPS else None
            if inside is not None or IfOp.of(op):
                for region in op.regions:
                    for nested in region.blocks:
                        visit(nested, inside or loop, depth + (inside is not None))

    visit(function.body, None, 0)
    return Workload(function, blocks, loops)


def _block_work(
    block: Block, operands: set[Operation], addresses: set[Operation], axes: ModuleAxisInfo, depth: int,
    exchanged: set[Operation],
) -> BlockWork:  # fmt: skip
    dots: list[DotWork] = []
    loads: list[LoadWork] = []
    work, serving, stored, by_pointers, scalars = NOTHING, NOTHING, 0, 0, 0
    for op in block.ops:
        if op.name in tt.DOTS:
            dot = _dot_work(op, axes)
            if dot is not None:
                dots.append(replace(dot, exchanged=op in exchanged))
        elif op.name in LOADS:
            tile = parse_type(op.results[0].type)
            if isinstance(tile, TensorType):
                loads.append(replace(_load_work(op, tile, op in operands, axes), serves=op in addresses))
            else:
                scalars += 1
        elif op.name in STORES:
            bytes = _stored(op)
            stored += bytes
            by_pointers += 0 if op.name in TMA_STORES else bytes
        elif op in addresses:
            serving = serving + work_of(op)
        else:
            work = work + work_of(op)
    return BlockWork(tuple(dots), tuple(loads), work, serving, stored, by_pointers, depth, scalars)


def _load_work(op: Operation, tile: TensorType, operand: bool, axes: ModuleAxisInfo) -> LoadWork:
    elements, load = math.prod(tile.shape), tt.LoadOp.of(op)
    bytes = tile.bytes // elements
    if load is None:
        row = bytes * tile.shape[-1]
        return LoadWork(op, tile.bytes, elements, row, operand, True, row, max(1, VECTOR_BYTES // bytes))
    fastest = _fastest(load.pointers, axes)
    run = max(1, min(tile.shape[fastest], axes.of(load.pointers).contiguity[fastest]))
    vector = axes.vector_width_along(load, fastest)
    other = load.other is not None and not is_zero(load.other)
    fill: Fill = "registers" if other or vector * bytes < CP_ASYNC_BYTES else "cp.async"
    return LoadWork(op, tile.bytes, elements, bytes * tile.shape[fastest], operand, False, bytes * run, vector, fill)


def _stored(op: Operation) -> int:
    tiles = [parse_type(value.type) for value in op.operands if "!tt.ptr" not in value.type]
    return max((tile.bytes for tile in tiles if isinstance(tile, TensorType)), default=0)


def _dot_work(op: Operation, axes: ModuleAxisInfo) -> DotWork | None:
    a, b = parse_type(op.operands[0].type), parse_type(op.operands[1].type)
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return None
    sources = list(_sources(op.operands[0], op)), list(_sources(op.operands[1], op))
    loop = _loop_of(op)
    chained = any(it.name in tt.DOTS and _loop_of(it) is loop for source in sources for it in source)
    computed = any(it.name not in LOADS and work_of(it) != NOTHING for it in sources[0])
    bits = 8 * a.bytes // math.prod(a.shape)
    batch = math.prod(a.shape[:-2])
    transposed = 0
    if bits != _EITHER_WAY and best_unit(op) == "wgmma":
        transposed += a.bytes * (not computed and not chained and _transpositions(op.operands[0], axes) % 2 == 1)
        transposed += b.bytes * (_transpositions(op.operands[1], axes) % 2 == 0)
    return DotWork(a.shape[-2], b.shape[-1], a.shape[-1], bits, batch, chained, computed or chained, transposed //
                   batch, best_unit(op))  # fmt: skip


_EITHER_WAY = 16
"""Bits of the elements that wgmma reads with either dimension innermost."""


def _transpositions(value: Value, axes: ModuleAxisInfo) -> int:
    """Transpositions between a tile of rows and an operand; a tile of columns counts as one."""
    count = 0
    op = value.defining_op
    while op is not None and op.operands and op.name not in LOADS and op.name not in tt.DOTS:
        count += tt.TransOp.matches(op)
        op = op.operands[0].defining_op
    load = tt.LoadOp.of(op)
    return count + (load is not None and _fastest(load.pointers, axes) == 0)


def _fastest(pointers: Value, axes: ModuleAxisInfo) -> int:
    """The dimension of a tile along which addresses are contiguous; the last one if unknown."""
    runs = axes.of(pointers).contiguity
    return max(range(len(runs)), key=lambda dim: (runs[dim], dim))


def _operand_loads(module: Module) -> set[Operation]:
    """The loads that feed dots, directly or through other operations on tiles."""
    return {
        it
        for op in module.walk()
        if op.name in tt.DOTS
        for operand in op.operands[:2]
        for it in _sources(operand, op)
        if it.name in LOADS
    }


def _addresses(module: Module, operands: set[Operation]) -> set[Operation]:
    """The operations whose results serve only the addresses and masks of loads that feed dots."""
    serving: set[Operation] = set()
    for op in operands:
        for operand in op.operands:
            serving |= set(_sources(operand, op))
    kept: set[Operation] = set()
    for op in module.walk():
        if op in serving or op in operands or op.regions:
            continue
        for operand in op.operands:
            if "!tt.ptr" not in operand.type:
                kept |= set(_sources(operand, op))
    return serving - kept | {op for op in serving if all("!tt.ptr" in it.type for it in op.results)}


def _sources(value: Value, dot: Operation) -> Iterator[Operation]:
    """The operations on tiles that compute an operand, up to loads and other dots."""
    work, seen = [value], set[Operation]()
    while work:
        op = work.pop().defining_op
        if op is None or op in seen or op is dot or not any(it.type.startswith("tensor<") for it in op.results):
            continue
        seen.add(op)
        yield op
        if op.name not in LOADS and op.name not in tt.DOTS and not op.regions:
            work += op.operands


def _loop_of(op: Operation) -> Operation | None:
    """The innermost loop around an operation."""
    return next((it for it in op.ancestors() if it.name in LOOPS), None)
