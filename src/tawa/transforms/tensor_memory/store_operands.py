"""Store operands: a tile that the threads compute for a dot goes into memory of its own.

    for k:                                        %m = local_alloc
      %a = local_alloc %tile                →     for k:
      tc_gen5_mma %a, %b, %d                        local_store %tile, %m; tc_gen5_mma %m, %b, %d

So the memory is accessed in turn by the threads and by the partition of the dots, as tensor memory is (`hand_over`).

Requires: `accumulate`, which has put what fits there into tensor memory. Ensures: dots read slots of rings, tensor
memory, or memory of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalAllocOp, LocalStoreOp
from tawa.ir import Builder, Module, memdesc_type
from tawa.transforms.lowering.slots import make_mutable
from tawa.transforms.result import PassResult
from tawa.transforms.tensor_memory.buffers import read_by_dots


@dataclass(frozen=True, slots=True)
class StoreOperands:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites the operands of all dots."""
        function = next((view for op in module.body.ops if (view := FuncOp.of(op))), None)
        found = [view for op in (function.op.walk() if function else ()) if (view := LocalAllocOp.of(op))]
        changed = False
        for alloc in found:
            if function is not None and alloc.source is not None and read_by_dots(alloc):
                _store(function, alloc)
                changed = True
        return PassResult(changed)


def _store(function: FuncOp, alloc: LocalAllocOp) -> None:
    """Moves an allocation to the start of the kernel; the tile is stored where it was."""
    op, tile = alloc.op, alloc.source
    assert tile is not None
    type = str(replace(memdesc_type(op.result.type), mutable=True))
    start = Builder.at_start(function.body, op.loc)
    memory = start.create(LocalAllocOp.NAME, (), (type,), hints=(op.result.hint or tile.hint,)).result
    at = Builder.before(op)
    at.create(LocalStoreOp.NAME, (tile, memory))
    op.result.replace_all_uses_with(memory)
    make_mutable(memory, at)
    op.erase()
