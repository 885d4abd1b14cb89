"""The machines: found by capability, and numbers that agree with each other and with the data sheets."""

from __future__ import annotations

import pytest

from tawa.machine.machines import SM_90, SM_100, Machine, machine_of


def test_a_capability_names_its_machine() -> None:
    assert machine_of(90) is SM_90 and machine_of(100) is SM_100
    with pytest.raises(ValueError, match=r"89 is not known; cure: 90 or 100"):
        machine_of(89)


@pytest.mark.parametrize(("machine", "tflops"), [(SM_90, 989.4), (SM_100, 2250)])
def test_the_rate_of_the_tensor_cores_is_that_of_the_data_sheet(machine: Machine, tflops: float) -> None:
    per_cycle = 2 * machine.processors * machine.costs.fma_per_cycle("f16")
    assert per_cycle * machine.costs.clock_ghz / 1e3 == pytest.approx(tflops, rel=1e-3)
    assert machine.clock_ghz < machine.costs.clock_ghz


@pytest.mark.parametrize(("machine", "accumulators"), [(SM_90, 0), (SM_100, 2)])
def test_tensor_memory_is_where_the_dot_has_its_accumulator(machine: Machine, accumulators: int) -> None:
    assert machine.tensor_columns // machine.dot.columns == accumulators
    assert (machine.dot.accumulator == "tensor memory") == (accumulators > 0)
