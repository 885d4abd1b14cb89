"""Registers of the partitions of a CTA, and the CTAs that share an SM."""

from __future__ import annotations

import pytest

from tawa.analysis.resources import RegisterInfo
from tawa.machine.nvidia import REGISTERS
from tawa.plan.cost.registers import (
    consumer_registers,
    ctas_under,
    register_cap,
    registers_for_addresses,
    registers_of_an_sm,
    stock_ctas,
)
from tawa.plan.defaults import LEAST_WORKING_REGISTERS, MAX_PRODUCER_REGISTERS, PRODUCER_REGISTERS


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


@pytest.mark.parametrize("num_warps", [4, 8, 16])
@pytest.mark.parametrize("shared_bytes", [10_000, 75_000, 220_000])
def test_a_limit_of_the_launch_is_kept_and_never_more_than_a_launch_can_have(num_warps: int, shared_bytes: int) -> None:
    threads, registers = (num_warps + 4) * 32, RegisterInfo(32, 32)
    for limit in range(24, 257):
        ctas, cap = register_cap(shared_bytes, num_warps, registers, limit=limit)
        entry = cap if cap is not None else REGISTERS // threads // 8 * 8
        assert entry <= limit and ctas * entry * threads <= REGISTERS
        assert cap is None or cap % 8 == 0
    assert register_cap(shared_bytes, num_warps, registers, limit=256) == register_cap(
        shared_bytes, num_warps, registers
    )


def test_a_cap_decides_how_many_ctas_share_an_sm() -> None:
    assert [ctas_under(cap, 10_000, 8) for cap in (0, 168, 80, 40)] == [1, 1, 2, 4]
    assert ctas_under(40, 100_000, 8) == 2 and ctas_under(40, 10_000, 8, most=3) == 3


def test_more_memory_or_more_accumulators_never_mean_more_ctas() -> None:
    by_memory = [register_cap(shared, 4, RegisterInfo(32, 32))[0] for shared in range(10_000, 230_000, 5_000)]
    by_registers = [register_cap(30_000, 4, RegisterInfo(count, 32))[0] for count in range(16, 256, 16)]
    assert by_memory == sorted(by_memory, reverse=True)
    assert by_registers == sorted(by_registers, reverse=True)
    assert by_memory[-1] == by_registers[-1] == 1


@pytest.mark.parametrize("shared_bytes", [10_000, 100_000, 230_000])
def test_a_stock_kernel_has_at_least_one_cta(shared_bytes: int) -> None:
    assert stock_ctas(shared_bytes, 8, RegisterInfo(256, 128)) >= 1


def test_more_ctas_of_the_stock_kernel_share_an_sm_under_maxnreg() -> None:
    assert [stock_ctas(10_000, 8, RegisterInfo(200, 128), limit=limit) for limit in (None, 128, 64)] == [1, 2, 4]


def test_small_partitions_share_a_warp_group_that_has_the_registers_of_the_most_demanding_one() -> None:
    needed, room = registers_of_an_sm([(4, 240), (2, 24), (1, 24), (4, 240)])
    assert needed == room == 12 * 32 * 168
    assert registers_of_an_sm([(1, 24), (8, 232), (2, 40)]) == (4 * 32 * 40 + 8 * 32 * 232, 12 * 32 * 168)
    assert registers_of_an_sm([(1, 24), (4, 240)])[0] == 4 * 32 * (24 + 240)


@pytest.mark.parametrize("num_warps", [4, 8])
def test_a_partition_for_the_dots_beside_a_whole_warp_group_is_counted(num_warps: int) -> None:
    registers = consumer_registers(num_warps, producer=40, beside=2)
    needed, room = registers_of_an_sm([(4, 40), (1, 40), (num_warps, registers)])
    assert needed <= room


@pytest.mark.parametrize("accumulators", [64, 128, 640])
def test_a_producer_takes_registers_only_from_consumers_that_have_enough(accumulators: int) -> None:
    """Four warps have the most that a thread can have, beside any producer; eight have too few for 640 registers."""
    assert registers_for_addresses(100, 0, accumulators, 4) == MAX_PRODUCER_REGISTERS
    found = registers_for_addresses(100, 0, accumulators, 8)
    assert consumer_registers(8, producer=found) >= min(accumulators + LEAST_WORKING_REGISTERS, consumer_registers(8))
    assert (found == PRODUCER_REGISTERS) == (accumulators == 640)
