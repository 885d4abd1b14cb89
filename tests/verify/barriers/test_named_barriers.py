"""Named barriers and fences in inline assembly: proved where they are right, refuted where they are not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module
from tawa.sim import Descriptor, simulate
from tawa.sim.errors import BarrierMisuse, Deadlock, MissingFence, SimulationError, UnwrittenRead
from tawa.verify.barriers.check import check_barriers
from tawa.verify.verdict import FaultKind, Proved, Refuted, Unknown, Verdict
from tawa.verify.witness import describe
from tests.matrix.gluon import gluon_module
from tests.verify.barriers import named

FAULTS: dict[str, tuple[FaultKind, ...]] = {
    "the reader does not wait": ("read before write",),
    "the writer does not wait": ("write-write race", "write before release", "arrive count"),
    "the writer does not arrive": ("deadlock",),
    "the reader does not arrive": ("deadlock",),
    "the writer arrives before it writes": ("read before write",),
    "the reader arrives before it reads": ("write before release",),
    "the writer arrives twice": ("arrive count",),
    "more threads than there are": ("deadlock",),
    "counts that differ": ("arrive count",),
    "another number": ("deadlock", "read before write", "arrive count"),
    "no slot is empty at first": ("deadlock",),
    "all threads of the program": ("deadlock",),
    "the barrier that starts the partitions": ("reserved barrier",),
}


@cache
def handed_on(D: int, fault: str = "none") -> Module:
    constants = {"D": D, "FAULT": fault, "num_warps": 4}
    return gluon_module(named.handed_on, {}, constants, {}, {"x": "*fp32", "o": "*fp32"})


def stored(text: str, pure: bool = False) -> Module:
    constants = {"TEXT": f"{text} mov.u32 $0, $1;", "PURE": pure, "num_warps": 4}
    return gluon_module(named.stored, {"c": [64, 64]}, constants, {"c": "fp16"}, {})


def refuted(verdict: Verdict) -> FaultKind:
    assert isinstance(verdict, Refuted), describe(verdict)
    return verdict.witness.kind


@pytest.mark.parametrize("D", [1, 2, 3])
def test_partitions_that_meet_at_named_barriers_are_proved(D: int) -> None:
    verdict = check_barriers(handed_on(D))
    assert isinstance(verdict, Proved), describe(verdict)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("D", [1, 2])
def test_a_fault_is_refuted_with_its_kind(D: int, fault: str) -> None:
    verdict = check_barriers(handed_on(D, fault))
    assert refuted(verdict) in FAULTS[fault], describe(verdict)


def test_a_deadlock_says_who_is_missing() -> None:
    text = describe(check_barriers(handed_on(1, "the writer does not arrive")))
    assert "default waits at named barrier 7, which has 128 of 256 threads" in text
    assert "wait at named barrier[7]" in text


def test_the_barrier_that_starts_the_partitions_is_reported_with_those_that_are_free() -> None:
    text = describe(check_barriers(handed_on(1, "the barrier that starts the partitions")))
    assert "named barrier 1" in text and "use one of 3 … 15" in text


def test_the_barrier_of_another_partition_is_reported_with_those_that_are_free() -> None:
    verdict = check_barriers(handed_on(1, "the barrier of another partition"))
    assert isinstance(verdict, Unknown) and "belongs to partition0" in verdict.reason
    assert "use one of 3 … 15" in verdict.reason


def test_a_partition_may_synchronise_its_own_warps_as_triton_does() -> None:
    assert isinstance(check_barriers(handed_on(1, "the barrier of its own partition")), Proved)


@pytest.mark.parametrize("text", ["fence.proxy.async;", "fence.proxy.async.shared::cta;"])
def test_a_fence_in_assembly_orders_the_proxies(text: str) -> None:
    assert isinstance(check_barriers(stored(text)), Proved)


OTHERS = ("", "membar.cta;", "fence.acq_rel.cta;", "fence.proxy.async.global;", "setmaxnreg.dec.sync.aligned.u32 64;")


@pytest.mark.parametrize("text", OTHERS)
def test_other_instructions_are_no_proxy_fence(text: str) -> None:
    assert refuted(check_barriers(stored(text))) == "missing fence"


def test_a_fence_that_is_declared_pure_may_vanish() -> None:
    module = stored("fence.proxy.async;", pure=True)
    assert isinstance(check_barriers(module), Unknown)


# -- the simulator -----------------------------------------------------------------------------------------------------

TRAPS: dict[str, type[Exception]] = {
    "the reader does not wait": UnwrittenRead,
    "the writer does not arrive": Deadlock,
    "the reader does not arrive": Deadlock,
    "the writer arrives before it writes": AssertionError,  # values of another row
    "more threads than there are": Deadlock,
    "counts that differ": BarrierMisuse,
    "no slot is empty at first": Deadlock,
    "all threads of the program": Deadlock,
}


def run(D: int, fault: str, order: str, seed: int = 0) -> None:
    x = np.arange(5 * 128, dtype=np.float32)
    o = np.full_like(x, np.nan)
    simulate(handed_on(D, fault), {"x": x, "o": o, "n": 5}, (1,), order, seed, timing=True)  # type: ignore[arg-type]
    np.testing.assert_array_equal(o, x + 1)


@pytest.mark.parametrize("order", ["eager", "late", "random"])
@pytest.mark.parametrize("D", [1, 2, 3])
def test_the_simulator_runs_named_barriers(D: int, order: str) -> None:
    run(D, "none", order)


@pytest.mark.parametrize("fault", TRAPS)
def test_the_simulator_traps_a_fault_in_some_order(fault: str) -> None:
    seen: list[type[Exception]] = []
    for order, seed in (("eager", 0), ("late", 0), *(("random", seed) for seed in range(4))):
        try:
            run(1, fault, order, seed)
        except (SimulationError, AssertionError) as error:
            seen.append(type(error))
    assert TRAPS[fault] in seen, seen


def test_the_simulator_knows_a_fence_in_assembly() -> None:
    c = np.zeros((64, 64), np.float16)
    simulate(stored("fence.proxy.async;"), {"c": Descriptor(c)}, (1,), "late")
    assert (c == 1).all()
    with pytest.raises(MissingFence):
        simulate(stored("membar.cta;"), {"c": Descriptor(c)}, (1,), "late")
