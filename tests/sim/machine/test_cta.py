"""The scheduler: deadlocks."""

from __future__ import annotations

import pytest

from tawa.sim.errors import (
    Deadlock,
)
from tests.cases.programs.ttgir import op
from tests.sim.small import kernel, run


def test_a_barrier_without_arrivals_is_a_deadlock_that_names_the_waiting_partition() -> None:
    type = "!ttg.memdesc<1xi64, #barriers, #smem, mutable>"
    module = kernel(
        op("ttg.local_alloc", "", "", "%gate", type),
        op("ttng.init_barrier", "%gate", type, properties="count = 1 : i32"),
        op("arith.constant", "", "", "%zero", "i32", properties="value = 0 : i32"),
        op("ttng.wait_barrier", "%gate, %zero", f"{type}, i32", line=5),
    )
    with pytest.raises(Deadlock, match=r"main waits for gate, parity 0 .*kernel\.py:5"):
        run(module)
