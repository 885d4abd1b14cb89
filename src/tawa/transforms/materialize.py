"""Materialize: emits the operations that compute a polynomial.

    128·pid + 64·iv   →   addi(muli %pid, 128), muli(%iv, 64)

A trip index becomes ``(iv - lower) / step``; a sum over iterations becomes a loop-carried value.
"""

from __future__ import annotations

from tawa.analysis.tma.available_values import is_known
from tawa.dialects.arith import AddIOp, DivSIOp, ExtSIOp, IndexCastOp, MulIOp, SubIOp, TruncIOp
from tawa.dialects.builtin import ModuleOp
from tawa.dialects.control_flow import carry_through
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Block, Builder, Operation, Value
from tawa.symbolic.polynomial import Atom, Atoms, Carried, Monomial, Poly, Trip

_TOP = op_names(FuncOp, ModuleOp)


class Materializer:
    """Emits operations for the polynomials of one function."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self._made: dict[tuple[Atom, str], Value] = {}

    def number(self, poly: Poly, builder: Builder, type: str = "i32", hint: str = "") -> Value:
        """Emits a polynomial as an integer of `type` at the insertion point of `builder`."""
        total = self._plus(None, poly, builder, type, hint)
        return total if total is not None else builder.constant(0, type)

    def number_for(self, user: Operation, poly: Poly, hint: str = "") -> Value:
        """Emits a polynomial as an i32 before `user`; each monomial outside of the loops in which it is invariant."""
        places = [user, *(op for op in user.ancestors() if op.name not in _TOP)]
        levels: dict[int, list[tuple[Monomial, int]]] = {}
        for monomial, factor in poly.terms:
            depth = min((self._depth(self.atoms[index], places) for index in monomial), default=len(places) - 1)
            levels.setdefault(depth, []).append((monomial, factor))
        total: Value | None = None
        for depth in sorted(levels, reverse=True):
            total = self._plus(total, Poly.of(levels[depth]), Builder.before(places[depth]), "i32", hint)
        return total if total is not None else Builder.before(user).constant(0)

    def _depth(self, atom: Atom, places: list[Operation]) -> int:
        """The index of the outermost of `places` (innermost first) at which the value of an atom is available."""
        if isinstance(atom, Trip | Carried):
            block = ForOp(atom.loop).body
            return next((depth for depth, op in enumerate(places) if op.parent is block), 0)
        depths = [depth for depth, op in enumerate(places) if self._version(atom, Builder.before(op)) is not None]
        return max(depths, default=0)

    def _version(self, atom: Value, builder: Builder) -> Value | None:
        """One of the values that an atom stands for that is available at the insertion point of `builder`."""
        return next((value for value in self.atoms.versions(atom) if is_known(value, builder)), None)

    def _plus(self, total: Value | None, poly: Poly, builder: Builder, type: str, hint: str) -> Value | None:
        for monomial, factor in poly.terms:
            term: Value | None = None
            for index in monomial:
                atom = self._atom(self.atoms[index], builder, type)
                term = atom if term is None else MulIOp.create(builder, term, atom)
            if term is None:
                term = builder.constant(factor, type)
            elif factor != 1:
                term = MulIOp.create(builder, term, builder.constant(factor, type))
            total = term if total is None else AddIOp.create(builder, total, term, hint)
        return total

    def _atom(self, atom: Atom, builder: Builder, type: str) -> Value:
        if isinstance(atom, Value):
            return cast(builder, self._version(atom, builder) or atom, type)
        if (atom, type) not in self._made:
            loop = ForOp(atom.loop)
            made = self._trips(loop, type) if isinstance(atom, Trip) else self._sum(loop, atom, type)
            self._made[atom, type] = made
        return self._made[atom, type]

    def _trips(self, loop: ForOp, type: str) -> Value:
        builder = Builder.at_start(loop.body, loop.op.loc)
        first, _, stride = loop.bounds
        done = SubIOp.create(builder, loop.induction, first)
        number = builder.create(DivSIOp.NAME, (done, stride), (done.type,), hints=("trip",)).result
        return cast(builder, number, type)

    def _sum(self, loop: ForOp, atom: Carried, type: str) -> Value:
        zero = Builder.before(loop.op).constant(0, type)

        def more(body: Block, moved: Value) -> Value:
            builder = Builder.before(body.terminator)
            return AddIOp.create(builder, moved, self.number(atom.step, builder, type), "moved")

        result = carry_through(loop.op, zero, more, "moved")
        return loop.iter_args[result.index]


def cast(builder: Builder, value: Value, type: str) -> Value:
    """An integer converted to another width: sign-extended or truncated."""
    if value.type == type:
        return value
    if "index" in (value.type, type):
        return builder.create(IndexCastOp.NAME, (value,), (type,)).result
    wider = (width_of(type) or 0) > (width_of(value.type) or 0)
    return builder.create(ExtSIOp.NAME if wider else TruncIOp.NAME, (value,), (type,)).result


def last_definition(values: list[Value], block_ops: list[Operation]) -> Operation | None:
    """The last operation of a block that defines one of `values`; None if all of them are arguments."""
    makers = [value.defining_op for value in values]
    return next((op for op in reversed(block_ops) if op in makers), None)
