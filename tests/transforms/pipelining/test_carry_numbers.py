"""`carry_numbers`: a tile of indices that grows by a number is carried as that number."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.dialects.scf import ForOp
from tawa.ir import Module, TensorType, parse_type
from tawa.sim import Descriptor, simulate
from tawa.transforms.partition.partition import Partition
from tawa.transforms.pipelining.carry_numbers import CarryNumbers
from tests.cases.programs.ttgir import ACC, binary, for_loop, iteration, kernel, op, ops_named, store
from tests.support.passes import checked, flow_behind

ROW = "tensor<64xi32, #ttg.slice<{dim = 0, parent = #mma}>>"
TILE = "tensor<1x64xi32, #mma>"
WIDE = ACC.replace("f32", "i32")
GROWS = binary("more", "addi", "rows", "steps", ROW)


def walked(following: str = GROWS, begin: str = "begins", behind: bool = False) -> Module:
    """The consumer multiplies its sum by a row of indices that each iteration moves on.

    following: how. begin: what the first row is the sum of, beside a range. behind: whether the row is used once more.
    """
    spread = (
        op("tt.expand_dims", "%rows", ROW, "%row", TILE, properties="axis = 0 : i32"),
        op("tt.broadcast", "%row", TILE, "%every", WIDE),
        op("arith.sitofp", "%every", WIDE, "%factors", ACC),
        op("arith.mulf", "%next, %factors", f"{ACC}, {ACC}", "%kept", ACC),
    )
    body = "\n".join((iteration(), *spread, op("tt.splat", "%two", "i32", "%steps", ROW), following))
    before = (
        op("tt.make_range", "", "", "%range", ROW, properties="end = 64 : i32, start = 0 : i32"),
        op("tt.splat", "%m", "i32", "%begins", ROW),
        op("arith.muli", "%begins, %begins", f"{ROW}, {ROW}", "%squares", ROW),
        binary("first", "addi", begin, "range", ROW),
    )
    carried = {"sum": ("zeros", "kept", ACC), "rows": ("first", "more", ROW)}
    loop = for_loop(body, carried=carried, results="%acc:2")
    after = (
        op("tt.expand_dims", "%acc#1", ROW, "%last", TILE, properties="axis = 0 : i32"),
        op("tt.broadcast", "%last", TILE, "%lasts", WIDE),
        op("arith.sitofp", "%lasts", WIDE, "%scales", ACC),
        op("arith.mulf", "%acc#0, %scales", f"{ACC}, {ACC}", "%scaled", ACC),
    )
    end = (*after, store("scaled")) if behind else (store("acc#0"),)
    return flow_behind(Partition, kernel("\n".join((*before, loop, *end)))).module


def carried_tiles(module: Module) -> int:
    """How many rows of indices the loops carry."""
    types = [it.type for op in ops_named(module, "scf.for") for it in ForOp(op).iter_args]
    return sum(isinstance(kind := parse_type(it), TensorType) and kind.element == "i32" for it in types)


def output(module: Module, trips: int) -> bytes:
    lot = np.random.default_rng(trips)
    a, b = (lot.standard_normal((72, 72)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    descriptors = {"a_desc": Descriptor(a), "b_desc": Descriptor(b), "c_desc": Descriptor(c)}
    simulate(module, {**descriptors, "out": np.zeros(1, np.float16), "n": trips, "m": 3}, (1,))
    return c.tobytes()


def test_a_row_of_indices_that_grows_by_a_number_is_carried_as_that_number() -> None:
    module = walked()
    before = carried_tiles(module)
    assert CarryNumbers().run(checked(module)).changed
    assert (before, carried_tiles(checked(module))) == (1, 0)
    assert not CarryNumbers().run(module).changed


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_the_bits_stay_also_where_the_row_is_used_behind_the_loop(trips: int, behind: bool) -> None:
    plain, numbers = walked(behind=behind), walked(behind=behind)
    assert CarryNumbers().run(numbers).changed
    assert output(checked(numbers), trips) == output(plain, trips)


@pytest.mark.parametrize(
    ("following", "begin"),
    [
        (binary("more", "addi", "rows", "rows", ROW), "begins"),
        (binary("more", "muli", "rows", "steps", ROW), "begins"),
        (GROWS, "squares"),
    ],
    ids=["grows by itself", "is multiplied", "begins with more than a number"],
)
def test_any_other_row_stays(following: str, begin: str) -> None:
    module = walked(following, begin)
    assert not CarryNumbers().run(module).changed
