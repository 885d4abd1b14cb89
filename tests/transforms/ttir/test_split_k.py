"""`split_k`: programs share the iterations of a tile's loop, and the last one adds up their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tawa.dialects import structure_rules
from tawa.dialects.parameters import SEMAPHORES, WORKSPACE
from tawa.ir import Module, Value, parse_module, print_module, verify_structure
from tawa.sim import simulate
from tawa.transforms.ttir.split_k import SplitK
from tests.analysis.tile_programs import TileProgram

SIZE = 16
Program = TileProgram


def product(
    *, init: str = "0.000000e+00", body: Callable[[Program, Value], None] | None = None, after: bool = False,
    scaled: bool = False, step: int = 1, more: Callable[[Program], None] | None = None,
) -> Module:  # fmt: skip
    """C[y, x] = sum of A[y, k] @ B[k, x] over tiles k in range(from, to, step).

    A pointer to the tile of A moves along; B is found by k. body: further effects of an iteration, by k. after: the
    counter is used behind the loop. scaled: an iteration multiplies the sum. more: effects before the loop.
    """
    p = TileProgram(a="!tt.ptr<f32>", b="!tt.ptr<f32>", c="!tt.ptr<f32>", first="i32", end="i32", tiles="i32")
    tile = SIZE * SIZE
    x, y = p.pid(0), p.pid(1)
    width = p.op("tt.get_num_programs", [], "i32", axis="0 : i32")
    rows = p.mul(p.spread(p.range(SIZE), 1, SIZE, SIZE), p.op("arith.constant", [], f"tensor<{SIZE}x{SIZE}xi32>",
                 value=f"dense<{SIZE}> : tensor<{SIZE}x{SIZE}xi32>"))  # fmt: skip
    at = p.add(rows, p.spread(p.range(SIZE), 0, SIZE, SIZE))

    def pointers(base: Value, number: Value) -> Value:
        return p.add(p.splat(p.add(base, p.mul(number, p.number(tile))), SIZE, SIZE), at)

    kind = f"tensor<{SIZE}x{SIZE}xf32>"
    zeros = p.op("arith.constant", [], kind, value=f"dense<{init}> : {kind}")
    if more is not None:
        more(p)
    start = pointers(p.args["a"], p.add(p.mul(y, p.args["tiles"]), p.args["first"]))
    distance = p.op("arith.constant", [], f"tensor<{SIZE}x{SIZE}xi32>",
                    value=f"dense<{tile * step}> : tensor<{SIZE}x{SIZE}xi32>")  # fmt: skip

    def iterate(args: list[Value]) -> list[Value]:
        k, acc, place, count = args
        b = p.load(pointers(p.args["b"], p.add(p.mul(k, width), x)))
        if body is not None:
            body(p, k)
        dot = p.op("tt.dot", [p.load(place), b, acc], kind, inputPrecision="2 : i32", maxNumImpreciseAcc="0 : i32")
        total = p.binary("mulf", dot, dot) if scaled else dot
        return [total, p.add(place, distance), p.add(count, p.args["tiles"])]

    bounds = (p.args["first"], p.args["end"], p.number(step))
    loop = p.loop(bounds, [zeros, start, p.number(0)], iterate)
    result = p.binary("addf", loop.results[0], loop.results[0])
    where = p.add(p.mul(y, width), x)
    p.store(pointers(p.args["c"], p.add(where, loop.results[2]) if after else where), result)
    return p.finish()


def run(module: Module, shares: int, grid: Sequence[int], span: tuple[int, int], tiles: int, **options: Any) -> Any:
    """C after a launch; checks that semaphores are left at zero, and that the memory of partial sums was large enough.

    shares: of a tile; 0 for the kernel as written.
    """
    lot = np.random.default_rng(0)
    x, y = grid
    a = lot.integers(-3, 4, (y, tiles, SIZE, SIZE)).astype(np.float32)
    b = lot.integers(-3, 4, (tiles, x, SIZE, SIZE)).astype(np.float32)
    c = np.full((y, x, SIZE, SIZE), np.nan, np.float32)
    arguments: dict[str, Any] = {"a": a, "b": b, "c": c, "first": span[0], "end": span[1], "tiles": tiles}
    if shares:
        arguments[WORKSPACE] = np.full(x * y * shares * SIZE * SIZE, np.nan, np.float32)
        arguments[SEMAPHORES] = np.zeros(x * y, np.int32)
    simulate(module, arguments, (x * max(1, shares), y), **options)
    assert not shares or not arguments[SEMAPHORES].any()
    return a, b, c


SPANS = [(0, 0, 1), (0, 1, 1), (0, 5, 1), (2, 9, 3), (1, 8, 1), (5, 3, 1), (0, 8, 2)]


@pytest.mark.parametrize("shares", [2, 3, 8])
@pytest.mark.parametrize(("first", "end", "step"), SPANS)
def test_any_shares_of_any_trips_give_the_sum_in_any_order_of_programs(
    first: int, end: int, step: int, shares: int
) -> None:
    module = product(step=step)
    made = SplitK(shares).run(module)
    assert made.changed and made.shared is not None and made.shared.elements == SIZE * SIZE
    assert [str(error) for error in verify_structure(module, structure_rules())] == []
    module = parse_module(print_module(module))
    for seed in range(2):
        a, b, c = run(module, shares, (2, 3), (first, end), 9, seed=seed, together=True)
        wanted = np.zeros_like(c)
        for k in range(first, end, step):
            wanted += a[:, None, k] @ b[None, k]
        assert np.array_equal(c, 2 * wanted)  # all numbers are small integers: no order of the sum rounds


def test_the_last_program_adds_in_the_order_of_the_iterations_whoever_is_the_last() -> None:
    """The bits are those of one order, in every run."""
    module = product()
    SplitK(3).run(module)
    lot = np.random.default_rng(1)
    a, b = (lot.standard_normal((1, 9, SIZE, SIZE)).astype(np.float32) for _ in range(2))
    found: set[bytes] = set()
    for seed in range(6):
        c = np.full((1, 1, SIZE, SIZE), np.nan, np.float32)
        shared = {WORKSPACE: np.full(3 * SIZE * SIZE, np.nan, np.float32), SEMAPHORES: np.zeros(1, np.int32)}
        values = {"a": a, "b": b, "c": c, "first": 0, "end": 9, "tiles": 9, **shared}
        simulate(module, values, (3, 1), seed=seed, together=True)
        found.add(c.tobytes())
    assert len(found) == 1


def ordered(module: Module, name: str) -> list[int]:
    return [at for at, op in enumerate(module.walk()) if op.name == name]


def test_all_partial_sums_are_written_before_the_barrier_and_the_barrier_is_before_the_arrival() -> None:
    module = product()
    SplitK(2).run(module)
    (barrier,), (arrival,) = ordered(module, "gpu.barrier"), ordered(module, "tt.atomic_rmw")
    stores, loads = ordered(module, "tt.store"), ordered(module, "tt.load")
    assert stores[0] < barrier < arrival < min(stores[1:]) and arrival < min(it for it in loads if it > barrier)
    text = print_module(module)
    assert "scope = 1 : i32, sem = 4 : i32" in text  # acquires and releases, on the whole GPU


def test_newer_releases_of_triton_spell_the_barrier_otherwise() -> None:
    module = product()
    SplitK(2, gpu_barrier=False).run(module)
    assert ordered(module, "ttg.barrier") and not ordered(module, "gpu.barrier")


def test_a_kernel_that_cannot_be_shared_stays_as_it_is() -> None:
    module = product(scaled=True)
    before = print_module(module)
    (remark,) = SplitK(2).run(module).remarks
    assert remark.cure == "split_k=1 in the Plan" and print_module(module) == before
