"""Operations on tiles, and global memory through pointers: against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.sim import Descriptor, from_floats, simulate
from tawa.sim.errors import MissingFence, UnwrittenRead
from tawa.sim.machine.values import GlobalTensor, Pointer, TensorDescriptor
from tawa.sim.ops.global_memory import read_box, write_box
from tests.cases.programs.ttgir import op
from tests.sim.small import BUFFER, POINTERS, ROW, kernel, row

MATRIX = "tensor<8x8xf32, #blocked>"
STORE = op("tt.store", "%at, %result", f"{POINTERS}, {ROW}")
LOAD = op("tt.load", "%at", POINTERS, "%v", ROW, properties="operandSegmentSizes = array<i32: 1, 0, 0>")


def reshape(result: str, value: str, source: str, target: str) -> str:
    return op("tt.reshape", f"%{value}", source, f"%{result}", target)


def computed(*lines: str) -> Any:
    """x[0:64] = f(x[0:64]), where the lines make %result of %v."""
    x = np.arange(64, dtype=np.float32)[::-1].copy()
    simulate(kernel(*row(), LOAD, *lines, STORE), {"x": x, "n": 0}, (1,))
    return x


X = np.arange(64, dtype=np.float32)[::-1].reshape(8, 8)


def region(name: str, function: str) -> str:
    return (
        "({\n^bb0(%l: f32, %r: f32):\n"
        f'%c = "{function}"(%l, %r) : (f32, f32) -> f32\n"{name}.return"(%c) : (f32) -> ()\n}})'
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("function", "wanted"), [("arith.addf", np.sum), ("arith.maxnumf", np.max)])
def test_a_reduction_is_that_of_numpy(axis: int, function: str, wanted: Any) -> None:
    part = "tensor<8xf32, #part>"
    wide = "tensor<8x1xf32, #blocked>" if axis else "tensor<1x8xf32, #blocked>"
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        f'%s = "tt.reduce"(%m) <{{axis = {axis} : i32}}> {region("tt.reduce", function)} : ({MATRIX}) -> {part}',
        op("tt.expand_dims", "%s", part, "%w", wide, properties=f"axis = {axis} : i32"),
        op("tt.broadcast", "%w", wide, "%b", MATRIX),
        reshape("result", "b", MATRIX, ROW),
    )
    assert (got.reshape(8, 8) == np.broadcast_to(wanted(X, axis=axis, keepdims=True), (8, 8))).all()


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_scan_is_that_of_numpy(reverse: str) -> None:
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        f'%s = "tt.scan"(%m) <{{axis = 1 : i32, reverse = {reverse}}}> {region("tt.scan", "arith.addf")} '
        f": ({MATRIX}) -> {MATRIX}",
        reshape("result", "s", MATRIX, ROW),
    )
    wanted = np.cumsum(X[:, ::-1], axis=1)[:, ::-1] if reverse == "true" else np.cumsum(X, axis=1)
    assert (got.reshape(8, 8) == wanted).all()


def test_a_transposition_moves_elements() -> None:
    got = computed(
        reshape("m", "v", ROW, MATRIX),
        op("tt.trans", "%m", MATRIX, "%t", MATRIX, properties="order = array<i32: 1, 0>"),
        reshape("result", "t", MATRIX, ROW),
    )
    assert (got.reshape(8, 8) == X.T).all()


def test_split_and_join_are_inverse() -> None:
    pairs, half = "tensor<32x2xf32, #blocked>", "tensor<32xf32, #blocked>"
    got = computed(
        reshape("p", "v", ROW, pairs),
        op("tt.split", "%p", pairs, "%e, %o", f"({half}, {half})"),
        op("tt.join", "%o, %e", f"{half}, {half}", "%j", pairs),
        reshape("result", "j", pairs, ROW),
    )
    assert (got.reshape(32, 2) == X.reshape(32, 2)[:, ::-1]).all()


def test_atomics_of_many_programs_add_up() -> None:
    x = np.zeros(4, np.float32)
    one = op("arith.constant", "", "", "%one", "f32", properties="value = 1.0 : f32")
    add = op("tt.atomic_rmw", "%x, %one", "!tt.ptr<f32>, f32", "%old", "f32", properties="atomic_rmw_op = 5 : i32")
    simulate(kernel(one, add), {"x": x, "n": 0}, (3, 2))
    assert x.tolist() == [6, 0, 0, 0]


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_cp_async_is_there_after_its_wait(order: Any) -> None:
    token = "!ttg.async.token"

    def lines(wait: int) -> tuple[str, ...]:
        copy = "operandSegmentSizes = array<i32: 1, 1, 0, 0>"
        return (
            op("ttg.local_alloc", "", "", "%stage", BUFFER),
            op("ttg.async_copy_global_to_local", "%at, %stage", f"{POINTERS}, {BUFFER}", "%t", token, properties=copy),
            op("ttg.async_commit_group", "%t", token, "%g", token),
            op("ttg.async_wait", "%g", token, "%w", token, properties=f"num = {wait} : i32"),
            op("ttg.local_load", "%stage", BUFFER, "%v", ROW),
            op("arith.addf", "%v, %v", f"{ROW}, {ROW}", "%result", ROW),
        )

    x = np.arange(64, dtype=np.float32)
    simulate(kernel(*row(), *lines(0), STORE), {"x": x, "n": 0}, (1,), order)
    assert (x == 2 * np.arange(64)).all()
    if order == "late":
        with pytest.raises(UnwrittenRead, match="in flight"):
            simulate(kernel(*row(), *lines(1), STORE), {"x": x, "n": 0}, (1,), order)


def test_what_the_generic_proxy_wrote_is_not_for_tma_without_a_fence() -> None:
    desc = "!tt.tensordesc<tensor<64xf32, #shared>>"
    lines = (
        op("arith.constant", "", "", "%one", "i64", properties="value = 1 : i64"),
        op("arith.constant", "", "", "%size", "i32", properties="value = 64 : i32"),
        op("tt.make_tensor_descriptor", "%x, %size, %one", "!tt.ptr<f32>, i32, i64", "%d", desc),
        op("ttg.local_alloc", "", "", "%stage", BUFFER),
        op("ttg.local_store", "%v, %stage", f"{ROW}, {BUFFER}"),
        op("ttng.async_tma_copy_local_to_global", "%d, %n, %stage", f"{desc}, i32, {BUFFER}"),
    )
    with pytest.raises(MissingFence):
        simulate(kernel(*row(), LOAD, *lines), {"x": np.zeros(64, np.float32), "n": 0}, (1,))


def test_a_box_reads_zero_and_writes_nothing_outside_its_tensor() -> None:
    bits = np.arange(1, 13, dtype=np.uint64)
    tensor = TensorDescriptor(Pointer(GlobalTensor("x", bits, "i64"), 0), (3, 4), (4, 1), (2, 4))
    assert read_box(tensor, [2, 2]).tolist() == [[11, 12, 0, 0], [0, 0, 0, 0]]
    assert read_box(tensor, [-1, -2]).tolist() == [[0, 0, 0, 0], [0, 0, 1, 2]]
    assert not read_box(tensor, [8, 0]).any()
    write_box(tensor, [2, 2], np.full((2, 4), 99, np.uint64))
    assert bits.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99, 99]


def test_a_descriptor_type_is_checked_where_it_is_named() -> None:
    with pytest.raises(Exception, match="described as bf16"):
        from tawa.ir import parse_module
        from tests.cases.programs import ttgir as programs

        desc = Descriptor(from_floats(np.zeros((64, 64)), "bf16"), dtype="bf16")
        arguments: dict[str, Any] = dict.fromkeys(("a_desc", "b_desc", "c_desc"), desc)
        simulate(parse_module(programs.tile_gemm()), {**arguments, "out": np.zeros(1, np.float16), "n": 0, "m": 0}, [1])
