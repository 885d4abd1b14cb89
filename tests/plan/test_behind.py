"""`plan.behind`: where dots that run one iteration behind stand, and what becomes of their results."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("triton")

from tawa.dialects.aref import PutOp
from tawa.dialects.arith import MulFOp
from tawa.dialects.scf import ForOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import find_groups
from tawa.ir import Operation, parse_module
from tawa.plan import Plan, PlanOptions
from tests.cases.attention.cases import find
from tests.matrix.compiling import attempted

OPTIONS = PlanOptions(num_consumer_groups=2, only_if_faster=False)


@functools.cache
def loop(store_warp: bool) -> list[Operation]:
    """The operations of the first group's loop, whose last dots run behind."""
    stores = [{"argument": "dq_desc", "loop": 0, "store_warp": store_warp}]
    plan = Plan.of({"exchange": True, "loops": [{"behind": True}], "stores": stores})
    module = parse_module(attempted(find("added_fp16_d64_full"), OPTIONS, plan)[1].asm["aref"])
    group = next(it for it in find_groups(module) if it.role == "consumer")
    loops = [found for op in group.op.walk() if (found := ForOp.of(op))]
    return next(it.body.ops for it in loops if any(map(WarpGroupDotOp.matches, it.body.ops)))


@pytest.mark.parametrize("store_warp", [False, True])
def test_what_the_late_dots_computed_is_stored_while_the_last_dot_runs(store_warp: bool) -> None:
    ops = loop(store_warp)
    waits = [WarpGroupDotWaitOp(op) for op in ops if WarpGroupDotWaitOp.matches(op)]
    store = [op for op in ops if PutOp.matches(op)][-1] if store_warp else the_reduction(ops)
    before = [it for it in waits if ops.index(it.op) < ops.index(store)]
    assert before[-1].pendings == 1 and waits[-1].pendings == 0 and len(waits) == len(before) + 1


def the_reduction(ops: list[Operation]) -> Operation:
    return next(op for op in ops if op.name == "ttng.async_tma_reduce")


def test_a_dot_that_is_ready_does_not_wait_for_arithmetic_that_it_does_not_need() -> None:
    """Moving it later would free registers, but the tiles fit as they are."""
    ops = loop(True)
    dv = next(at for at, op in enumerate(ops) if WarpGroupDotOp.matches(op) and op.result.hint == "dv")
    product = next(at for at, op in enumerate(ops) if MulFOp.matches(op) and op.result.hint == "ds")
    assert dv < product
