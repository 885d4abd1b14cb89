"""Random inputs for the other outcome of an ordering comparison: a few hundred samples of all magnitudes.

    full − low > 128      full = min(…), low = max(n − diagonal, 0) / 64 · 64

The computation from the inputs to a comparison is seldom a single chain. If backward propagation (`inputs.targets`)
finds no inputs, samples are evaluated. Failure to find one is inconclusive. Loop-carried values are sampled as well,
which over-approximates them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tawa.dialects.arith import AndIOp, CmpIOp, OrIOp, XOrIOp
from tawa.dialects.declare.declaration import op_names
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.barriers.program.kernel import NUMBER_OPS, BarrierProgram
from tawa.verify.barriers.program.outcomes import CHOICES

_LOGIC = op_names(AndIOp, OrIOp, XOrIOp)
_SAMPLES = 400
_SCALES = (8, 64, 512, 4096, 65536)
EQUALITIES = 2
"""The predicates of ``arith.cmpi`` below this one test equality, which samples would miss."""


def samples(program: BarrierProgram, op: Operation, want: bool) -> dict[Value, int] | None:
    """Small inputs for which a comparison is `want` (of a min or max: left is less); None if no sample is found.

    Raises ValueError if sampling does not apply: a comparison for equality, operations other than arithmetic.
    """
    if op.name not in CHOICES and (not CmpIOp.matches(op) or read_int(op.properties["predicate"]) < EQUALITIES):
        raise ValueError("not a comparison of sizes")
    slice = _Slice(program)
    for operand in op.operands:
        slice.add(operand)
    compute = program.scalar(op)
    assert compute is not None
    source = random.Random(0)
    near = [number for number in slice.constants if number > 1]
    best: dict[Value, int] | None = None
    for _ in range(_SAMPLES):
        known: dict[Value, int] = {}
        for root in slice.roots:
            known[root] = source.randrange(source.choice(_SCALES))
            if near and source.random() < 0.3:
                known[root] = max(0, source.choice(near) * source.randrange(1, 4) + source.randrange(-1, 2))
        inputs = dict(known)
        left, right = (slice.value(operand, known) for operand in op.operands)
        if left is None or right is None:
            continue
        holds = left < right if op.name in CHOICES else bool(compute(left, right))
        if holds == want and (best is None or sum(inputs.values()) < sum(best.values())):
            best = inputs
    return best


@dataclass(slots=True)
class _Slice:
    program: BarrierProgram
    roots: dict[Value, None] = field(default_factory=dict[Value, None])
    order: list[Operation] = field(default_factory=list[Operation])
    seen: set[Value] = field(default_factory=set[Value])
    constants: set[int] = field(default_factory=set[int])
    same: dict[Value, Value] = field(default_factory=dict[Value, Value])
    programs: dict[str, Value] = field(default_factory=dict[str, Value])

    def add(self, value: Value) -> None:
        if value in self.seen:
            return
        self.seen.add(value)
        if value in self.program.constants:
            self.constants.add(self.program.constants[value])
            return
        op = value.defining_op
        sources = self.program.carried.get(value, ())
        if op is None and len(sources) == 1:
            self.add(sources[0])
            self.same[value] = sources[0]
        elif op is None or op.name in NUMBER_OPS or self.program.is_loaded(op) or self.program.scalar(op) is None:
            if (
                op is not None
                and op.name not in NUMBER_OPS
                and not self.program.is_loaded(op)
                and not op.name.startswith("scf.")
            ):
                raise ValueError(f"{op.name} is not arithmetic")
            self._root(value, op)
        elif op.name in _LOGIC:
            raise ValueError("bits")
        else:
            for operand in op.operands:
                self.add(operand)
            self.order.append(op)

    def _root(self, value: Value, op: Operation | None) -> None:
        """Adds a root; operations that read the same program id or number of programs share one."""
        if op is not None and op.name in NUMBER_OPS:
            first = self.programs.setdefault(f"{op.name} {op.properties}", value)
            if first is not value:
                self.same[value] = first
                return
        self.roots[value] = None

    def value(self, value: Value, known: dict[Value, int]) -> int | None:
        """The value for these roots; fills `known` with the intermediate values."""
        if len(known) <= len(self.roots):
            self._fill(known)
        return self._get(value, known)

    def _get(self, value: Value, known: Mapping[Value, int]) -> int | None:
        while value in self.same:
            value = self.same[value]
        return self.program.constants.get(value, known.get(value))

    def _fill(self, known: dict[Value, int]) -> None:
        for op in self.order:
            inputs = [self._get(operand, known) for operand in op.operands]
            compute = self.program.scalar(op)
            made = compute(*inputs) if compute is not None and None not in inputs else None
            if made is not None:
                known[op.result] = made
