"""Programs that no check models: they are neither proved nor refuted.

Inline assembly may contain the only barrier that orders two partitions, or an access that races. So may another CTA of
the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.inline.assembly import effect_unknown, shown
from tawa.dialects.tt import ElementwiseInlineAsmOp
from tawa.dialects.ttg import ctas_of
from tawa.ir import Module, Operation


@dataclass(frozen=True, slots=True)
class NotModelled:
    """The operation that no check models, and why, with a cure."""

    reason: str
    op: Operation


def not_modelled(module: Module) -> NotModelled | None:
    """The first operation or property of a module that no check models; None if the checks model all of it."""
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
                f"{what} that may do more than compute on registers ({shown(op)}). Cure: access barriers and memory "
                "by operations of Triton or Gluon, or leave them out of the kernel that is to be proved",
                op,
            )
    return None
