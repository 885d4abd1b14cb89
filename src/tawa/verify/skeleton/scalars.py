"""Compiles scalars: what counts, bounds, conditions, slots and parities are computed from.

    %n = arith.addi %i, %one        →     SCALAR n ← i, one         a number, if its operands are
    %x = tt.load %p, %mask, %d      →     SCALAR x ← load p         a choice between what is in memory and the default
                                          SCALAR n ← mask, x, d

A value that is the same in every iteration has a term already here, which partitions share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tawa.dialects.aref import AdvanceOp, FirstOp
from tawa.dialects.arith import CmpIOp, SelectOp
from tawa.dialects.declare.declaration import effects_by_name
from tawa.dialects.scalars import scalar_of
from tawa.dialects.tt import LoadOp
from tawa.dialects.ttg import VIEWS, LocalLoadOp
from tawa.ir import Operation, Value
from tawa.verify.given_numbers import given_numbers
from tawa.verify.skeleton.emitter import Emitter
from tawa.verify.skeleton.program import USUAL, Code, plain_name


class Scalars:
    """The compiler of scalars. ops: all operations of the function."""

    def __init__(self, code: Emitter, ops: Iterable[Operation]) -> None:
        self.code = code
        self.given = given_numbers(ops)

    def compile(self, op: Operation) -> None:
        """Compiles an operation of which a result is needed."""
        if op.name == FirstOp.NAME:
            self.code.define(op.result, 0)
        elif op.name == AdvanceOp.NAME:
            self.code.emit(op, Code.ADVANCE, self.code.use(AdvanceOp(op).index), self.code.define(op.result))
        elif op.name in VIEWS:
            self.code.register[op.result] = self.code.use(op.operands[0])
        elif op.result.type.startswith("!ttg.memdesc") or op.result.type.startswith("tensor<"):
            self.code.define(op.result)
        else:
            self._number(op)

    def _number(self, op: Operation) -> None:
        function = scalar_of(op)
        if op.result in self.code.sources.crossed.sources:
            self._crossed(op)
        elif function is not None and not op.operands:
            number = self.code.canonical[op.result] = function()
            self.code.define(op.result, number)
        elif LoadOp.matches(op) and len(op.operands) > 1:
            self._masked_load(op)
        else:
            ins = () if op in self.given else tuple(self.code.use(it) for it in self._inputs(op))
            signature = self._signature(op)
            if function is not None:
                self.code.program.terms.functions[signature] = function
            self.code.emit(op, Code.SCALAR, function, ins, self.code.define(op.result), signature)
            self._find_canonical(op)

    def _crossed(self, op: Operation) -> None:
        """A number that comes out of a ring."""
        if self.code.accesses is not None:
            return  # the load has taken it out of memory
        load = LocalLoadOp.of(op.operands[0].defining_op)
        assert load is not None
        self.code.emit(op, Code.RECEIVE, self.code.use(load.buffer), self.code.define(op.result))

    def _masked_load(self, op: Operation) -> None:
        """A load with a mask is a choice between what is in memory and the default, if there is one."""
        load, terms, crossed = LoadOp(op), self.code.program.terms, self.code.sources.crossed
        pointer, mask, other = (
            None if it is None else self.code.use(it) for it in (load.pointers, load.mask, load.other)
        )
        assert pointer is not None
        loaded = self.code.constant(None)
        signature = self._signature(op)
        self.code.emit(op, Code.SCALAR, None, (pointer,), loaded, signature)
        rest = self.code.constant(None) if other is None else other
        if load.partial:
            self.code.emit(op, Code.SCALAR, None, (), rest, ("undefined", crossed.undefined[op]))
        where = self.code.canonical.get(load.pointers)
        address = None if where is None or signature[0] == "atomic" else terms((*signature, where))
        if mask is None:
            self.code.emit(op, Code.MOVE, (loaded,), (self.code.define(op.result),))
            made = address
        else:
            out = self.code.define(op.result)
            self.code.emit(op, Code.SCALAR, _select, (mask, loaded, rest), out, (SelectOp.NAME,))
            assert load.mask is not None
            default = None if load.other is None else self.code.canonical.get(load.other)
            parts = [self.code.canonical.get(load.mask), address, default]
            made = None if None in parts else terms((SelectOp.NAME, *parts))
        if made is not None:
            self.code.canonical[op.result] = made

    def _inputs(self, op: Operation) -> Sequence[Value]:
        function = self.code.sources.number_function(op)
        return op.operands if function is None else function.inputs

    def _signature(self, op: Operation) -> tuple[Any, ...]:
        """The key of an operation: equal keys on equal operands give equal results."""
        if function := self.code.sources.number_function(op):
            return ("function", function.name)
        effects = effects_by_name(op.name)
        opaque = bool(op.regions) or any(effect.kind not in ("read",) for effect in effects)
        unread = any(it.type.startswith("tensor<") for it in op.operands)
        if op in self.code.sources.crossed.atomics:
            return ("atomic", self.code.sources.crossed.atomics[op])
        if op in self.given:
            return ("given", self.given[op])
        if opaque or unread:
            return ("opaque", op.name, id(op))
        if LoadOp.matches(op):
            return (LoadOp.NAME,)
        properties = sorted((name, text) for name, text in op.properties.items() if name != "overflowFlags")
        type = op.operands[-1].type if op.operands else op.result.type
        if CmpIOp.matches(op):
            properties += [("of", "flags")] if type == "i1" else []  # no order of numbers
        elif scalar_of(op) is not None and not SelectOp.matches(op):
            properties += [("of", type)] if type != USUAL else []
        if len(op.operands) == 1 and op.result.type != type:
            properties.append(("to", op.result.type))  # a conversion
        return (op.name, *(item for pair in properties for item in pair))

    def _find_canonical(self, op: Operation) -> None:
        """Finds the term of a loop-invariant result."""
        if op in self.given:
            self.code.canonical[op.result] = self.code.program.terms(self._signature(op), plain_name(op.result.hint))
            return
        inputs = [self.code.canonical.get(it) for it in self._inputs(op)]
        if None in inputs or self._signature(op)[0] in ("opaque", "atomic"):
            return
        function = scalar_of(op)
        if function is not None and all(isinstance(it, int) for it in inputs):
            self.code.canonical[op.result] = function(*inputs)
            return
        name = plain_name(op.result.hint)
        self.code.canonical[op.result] = self.code.program.terms((*self._signature(op), *inputs), name)


def _select(condition: int, one: Any, other: Any) -> Any:
    return one if condition else other
