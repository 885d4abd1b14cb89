"""What none of the checks models, wherever it stands: such a program is neither proved nor refuted.

Assembly may hold the only barrier that orders two partitions, or an access that races; so may another CTA of the
cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.assembly import effect_unknown, shown
from tawa.dialects.tt import ElementwiseInlineAsmOp
from tawa.dialects.ttg import ctas_of
from tawa.ir import Module, Operation


@dataclass(frozen=True, slots=True)
class NotModelled:
    """Why no verdict is given, with its cure, and the operation that stands in the way."""

    reason: str
    op: Operation


def not_modelled(module: Module) -> NotModelled | None:
    """The first operation or property of a module that no check models; None where all is modelled."""
    try:
        ctas = ctas_of(module)
    except ValueError as error:
        return NotModelled(f"ttg.num-ctas, the CTAs of a cluster: {error}", module.op)
    if ctas != 1:
        return NotModelled(
            f"clusters of more than one CTA: this program has {ctas}. Cure: compile it with num_ctas=1", module.op
        )
    for op in module.walk():
        if effect_unknown(op):
            what = "inline assembly" if ElementwiseInlineAsmOp.matches(op) else "the external function"
            return NotModelled(
                f"{what} that may do more than compute on registers ({shown(op)}). Cure: leave barriers and memory to "
                "operations of Triton or Gluon, or take them out of the part that is to be proved",
                op,
            )
    return None
