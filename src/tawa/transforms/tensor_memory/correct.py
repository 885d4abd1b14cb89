"""Correct: a partition of its own rewrites accumulators; the other threads send it the vectors that it needs for that.

    loop:                                         loop:
      %f = factor                                   %f = factor
                                                    aref.put %factor[%i] { ^(%slot): local_store %f, %slot }
                                             →      %t = aref.get %factor[%i]; %g = local_load %t
                                                    aref.consumed %factor[%i]
      %acc' = mulf %acc, (broadcast %f)             %acc' = mulf %acc, (broadcast %g)   {tawa.corrected}
      %acc = dot %p, %v, %acc'                      %acc = dot %p, %v, %acc'            {tawa.corrected}

What follows from the accumulators goes with them: the last rewrite, and the stores of the result. `accumulate` and
`hand_over` give their buffers to that partition, `partition` makes a slice of it.

Source: FlashAttention-4, "correction warps".
Requires: `insert_arefs`, before `accumulate`; the Plan has a partition for corrections.
Ensures: what is computed from such an accumulator needs nothing of other dots but what comes out of rings.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.loops.corrections import VECTOR_SLOT, CorrectionInfo, find_correction
from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, PutOp, RingType
from tawa.dialects.effects import is_pure
from tawa.dialects.scf import CONTROL
from tawa.dialects.tcgen05 import CORRECTED
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalLoadOp, LocalStoreOp
from tawa.ir import Block, Builder, Module, Operation, Region, TensorType, Value, clone_op, parse_type
from tawa.ir.attributes import string_attr
from tawa.plan import Plan
from tawa.plan.fields import FACTOR_RING
from tawa.transforms.partition.insert_arefs import thread_count
from tawa.transforms.result import PassResult

_ENCODING = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"


@dataclass(frozen=True, slots=True)
class Correct:
    """plan: says whether there is such a partition, and has its rings."""

    plan: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Inserts the rings of vectors, and marks what belongs to the partition."""
        found = find_correction(module) if self.plan.correction else ""
        if isinstance(found, str):
            return PassResult(changed=False)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        work = next((op.parent for op in function.op.walk() if CreateOp.matches(op) and op.parent), function.body)
        module.aliases.setdefault(VECTOR_SLOT, _ENCODING)
        module.aliases.setdefault("#smem", "#ttg.shared_memory")
        for op in (*found.ops, *found.dots):
            op.attributes[CORRECTED] = "unit"
        _Vectors(found, self.plan, work).run()
        return PassResult(changed=True)


class _Vectors:
    """The rings of vectors. sent: by block, each vector with its copy; rings: each with its count 0 and its sites."""

    def __init__(self, found: CorrectionInfo, plan: Plan, work: Block) -> None:
        self.found, self.plan, self.work = found, plan, work
        self.places = found.sent()
        self.names = {key: f"{FACTOR_RING}{number}" for number, key in enumerate(dict.fromkeys(self.places.values()))}
        self.sent: dict[Block, dict[Value, Value]] = {}
        self.sites: dict[str, list[tuple[Operation, Operation, Operation]]] = {}
        self.rings: dict[str, tuple[Value, Value]] = {}

    def run(self) -> None:
        """Replaces every operand that follows from a vector of another partition."""
        for op in self.found.ops:
            for index, operand in enumerate(op.operands):
                if self.found.vectors(operand):
                    op.set_operand(index, self._own(operand, op))
        for name, sites in self.sites.items():
            thread_count(self.work, self.rings[name][1], sites)

    def _own(self, value: Value, anchor: Operation) -> Value:
        """The partition's own copy of a value, before an operation."""
        vectors = self.found.vectors(value)
        if not vectors:
            return value
        block = anchor.parent
        assert block is not None
        known = self.sent.setdefault(block, {})
        if value not in known:
            op = value.defining_op
            if vectors == [value] or op is None:
                known[value] = self._send(value, anchor)
            else:
                operands = {operand: self._own(operand, anchor) for operand in op.operands}
                known[value] = Builder.before(anchor).insert(clone_op(op, operands)).results[value.index]
        return known[value]

    def _send(self, vector: Value, anchor: Operation) -> Value:
        """Sends a vector through a ring; returns what comes out of it."""
        block = anchor.parent
        assert block is not None
        place = self.places[block, vector]
        slot, name = str(place[0]), self.names[place]
        ring, first = self._ring(slot, name, anchor)
        made = _hoisted(vector, block)
        between = block.ops[block.index_of(made) + 1 : block.index_of(anchor)] if made else []
        at = (
            Builder.before(anchor) if made is None or any(it.name in CONTROL for it in between) else Builder.after(made)
        )
        body = Block([slot], ["slot"])
        put = at.create(PutOp.NAME, (ring, first), regions=[Region([body])])
        inside = Builder.at_end(body, anchor.loc)
        inside.create(LocalStoreOp.NAME, (vector, body.args[0]))
        inside.create(FilledOp.NAME)
        here = Builder.before(anchor)
        get = here.create(GetOp.NAME, (ring, first), (slot,), hints=(vector.hint,))
        load = here.create(LocalLoadOp.NAME, get.results, (vector.type,), hints=(vector.hint,))
        consumed = here.create(ConsumedOp.NAME, (ring, first))
        self.sites.setdefault(name, []).append((put, get, consumed))
        return load.result

    def _ring(self, slot: str, name: str, anchor: Operation) -> tuple[Value, Value]:
        """A ring of vectors and its count 0."""
        if name not in self.rings:
            builder, type = Builder.at_start(self.work, anchor.loc), RingType(self.plan.ring(name).slots, (slot,))
            properties = {"name": name, "fill": "threads", "reader": "correction"}
            properties = {key: string_attr(it) for key, it in properties.items()}
            ring = builder.create(CreateOp.NAME, (), (str(type),), properties=properties, hints=(name,)).result
            first = builder.create(FirstOp.NAME, (ring,), (type.index_type,), hints=("count",)).result
            self.rings[name] = (ring, first)
        return self.rings[name]


def _hoisted(vector: Value, block: Block) -> Operation | None:
    """Moves what makes a vector, in its block, ahead of the tiles that it does not need; None in another block."""
    made = vector.defining_op
    if made is None or made.parent is not block:
        return None
    if made.regions or not is_pure(made):
        return made
    before = [it for operand in made.operands if (it := _hoisted(operand, block)) is not None]
    last = max(before, key=block.index_of, default=None)
    if last is not None and isinstance(kind := parse_type(vector.type), TensorType) and len(kind.shape) == 1:
        made.detach()
        Builder.after(last).insert(made)
    return made
