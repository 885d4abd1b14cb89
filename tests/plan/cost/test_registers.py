"""Registers of the partitions of a CTA, and the CTAs that share an SM."""

from __future__ import annotations

import pytest

from tawa.analysis.resources import RegisterInfo
from tawa.machine.hopper import REGISTERS
from tawa.plan.cost.registers import consumer_registers, register_cap, registers_of_an_sm, stock_ctas


@pytest.mark.parametrize(
    ("num_warps", "limit", "expected"), [(4, None, 256), (8, None, 240), (4, 128, 232), (8, 128, 176)]
)
def test_what_the_producer_gives_up_goes_to_the_consumer(num_warps: int, limit: int | None, expected: int) -> None:
    """240 and 24 is what Triton's own pass gives 8 warps and a padded producer."""
    assert consumer_registers(num_warps, limit) == expected


@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("shared_bytes", [10_000, 50_000, 75_000, 110_000, 120_000, 220_000])
@pytest.mark.parametrize("accumulators", [16, 64, 128])
def test_a_cap_lets_as_many_ctas_in_as_it_says(num_warps: int, shared_bytes: int, accumulators: int) -> None:
    ctas, cap = register_cap(shared_bytes, num_warps, RegisterInfo(accumulators, 32))
    assert ctas * (shared_bytes + 1024) <= 228 * 1024
    if cap is None:
        assert ctas == 1
    else:
        threads = (num_warps + 4) * 32
        assert ctas > 1 and cap % 8 == 0 and ctas * cap * threads <= REGISTERS
        assert consumer_registers(num_warps, cap) >= accumulators


def test_more_memory_or_more_accumulators_never_mean_more_ctas() -> None:
    by_memory = [register_cap(shared, 4, RegisterInfo(32, 32))[0] for shared in range(10_000, 230_000, 5_000)]
    by_registers = [register_cap(30_000, 4, RegisterInfo(count, 32))[0] for count in range(16, 256, 16)]
    assert by_memory == sorted(by_memory, reverse=True)
    assert by_registers == sorted(by_registers, reverse=True)
    assert by_memory[-1] == by_registers[-1] == 1


@pytest.mark.parametrize("shared_bytes", [10_000, 100_000, 230_000])
def test_a_stock_kernel_has_at_least_one_cta(shared_bytes: int) -> None:
    assert stock_ctas(shared_bytes, 8, RegisterInfo(256, 128)) >= 1


def test_small_partitions_share_a_warp_group_that_has_the_registers_of_the_most_demanding_one() -> None:
    needed, room = registers_of_an_sm([(4, 240), (2, 24), (1, 24), (4, 240)])
    assert needed == room == 12 * 32 * 168
    assert registers_of_an_sm([(1, 24), (8, 232), (2, 40)]) == (4 * 32 * 40 + 8 * 32 * 232, 12 * 32 * 168)
    assert registers_of_an_sm([(1, 24), (4, 240)])[0] == 4 * 32 * (24 + 240)
