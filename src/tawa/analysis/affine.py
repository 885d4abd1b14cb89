"""Affine forms: what a number, a tile of numbers or a tile of pointers is, as a sum of products.

    %rows = addi splat(muli %pid, 128), make_range {0..128}        →  128·pid + r0
    %at = addptr splat(%a), addi(muli(expand %rows, splat %s), …)  →  a + s·128·pid + s·r0 + r1
    loop-carried %p = addptr %p, splat(64·s)                       →  its initial form + 64·s·iv  (a loop from 0 by 1)

Taken for granted: sums and products of addresses and indices do not overflow. One that does reaches memory that is not
the tensor's; Triton's own option `sanitize_overflow` treats it as the error it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tawa.analysis.forms import Form, Guard, moved_dims, splat_number
from tawa.analysis.masks import conjuncts
from tawa.analysis.polynomials import ONE, ZERO, Atoms, Carried, Poly, Trip, constant
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp
from tawa.ir import Block, Operation, PointerType, TensorType, Value, parse_type
from tawa.ir.attributes import read_int
from tawa.symbolic.dim_relations import shape_of

# Scalar operations that give the same for the same operands, besides sums and products.
_NUMBERED = frozenset(
    (
        *("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.minsi", "arith.maxsi", "arith.minui"),
        *("arith.maxui", "arith.shrsi", "arith.shrui", "arith.andi", "arith.extui", "arith.trunci"),
        *("tt.get_program_id", "tt.get_num_programs"),
    )
)
_SUMS = frozenset(("arith.addi", "arith.subi", "arith.muli", "arith.shli"))


class Affine:
    """The forms of the values of one function, each worked out once."""

    def __init__(self, atoms: Atoms | None = None, probed: Mapping[Value, Form] | None = None) -> None:
        self.atoms = atoms if atoms is not None else Atoms()
        self._probed = dict(probed or {})
        self._forms: dict[Value, Form | None] = {}

    def form(self, value: Value) -> Form | None:
        """The form of an integer, a pointer, or a tile of them; None where it has none."""
        if value in self._probed:
            return self._probed[value]
        if value not in self._forms:
            self._forms[value] = self._work_out(value)
        return self._forms[value]

    def poly(self, value: Value) -> Poly:
        """A scalar integer as a Poly; what is no sum or product is an atom."""
        form = self.form(value)
        return form.offset if form is not None and form.base is None else self.atoms.poly(value)

    def uniform(self, value: Value) -> Poly | None:
        """The number that all elements of a tile of integers are."""
        form = self.form(value)
        return form.offset if form is not None and form.uniform else None

    # -- one operation ---------------------------------------------------------------------------------------------

    def _work_out(self, value: Value) -> Form | None:
        found = self._carried(value) if isinstance(value.owner, Block) else self._computed(value.owner, value)
        if found is not None:
            return found
        return None if shape_of(value) else self._opaque(value)

    def _opaque(self, value: Value) -> Form | None:
        """A scalar nothing more is known of."""
        if isinstance(parse_type(value.type), PointerType):
            return Form(ZERO, base=value)
        if width_of(value.type) in (None, 1):
            return None
        op = value.defining_op
        if op is not None and op.name in _NUMBERED:
            operands = tuple(self.poly(operand) for operand in op.operands)
            # What hints say of one number need not hold where another, equal one is computed.
            said = tuple(sorted((*op.properties.items(), *op.attributes.items())))
            types = tuple(operand.type for operand in op.operands)
            value = self.atoms.equal(value, (op.name, value.type, said, types, operands))
        return Form(self.atoms.poly(value))

    def _computed(self, op: Operation, value: Value) -> Form | None:
        if op.name in _SUMS and (_bits(value) or 64) < 32:
            return None  # that numbers of 8 or 16 bits wrap around is not the error that an index of 32 bits makes
        match op.name:
            case "arith.constant":
                number = splat_number(op)
                return None if number is None else Form(constant(number))
            case "tt.make_range":
                return _lanes(value, Form(constant(read_int(op.properties["start"])), {0: ONE}))
            case "tt.splat" | "arith.extsi" | "arith.index_cast":
                return self.form(op.operands[0])
            case "tt.broadcast":
                return self.form(op.operands[0])
            case "tt.expand_dims" | "tt.trans" | "tt.reshape":
                return self._reshaped(op)
            case "arith.addi" | "tt.addptr":
                return self._sum(op)
            case "arith.subi":
                return self._difference(op)
            case "arith.muli":
                return self._product(op)
            case "arith.shli":
                amount = self.uniform(op.operands[1])
                number = amount.number if amount is not None else None
                form = self.form(op.operands[0])
                if form is None or number is None or not 0 <= number < 63:
                    return None
                return self._times(op, form, constant(1 << number))
            case "arith.remsi" | "arith.minsi" | "arith.select":
                return self._guarded(op, value)
            case "arith.divsi" | "arith.shrsi" if shape_of(value):
                return self._divided(op)
            case _:
                return None

    def _reshaped(self, op: Operation) -> Form | None:
        places = moved_dims(op)
        form = self.form(op.operands[0])
        return None if places is None or form is None else form.moved(places)

    def _sum(self, op: Operation) -> Form | None:
        left, right = (self.form(operand) for operand in op.operands)
        if left is None or right is None or right.base is not None:
            return None
        return left.plus(right)

    def _difference(self, op: Operation) -> Form | None:
        left, right = (self.form(operand) for operand in op.operands)
        if left is None or right is None or left.base is not None:
            return None
        return left.plus(right.times(constant(-1)))

    def _product(self, op: Operation) -> Form | None:
        left, right = (self.form(operand) for operand in op.operands)
        if left is None or right is None or not (left.uniform or right.uniform):
            return None
        form, factor = (left, right.offset) if right.uniform else (right, left.offset)
        return self._times(op, form, factor)

    def _divided(self, op: Operation) -> Form | None:
        """``(8·i + r) // 8``: runs of eight places share a number."""
        form, amount = self.form(op.operands[0]), self.uniform(op.operands[1])
        number = amount.number if amount is not None else None
        if form is None or number is None:
            return None
        shifted = op.name == "arith.shrsi"
        if shifted:
            number = 1 << number if 0 <= number < 31 else 0
        return form.divided(number, shape_of(op.result), towards_zero=not shifted) if number > 1 else None

    def _times(self, op: Operation, form: Form, factor: Poly) -> Form:
        product = form.times(factor)
        if factor != ONE and _bits(op.result) == 64:
            self.atoms.widen(product.offset)
        return product

    # -- forms that hold in part of a tile -------------------------------------------------------------------------

    def _guarded(self, op: Operation, value: Value) -> Form | None:
        """``(x + r) % M``, ``min(x + r, M - 1)``, ``where(x + r < M, …, elsewhere)``."""
        if not shape_of(value):
            return None
        if op.name == "arith.select":
            form, mask = self.form(op.operands[1]), conjuncts(self.form, op.operands[0])
            if form is None or mask is None or any(part.kind != "upper" for part in mask):
                return None
            # A comparison of what wraps around itself says something only where it does not.
            guards = (guard for part in mask for guard in (Guard(part.dim, part.room), *part.guards))
            return replace(form, guards=tuple(dict.fromkeys((*form.guards, *guards))))
        form, bound = self.form(op.operands[0]), self.uniform(op.operands[1])
        if form is None or bound is None or len(form.lanes) != 1 or form.runs:
            return None
        ((dim, lane),) = form.lanes.items()
        if lane != ONE:
            return None
        clamped = op.name == "arith.minsi"
        room = bound + ONE - form.offset if clamped else bound - form.offset
        return replace(form, guards=(*form.guards, Guard(dim, room, None if clamped else bound)))

    # -- what a loop carries ---------------------------------------------------------------------------------------

    def _carried(self, value: Value) -> Form | None:
        """The initial form plus what all earlier iterations added, where that is the same for all elements."""
        owner = value.owner
        assert isinstance(owner, Block)
        loop = ForOp.of(owner.parent_op)
        if loop is None or value.index == 0:
            return None
        scalar = not shape_of(value)
        step = self._step(loop, value)
        start = self.form(loop.inits[value.index - 1])
        if step is None or start is None:
            return None
        if self.atoms.invariant(step, loop.op):
            return start.plus(Form(self._trips(loop, step)))
        if scalar and start.base is None:
            return None  # the value itself says it
        return start.plus(Form(self._running(loop, step)))

    def _running(self, loop: ForOp, step: Poly) -> Poly:
        """The sum of `step` over earlier iterations: through a number that the loop carries anyway, if there is one."""
        same, varying = self._factored(loop, step)
        for arg, init in zip(loop.iter_args, loop.inits, strict=True):
            if shape_of(arg) or width_of(arg.type) in (None, 1) or arg in self._probed:
                continue
            known = self._step(loop, arg)
            if known is None or not known.terms:
                continue
            times, alike = self._factored(loop, known)
            factor = same.divided_by(times)
            if alike == varying and factor is not None:
                return factor * (self.atoms.poly(arg) - self.poly(init))
        return same * self.atoms.poly(Carried(loop.op, varying))

    def _factored(self, loop: ForOp, step: Poly) -> tuple[Poly, Poly]:
        """What all terms of `step` have in common that the loop does not change, and what is left."""
        shared: list[int] | None = None
        for monomial, _ in step.terms:
            fixed = [atom for atom in monomial if self.atoms.invariant(Poly((((atom,), 1),)), loop.op)]
            shared = fixed if shared is None else [atom for atom in shared if atom in fixed]
        same = Poly.of([(tuple(dict.fromkeys(shared or ())), step.content())])
        left = step.divided_by(same)
        return (same, left) if left is not None else (ONE, step)

    def _step(self, loop: ForOp, value: Value) -> Poly | None:
        """What an iteration adds to a carried value."""
        pointer = _is_pointer(value)
        symbol = self.atoms.poly(value)
        assumed = Form(ZERO, base=value) if pointer else Form(symbol)
        inner = Affine(self.atoms, {**self._probed, value: assumed})
        end = inner.form(loop.yielded[value.index - 1])
        if end is None or end.lanes or end.guards or end.base is not assumed.base:
            return None
        step = end.offset if pointer else end.offset - symbol
        unknown = {self.atoms.index(probed) for probed in (*self._probed, value)}
        return None if unknown & set(step.atoms) else step

    def _trips(self, loop: ForOp, step: Poly) -> Poly:
        """`step` times the number of iterations before this one."""
        lower, _, stride = (self.poly(bound) for bound in loop.bounds)
        each = step.divided_by(stride)
        if each is not None:
            return each * (self.poly(loop.induction) - lower)
        return step * self.atoms.poly(Trip(loop.op))


def _is_pointer(value: Value) -> bool:
    type = parse_type(value.type)
    element = parse_type(type.element) if isinstance(type, TensorType) else type
    return isinstance(element, PointerType)


def _bits(value: Value) -> int | None:
    """The width of an integer, or of each in a tile."""
    type = parse_type(value.type)
    return width_of(type.element if isinstance(type, TensorType) else value.type)


def _lanes(value: Value, form: Form) -> Form:
    """A range of one element has no lanes."""
    return form if shape_of(value) != (1,) else Form(form.offset)


__all__ = ["Affine"]
