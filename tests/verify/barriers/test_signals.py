"""A barrier on which partitions arrive and nobody waits: no fault, unless an arrival may exceed what is pending."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from tawa.ir import Module
from tawa.verify.barriers import check_barriers
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.verdict import Proved, Refuted
from tests.matrix.gluon import gluon_module
from tests.verify.barriers.explore import goes_wrong, recorded


@gluon.jit
def arrives(done, n, SIZE: gl.constexpr):
    for _ in range(n):
        mbarrier.arrive(done, count=SIZE)


@gluon.jit
def waits(done, n, SIZE: gl.constexpr, WAITS: gl.constexpr):
    for trip in range(n):
        mbarrier.arrive(done, count=SIZE)
        if WAITS:
            mbarrier.wait(done, trip & 1)


@gluon.jit
def signalled(
    n, COUNT: gl.constexpr, SIZES: gl.constexpr, WAITS: gl.constexpr, ENDS: gl.constexpr, num_warps: gl.constexpr
):
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=COUNT)
    FIRST: gl.constexpr = SIZES[0]
    SECOND: gl.constexpr = SIZES[1]
    gl.warp_specialize([(waits, (done, n, FIRST, WAITS)), (arrives, (done, n, SECOND))], [4], [64])
    if ENDS:
        mbarrier.invalidate(done)


def module(count: int, sizes: tuple[int, int], waits: bool = False, ends: bool = False) -> Module:
    constants = {"COUNT": count, "SIZES": sizes, "WAITS": waits, "ENDS": ends, "num_warps": 4}
    return gluon_module(signalled, {}, constants, {}, {})


def explored(of: Module) -> str:
    """The fault that the exhaustive exploration finds with three trips."""
    return goes_wrong(recorded(compile_barriers(of), {"n": 3}))


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(("count", "sizes"), [(1, (1, 1)), (2, (1, 1)), (3, (1, 1)), (4, (2, 2))])
def test_arrivals_for_which_nobody_waits_are_no_fault(count: int, sizes: tuple[int, int], ends: bool) -> None:
    made = module(count, sizes, ends=ends)
    verdict = check_barriers(made)
    assert isinstance(verdict, Proved), verdict
    assert ends or not explored(made)


@pytest.mark.parametrize(("count", "sizes"), [(3, (2, 2)), (1, (2, 2)), (3, (1, 2))])
def test_an_arrival_that_may_exceed_what_is_pending_is_a_fault(count: int, sizes: tuple[int, int]) -> None:
    made = module(count, sizes)
    verdict = check_barriers(made)
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "arrive count", verdict
    assert explored(made) == "too many arrivals"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_same_arrivals_are_a_fault_if_a_partition_waits(count: int) -> None:
    verdict = check_barriers(module(count, (1, 1), waits=True))
    assert isinstance(verdict, Refuted), verdict
