"""Recompute addresses: in a loop, tiles of addresses are computed where they are used, and not kept in registers.

    %q = addptr splat(%p), %rows                   for …
    for …                                            %z = a number that is 0, but nobody can tell
      load (addptr broadcast(%q), %columns)   →      %q = addptr splat(addptr %p, %z), %rows
                                                     load (addptr broadcast(%q), %columns)

What no iteration changes is computed before the loop, by Triton and by LLVM: eight registers for each tensor whose rows
a thread accesses in four places. A kernel with many tensors spills them, and reads them from local memory in each
iteration. The offsets of rows stay where they are: tensors with the same strides share them.

Requires: TTGIR behind Triton's pipeliner; nothing is specialised.
Ensures: the same accesses.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.declare.declaration import address_of, op_names
from tawa.dialects.effects import effects_of
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import AddPtrOp, BroadcastOp, SplatOp
from tawa.ir import Block, Builder, Module, Operation, Value, clone_op, shape_of
from tawa.remarks import Remark
from tawa.transforms.result import PassResult

_STEPS = op_names(AddPtrOp, BroadcastOp)
_DIVISIBILITY = "tt.divisibility"
_DONE = "loops compute the addresses of tiles, and spill fewer registers"


@dataclass(frozen=True, slots=True)
class RecomputeAddresses:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Changes the accesses of every `scf.for` to tiles whose addresses begin outside of it."""
        zeros: dict[Block, Value] = {}
        changed = False
        for op in list(module.walk()):
            for loop in enclosing_loops(op)[:1]:
                inner = ForOp.of(loop)
                for effect in effects_of(op) if inner is not None and not op.regions else ():
                    address = address_of(op, effect) if effect.space == "global" else None
                    if inner is not None and address is not None and (chain := _chain(address, inner)):
                        _recompute(op, address, chain, inner, zeros)
                        changed = True
        return PassResult(changed, (Remark("done", _DONE),) if changed else ())


def _chain(address: Value, loop: ForOp) -> list[Operation]:
    """From the splat of a pointer to a tile of addresses in a loop; empty if the splat is not outside of the loop."""
    chain: list[Operation] = []
    value = address
    while shape_of(value):
        op = value.defining_op
        if op is None or not (op.name in _STEPS or SplatOp.matches(op)):
            return []
        chain.append(op)
        value = op.operands[0]
    splat = chain[-1] if chain else None
    return chain[::-1] if splat is not None and SplatOp.matches(splat) and not loop.op.is_ancestor_of(splat) else []


def _recompute(op: Operation, address: Value, chain: list[Operation], loop: ForOp, zeros: dict[Block, Value]) -> None:
    if loop.body not in zeros:
        start = Builder.at_start(loop.body, loop.op.loc)
        zero = SameNumberOp.create(start, start.constant(0))
        assert zero.defining_op is not None
        zero.defining_op.attributes[_DIVISIBILITY] = "dense<16> : tensor<1xi32>"
        zeros[loop.body] = zero
    builder = Builder.before(op)
    pointer = chain[0].operands[0]
    mapping = {pointer: builder.create(AddPtrOp.NAME, (pointer, zeros[loop.body]), (pointer.type,)).result}
    for it in chain:
        builder.insert(clone_op(it, mapping))
    for index, operand in enumerate(op.operands):
        if operand is address:
            op.set_operand(index, mapping[address])
