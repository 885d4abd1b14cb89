"""`park_loads` and `recompute_addresses`, on stock Triton's programs: what moves, what stays, and that the bits do."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import LoadOp, StoreOp
from tawa.dialects.ttg import AsyncCommitGroupOp, AsyncWaitOp, ConvertLayoutOp, LocalLoadOp
from tawa.ir import Builder, Module, Operation, clone_op, copy_module, parse_module
from tawa.ir.attributes import int_attr
from tawa.transforms.pipelining.park_loads import ParkLoads
from tawa.transforms.pipelining.recompute_addresses import RecomputeAddresses
from tawa.verify.layouts import difference
from tests.cases.small.parked_kernels import by_rows, gated, nested, rewritten
from tests.matrix.test_parked import launch, output
from tests.support.fronts import front
from tests.support.sample import sample

ROOM = 1 << 17


@cache
def _stock(kernel: Any, num_warps: int) -> Module:
    """Stock Triton's program."""
    given = launch(kernel)
    made = front(given.kernel, given.signature(), num_warps=num_warps)
    mod = parse_with_triton(made.ttir, made.context)
    for part in (made.stages.front, made.stages.middle, made.stages.back):
        mod = part(mod, {}, made.options, 90)
    return parse_module(print_generic(mod))


def stock(kernel: Any, num_warps: int = 4) -> Module:
    return copy_module(_stock(kernel, num_warps))


def parked(kernel: Any = gated, num_warps: int = 4, room: int = ROOM, late: bool = False) -> Module:
    module = stock(kernel, num_warps)
    ParkLoads(room, late).run(module)
    assert difference(stock(kernel, num_warps), module) == ""
    return module


def loads(module: Module) -> list[str]:
    return [op.result.hint for op in module.walk() if LoadOp.matches(op)]


def reads(module: Module) -> list[Operation]:
    """The reads of parked tiles: those behind the last loop."""
    return [op for op in module.walk() if LocalLoadOp.matches(op) and op.operands[0].hint in ("g", "k")]


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 4))
@pytest.mark.parametrize("late", [False, True], ids=["parked", "late"])
@pytest.mark.parametrize(
    ("kernel", "trips", "num_warps"), [(gated, 3, 4), (gated, 0, 8), (nested, 2, 4), (nested, 1, 2)]
)
def test_the_bits_stay(kernel: Any, trips: int, num_warps: int, late: bool, order: str) -> None:
    module = parked(kernel, num_warps, late=late)
    RecomputeAddresses().run(module)
    assert difference(stock(kernel, num_warps), module) == ""
    given = launch(kernel, trips, 61)
    assert output(given, stock(kernel, num_warps)) == output(given, module, order)


def test_only_what_the_room_holds_is_parked() -> None:
    assert loads(parked(room=ROOM)) == []
    assert loads(parked(room=64 * 64 * 4)) == ["k"]  # of fp16; the gates are of fp32
    assert loads(parked(room=64 * 64 * 2)) == ["g"]
    module = stock(gated)
    assert not ParkLoads(64).run(module).changed


def test_late_loads_are_behind_the_loop() -> None:
    module = parked(late=True)
    assert loads(module) == ["g"]  # what is loaded behind the loop is parked
    load = next(op for op in module.walk() if LoadOp.matches(op))
    loop = next(op for op in module.walk() if ForOp.matches(op))
    assert load.parent is loop.parent and load.parent is not None
    assert load.parent.index_of(loop) < load.parent.index_of(load)


def test_memory_that_the_kernel_writes_stays() -> None:
    module = stock(rewritten)
    assert not ParkLoads(ROOM, late=True).run(module).changed


def test_memory_whose_rows_a_later_loop_loads_stays() -> None:
    """The load of the tile brings the rows to L1."""
    assert [it for it in loads(parked(by_rows)) if it == "g"] == ["g"]
    assert "g" in loads(parked(by_rows)) and "k" not in loads(parked(by_rows))


def test_a_tile_is_read_in_the_layout_of_its_use() -> None:
    def converted(module: Module) -> int:
        return len([op for op in module.walk() if ConvertLayoutOp.matches(op)])

    assert converted(parked()) < converted(stock(gated))
    assert all("#mma" in it.result.type for it in reads(parked()))


def test_what_parks_otherwise_is_told() -> None:
    """Each part of the protocol, and what is copied, can be wrong."""

    def told(change: Any) -> str:
        module = parked()
        change(module)
        return difference(stock(gated), module)

    def first(module: Module, kind: Any) -> Operation:
        return next(
            op for op in module.walk() if kind.matches(op) and any("async.token" in it.type for it in op.operands)
        )

    def waits_for_less(module: Module) -> None:
        wait = next(it for it in reads(module)[0].operands[1:2]).defining_op
        assert wait is not None
        wait.properties["num"] = int_attr(1)

    def reads_before_the_wait(module: Module) -> None:
        read = reads(module)[0]
        wait = read.operands[1].defining_op
        assert wait is not None
        Builder.before(wait).insert(read.detach())

    def reads_the_other(module: Module) -> None:
        one, other = reads(module)[:2]
        buffers = one.operands[0], other.operands[0]
        if buffers[0].type == buffers[1].type:
            one.set_operand(0, buffers[1])
        else:
            copies = [it for it in buffers[0].users if it not in reads(module)]
            copies[0].set_operand(0, copies[0].operands[0].defining_op.operands[0])  # type: ignore[union-attr]

    def copies_twice(module: Module) -> None:
        buffer = reads(module)[0].operands[0]
        copy = next(it for it in buffer.users if it not in reads(module))
        Builder.after(copy).insert(clone_op(copy, {}))

    def drops_the_commit(module: Module) -> None:
        commit = first(module, AsyncCommitGroupOp)
        wait = next(op for op in module.walk() if AsyncWaitOp.matches(op) and commit.result in op.operands)
        wait.set_operands([it for it in wait.operands if it is not commit.result])

    for change in (waits_for_less, reads_before_the_wait, copies_twice, drops_the_commit, reads_the_other):
        assert told(change), change.__name__


def test_addresses_begin_in_the_loop_that_uses_them() -> None:
    module = stock(nested)
    assert RecomputeAddresses().run(module).changed
    zeros = [op for op in module.walk() if SameNumberOp.matches(op)]
    assert zeros and all(enclosing_loops(op) for op in zeros)
    store = next(op for op in module.walk() if StoreOp.matches(op))
    assert any(enclosing_loops(op) for op in module.walk() if op.name == "tt.splat" and "tt.ptr" in op.result.type)
    assert difference(stock(nested), module) == "" and enclosing_loops(store)


def test_an_offset_that_is_not_0_is_told() -> None:
    module = stock(nested)
    RecomputeAddresses().run(module)
    zero = next(op for op in module.walk() if SameNumberOp.matches(op))
    constant = zero.operands[0].defining_op
    assert constant is not None
    constant.properties["value"] = int_attr(1)
    assert "another value" in difference(stock(nested), module)
