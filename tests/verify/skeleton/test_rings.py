"""Rings, signals and waits of explicit programs, recognised by how their barriers are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.bridge.triton.read_module import read_ttgir
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.dialects import ttg, ttng
from tawa.ir import Module, Operation, source_of
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.rings import Rings
from tests.matrix.gluon import gluon_module
from tests.rings import crossed, kernels
from tests.verify.barriers import by_hand
from tests.verify.barriers.test_foreign import ALLOC, COPY_IN, EXPECT, INIT, LOAD, MAKE, WAIT, kernel

EXAMPLES = Path(__file__).parents[3] / "examples" / "rings"
DATA = Path(__file__).parents[1] / "data"


def rings(module: Module) -> Rings:
    return Rings(Accesses(module.op))


def compiled(kernel: Any, constants: dict[str, Any], scalars: dict[str, str], **boxes: list[int]) -> Module:
    given = {"num_warps": 4, **constants}
    return gluon_module(kernel, boxes, given, dict.fromkeys(boxes, "fp16"), scalars)


def program(kernel: Any, constants: dict[str, Any], scalars: dict[str, str], **boxes: list[int]) -> Rings:
    return rings(compiled(kernel, constants, scalars, **boxes))


def line_of(module: Module, op: Operation) -> str:
    """The line of the source that an operation comes from."""
    place = source_of(module, op)
    assert place is not None
    return Path(place.file).read_text().splitlines()[place.line - 1].strip()


@pytest.fixture(scope="module")
def module_of_products() -> Module:
    constants = {"BK": 64, "D": 3, "P": 1, "FAULT": "none"}
    return compiled(kernels.products, constants, {}, a=[128, 64], b=[64, 64], c=[64, 64])


@pytest.fixture(scope="module")
def products(module_of_products: Module) -> Rings:
    return rings(module_of_products)


@pytest.fixture(scope="module")
def module_of_squares() -> Module:
    return compiled(kernels.squares, {"D": 2, "FAULT": "none"}, {"x": "*fp32", "o": "*fp32"})


def test_each_use_has_its_kind_and_partition_in_program_order(module_of_squares: Module) -> None:
    found, order = rings(module_of_squares).uses, {op: at for at, op in enumerate(module_of_squares.walk())}
    assert [order[it.op] for it in found] == sorted(order[it.op] for it in found)
    writer = [it.kind for it in found if it.partition == "partition0"]
    reader = [it.kind for it in found if it.partition == "default" and it.kind != "init"]
    assert writer == ["wait", "write", "arrive"] and reader == ["wait", "read", "arrive"]


def test_captures_of_partitions_are_the_allocations_outside(module_of_squares: Module) -> None:
    waits = [it.allocation for it in rings(module_of_squares).uses if it.kind == "wait"]
    assert len(set(waits)) == len(waits) == 2 and all(map(ttg.LocalAllocOp.matches, waits))


def test_the_slot_of_a_use_is_the_index_of_its_view(module_of_squares: Module) -> None:
    writer = [it.slot for it in rings(module_of_squares).uses if it.partition == "partition0"]
    assert writer[0] is not None and len(set(writer)) == 1


def test_a_ring_that_tma_fills(products: Rings) -> None:
    (ring,) = products.rings
    assert (ring.slots, ring.payload, ring.slot_bytes) == (3, ("128x64xf16", "64x64xf16"), 24576)
    assert ring.by_copies and ring.writers == ("partition1",) and ring.readers == ("default", "partition0")
    assert (ring.full.arrivals, ring.full.bytes) == (1, 24576)
    assert ring.empty is not None and (ring.empty.arrivals, ring.empty.bytes) == (2, 0)
    assert ring.empty.arrivers == ring.readers and ring.empty.waiters == ring.writers
    assert not products.signals and products.buffer_bytes == 2 * 64 * 64 * 2  # tiles of two stores


def test_partitions_and_their_waits(products: Rings, module_of_products: Module) -> None:
    assert [(it.name, it.warps, it.registers) for it in products.partitions] == [
        ("default", 4, None), ("partition0", 4, 160), ("partition1", 1, 24),
    ]  # fmt: skip
    _, consumer, producer = products.partitions
    assert [(it.kind, it.target) for it in producer.waits] == [("empty", "ring0")]
    found = [(it.kind, it.pending) for it in consumer.waits if it.kind != "stores"]
    assert found == [("full", 0), ("wgmma", 1), ("wgmma", 0)]
    assert "ring.get()" in line_of(module_of_products, consumer.waits[0].op)


def test_a_ring_that_threads_fill(module_of_squares: Module) -> None:
    found = rings(module_of_squares)
    (ring,) = found.rings
    assert not ring.by_copies and (ring.slots, ring.payload, ring.slot_bytes) == (2, ("32x32xf32",), 4096)
    assert (ring.writers, ring.readers) == (("partition0",), ("default",))
    assert ring.empty is not None and found.buffer_bytes == 0 and not found.signals


def test_tokens_are_signals() -> None:
    found = program(kernels.alternating, {"FAULT": "none"}, {"o": "*i32"})
    ((name, signal),) = found.signals.items()
    assert not found.rings and name == "signal0" and signal.slots == 2
    assert signal.arrivers == signal.waiters == ("default", "partition0")
    assert {it.target for part in found.partitions for it in part.waits} == {"signal0"}


def test_several_rings_between_the_same_partitions_keep_their_barriers() -> None:
    kernel = load_kernel(f"{EXAMPLES / 'attention_three_groups.py'}:attention")
    tile = [64, 64]
    found = program(kernel, {"BN": 64, "HD": 64, "D": 2}, {"scale": "fp32"}, q=tile, k=tile, v=tile, o=tile)
    assert [it.slots for it in found.rings] == [1, 2, 2]
    assert all(it.empty is not None and it.empty.arrivals == 3 for it in found.rings)
    producer = found.partitions[-1]
    assert [(it.kind, it.target) for it in producer.waits] == [
        ("empty", "ring0"), ("empty", "ring1"), ("empty", "ring2"),
    ]  # fmt: skip


def test_one_group_of_warps_may_fill_and_read_a_ring() -> None:
    kernel = load_kernel(f"{EXAMPLES / 'gemm_3_ring.py'}:gemm")
    boxes = {"a": [128, 64], "b": [64, 128], "c": [128, 128]}
    found = program(kernel, {"BM": 128, "BN": 128, "BK": 64, "D": 4, "num_warps": 8}, {}, **boxes)
    (ring,) = found.rings
    assert ring.writers == ring.readers == ("default",) and ring.slots == 4
    assert [it.name for it in found.partitions] == ["default"]


@pytest.mark.parametrize("path", sorted(DATA.glob("gluon*.mlir")), ids=lambda path: path.name)
def test_programs_without_our_rings_are_recognised(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace('"ttg.num-warps" = "x"', '"ttg.num-warps" = 4 : i32'))
    module = read_ttgir(copy)
    found = rings(module)
    forks = [fork for op in module.walk() if (fork := ttg.WarpSpecializeOp.of(op))]
    assert found.rings and len(found.partitions) == 1 + sum(len(fork.partitions) for fork in forks)
    assert all(ring.writers and ring.readers for ring in found.rings)


def test_a_program_without_barriers_has_no_rings(tmp_path: Path) -> None:
    path = tmp_path / "empty.mlir"
    path.write_text('"builtin.module"() ({\n"tt.func"() <{function_type = () -> (), sym_name = "f"}> ({\n'
                    '"tt.return"() : () -> ()\n}) : () -> ()\n}) {"ttg.num-warps" = 4 : i32} : () -> ()\n')  # fmt: skip
    found = rings(read_ttgir(path))
    assert not found.rings and not found.signals and found.partitions[0].waits == ()


def test_empty_barriers_are_found_by_use_not_by_the_order_of_allocation() -> None:
    module = compiled(crossed.crossed, {"D": 2}, {"o": "*fp32"})
    made = [line_of(module, it.empty.allocation) for it in rings(module).rings if it.empty]
    assert made == ["empty_a = barriers(D, 1)", "empty_b = barriers(D, 1)"]


def test_a_partition_with_several_blocks_executes_all_of_them() -> None:
    constants = {"D": 3, "PHASES": "count", "EXIT": "partition"}
    found = program(by_hand.summed, constants, {"counts": "*i32", "o": "*fp32"}, x=[64, 64])
    (ring,) = found.rings
    assert ring.writers == ("partition0",) and ring.readers == ("default",)
    assert [(it.kind, it.target) for it in found.partitions[1].waits] == [("empty", "ring0")]


def test_empty_barriers_that_nobody_arrives_on_belong_to_their_ring() -> None:
    found = program(kernels.squares, {"D": 2, "FAULT": "never released"}, {"x": "*fp32", "o": "*fp32"})
    (ring,) = found.rings
    assert ring.empty is not None and not found.signals
    assert ring.empty.arrivers == () and ring.empty.waiters == ("partition0",)


def test_a_gather_fills_a_ring_though_the_checks_do_not_know_it() -> None:
    gather = COPY_IN.replace(ttng.AsyncTMACopyGlobalToLocalOp.NAME, ttng.AsyncTMAGatherOp.NAME)
    (ring,) = rings(kernel(ALLOC, MAKE, INIT, EXPECT, gather, WAIT, LOAD)).rings
    assert ring.by_copies and ring.payload == ("64x64xf16",) and ring.full.bytes == 8192


def test_the_ring_of_an_unknown_operation_that_reads_it_is_recognised() -> None:
    reads = LOAD.replace("ttg.local_load", "ttg.of_another_version")
    (ring,) = rings(kernel(ALLOC, MAKE, INIT, EXPECT, COPY_IN, WAIT, reads)).rings
    assert ring.writers == ring.readers == ("default",) and ring.empty is None
