"""Atomics, bounds checks and TMA boxes in global memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.ir import parse_module
from tawa.sim import Descriptor, simulate
from tawa.sim.errors import (
    MisalignedBox,
    MisalignedDescriptor,
    OutOfBounds,
    StoreBeforeRow,
)
from tawa.sim.machine.values import GlobalTensor, Pointer, TensorDescriptor
from tawa.sim.ops.global_memory import read_box, write_box
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import op
from tests.sim.language import WIDTH, floats, integers, language_kernel
from tests.sim.small import POINTERS, ROW, kernel, row, run


def test_atomics_on_integers() -> None:
    v = np.arange(WIDTH, dtype=np.int32) * 37 % 101 - 50
    before = integers(8)
    before[448::2] = v[::2]
    z, old = before.copy(), integers(8, 1)
    simulate(language_kernel("integer_atomics", {"z": "*i32", "old": "*i32"}), {"z": z, "old": old}, (1,))
    assert (old == before).all()
    b = before.reshape(8, WIDTH)
    wanted = [b[0] + v, np.maximum(b[1], v), np.minimum(b[2], v), b[3] & v, b[4] | v, b[5] ^ v, v]
    assert (z.reshape(8, WIDTH) == np.stack([*wanted, np.where(b[7] == v, v + 1, b[7])])).all()


def test_unsigned_atomics_and_the_high_half_of_products() -> None:
    v = (np.arange(WIDTH, dtype=np.int32) * 37 % 101 - 50).view(np.uint32)
    before = integers(3).view(np.uint32)
    z, old = before.copy(), np.zeros_like(before)
    simulate(language_kernel("unsigned_atomics", {"z": "*u32", "old": "*u32"}), {"z": z, "old": old}, (1,))
    b = before.reshape(3, WIDTH)
    assert (z.reshape(3, WIDTH)[:2] == np.stack([np.maximum(b[0], v), np.minimum(b[1], v)])).all()
    assert (old.reshape(3, WIDTH)[2] == (b[2].astype(np.uint64) * v) >> np.uint64(32)).all()


def test_atomics_on_floats() -> None:
    before, v = floats(3), floats(3, 1)
    x = before.copy()
    simulate(language_kernel("float_atomics", {"x": "*fp32", "v": "*fp32"}), {"x": x, "v": v}, (1,))
    b, w = before.reshape(3, WIDTH), v.reshape(3, WIDTH)
    assert (x.reshape(3, WIDTH) == np.stack([b[0] + w[0], np.maximum(b[1], w[1]), np.minimum(b[2], w[2])])).all()


def test_atomics_of_many_programs_add_up() -> None:
    x = np.zeros(4, np.float32)
    one = op("arith.constant", "", "", "%one", "f32", properties="value = 1.0 : f32")
    add = op("tt.atomic_rmw", "%x, %one", "!tt.ptr<f32>, f32", "%old", "f32", properties="atomic_rmw_op = 5 : i32")
    simulate(kernel(one, add), {"x": x, "n": 0}, (3, 2))
    assert x.tolist() == [6, 0, 0, 0]


def test_a_box_reads_zero_and_writes_nothing_outside_its_tensor() -> None:
    bits = np.arange(1, 13, dtype=np.uint64)
    tensor = TensorDescriptor(Pointer(GlobalTensor("x", bits, "i64"), 0), (3, 4), (4, 1), (2, 4))
    assert read_box(tensor, [2, 2]).tolist() == [[11, 12, 0, 0], [0, 0, 0, 0]]
    assert read_box(tensor, [-1, -2]).tolist() == [[0, 0, 0, 0], [0, 0, 1, 2]]
    assert not read_box(tensor, [8, 0]).any()
    write_box(tensor, [2, 2], np.full((2, 4), 99, np.uint64))
    assert bits.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99, 99]


def rows_of(bits: Any, columns: int, stride: int, block: int) -> TensorDescriptor:
    """Three rows of so many columns, from the second row of the memory on; boxes of two rows."""
    memory = GlobalTensor("x", bits, f"i{8 * bits.itemsize}")
    return TensorDescriptor(Pointer(memory, stride), (3, columns), (stride, 1), (2, block))


@pytest.mark.parametrize(
    ("width", "columns", "start"),
    [(1, 17, 0), (1, 31, 16), (2, 17, 0), (2, 23, 16), (4, 17, 0), (4, 19, 16), (8, 5, 0)],
)
def test_a_store_writes_the_last_chunk_of_a_row_whole(width: int, columns: int, start: int) -> None:
    """As an H200 does: uint8, float16, int32 and float64 were measured."""
    chunk = 16 // width
    end = -(-columns // chunk) * chunk
    bits = np.full(5 * 64, 7, f"u{width}")
    write_box(rows_of(bits, columns, 64, 32), [2, start], np.full((2, 32), 3, bits.dtype))
    wanted = np.full((5, 64), 7)
    wanted[3, start : min(end, start + 32)] = 3
    assert (bits.reshape(5, 64) == wanted).all()


@pytest.mark.parametrize(("columns", "start"), [(16, 0), (32, 16), (17, 32), (33, 0)])
def test_a_store_writes_nothing_behind_whole_chunks_or_its_box(columns: int, start: int) -> None:
    bits = np.full(5 * 64, 7, np.uint8)
    write_box(rows_of(bits, columns, 64, 32), [0, start], np.full((2, 32), 3, np.uint8))
    assert (bits.reshape(5, 64)[1:3] == 3).sum() == 2 * max(0, min(columns, start + 32) - start)
    assert (bits == 3).sum() == 2 * max(0, min(columns, start + 32) - start)


def test_a_load_reads_nothing_behind_its_row() -> None:
    bits = np.full(5 * 64, 7, np.uint8)
    box = read_box(rows_of(bits, 17, 64, 32), [2, 0])
    assert (box[0] == [7] * 17 + [0] * 15).all() and not box[1].any()


def test_a_store_that_begins_before_its_rows_traps() -> None:
    """A load does not."""
    tensor = rows_of(np.full(5 * 64, 7, np.uint8), 17, 64, 32)
    assert (read_box(tensor, [0, -16])[0] == [0] * 16 + [7] * 16).all()
    with pytest.raises(StoreBeforeRow, match="stored to x begins at element -16 of its rows"):
        write_box(tensor, [0, -16], np.zeros((2, 32), np.uint8))


@pytest.mark.parametrize(("offset", "stride", "reason"), [
    (8, 64, "begins 8 bytes behind its start"), (64, 40, "a stride of 40 elements of dimension 0, 40 bytes"),
])  # fmt: skip
def test_a_descriptor_needs_addresses_and_strides_of_whole_chunks(offset: int, stride: int, reason: str) -> None:
    memory = GlobalTensor("x", np.zeros(320, np.uint8), "i8")
    with pytest.raises(MisalignedDescriptor, match=reason):
        TensorDescriptor(Pointer(memory, offset), (3, 32), (stride, 1), (2, 32))


def test_addresses_of_boxes_wrap_around_in_64_bits() -> None:
    bits = np.arange(1, 33, dtype=np.uint16)  # rows of 8
    tensor = TensorDescriptor(
        Pointer(GlobalTensor("x", bits, "f16"), 0), (2**31, 2**31, 2**30, 8), (2**34 - 8, 8, 8, 1), (1, 1, 2, 8)
    )
    end, length, row = 3, 2, 1  # the last of the two rows that end at row 3
    at = [2**30, end, 2**30 - length + row, 0]
    assert read_box(tensor, at).tolist() == [[[list(range(17, 25)), [0] * 8]]]
    write_box(tensor, at, np.full((1, 1, 2, 8), 99, np.uint16))
    assert bits.tolist() == [*range(1, 17), *[99] * 8, *range(25, 33)]
    with pytest.raises(OutOfBounds):
        read_box(tensor, [2**30, 5, 2**30 - length, 0])


def test_a_store_outside_its_tensor_traps() -> None:
    value = op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<1.0> : {ROW}")
    module = kernel(*row(), value, op("tt.store", "%at, %v", f"{POINTERS}, {ROW}", line=9))
    assert run(module).tolist() == [1.0] * 64
    with pytest.raises(OutOfBounds, match="element 60 of x, which has 60"):
        run(module, np.zeros(60, np.float32))


@pytest.mark.parametrize("access", ["load", "store"])
def test_an_innermost_coordinate_that_is_no_multiple_of_16_bytes_traps(access: str) -> None:
    desc = "!tt.tensordesc<tensor<64xf32>>"
    moved = {
        "load": op("tt.descriptor_load", "%d, %n", f"{desc}, i32", "%v", ROW),
        "store": op("tt.descriptor_store", "%d, %v, %n", f"{desc}, {ROW}, i32"),
    }
    module = kernel(
        op("arith.constant", "", "", "%one", "i64", properties="value = 1 : i64"),
        op("arith.constant", "", "", "%size", "i32", properties="value = 64 : i32"),
        op("tt.make_tensor_descriptor", "%x, %size, %one", "!tt.ptr<f32>, i32, i64", "%d", desc),
        *([op("arith.constant", "", "", "%v", ROW, properties=f"value = dense<1.0> : {ROW}")] * (access == "store")),
        moved[access],
    )
    run(module, n=4)
    with pytest.raises(MisalignedBox, match="element 2 of its rows, at 8 bytes"):
        run(module, n=2)


def test_a_box_outside_the_memory_of_its_array_traps() -> None:
    desc = Descriptor(np.zeros((32, 64), np.float16), shape=(64, 64), strides=(64, 1))
    small = Descriptor(np.zeros((64, 64), np.float16))
    arguments = {"a_desc": desc, "b_desc": small, "c_desc": small, "out": np.zeros(4, np.float16), "n": 1, "m": 0}
    with pytest.raises(OutOfBounds, match="a box of a_desc has the elements 0 to 4095 of 2048"):
        simulate(parse_module(programs.tile_gemm()), arguments, (1,))
