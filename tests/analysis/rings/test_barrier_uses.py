"""Uses of barriers and buffers, followed to their allocations through views, loops and partitions."""

from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.analysis.rings.barrier_uses import allocations_of, partition_blocks, partition_of, partitions_of, uses_of
from tawa.dialects import ttg, ttng
from tawa.ir import Module
from tests.matrix.gluon import gluon_module
from tests.rings import kernels


@pytest.fixture(scope="module")
def module() -> Module:
    constants = {"D": 2, "FAULT": "none", "num_warps": 4}
    return gluon_module(kernels.squares, {}, constants, {}, {"x": "*fp32", "o": "*fp32"})


def test_each_use_has_its_kind_and_partition_in_program_order(module: Module) -> None:
    found = uses_of(module)
    assert [it.order for it in found] == sorted(it.order for it in found)
    writer = [it.kind for it in found if it.partition == "partition0"]
    reader = [it.kind for it in found if it.partition == "default" and it.kind != "init"]
    assert writer == ["wait", "store", "arrive"] and reader == ["wait", "read", "arrive"]


def test_captures_of_partitions_are_the_allocations_outside(module: Module) -> None:
    waits = [ttng.WaitBarrierOp(op) for op in module.walk() if ttng.WaitBarrierOp.matches(op)]
    roots = [allocations_of(it.barrier) for it in waits]
    assert len(roots) == 2 and all(len(it) == 1 and ttg.LocalAllocOp.matches(it[0]) for it in roots)
    assert roots[0] != roots[1]


def test_the_slot_of_a_use_is_the_index_of_its_view(module: Module) -> None:
    writer = [it for it in uses_of(module) if it.partition == "partition0"]
    assert writer[0].slot is not None and len({it.slot for it in writer}) == 1


def test_partitions_have_names_warps_and_registers(module: Module) -> None:
    assert [(it.name, it.warps, it.registers) for it in partitions_of(module)] == [
        ("default", 4, None), ("partition0", 4, 64),
    ]  # fmt: skip
    blocks = partition_blocks(module)
    assert {partition_of(op, blocks) for op in module.walk()} == {"default", "partition0"}
