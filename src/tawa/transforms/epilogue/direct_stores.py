"""Direct stores: fp32 accumulators are stored, or added, from the layout of the dot, not through shared memory.

    %t = convert_layout %acc : #mma → #blocked          %p' = the pointers, computed again in #mma
    tt.store %p, %t : #blocked                     →    tt.store %p', %acc : #mma

Requires: TTGIR before the rings are decided; the stores of `tawa.analysis.layout.direct_stores`.
Ensures: the same writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.direct_stores import DirectStore
from tawa.analysis.layout.rebuilt import rebuild
from tawa.ir import Builder, Module, Value, source_of
from tawa.remarks import Remark
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.result import PassResult

_DIRECT = "the store leaves from the layout of the dot: it takes no shared memory from the rings"


@dataclass(frozen=True, slots=True)
class DirectStores:
    """stores: those to change, found in the module."""

    stores: tuple[DirectStore, ...]

    def run(self, module: Module) -> PassResult:
        """Changes the stores."""
        for it in self.stores:
            op, made = it.store.op, dict[tuple[Value, str], Value]()
            builder = Builder.before(op)
            for index, operand in enumerate(op.operands):
                op.set_operand(index, rebuild(operand, it.layout, builder, made))
            for result in op.results:  # of a reduction
                result.type = it.store.source.type
        if self.stores:
            DropDead().run(module)
        remarks = (Remark("done", _DIRECT, source_of(module, it.store.op)) for it in self.stores)
        return PassResult(bool(self.stores), tuple(remarks))
