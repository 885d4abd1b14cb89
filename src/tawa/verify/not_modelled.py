"""Programs that no check models: they are neither proved nor refuted.

Inline assembly of unknown effect may contain the only barrier that orders two partitions, or an access that races. So
may another CTA of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.inline.assembly import shown
from tawa.dialects.inline.effects import Unlisted, acts, effects_of
from tawa.dialects.ttg import ctas_of
from tawa.ir import Module, Operation


@dataclass(frozen=True, slots=True)
class NotModelled:
    """The operation that no check models, and why, with a cure."""

    reason: str
    op: Operation


def not_modelled(module: Module, *, barriers: bool) -> NotModelled | None:
    """The first operation or property of a module that no check models; None if the checks model all of it.

    barriers: whether this check models named barriers and fences in inline assembly.
    """
    try:
        ctas = ctas_of(module)
    except ValueError as error:
        return NotModelled(f"ttg.num-ctas, the CTAs of a cluster: {error}", module.op)
    if ctas != 1:
        return NotModelled(
            f"clusters of more than one CTA: this program has {ctas}. Cure: compile it with num_ctas=1", module.op
        )
    for op in module.walk():
        effects = effects_of(op)
        if isinstance(effects, Unlisted):
            return NotModelled(f"{effects.reason}. {_CURE}", op)
        if not barriers and acts(op):
            what = "inline assembly with a barrier or a fence, which the check of this level does not model"
            return NotModelled(f"{what} ({shown(op)}). {_CURE}", op)
    return None


_CURE = (
    "Cure: access barriers and memory by operations of Triton or Gluon, or leave them out of the kernel that is to be "
    "proved"
)
