"""A ring is written with its methods where it follows the protocol; what deviates is written as it is."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.triton.read_module import read_final
from tawa.dialects import builtin, ttng
from tawa.dialects.declare.declaration import OpView
from tawa.emit.module import gluon_source
from tawa.ir import Module, Operation, copy_module
from tests.cases.compiled import compile_case
from tests.cases.gemm import cases as gemm

pytestmark = pytest.mark.usefixtures("without_ptx")


@functools.cache
def compiled() -> Module:
    case = next(it for it in gemm.CASES if it.name == "persistent")
    return read_final(compile_case(case, only_if_faster=False))


def fresh() -> Module:
    return copy_module(compiled())


def all_of(module: Module, kind: type[OpView]) -> list[Operation]:
    return [op for op in module.walk() if kind.matches(op)]


def written(module: Module, start: str = "def consumer(") -> str:
    """The functions of the partitions and the kernel."""
    text = gluon_source(module, ("consumer", "producer")).text
    return text[text.index(start) :]


def test_a_ring_is_written_with_its_methods() -> None:
    text = written(fresh())
    assert "a_b_ring.put(slot, parity, (a_desc, b_desc), ([" in text
    assert "a_tile, b_tile = a_b_ring.get(slot, parity)" in text
    assert "a_b_ring.consumed(" in text
    assert "a_b_ring = Ring(" in text and "mbarrier." not in text


def test_a_file_has_only_the_methods_that_it_calls() -> None:
    whole = gluon_source(fresh(), ("consumer", "producer")).text
    assert "def put(" in whole and "def acquire(" in whole and "def fill(" in whole
    assert "def filled(" not in whole


def test_copies_in_another_order_are_one_put() -> None:
    module = fresh()
    first, second = all_of(module, ttng.AsyncTMACopyGlobalToLocalOp)[:2]
    assert first.parent is second.parent and first.parent is not None
    block = first.parent
    first.detach()
    block.insert(block.index_of(second) + 1, first)
    text = written(module)
    assert ".put(slot, parity, (" in text and "tma_load(" not in text


def test_an_expect_of_other_bytes_is_no_put() -> None:
    module = fresh()
    for op in all_of(module, ttng.BarrierExpectOp):
        op.properties["size"] = "16384 : i32"
    text = written(module)
    assert ".put(" not in text and "a_b_ring.acquire(slot, parity)" in text
    assert "mbarrier.expect(a_b_ring.full.index(slot), 16384)" in text and text.count("tma_load(") == 2


def test_a_ring_that_is_filled_by_fewer_copies_is_no_put() -> None:
    module = fresh()
    all_of(module, ttng.AsyncTMACopyGlobalToLocalOp)[-1].erase()
    text = written(module)
    assert ".put(" not in text and text.count("tma_load(") == 1


def test_an_effect_between_the_parts_of_a_put_keeps_its_place() -> None:
    module = fresh()
    copy = all_of(module, ttng.AsyncTMACopyGlobalToLocalOp)[0]
    assert copy.parent is not None
    copy.parent.insert(copy.parent.index_of(copy), Operation(builtin.GpuBarrierOp.NAME))
    lines = [line.strip().partition("(")[0] for line in written(module).splitlines() if "#" not in line]
    place = lines.index("thread_barrier")
    assert lines[place - 1] == "mbarrier.expect" and lines[place + 1] == "tma_load"


def test_an_arrival_of_several_is_no_consumed() -> None:
    module = fresh()
    for op in all_of(module, ttng.ArriveBarrierOp):
        op.properties["count"] = "2 : i32"
    text = written(module)
    assert ".consumed(" not in text and "mbarrier.arrive(a_b_ring.empty.index(" in text and "count=2" in text


def test_barriers_that_are_not_all_initialised_alike_are_no_ring() -> None:
    module = fresh()
    all_of(module, ttng.InitBarrierOp)[0].properties["count"] = "2 : i32"
    text = written(module)
    assert "Ring(" not in text and "mbarrier.init(" in text
