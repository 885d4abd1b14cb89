"""How long a program takes, as far as the host can tell before a launch."""

from __future__ import annotations

import pytest

from tawa.bridge.launch.added_arguments import launch_spec, launched_by_us
from tawa.ir import Builder, Value
from tawa.machine.hopper import DOT_CYCLES, LEAST_CYCLES, STORE_CYCLES
from tawa.plan import PlanOptions
from tawa.plan.cost.launch_work import launch_work
from tawa.plan.decide.paths import CROWDED
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.analysis.tile_programs import TileProgram
from tests.cases.pointers.builders import gemm_case
from tests.matrix.compiling import compile_case, pinned
from tests.transforms.ttir.test_promote_to_tma import gemm

DOT = DOT_CYCLES + 64 * 32 * 32 // 2048  # cycles of one dot of `gemm`: 64 x 32 by 32 x 32, fp16


def cycles(spec: LaunchSpec, k: int) -> int:
    """Of `gemm`, whose fifth argument is K."""
    assert spec.work is not None
    return spec.work.evaluate((0, 0, 0, 0, k, 0))


@pytest.mark.parametrize(("k", "trips"), [(0, 0), (-5, 0), (1, 1), (32, 1), (33, 2), (320, 10)])
def test_a_counted_loop_takes_a_dot_a_trip(k: int, trips: int) -> None:
    assert cycles(LaunchSpec(work=launch_work(gemm()), least_cycles=LEAST_CYCLES), k) == trips * DOT


def test_a_dot_outside_of_loops_counts_once() -> None:
    assert cycles(LaunchSpec(work=launch_work(gemm(in_loop=False))), 1024) == DOT


def test_loops_around_loops_multiply() -> None:
    p = TileProgram(a="!tt.ptr<f16>", k="i32")
    zeros = "dense<0.000000e+00> : tensor<64x64x{}>"
    tile = p.op("arith.constant", [], "tensor<64x64xf16>", value=zeros.format("f16"))
    total = p.op("arith.constant", [], "tensor<64x64xf32>", value=zeros.format("f32"))

    def dot(args: list[Value]) -> list[Value]:
        return [p.op("tt.dot", [tile, tile, args[1]], "tensor<64x64xf32>", inputPrecision="0 : i32")]

    def inner(args: list[Value]) -> list[Value]:
        return list(p.loop((p.number(0), p.args["k"], p.number(64)), [args[1]], dot).results)

    p.loop((p.number(2), p.number(7), p.number(2)), [total], inner)
    work = launch_work(p.finish())
    assert work is not None and work.evaluate((0, 129)) == 3 * 3 * (DOT_CYCLES + 64 * 64 * 64 // 2048)


@pytest.mark.parametrize(("step", "trips"), [(1, 5), (2, 3), (5, 1), (9, 1)])
def test_a_step_that_is_an_argument_divides_the_trips(step: int, trips: int) -> None:
    work = by_argument()
    assert work.work is not None and work.work.evaluate((0, 5, step)) == trips * DOT


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_that_means_nothing_does_not_stop_a_launch(step: int) -> None:
    by_argument().not_worth((0, 5, step), 1)


def by_argument() -> LaunchSpec:
    """``for k in range(0, K, S)`` around a dot."""
    p = TileProgram(a="!tt.ptr<f16>", k="i32", s="i32")
    zeros = "dense<0.000000e+00> : tensor<{}>"
    a = p.op("arith.constant", [], "tensor<64x32xf16>", value=zeros.format("64x32xf16"))
    b = p.op("arith.constant", [], "tensor<32x32xf16>", value=zeros.format("32x32xf16"))
    total = p.op("arith.constant", [], "tensor<64x32xf32>", value=zeros.format("64x32xf32"))

    def dot(args: list[Value]) -> list[Value]:
        return [p.op("tt.dot", [a, b, args[1]], "tensor<64x32xf32>", inputPrecision="0 : i32")]

    p.loop((p.number(0), p.args["k"], p.args["s"]), [total], dot)
    return LaunchSpec(work=launch_work(p.finish()), least_cycles=LEAST_CYCLES)


def test_a_store_in_a_loop_counts_each_time() -> None:
    module = gemm()
    dot = next(op for op in module.walk() if op.name == "tt.dot")
    pointers, mask = (Builder.before(dot).create("test.some", (), (type,)).result for type in (
        "tensor<64x32x!tt.ptr<f32>>", "tensor<64x32xi1>"))  # fmt: skip
    Builder.before(dot).create("tt.store", (pointers, dot.operands[2], mask), ())
    assert cycles(LaunchSpec(work=launch_work(module)), 96) == 3 * (DOT + STORE_CYCLES)


def test_a_bound_that_the_host_does_not_know_says_nothing() -> None:
    p = TileProgram(a="!tt.ptr<f16>", k="i32")
    tile = p.op("arith.constant", [], "tensor<32x32xf16>", value="dense<0.000000e+00> : tensor<32x32xf16>")
    total = p.op("arith.constant", [], "tensor<32x32xf32>", value="dense<0.000000e+00> : tensor<32x32xf32>")

    def body(args: list[Value]) -> list[Value]:
        return [p.op("tt.dot", [tile, tile, args[1]], "tensor<32x32xf32>", inputPrecision="0 : i32")]

    p.loop((p.number(0), p.add(p.args["k"], p.pid()), p.number(1)), [total], body)
    assert launch_work(p.finish()) is None


def test_a_program_without_dots_says_nothing() -> None:
    p = TileProgram(k="i32")
    assert launch_work(p.finish()) is None


def test_short_launches_go_by_the_rounds_of_an_sm_and_by_what_a_program_does() -> None:
    spec = LaunchSpec(work=launch_work(gemm()), least_cycles=LEAST_CYCLES)
    trips = -(-LEAST_CYCLES // DOT)
    assert not spec.not_worth((0, 0, 0, 0, 32 * trips, 0), 1)
    assert spec.not_worth((0, 0, 0, 0, 32 * (trips - 1), 0), 1)
    assert not spec.not_worth((0, 0, 0, 0, 32 * -(-trips // 2), 0), 2)
    assert not LaunchSpec().not_worth((), 1)


def test_only_automatic_mode_leaves_short_launches_to_stock() -> None:
    case = gemm_case("short", b_t=True, tile=(128, 256, 64), warps=8, GROUP_M=8)
    with launched_by_us():
        automatic, asked = compile_case(case, PlanOptions()), compile_case(case, pinned(3, 1))
    work = launch_spec(automatic).work
    assert work is not None and "K" in str(work)
    assert any(f"less than {LEAST_CYCLES} cycles" in it["reason"] for it in automatic.metadata.tawa["remarks"])
    assert launch_spec(asked).descriptors and launch_spec(asked).work is None


@pytest.mark.parametrize(
    ("dtype", "b_t", "tile", "alone"),
    [
        ("fp16", False, (128, 256, 64), False),  # B: 64 rows of 512 bytes
        ("fp16", True, (128, 128, 64), False),
        ("fp8e4nv", True, (128, 128, 64), True),  # 256 rows of 64 bytes, 256 cycles of dots
        ("fp8e4nv", True, (128, 128, 128), False),
        ("fp8e4nv", True, (128, 256, 32), False),  # 384 rows, 256 cycles, but no two programs share an SM
    ],
)
def test_short_rows_pay_only_where_a_program_has_an_sm_to_itself(
    dtype: str, b_t: bool, tile: tuple[int, int, int], alone: bool
) -> None:
    case = gemm_case("rows", dtype=dtype, b_t=b_t, tile=tile, warps=4 if tile[1] <= 128 else 8, stages=4, GROUP_M=8)
    with launched_by_us():
        automatic, asked = compile_case(case, PlanOptions()), compile_case(case, pinned(3, 1))
    spec, record = launch_spec(automatic), automatic.metadata.tawa
    assert record["applied"] and spec.descriptors and spec.alone is alone
    assert any(it["reason"] == CROWDED for it in record["remarks"]) is alone
    assert launch_spec(asked).descriptors and not launch_spec(asked).alone
