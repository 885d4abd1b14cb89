"""Which dimension of which tile is split when several consumer groups share a program's tile.

Each of G groups gets 1/G of the rows of all dots (or of the columns, if it would get fewer than 64 rows), and of every
tile whose rows are in their class (`tawa.analysis.dims.dim_classes`). A free value is rematerialised for each split in
which it is used.

    rows = tt.make_range {0..128}              free: split where it indexes rows, whole where it indexes columns
    q    = tt.descriptor_load d, r, 0          rows split, and with them the box of d and its offset r
    s    = tt.dot q, k, 0                      rows split; k is whole: every group needs all of it
    m    = tt.reduce s {axis = 1}              split
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tawa.analysis.dims.dim_classes import DimClasses, Node
from tawa.analysis.dims.owners import owned_dots
from tawa.analysis.dims.split_memory import conflicts
from tawa.declines import SPLIT_ROWS
from tawa.dialects.builtin import AssumeOp
from tawa.dialects.control_flow import functions_of, holder_of, structured_kernel
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import effects_of, happens_once
from tawa.dialects.inline.markers import PartOfTileOp, WholeTileOp
from tawa.dialects.tt import (
    ATOMICS,
    AssertOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    DotOp,
    DotScaledOp,
    LoadOp,
    StoreOp,
    TMAStore,
    TransOp,
    is_reduction,
    tma_store,
)
from tawa.ir import Module, Operation, TensorDescType, Value, Worklist, parse_type, source_of
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import (
    Mixed,
    MixedError,
    Place,
    box_dims,
    demanded,
    shape_of,
)
from tawa.symbolic.words import word_of

Axis = Literal["rows", "columns"]

_LEAST = {"rows": 64, "columns": 16}  # a wgmma has 64 rows; a Triton dot has at least 16 columns
_AXES: tuple[Axis, Axis] = ("rows", "columns")
_DOTS = op_names(DotOp, DotScaledOp)
_HARMLESS = op_names(AssertOp, AssumeOp)  # may be executed by every group
_DIVISIBLE = op_names(StoreOp, DescriptorStoreOp, LoadOp)
_KEEP = "keep one consumer group"


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """What to split. axis: of the dots' results. size: of the whole dimension.

    dims: the split dimension of every value that is not free, including descriptors. uses: for a free value used as
    operand `index` of `op`, the dimension that this use needs to be split.
    """

    groups: int
    axis: Axis
    size: int
    dims: dict[Value, int]
    uses: dict[tuple[Operation, int], int]

    @property
    def part(self) -> int:
        """The size of one group's part."""
        return self.size // self.groups


def rows_suffice(module: Module, groups: int) -> bool:
    """Whether the dots have enough rows for each of `groups` groups."""
    dots = [dot for dot in _dots(module) if not _exchanges(dot.result)]
    return all(shape_of(dot.result)[-2] // groups >= _LEAST["rows"] for dot in dots)


def _dots(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.name in _DOTS]


def _exchanges(result: Value) -> bool:
    """Whether a dot reads a tile of all groups (`tawa.transforms.ttir.exchange_operands`)."""
    dot = DotOp.of(result.defining_op)
    tile = dot.a if dot is not None else result
    while view := PartOfTileOp.of(tile.defining_op) or TransOp.of(tile.defining_op):
        tile = view.source
    return dot is not None and WholeTileOp.of(tile.defining_op) is not None


def _by_columns(result: Value) -> bool:
    """Whether such a dot divides its columns."""
    dot = DotOp.of(result.defining_op)
    return dot is not None and PartOfTileOp.of(dot.b.defining_op) is not None


def find_split(module: Module, groups: int, axis: Axis) -> SplitInfo | Remark:
    """What follows if `groups` groups share an axis; a declined remark says why they cannot."""
    owned = owned_dots(module)
    dots = [it for it in _dots(module) if it not in owned]
    if not dots:
        return _declined(module, None, "no dot: there are no rows to split")
    if structured_kernel(module) is None:
        op = functions_of(module)[-1].op
        return _declined(module, op, "calls or jumps between blocks: the tile cannot be followed", "inline the callee")
    rows = [(dot.result, len(shape_of(dot.result)) - 2) for dot in dots]
    fewest = min((shape_of(value)[dim] for value, dim in rows if not _exchanges(value)), default=0)
    if axis == "rows" and fewest // groups < _LEAST["rows"]:
        reason, cure = f"{fewest} rows are too few for {groups} groups of {_LEAST['rows']}", "split='columns'"
        return _declined(module, dots[0], reason, cure)
    nodes = rows if axis == "rows" else [(value, dim + 1) for value, dim in rows]
    exchanging = [(value, dim + (axis == "rows" and _by_columns(value))) for value, dim in nodes if _exchanges(value)]
    nodes = [it for it in nodes if not _exchanges(it[0])]
    try:
        exchanges = bool(exchanging or owned)
        classes = DimClasses(list(module.walk()), parts=groups if exchanges else 1)
        return _Choice(module, classes, groups, axis, nodes, exchanging, exchanges).info()
    except _Refusal as refusal:
        if axis == "rows":
            return _declined(module, refusal.op, refusal.reason, refusal.cure)
        reason = f"{fewest} rows are too few for {groups} groups of {_LEAST['rows']}, and for columns: {refusal.reason}"
        return _declined(module, refusal.op, reason, f"use a tile of at least {groups * _LEAST['rows']} rows")


class _Refusal(Exception):
    def __init__(self, op: Operation | None, reason: str, cure: str = "") -> None:
        self.op, self.reason, self.cure = op, reason, cure


def _declined(module: Module, op: Operation | None, reason: str, cure: str = "") -> Remark:
    place = source_of(module, op) if op is not None else None
    return SPLIT_ROWS.remark(place, cure or _KEEP, why=reason)


@dataclass(slots=True)
class _Choice:
    """The consequences of splitting one class."""

    module: Module
    classes: DimClasses
    groups: int
    axis: Axis
    dots: list[Node]
    exchanging: list[Node] = field(default_factory=list[Node])
    exchanges: bool = False
    dims: dict[Value, int] = field(default_factory=dict[Value, int])
    uses: dict[tuple[Operation, int], int] = field(default_factory=dict[tuple[Operation, int], int])

    def info(self) -> SplitInfo:
        """The split, after all checks; raises _Refusal."""
        self._check_sizes()
        self._check_once()
        self._check_mixed()
        self._collect()
        self._follow_descriptors()
        self._check_stores()
        for conflict in conflicts(self.module, self.dims):
            raise _Refusal(conflict.op, conflict.reason, conflict.cure)
        self._check_free()
        value, dim = self.dots[0]
        return SplitInfo(self.groups, self.axis, shape_of(value)[dim], self.dims, self.uses)

    @property
    def chosen(self) -> list[Node]:
        """The classes that are split: those of all dots. Dots of different branches may be in different ones."""
        return list(dict.fromkeys(self.classes.root(it) for it in (*self.dots, *self.exchanging)))

    def _split(self, place: Place) -> bool:
        free = place.value in self.classes.free
        return not free and self.classes.root((place.value, place.dim)) in self.chosen

    def _check_mixed(self) -> None:
        for mixed in self.classes.mixed:
            if self._split(mixed.place):
                raise self._mixes(mixed)

    def _check_sizes(self) -> None:
        for value, dim in (*self.dots, *self.exchanging):
            size, axis = shape_of(value)[dim], self.axis if (value, dim) in self.dots else _AXES[dim]
            part, left = divmod(size, self.groups)
            if left or part & (part - 1) or part < _LEAST[axis]:
                what = f"a power of two, at least {_LEAST[axis]}"
                reason = f"{size} {axis} do not divide into {self.groups} groups of {what}"
                raise _Refusal(holder_of(value), reason, f"use a tile of at least {self.groups * _LEAST['rows']} rows")

    def _mixes(self, mixed: Mixed) -> _Refusal:
        return _Refusal(mixed.op, mixed.reason.replace("{}", f"the {self.axis} to be split"), mixed.cure)

    def _collect(self) -> None:
        for root in self.chosen:
            for value, dim in self.classes.members(root):
                self._set(value, dim)
        for _, tie in self.classes.ties:
            if any(self._split(place) for place in tie):
                for place in tie:
                    if place.value in self.classes.free and place.user is not None:
                        self._use(place)

    def _set(self, value: Value, dim: int) -> None:
        if self.dims.setdefault(value, dim) != dim:
            raise _Refusal(holder_of(value), f"both dimensions of a tile are tied to the {self.axis} to be split")

    def _use(self, place: Place) -> None:
        assert place.user is not None
        if self.uses.setdefault((place.user, place.index), place.dim) != place.dim:
            raise _Refusal(place.user, f"both dimensions of a tile are tied to the {self.axis} to be split")

    def _follow_descriptors(self) -> None:
        """Splits the box of every descriptor like its tiles; all accesses through a descriptor share one box."""
        boxes: dict[Node, tuple[Operation, int | None]] = {}
        for op in self.classes.ops:
            load, store = DescriptorLoadOp.of(op), tma_store(op)
            if load:
                descriptor, tile, dim = load.descriptor, op.result, self.dims.get(op.result)
            elif store:
                descriptor, tile = store.descriptor, store.source
                dim = self.dims.get(tile) if tile not in self.classes.free else self._free_store(store, boxes)
            else:
                continue
            at = box_dims(shape_of(descriptor), shape_of(tile))
            if at is None and dim is not None:
                raise _Refusal(op, f"a tile of {shape_of(tile)} goes through a box of {shape_of(descriptor)}")
            split = at[dim] if at is not None and dim is not None else None
            before = boxes.setdefault(self._box(descriptor), (op, split))
            if before[1] != split:
                cure = "use two descriptors: the box of one is the same wherever it is used"
                raise _Refusal(op, "a descriptor is used for a tile that is split and for one that is not", cure)
        self._split_boxes({box: dim for box, (_, dim) in boxes.items() if dim is not None})

    def _box(self, descriptor: Value) -> Node:
        """The class of a descriptor; loop-carried and branch values are in the class of the values they come from."""
        sizes = shape_of(descriptor)
        longest = max(range(len(sizes)), key=lambda dim: sizes[dim], default=0)
        return self.classes.root((descriptor, longest))

    def _free_store(self, store: TMAStore, boxes: dict[Node, tuple[Operation, int | None]]) -> int | None:
        """A free tile may be split in any dimension: that of the box, or the first one that the groups divide."""
        box, tile = shape_of(store.descriptor), shape_of(store.source)
        _, known = boxes.get(self._box(store.descriptor), (store.op, None))
        dim = self._free_dim(tile) if known is None else known - (len(box) - len(tile))
        if dim is not None:
            self.uses[(store.op, DescriptorStoreOp.source.index)] = dim
        return dim

    def _free_dim(self, shape: tuple[int, ...]) -> int | None:
        return next((dim for dim, size in enumerate(shape) if size > self.groups and size % self.groups == 0), None)

    def _split_boxes(self, boxes: dict[Node, int]) -> None:
        for op in self.classes.ops:
            arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
            for value in (*op.results, *arguments):
                if (
                    isinstance(parse_type(value.type), TensorDescType)
                    and (dim := boxes.get(self._box(value))) is not None
                ):
                    self.dims[value] = dim
        for mixed in self.classes.mixed:
            if mixed.place.value in self.dims and isinstance(parse_type(mixed.place.value.type), TensorDescType):
                raise _Refusal(mixed.op, mixed.reason.replace("{}", "a descriptor whose box would be split"))

    def _check_once(self) -> None:
        """Declines effects that must happen once per program: each group would repeat them."""
        for op in self.classes.ops:
            divisible = op.name in _DIVISIBLE or is_reduction(op)
            if (op.name in ATOMICS or is_reduction(op)) and not (divisible and self.exchanges):
                raise _Refusal(op, "an atomic would happen in each group, and their order is not that of one program")
            if self._must_happen(op) and not divisible:
                unknown = any(effect.kind == "any" for effect in effects_of(op))
                what = f"{word_of(op)} has unknown effects, which" if unknown else word_of(op)
                raise _Refusal(op, f"{what} would happen once in each group")

    def _check_stores(self) -> None:
        for op in self.classes.ops:
            if self._must_happen(op) and not self._is_split(op):
                what = "a volatile load" if LoadOp.matches(op) else "a store"
                cure = "do it in a kernel of its own, or keep one consumer group"
                raise _Refusal(
                    op, f"{what} does not have the {self.axis} to be split: each group would repeat it", cure
                )

    def _must_happen(self, op: Operation) -> bool:
        """Whether the operation itself, apart from nested operations, must happen once."""
        return not op.regions and op.name not in _HARMLESS and happens_once(op)

    def _is_split(self, op: Operation) -> bool:
        """Whether each group executes its own part of the effect of `op`."""
        tiles = [(index, value) for index, value in enumerate(op.operands) if shape_of(value)]
        if store := tma_store(op):
            return store.descriptor in self.dims
        if any(value in self.dims or (op, index) in self.uses for index, value in tiles):
            return True
        if not tiles or any(value not in self.classes.free for _, value in tiles):
            return False
        dim = self._free_dim(shape_of(tiles[0][1]))
        self.uses.update({(op, index): dim for index, _ in tiles if dim is not None})
        return dim is not None

    def _check_free(self) -> None:
        """Checks that every free value can be computed in the parts that its uses need."""
        work = Worklist((op.operands[index], dim) for (op, index), dim in self.uses.items())
        for value, dim in work:
            op = value.defining_op
            if op is None:
                continue
            try:
                work += [(op.operands[index], at) for index, at in demanded(op, dim).items()]
            except MixedError as error:
                raise self._mixes(error.mixed) from None
