"""The events of inline assembly: fences, and the named barriers that Triton uses itself."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import FaultKind, Refuted, Unknown, Verdict
from tawa.verify.witness import describe
from tests.support.verdicts import passes
from tests.verify.barriers.named import handed_on, stored


def refuted(verdict: Verdict) -> FaultKind:
    assert isinstance(verdict, Refuted), describe(verdict)
    return verdict.witness.kind


def test_the_barrier_that_starts_the_partitions_is_reported_with_those_that_are_free() -> None:
    text = describe(check_barriers(handed_on(1, "the barrier that starts the partitions")))
    assert "named barrier 1" in text and "use one of 3 … 15" in text


def test_the_barrier_of_another_partition_is_reported_with_those_that_are_free() -> None:
    verdict = check_barriers(handed_on(1, "the barrier of another partition"))
    assert isinstance(verdict, Unknown) and "belongs to partition0" in verdict.reason
    assert "use one of 3 … 15" in verdict.reason


def test_a_partition_may_synchronise_its_own_warps_as_triton_does() -> None:
    assert passes(check_barriers(handed_on(1, "the barrier of its own partition")))


@pytest.mark.parametrize("text", ["fence.proxy.async;", "fence.proxy.async.shared::cta;"])
def test_a_fence_in_assembly_orders_the_proxies(text: str) -> None:
    assert passes(check_barriers(stored(text)))


OTHERS = ("", "membar.cta;", "fence.acq_rel.cta;", "fence.proxy.async.global;", "setmaxnreg.dec.sync.aligned.u32 64;")


@pytest.mark.parametrize("text", OTHERS)
def test_other_instructions_are_no_proxy_fence(text: str) -> None:
    assert refuted(check_barriers(stored(text))) == "missing fence"


def test_a_fence_that_is_declared_pure_may_vanish() -> None:
    module = stored("fence.proxy.async;", pure=True)
    assert isinstance(check_barriers(module), Unknown)
