"""The affine interpretation: scalars, tiles of integers or pointers, and masks as affine tiles.

    %rows = addi splat(muli %pid, 128), make_range {0..128}        →  128·pid + r0
    %at = addptr splat(%a), addi(muli(expand %rows, splat %s), …)  →  a + s·128·pid + s·r0 + r1
    %mask = cmpi slt, %rows, splat %m                              →  m - 128·pid - r0 > 0
    loop-carried %p = addptr %p, splat(64·s)                       →  its initial tile + 64·s·iv  (a loop from 0 by 1)

Each operation has one transfer function in `_TRANSFER`, from the interpretation of its operands to that of its result;
loop-carried values are interpreted by induction. Each value is interpreted once, and once more under the hypothesis of
each induction that needs it.

Assumption: sums and products of addresses and indices do not overflow. A kernel in which one does accesses memory out
of bounds; Triton's own option `sanitize_overflow` reports it as an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects import arith, tt
from tawa.dialects.arith import Predicate
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, PointerType, TensorType, Value, parse_type, shape_of
from tawa.ir.attributes import read_int
from tawa.symbolic.affine_tile import AffineTile, Bound, Guard, Indicator, Mask, Places, less
from tawa.symbolic.polynomial import ONE, ZERO, Atoms, Carried, Poly, Trip, constant

Meaning = AffineTile | Mask | Indicator
"""The interpretation of a value: a mask for booleans, an affine tile or an indicator for integers and pointers."""

_NUMBERED = op_names(
    *(arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.ShRSIOp, arith.ShRUIOp, arith.AndIOp),
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.ExtUIOp, arith.TruncIOp),
    *(tt.GetProgramIdOp, tt.GetNumProgramsOp),
)
"""Scalar operations that give equal results for equal operands, besides sums and products."""


class Affine:
    """The interpretation of the values of one function.

    atoms: numbers the atoms of the polynomials. assumed: the hypotheses of an induction.
    """

    def __init__(self, atoms: Atoms | None = None, assumed: Mapping[Value, AffineTile] | None = None) -> None:
        self.atoms = atoms if atoms is not None else Atoms()
        self._assumed = dict(assumed or {})
        self._meanings: dict[Value, Meaning | None] = {}

    def tile(self, value: Value) -> AffineTile | None:
        """An integer, a pointer, or a tile of them, as an affine tile; None if it is not affine."""
        found = None if _is_boolean(value) else self.meaning(value)
        if isinstance(found, Indicator):
            return found.as_tile()
        return found if isinstance(found, AffineTile) else None

    def bounds(self, value: Value) -> tuple[Bound, ...] | None:
        """The bounds whose conjunction is the mask; None if the mask is not a conjunction of bounds."""
        found = self.meaning(value) if _is_boolean(value) else None
        return found.bounds if isinstance(found, Mask) else None

    def poly(self, value: Value) -> Poly:
        """A scalar integer as a polynomial; a scalar that is not affine is an atom."""
        tile = self.tile(value)
        return tile.offset if tile is not None and tile.base is None else self.atoms.poly(value)

    def uniform(self, value: Value) -> Poly | None:
        """The common value of all elements of a tile of integers; None if they differ."""
        tile = self.tile(value)
        return tile.offset if tile is not None and tile.uniform else None

    def meaning(self, value: Value) -> Meaning | None:
        """The interpretation of any value."""
        if value in self._assumed:
            return self._assumed[value]
        if value not in self._meanings:
            self._meanings[value] = self._interpret(value)
        return self._meanings[value]

    def _interpret(self, value: Value) -> Meaning | None:
        found = self._carried(value) if isinstance(value.owner, Block) else self._computed(value.owner)
        if found is not None:
            return found
        return None if shape_of(value) else self._opaque(value)

    def _computed(self, op: Operation) -> Meaning | None:
        transfer = _TRANSFER.get(op.name)
        if transfer is None or (op.name in _OF_TILES and not shape_of(op.result)):
            return None
        if op.name in _SUMS and (_bits(op.result) or _INDEX_BITS) < _INDEX_BITS:
            return None
        return transfer(self, op)

    def _opaque(self, value: Value) -> AffineTile | None:
        """A scalar that is an atom: a pointer, or an integer that is not affine."""
        if isinstance(parse_type(value.type), PointerType):
            return AffineTile(ZERO, base=value)
        if width_of(value.type) in (None, 1):
            return None
        op = value.defining_op
        if op is not None and op.name in _NUMBERED:
            operands = tuple(self.poly(operand) for operand in op.operands)
            # Values with different hints get different atoms: a hint need not hold for an equal value elsewhere.
            hints = tuple(sorted((*op.properties.items(), *op.attributes.items())))
            types = tuple(operand.type for operand in op.operands)
            value = self.atoms.equal(value, (op.name, value.type, hints, types, operands))
        return AffineTile(self.atoms.poly(value))

    # -- loop-carried values ---------------------------------------------------------------------------------------

    def _carried(self, value: Value) -> AffineTile | None:
        """The initial tile plus the sum of the steps of all earlier iterations, if it is uniform over the tile."""
        owner = value.owner
        assert isinstance(owner, Block)
        loop = ForOp.of(owner.parent_op)
        if loop is None or value.index == 0 or _is_boolean(value):
            return None
        scalar = not shape_of(value)
        step = self._step(loop, value)
        start = self.tile(loop.inits[value.index - 1])
        if step is None or start is None:
            return None
        if self.atoms.invariant(step, loop.op):
            return start.plus(AffineTile(self._trips(loop, step)))
        if scalar and start.base is None:
            return None  # the loop-carried value itself is the atom for that sum
        return start.plus(AffineTile(self._running(loop, step)))

    def _step(self, loop: ForOp, value: Value) -> Poly | None:
        """The amount that one iteration adds to a loop-carried value.

        Induction: the value is assumed to be a symbol, and the yielded value is interpreted under that hypothesis. The
        difference must not depend on the symbol.
        """
        pointer = _is_pointer(value)
        symbol = self.atoms.poly(value)
        assumed = AffineTile(ZERO, base=value) if pointer else AffineTile(symbol)
        inner = Affine(self.atoms, {**self._assumed, value: assumed})
        end = inner.tile(loop.yielded[value.index - 1])
        if end is None or end.lanes or end.guards or end.base is not assumed.base:
            return None
        step = end.offset if pointer else end.offset - symbol
        symbols = {self.atoms.index(it) for it in (*self._assumed, value)}
        return None if symbols & set(step.atoms) else step

    def _trips(self, loop: ForOp, step: Poly) -> Poly:
        """`step` times the number of iterations before this one."""
        lower, _, stride = (self.poly(bound) for bound in loop.bounds)
        each = step.divided_by(stride)
        if each is not None:
            return each * (self.poly(loop.induction) - lower)
        return step * self.atoms.poly(Trip(loop.op))

    def _running(self, loop: ForOp, step: Poly) -> Poly:
        """The sum of `step` over earlier iterations, in terms of a loop-carried scalar if one holds this sum."""
        same, varying = self._factored(loop, step)
        for arg, init in zip(loop.iter_args, loop.inits, strict=True):
            if shape_of(arg) or width_of(arg.type) in (None, 1) or arg in self._assumed:
                continue
            known = self._step(loop, arg)
            if known is None or not known.terms:
                continue
            times, equal = self._factored(loop, known)
            factor = same.divided_by(times)
            if equal == varying and factor is not None:
                return factor * (self.atoms.poly(arg) - self.poly(init))
        return same * self.atoms.poly(Carried(loop.op, varying))

    def _factored(self, loop: ForOp, step: Poly) -> tuple[Poly, Poly]:
        """The common loop-invariant factor of all terms of `step`, and the cofactor."""
        shared: list[int] | None = None
        for monomial, _ in step.terms:
            fixed = [atom for atom in monomial if self.atoms.invariant(Poly((((atom,), 1),)), loop.op)]
            shared = fixed if shared is None else [atom for atom in shared if atom in fixed]
        same = Poly.of([(tuple(dict.fromkeys(shared or ())), step.content())])
        left = step.divided_by(same)
        return (same, left) if left is not None else (ONE, step)


# -- transfer functions ------------------------------------------------------------------------------------------------


def _constant(affine: Affine, op: Operation) -> Meaning | None:
    text = arith.ConstantOp(op).text
    if _is_boolean(op.result):
        return Mask() if text.startswith(("true", "dense<true>")) else None
    if text.startswith("dense<"):
        text = text[len("dense<") : text.index(">")]
    try:
        return AffineTile(constant(read_int(text)))
    except ValueError:
        return None


def _range(affine: Affine, op: Operation) -> AffineTile:
    first = constant(tt.MakeRangeOp(op).start)
    has_one_element = shape_of(op.result) == (1,)
    return AffineTile(first) if has_one_element else AffineTile(first, {0: ONE})


def _splat(affine: Affine, op: Operation) -> Meaning | None:
    return affine.meaning(tt.SplatOp(op).source)


def _cast(affine: Affine, op: Operation) -> Meaning | None:
    return _widened(affine, op) if _is_boolean(op.operands[0]) else affine.tile(op.operands[0])


def _moved(affine: Affine, op: Operation) -> Meaning | None:
    places = _places(op)
    found = affine.meaning(op.operands[0])
    if places is None and isinstance(found, AffineTile) and "allow_reorder" not in op.properties:
        return found.reshaped(shape_of(op.operands[0]), shape_of(op.result))
    return None if places is None or found is None else found.moved(places)


def _sum(affine: Affine, op: Operation) -> AffineTile | None:
    left, right = (affine.tile(operand) for operand in op.operands)
    if left is None or right is None or right.base is not None:
        return None
    return left.plus(right)


def _difference(affine: Affine, op: Operation) -> AffineTile | None:
    left, right = (affine.tile(operand) for operand in op.operands)
    if left is None or right is None or left.base is not None:
        return None
    return left.plus(right.times(constant(-1)))


def _product(affine: Affine, op: Operation) -> AffineTile | None:
    left, right = (affine.tile(operand) for operand in op.operands)
    if left is None or right is None or not (left.uniform or right.uniform):
        return None
    tile, factor = (left, right.offset) if right.uniform else (right, left.offset)
    return _times(affine, op, tile, factor)


def _shifted_left(affine: Affine, op: Operation) -> AffineTile | None:
    view = arith.ShLIOp(op)
    amount, tile = _number(affine, view.rhs), affine.tile(view.lhs)
    if tile is None or amount is None or not 0 <= amount < 63:
        return None
    return _times(affine, op, tile, constant(1 << amount))


def _quotient(affine: Affine, op: Operation) -> AffineTile | None:
    """``(8·i + r) // 8``: runs of eight neighbouring elements are equal."""
    view = arith.DivSIOp(op)
    tile, number = affine.tile(view.lhs), _number(affine, view.rhs)
    if tile is None or number is None or number < 2:
        return None
    return tile.divided(number, shape_of(op.result), towards_zero=True)


def _shifted_right(affine: Affine, op: Operation) -> AffineTile | None:
    """``(8·i + r) >> 3``: the same, rounded down."""
    view = arith.ShRSIOp(op)
    tile, amount = affine.tile(view.lhs), _number(affine, view.rhs)
    if tile is None or amount is None or not 0 < amount < 31:
        return None
    return tile.divided(1 << amount, shape_of(op.result), towards_zero=False)


def _remainder(affine: Affine, op: Operation) -> AffineTile | None:
    """``(x + r) % M``: x + r, guarded by x + r < M; ``(8·i + r) % 8`` is the place in a run of eight."""
    view = arith.RemSIOp(op)
    tile, number = affine.tile(view.lhs), _number(affine, view.rhs)
    if tile is not None and number is not None and number > 1:
        place = tile.remainder(number, shape_of(op.result), towards_zero=True)
        if place is not None:
            return place
    counted, modulus = _counted(affine, view.lhs), affine.uniform(view.rhs)
    if counted is None or modulus is None:
        return None
    dim, tile = counted
    return tile.guarded([Guard(dim, modulus - tile.offset, modulus)])


def _least(affine: Affine, op: Operation) -> AffineTile | None:
    """``min(x + r, last)``: x + r, guarded by x + r <= last."""
    view = arith.MinSIOp(op)
    counted, last = _counted(affine, view.lhs), affine.uniform(view.rhs)
    if counted is None or last is None:
        return None
    dim, tile = counted
    return tile.guarded([Guard(dim, last + ONE - tile.offset)])


def _selected(affine: Affine, op: Operation) -> Meaning | None:
    """``where(x + r < M, …, elsewhere)``: the true value, guarded by the mask; of two masks, their conjunction."""
    view = arith.SelectOp(op)
    mask = affine.meaning(view.condition)
    if not isinstance(mask, Mask):
        return None
    if _is_boolean(op.result):
        other = affine.meaning(view.true_value) if arith.is_zero(view.false_value) else None
        return mask.both(other) if isinstance(other, Mask) else None
    inside, outside = _number(affine, view.true_value), _number(affine, view.false_value)
    if inside is not None and outside is not None:
        return Indicator(mask, inside, outside)
    tile, guards = affine.tile(view.true_value), mask.as_guards()
    return None if tile is None or guards is None else tile.guarded(guards)


def _widened(affine: Affine, op: Operation) -> Indicator | None:
    """A mask as a tile of integers."""
    tiled = bool(shape_of(op.result)) and _is_boolean(op.operands[0])
    mask = affine.meaning(op.operands[0]) if tiled else None
    return Indicator(mask, 1 if arith.ExtUIOp.matches(op) else -1, 0) if isinstance(mask, Mask) else None


def _conjunction(affine: Affine, op: Operation) -> Meaning | None:
    """The conjunction of masks; ``(8·i + r) & 7`` is the place in a run of eight."""
    if not _is_boolean(op.result):
        view = arith.AndIOp(op)
        tile, number = affine.tile(view.lhs), _number(affine, view.rhs)
        if tile is None or number is None or number < 1 or number & (number + 1) or not shape_of(op.result):
            return None
        return tile.remainder(number + 1, shape_of(op.result), towards_zero=False)
    left, right = (affine.meaning(operand) for operand in op.operands)
    return left.both(right) if isinstance(left, Mask) and isinstance(right, Mask) else None


def _comparison(affine: Affine, op: Operation) -> Mask | None:
    view = arith.CmpIOp(op)
    first, number = affine.meaning(view.lhs), _number(affine, view.rhs)
    if isinstance(first, Indicator) and number is not None:
        return first.where(lambda element: view.predicate.holds(element, number) == 1)
    left, right = affine.tile(view.lhs), affine.tile(view.rhs)
    if left is None or right is None:
        return None
    match view.predicate:
        case Predicate.SLT | Predicate.SLE:
            return less(left, right, or_equal=view.predicate == Predicate.SLE)
        case Predicate.SGT | Predicate.SGE:
            return less(right, left, or_equal=view.predicate == Predicate.SGE)
        case _:
            return None


_TRANSFER: Mapping[str, Callable[[Affine, Operation], Meaning | None]] = by_name(
    {
        arith.ConstantOp: _constant,
        tt.MakeRangeOp: _range,
        tt.SplatOp: _splat,
        arith.ExtSIOp: _cast,
        arith.ExtUIOp: _widened,
        arith.IndexCastOp: _cast,
        tt.BroadcastOp: _moved,
        tt.ExpandDimsOp: _moved,
        tt.TransOp: _moved,
        tt.ReshapeOp: _moved,
        arith.AddIOp: _sum,
        tt.AddPtrOp: _sum,
        arith.SubIOp: _difference,
        arith.MulIOp: _product,
        arith.ShLIOp: _shifted_left,
        arith.DivSIOp: _quotient,
        arith.ShRSIOp: _shifted_right,
        arith.RemSIOp: _remainder,
        arith.MinSIOp: _least,
        arith.SelectOp: _selected,
        arith.AndIOp: _conjunction,
        arith.CmpIOp: _comparison,
    }
)
_OF_TILES = op_names(arith.ExtUIOp, arith.DivSIOp, arith.ShRSIOp, arith.RemSIOp, arith.MinSIOp, arith.SelectOp)
"""Operations with a transfer function for tiles only: a scalar result is an atom."""
_SUMS = op_names(arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.ShLIOp)
_INDEX_BITS = 32
"""Narrower integers may wrap around on purpose; an index that wraps around is an error."""


def _counted(affine: Affine, value: Value) -> tuple[int, AffineTile] | None:
    """The dimension and the tile ``x + r``, if a value counts along one dimension in steps of 1."""
    tile = affine.tile(value)
    if tile is None or len(tile.lanes) != 1 or tile.runs:
        return None
    ((dim, lane),) = tile.lanes.items()
    return (dim, tile) if lane == ONE else None


def _times(affine: Affine, op: Operation, tile: AffineTile, factor: Poly) -> AffineTile:
    product = tile.times(factor)
    if factor != ONE and _bits(op.result) == 64:
        affine.atoms.widen(product.offset)
    return product


def _number(affine: Affine, value: Value) -> int | None:
    """The constant that all elements of a tile equal, or None."""
    same = affine.uniform(value)
    return same.number if same is not None else None


def _places(op: Operation) -> Places | None:
    """The result dimension of each operand dimension, except those of size one; None if one is split or merged."""
    source, target = shape_of(op.operands[0]), shape_of(op.result)
    long = [dim for dim, size in enumerate(source) if size > 1]
    if expanded := tt.ExpandDimsOp.of(op):
        return {dim: dim + (dim >= expanded.axis) for dim in long}
    if transposed := tt.TransOp.of(op):
        return {dim: place for place, dim in enumerate(transposed.order) if source[dim] > 1}
    if tt.ReshapeOp.matches(op):
        after = [dim for dim, size in enumerate(target) if size > 1]
        same = [source[dim] for dim in long] == [target[dim] for dim in after]
        return dict(zip(long, after, strict=True)) if same and "allow_reorder" not in op.properties else None
    return {dim: dim for dim in long}


def _bits(value: Value) -> int | None:
    """The width of an integer, or of the elements of a tile of integers."""
    type = parse_type(value.type)
    return width_of(type.element if isinstance(type, TensorType) else value.type)


def _is_boolean(value: Value) -> bool:
    return _bits(value) == 1


def _is_pointer(value: Value) -> bool:
    type = parse_type(value.type)
    element = parse_type(type.element) if isinstance(type, TensorType) else type
    return isinstance(element, PointerType)
