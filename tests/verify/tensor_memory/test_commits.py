"""When a dot of tcgen05 is complete, and when a commit has arrived: neither before a wait says so."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("triton.experimental.gluon")

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
)

from tawa.dialects.tcgen05 import dot_of
from tawa.ir import Module
from tawa.verify.barriers import check_barriers
from tawa.verify.run.memory import COMMITS_IN_ORDER
from tawa.verify.verdict import Proved, Refuted
from tests.verify.tensor_memory.rings import barriers, compiled, tma_load


@gluon.jit
def one_dot(a, b, out, FIRST: gl.constexpr, SECOND: gl.constexpr):
    """Loads an accumulator behind two commits, and invalidates their barriers. FIRST, SECOND: whether it waits."""
    layout: gl.constexpr = gl.BlockedLayout([1, 128], [32, 1], [4, 1], [0, 1])
    a_tile = gl.allocate_shared_memory(a.dtype, [128, 64], a.layout)
    b_tile = gl.allocate_shared_memory(b.dtype, [64, 128], b.layout)
    loaded, done = barriers(1).index(0), barriers(2)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    mbarrier.expect(loaded, a.block_type.nbytes + b.block_type.nbytes)
    tma_load(a, [0, 0], loaded, a_tile)
    tma_load(b, [0, 0], loaded, b_tile)
    mbarrier.wait(loaded, 0)
    tcgen05_mma(a_tile, b_tile, acc, use_acc=False)
    tcgen05_commit(done.index(0))
    tcgen05_commit(done.index(1))
    if FIRST:
        mbarrier.wait(done.index(0), 0)
    if SECOND:
        mbarrier.wait(done.index(1), 0)
    tile = acc.load(layout)
    mbarrier.invalidate(done.index(0))
    mbarrier.invalidate(done.index(1))
    rows, columns = gl.arange(0, 128, gl.SliceLayout(1, layout)), gl.arange(0, 128, gl.SliceLayout(0, layout))
    gl.store(out + gl.expand_dims(rows, 1) * 128 + gl.expand_dims(columns, 0), tile)


@cache
def module(first: bool, second: bool) -> Module:
    boxes = {"a": [128, 64], "b": [64, 128]}
    return compiled(one_dot, boxes, {"FIRST": first, "SECOND": second}, {"out": "*fp32"})


def test_a_dot_without_barriers_is_asynchronous_in_gluon() -> None:
    dots = [dot for op in module(True, True).walk() if (dot := dot_of(op))]
    assert [dot.waits for dot in dots] == [False]
    verdict = check_barriers(module(False, False))
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "read before write", verdict
    assert "while a tcgen05 operation of default may still access it" in verdict.witness.message


def test_a_commit_behind_another_has_not_arrived_when_it_is_issued() -> None:
    verdict = check_barriers(module(True, False))
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "barrier lifecycle", verdict


def test_a_wait_for_the_last_commit_is_enough_if_commits_arrive_in_order() -> None:
    verdict = check_barriers(module(False, True))
    assert isinstance(verdict, Proved) and COMMITS_IN_ORDER in verdict.assumptions, verdict
