"""`slots`: the slot behind the last one is the first, and views of a slot are of memory that changes."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.ir import Builder
from tawa.sim import simulate
from tawa.transforms.lowering.slots import make_mutable, next_slot
from tests.analysis.tile_programs import TileProgram
from tests.cases.programs.ttgir import BUFFER, TRANSPOSED, kernel, op, ops_named, parse, the

VIEW = op("ttg.memdesc_trans", "%x", BUFFER, "%transposed", TRANSPOSED, properties="order = array<i32: 1, 0>")
ALLOC = op("ttg.local_alloc", "", "", "%x", BUFFER)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_slots_go_round_and_the_first_is_told_from_the_others(count: int) -> None:
    p = TileProgram((), out="!tt.ptr<i32>", slot="i32")
    builder = Builder.at_end(p.block)
    following, wrapped = next_slot(builder, p.args["slot"], count)
    assert wrapped.type == "i1"
    p.effect("tt.store", [p.args["out"], following], boundaryCheck="array<i32>", cache="1 : i32", evict="1 : i32")
    p.finish()
    for slot in range(count):
        out = np.full(1, -1, np.int32)
        simulate(p.module, {"out": out, "slot": slot}, (1,))
        assert out[0] == (slot + 1) % count


def test_a_view_of_a_slot_is_mutable_and_stands_behind_the_get() -> None:
    module = parse(kernel(f"{ALLOC}\n{VIEW}\n{op('gpu.barrier', '', '')}"))
    barrier = the(module, "gpu.barrier")
    make_mutable(the(module, "ttg.local_alloc").result, Builder.after(barrier))
    (view,) = ops_named(module, "ttg.memdesc_trans")
    assert view.result.type == TRANSPOSED.replace("#smem>", "#smem, mutable>")
    assert view.parent is not None and view.parent.index_of(view) > view.parent.index_of(barrier)
