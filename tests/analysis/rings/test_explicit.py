"""Rings, signals and waits of explicit programs, recognised by how their barriers are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.analysis.rings.barrier_uses import partitions_of
from tawa.analysis.rings.explicit import ExplicitProgram, explicit_program
from tawa.bridge.triton.read_module import read_ttgir
from tawa.cli.inputs.kernel_file import load_kernel
from tests.matrix.gluon import gluon_module
from tests.rings import crossed, kernels

EXAMPLES = Path(__file__).parents[3] / "examples" / "rings"
DATA = Path(__file__).parents[2] / "verify" / "data"


def program(kernel: Any, constants: dict[str, Any], scalars: dict[str, str], **boxes: list[int]) -> ExplicitProgram:
    given = {"num_warps": 4, **constants}
    return explicit_program(gluon_module(kernel, boxes, given, dict.fromkeys(boxes, "fp16"), scalars))


@pytest.fixture(scope="module")
def products() -> ExplicitProgram:
    constants = {"BK": 64, "D": 3, "P": 1, "FAULT": "none"}
    return program(kernels.products, constants, {}, a=[128, 64], b=[64, 64], c=[64, 64])


def test_a_ring_that_tma_fills(products: ExplicitProgram) -> None:
    (ring,) = products.rings
    assert (ring.slots, ring.payload, ring.slot_bytes) == (3, ("128x64xf16", "64x64xf16"), 24576)
    assert ring.by_copies and ring.writers == ("partition1",) and ring.readers == ("default", "partition0")
    assert (ring.full.arrivals, ring.full.bytes) == (1, 24576)
    assert ring.empty is not None and (ring.empty.arrivals, ring.empty.bytes) == (2, 0)
    assert ring.empty.arrivers == ring.readers and ring.empty.waiters == ring.writers
    assert not products.signals and products.buffer_bytes == 2 * 64 * 64 * 2  # tiles of two stores


def test_partitions_and_their_waits(products: ExplicitProgram) -> None:
    assert [(it.name, it.warps, it.registers) for it in products.partitions] == [
        ("default", 4, None), ("partition0", 4, 160), ("partition1", 1, 24),
    ]  # fmt: skip
    _, consumer, producer = products.partitions
    assert [(it.kind, it.target) for it in producer.waits] == [("empty", "ring0")]
    found = [(it.kind, it.pending) for it in consumer.waits if it.kind != "stores"]
    assert found == [("full", 0), ("wgmma", 1), ("wgmma", 0)]
    lines = Path(kernels.__file__).read_text().splitlines()
    place = consumer.waits[0].location
    assert place is not None and "ring.get()" in lines[place.line - 1]


def test_a_ring_that_threads_fill() -> None:
    found = program(kernels.squares, {"D": 2, "FAULT": "none"}, {"x": "*fp32", "o": "*fp32"})
    (ring,) = found.rings
    assert not ring.by_copies and (ring.slots, ring.payload, ring.slot_bytes) == (2, ("32x32xf32",), 4096)
    assert (ring.writers, ring.readers) == (("partition0",), ("default",))
    assert ring.empty is not None and found.buffer_bytes == 0 and not found.signals


def test_turns_are_signals() -> None:
    found = program(kernels.in_turns, {"FAULT": "none"}, {"o": "*i32"})
    (signal,) = found.signals
    assert not found.rings and signal.barrier.slots == 2
    assert signal.barrier.arrivers == signal.barrier.waiters == ("default", "partition0")
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
    found = explicit_program(module)
    assert found.rings and len(found.partitions) == len(partitions_of(module))
    assert all(ring.writers and ring.readers for ring in found.rings)


def test_a_program_without_barriers_has_no_rings(tmp_path: Path) -> None:
    path = tmp_path / "empty.mlir"
    path.write_text('"builtin.module"() ({\n"tt.func"() <{function_type = () -> (), sym_name = "f"}> ({\n'
                    '"tt.return"() : () -> ()\n}) : () -> ()\n}) {"ttg.num-warps" = 4 : i32} : () -> ()\n')  # fmt: skip
    found = explicit_program(read_ttgir(path))
    assert found.rings == found.signals == () and found.partitions[0].waits == ()


def test_empty_barriers_are_found_by_use_not_by_the_order_of_allocation() -> None:
    found = program(crossed.crossed, {"D": 2}, {"o": "*fp32"})
    lines = Path(crossed.__file__).read_text().splitlines()
    made = [lines[it.empty.location.line - 1].strip() for it in found.rings if it.empty and it.empty.location]
    assert made == ["empty_a = barriers(D, 1)", "empty_b = barriers(D, 1)"]
