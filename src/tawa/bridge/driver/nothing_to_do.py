"""Kernels that are left to stock Triton before any work is done: those without a dot, and without loops of rows."""

from __future__ import annotations

from tawa.bridge.driver.request import Request
from tawa.bridge.report.record import kernel_location
from tawa.declines import NO_DOT
from tawa.dialects.tt import DotOp
from tawa.remarks import Remark


def why_nothing_to_do(ttir: str, request: Request, learns: bool) -> Remark | None:
    """Why a kernel is not attempted; None if it is.

    Without a dot it can only have the form without partitions: if a Plan says so, or if its launches learn, and a loop
    of rows may gain. learns: whether they do. Most kernels without such a loop are told by their text.
    """
    if DotOp.NAME in ttir or (request.plan is not None and request.plan.form == "unpartitioned"):
        return None
    return None if learns and _may_gain(ttir) else NO_DOT.remark(kernel_location(ttir))


def _may_gain(ttir: str) -> bool:
    from tawa.analysis.loops.rows import has_loops_of_rows, may_have_loops_of_rows
    from tawa.bridge.triton.structured import new_context, read_kernel

    return may_have_loops_of_rows(ttir) and has_loops_of_rows(read_kernel(ttir, new_context()))
