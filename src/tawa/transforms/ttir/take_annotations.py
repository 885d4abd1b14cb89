"""Take annotations: removes ``tl.range(..., warp_specialize=True)`` from the loops of a kernel, on TTIR.

    scf.for %k = … { … } {tt.flatten, tt.warp_specialize}     →     scf.for %k = … { … } {tt.flatten}

On Hopper, Triton's own passes either abort at the annotation or ignore it. The other attributes of a loop
(``tt.num_stages``, ``tt.flatten``, ``tt.disallow_acc_multi_buffer``, …) stay.

Requires: TTIR, before layouts.
Ensures: no loop of any function has the annotation. Returns one located note for each loop that set it to true, outer
loops first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.scf import ForOp
from tawa.ir import Module
from tawa.ir.locations import source_of
from tawa.remarks import Remark
from tawa.transforms.result import PassResult

ATTRIBUTE = "tt.warp_specialize"
ANNOTATION = "tl.range(warp_specialize=True)"


@dataclass(frozen=True, slots=True)
class TakeAnnotations:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Removes the annotation from every loop."""
        changed = False
        remarks: list[Remark] = []
        for op in module.walk():
            if ForOp.of(op) is None or ATTRIBUTE not in op.attributes:
                continue
            if op.attributes.pop(ATTRIBUTE) != "false":
                remarks.append(Remark("note", ANNOTATION, source_of(module, op)))
            changed = True
        return PassResult(changed, tuple(remarks))
