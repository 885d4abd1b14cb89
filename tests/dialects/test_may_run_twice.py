"""Which kernels may run twice on the same arguments."""

from __future__ import annotations

from tawa.analysis.memory.provenance import may_run_twice
from tawa.ir import parse_module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import op


def twice(*extra: str) -> bool:
    return may_run_twice(parse_module(programs.kernel("\n".join((programs.gemm_loop(), *extra, programs.store())))))


def test_a_kernel_that_writes_elsewhere_may() -> None:
    assert twice()


def test_a_kernel_that_reads_what_it_writes_may_not() -> None:
    assert not twice(programs.store("acc", "a_desc"))


def test_a_kernel_with_addresses_from_memory_may_not() -> None:
    address = op("tt.load", "%out", "!tt.ptr<f16>", "%i", "i64")
    loaded = op("tt.load", "%at", "!tt.ptr<f16>", "%half", "f16")
    assert not twice(address, op("tt.int_to_ptr", "%i", "i64", "%at", "!tt.ptr<f16>"), loaded)


def test_an_atomic_may_not() -> None:
    one = op("arith.constant", "", "", "%f", "f16", properties="value = 1.0 : f16")
    add = op(
        "tt.atomic_rmw", "%out, %f", "!tt.ptr<f16>, f16", "%old", "f16",
        properties="atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 1 : i32",
    )  # fmt: skip
    assert not twice(one, add)


def test_a_kernel_that_prints_may_not() -> None:
    assert not twice(op("tt.print", "", "", properties='prefix = "x", hex = false'))


def test_an_unknown_operation_may_not() -> None:
    assert not twice(op("tt.mystery", "", ""))
