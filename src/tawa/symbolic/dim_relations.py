"""Dimension relations: how an operation relates the dimensions of its operands and results. One rule per operation.

Two dimensions are *tied* if element i of one depends only on element i of the other, so that a part of one needs only
the same part of the other. An operation *mixes* a dimension otherwise: a reduction over it, a contraction, a reshape
through it, an operation without a rule.

    %s = "tt.dot"(%q, %k, %0)         rows of %q, %0 and %s; columns of %k, %0 and %s; contracted: columns of %q
    %m = "tt.reduce"(%s) {axis = 1}   rows of %s and %m; mixed: columns of %s
    %e = "tt.expand_dims"(%m) {axis = 1}                rows of %m and %e
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tawa.dialects import declared_ops, tt
from tawa.dialects.arith import ConstantOp
from tawa.dialects.builtin import ModuleOp, PoisonOp
from tawa.dialects.control_flow import incoming, outgoing
from tawa.dialects.declare.declaration import global_address, op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.code import INLINE
from tawa.dialects.inline.markers import PartOfTileOp, WholeTileOp
from tawa.dialects.scf import CONTROL, ENDS, WhileOp
from tawa.ir import Operation, Value, shape_of
from tawa.ir.attributes import read_int
from tawa.symbolic.words import word_of


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Dimension `dim` of `value`. user, index: the operand that it is; user is None for a result or an argument."""

    value: Value
    dim: int
    user: Operation | None = None
    index: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """`op` needs the whole of dimension `place`. reason: a message; ``{}`` stands for the dimension."""

    place: Place
    op: Operation
    reason: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Relations:
    """The relations of one operation. ties: groups of tied dimensions of equal size. mixed: the dimensions it mixes."""

    ties: tuple[tuple[Place, ...], ...] = ()
    mixed: tuple[Mixed, ...] = ()


class MixedError(Exception):
    """The mixed dimension that makes `demanded` fail."""

    def __init__(self, mixed: Mixed) -> None:
        self.mixed = mixed


Rule = Callable[[Operation], Relations]


def has_rows(tile: Value) -> bool:
    """Whether a tile has several dimensions longer than one; a row, a column and a scalar do not."""
    return sum(size > 1 for size in shape_of(tile)) > 1


def relations_of(op: Operation, parts: int = 1) -> Relations:
    """The relations of one operation; those of control flow are given for the loop or the if, not for its yields.

    parts: with several, dimensions of different sizes are tied too, if so many equal parts of them are the same ones.
    """
    if tt.ReshapeOp.matches(op):
        return _reshape(op, parts)
    if WholeTileOp.matches(op) or PartOfTileOp.matches(op):  # what is divided begins and ends there
        return Relations()
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op)
    if op.name in ELEMENTWISE or (op.name in INLINE and is_pure(op)):
        return _elementwise(op)
    return _unknown(op)


def box_dims(box: Sequence[int], tile: Sequence[int]) -> tuple[int, ...] | None:
    """The dimension of the box for each dimension of a tile that goes through it; the tile may omit leading ones."""
    lead = len(box) - len(tile)
    if lead < 0 or any(size != 1 for size in box[:lead]) or tuple(box[lead:]) != tuple(tile):
        return None
    return tuple(range(lead, len(box)))


def is_splat(constant: Operation) -> bool:
    """Whether all elements of a constant are equal: ``dense<1.0>``, not ``dense<[1.0, 2.0]>``."""
    return not constant.properties["value"].startswith(("dense<[", 'dense<"', "dense_resource", "sparse"))


def demanded(op: Operation, dim: int) -> dict[int, int]:
    """The dimension of each operand that must be split if dimension `dim` of the results of a free operation is split.

    Returns a dimension by operand index. Raises MixedError if the operation mixes the dimension.
    """
    relations = relations_of(op)
    for mixed in relations.mixed:
        if mixed.place.value in op.results and mixed.place.dim == dim:
            raise MixedError(mixed)
    ties = [tie for tie in relations.ties if any(place.value in op.results and place.dim == dim for place in tie)]
    return {place.index: place.dim for tie in ties for place in tie if place.user is not None}


def operand_places(op: Operation) -> list[Place]:
    """Every dimension longer than one of every operand."""
    return [place for index in range(len(op.operands)) for place in _dims_of_operand(op, index)]


def _dims_of_operand(op: Operation, index: int) -> list[Place]:
    value = op.operands[index]
    return [Place(value, dim, op, index) for dim, size in enumerate(shape_of(value)) if size > 1]


def _dims_of(value: Value) -> list[Place]:
    return [Place(value, dim) for dim, size in enumerate(shape_of(value)) if size > 1]


def _size(place: Place) -> int:
    return shape_of(place.value)[place.dim]


def _tie(*places: Place) -> tuple[Place, ...]:
    """A tie of the dimensions longer than one; a dimension of size one is broadcast."""
    return tuple(place for place in places if _size(place) > 1)


def _nothing(_: Operation) -> Relations:
    return Relations()


def _unknown(op: Operation) -> Relations:
    """An operation without a rule mixes all dimensions."""
    places = [*operand_places(op), *(place for result in op.results for place in _dims_of(result))]
    reason = f"nothing is known of what {word_of(op)} does with {{}}"
    return Relations((), tuple(Mixed(place, op, reason) for place in places))


def _elementwise(op: Operation) -> Relations:
    """Elementwise on tiles of one shape; scalar operands are uniform."""
    shapes = {shape_of(value): None for value in (*op.operands, *op.results) if shape_of(value)}
    if len(shapes) > 1:
        return _unknown(op)
    return Relations(_straight(op, range(len(op.operands)), op.results, len(next(iter(shapes), ()))))


def _straight(
    op: Operation, indices: Sequence[int], results: Sequence[Value], rank: int
) -> tuple[tuple[Place, ...], ...]:
    """Ties dimension d of the operands at `indices` that are tiles to dimension d of `results`."""
    return tuple(
        _tie(
            *(Place(op.operands[index], dim, op, index) for index in indices if shape_of(op.operands[index])),
            *(Place(result, dim) for result in results if shape_of(result)),
        )
        for dim in range(rank)
    )


def _access(op: Operation) -> Relations:
    """A load, store or atomic through pointers: elementwise over the tile of pointers."""
    tiled = any(shape_of(value) for value in (*op.operands, *op.results))
    return _unknown(op) if tiled and not shape_of(global_address(op)) else _elementwise(op)


def _expand_dims(op: Operation) -> Relations:
    view = tt.ExpandDimsOp(op)
    axis, dims = view.axis, range(len(shape_of(view.source)))
    return Relations(tuple(_tie(Place(view.source, dim, op, 0), Place(op.result, dim + (dim >= axis))) for dim in dims))


def _broadcast(op: Operation) -> Relations:
    return Relations(_straight(op, (0,), op.results, len(shape_of(op.result))))


def _trans(op: Operation) -> Relations:
    view = tt.TransOp(op)
    return Relations(
        tuple(_tie(Place(view.source, source, op, 0), Place(op.result, dim)) for dim, source in enumerate(view.order))
    )


def _along(op: Operation, what: str) -> Relations:
    """A reduction or scan, possibly of several tiles: mixes its axis."""
    axis = read_int(op.properties["axis"])
    lost = tt.ReduceOp.matches(op)
    ties: list[tuple[Place, ...]] = []
    mixed: list[Mixed] = []
    for dim in range(len(shape_of(op.operands[0]))):
        operands = [Place(value, dim, op, index) for index, value in enumerate(op.operands)]
        if dim != axis:
            target = dim - (lost and dim > axis)
            ties.append(_tie(*operands, *(Place(result, target) for result in op.results)))
        else:
            results = () if lost else (Place(result, dim) for result in op.results)
            cure = "let each row or column have its own result, or keep one consumer group"
            mixed += [Mixed(place, op, f"{what} runs along {{}}", cure) for place in _tie(*operands, *results)]
    return Relations(tuple(ties), tuple(mixed))


def _dot(op: Operation) -> Relations:
    """``D = A·B + C``; tiles with three dimensions have a leading batch dimension."""
    a, b, c = op.operands[:3]
    row, column = len(shape_of(c)) - 2, len(shape_of(c)) - 1
    batches = _straight(op, (0, 1, 2), op.results, row)
    rows = _tie(Place(a, row, op, 0), Place(c, row, op, 2), Place(op.result, row))
    columns = _tie(Place(b, column, op, 1), Place(c, column, op, 2), Place(op.result, column))
    contracted = _tie(Place(a, column, op, 0), Place(b, row, op, 1))
    reason = "a dot sums over {}"
    cure = "keep one consumer group: the groups would have to add up their parts"
    mixed = tuple(Mixed(place, op, reason, cure) for place in contracted)
    return Relations((*batches, rows, columns, contracted), mixed)


def _dot_scaled(op: Operation) -> Relations:
    """As `_dot`; a row of A, and a column of B, has a row of scales. No rule if they are packed along these."""
    view = tt.DotScaledOp(op)
    rows, columns = shape_of(op.result)[-2:]
    if (shape_of(view.a)[-2], shape_of(view.b)[-1]) != (rows, columns):
        return _unknown(op)
    found, batches = _dot(op), len(shape_of(op.result)) - 2
    ties = list(found.ties[:-1])  # what is summed over may be packed in one operand and not in the other
    mixed = list(found.mixed)
    for scales, tie in ((view.a_scale, -2), (view.b_scale, -1)):
        if scales is not None:
            index = op.operands.index(scales)
            ties[tie] = (*ties[tie], *_tie(Place(scales, batches, op, index)))
            mixed.append(Mixed(Place(scales, batches + 1, op, index), op, "a dot sums over {}"))
    return Relations(tuple(ties), tuple(mixed))


def _reshape(op: Operation, parts: int) -> Relations:
    """A dimension is preserved if source and result have one of the same size after the same number of elements.

    If only the parts of a dimension matter, the sizes may differ: 128 is 2 x 4 x 16, and a half of it a half of 2.
    """
    tile = tt.ReshapeOp(op).source
    source, target = shape_of(tile), shape_of(op.result)
    places = {
        (prod(target[:at]), size if parts == 1 or size % parts else 0): at
        for at, size in enumerate(target)
        if size > 1 and "allow_reorder" not in op.properties
    }
    ties: list[tuple[Place, ...]] = []
    passed: list[int] = []
    for dim, size in enumerate(source):
        at = places.get((prod(source[:dim]), size if parts == 1 or size % parts else 0))
        if size > 1 and at is not None:
            ties.append((Place(tile, dim, op, 0), Place(op.result, at)))
            passed.append(at)
    through = [tie[0].dim for tie in ties]
    mixed = [place for place in _dims_of_operand(op, 0) if place.dim not in through]
    mixed += [place for place in _dims_of(op.result) if place.dim not in passed]
    shapes = f"{'x'.join(map(str, source))} to {'x'.join(map(str, target))}"
    reason = f"a reshape of {shapes} mixes {{}} with other dimensions"
    return Relations(
        tuple(ties), tuple(Mixed(place, op, reason, "reshape the other dimensions only") for place in mixed)
    )


def _join(op: Operation) -> Relations:
    """Two tiles become the two elements of a new last dimension."""
    rank = len(shape_of(tt.JoinOp(op).lhs))
    mixed = Mixed(Place(op.result, rank), op, "a join makes {} out of two tiles")
    return Relations(_straight(op, (0, 1), op.results, rank), (mixed,))


def _split(op: Operation) -> Relations:
    """The two elements of the last dimension become two tiles."""
    source = tt.SplitOp(op).source
    rank = len(shape_of(source)) - 1
    mixed = Mixed(Place(source, rank, op, 0), op, "a split takes {} apart")
    return Relations(_straight(op, (0,), op.results, rank), (mixed,))


def _gather(op: Operation) -> Relations:
    """``result[i, j] = source[index[i, j], j]`` for axis 0: needs the whole axis of the source."""
    view = tt.GatherOp(op)
    axis = view.axis
    ties = [
        _tie(
            *((Place(view.source, dim, op, 0),) if dim != axis else ()),
            Place(view.indices, dim, op, 1),
            Place(op.result, dim),
        )
        for dim in range(len(shape_of(op.result)))
    ]
    if any(len({_size(place) for place in tie}) > 1 for tie in ties):
        return _unknown(op)
    mixed = _tie(Place(view.source, axis, op, 0))
    return Relations(tuple(ties), tuple(Mixed(place, op, "a gather reads anywhere along {}") for place in mixed))


def _control(op: Operation) -> Relations:
    """Loops and branches pass tiles on unchanged."""
    repeat = WhileOp.of(op)
    ties: list[tuple[Place, ...]] = []
    for value in (*(repeat.before.args if repeat else ()), *op.results):
        uses = incoming(value)
        for dim in range(len(shape_of(value))):
            given = (Place(use.value, dim, use.op, use.index) for use in uses)
            ties.append(_tie(*given, *(Place(handed, dim) for handed in outgoing(uses[0]))))
    return Relations(tuple(ties))


_TT_ELEMENTWISE = op_names(
    *(tt.AddPtrOp, tt.BitcastOp, tt.ClampFOp, tt.FpToFpOp, tt.IntToPtrOp, tt.PtrToIntOp),
    *(tt.ApproxDivFOp, tt.MulhiUIOp, tt.PreciseDivFOp, tt.PreciseSqrtOp),
)
FREE = _TT_ELEMENTWISE | {
    it.NAME for it in declared_ops() if it.NAME.startswith(("arith.", "math.")) and it is not ConstantOp
}
"""Elementwise operations without effects."""
ELEMENTWISE = FREE | op_names(tt.AssertOp)
SOURCES = op_names(ConstantOp, tt.MakeRangeOp, tt.SplatOp, PoisonOp)
"""Operations that make tiles from attributes or scalars."""
SHAPING = op_names(tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, tt.TransOp)
"""Operations that change the shape of a tile only."""

_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (tt.MakeRangeOp.NAME, tt.SplatOp.NAME, PoisonOp.NAME, tt.MakeTensorDescOp.NAME, tt.UnsplatOp.NAME), _nothing
    ),
    ConstantOp.NAME: lambda op: _nothing(op) if is_splat(op) else _unknown(op),
    **dict.fromkeys((ModuleOp.NAME, tt.FuncOp.NAME, tt.ReturnOp.NAME, *ENDS), _nothing),
    # Their tiles are tied to the boxes of descriptors, which `tawa.analysis.dims.split_dims` handles.
    **dict.fromkeys((tt.DescriptorLoadOp.NAME, tt.DescriptorStoreOp.NAME, tt.DescriptorReduceOp.NAME), _nothing),
    tt.LoadOp.NAME: _access,
    tt.StoreOp.NAME: _access,
    tt.AtomicRMWOp.NAME: _access,
    tt.ExpandDimsOp.NAME: _expand_dims,
    tt.BroadcastOp.NAME: _broadcast,
    tt.TransOp.NAME: _trans,
    tt.ReduceOp.NAME: lambda op: _along(op, "a reduction"),
    tt.ScanOp.NAME: lambda op: _along(op, "a scan"),
    tt.DotOp.NAME: _dot,
    tt.DotScaledOp.NAME: _dot_scaled,
    tt.JoinOp.NAME: _join,
    tt.SplitOp.NAME: _split,
    tt.GatherOp.NAME: _gather,
    **dict.fromkeys(CONTROL, _control),
}
