"""How layouts distribute tiles over threads, compared with Triton's own linear layouts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tawa.analysis.loops.costs import OpCost, cost_of, stays_in_registers
from tawa.ir import Module
from tawa.machine.distribution import Distribution, distribution, reduces_in_threads, renames
from tawa.machine.work import work_of
from tests.cases.programs.ttgir import kernel, op, ops_named, parse, the
from tests.support.sample import seeds

ACCUMULATOR = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>"
NARROW = ACCUMULATOR.replace("128", "64")
OF_AMPERE = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
BY_COLUMNS = (
    "#ttg.linear<{register = [[0, 0, 1], [8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0], [0, 8, 0]], "
    "lane = [[0, 0, 2], [0, 0, 4], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0]], block = []}>"
)
BY_ROWS = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
ALIASES = {"#mma": ACCUMULATOR, "#narrow": NARROW, "#columns": BY_COLUMNS}
WIDE, OPERAND = "tensor<64x128xf32, #mma>", "#ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = {}}}>"


def known(shape: tuple[int, ...], encoding: str) -> Distribution:
    found = distribution(ALIASES, shape, encoding)
    assert found is not None
    return found


def holds(source: str, target: str, *shape: int) -> bool:
    return known(shape, source).holds(known(shape, target))


def converted(source: str, target: str) -> Module:
    module = parse(kernel(op("ttg.convert_layout", "%made", source, "%x", target), arguments={"made": source}))
    module.aliases.update(ALIASES)
    return module


def test_a_dot_result_is_a_16_bit_operand_already_and_not_one_of_8_bits() -> None:
    assert holds("#mma", OPERAND.format(2), 64, 128)
    assert not holds("#mma", OPERAND.format(4), 64, 128)


def test_results_of_dots_with_other_numbers_of_columns_have_the_same_rows() -> None:
    assert holds("#mma", "#narrow", 64, 1) and holds("#narrow", "#mma", 64, 256)
    assert holds("#mma", "#ttg.slice<{dim = 1, parent = #columns}>", 64, 8)


def test_a_thread_that_holds_all_can_give_a_part_and_not_the_other_way_round() -> None:
    everywhere = "#ttg.linear<{register = [[1], [2]], lane = [[0], [0], [0], [0], [0]], warp = [], block = []}>"
    spread = "#ttg.linear<{register = [], lane = [[1], [2], [0], [0], [0]], warp = [], block = []}>"
    assert holds(everywhere, spread, 4) and not holds(spread, everywhere, 4)


def test_layouts_for_other_numbers_of_warps_are_no_renaming() -> None:
    assert not holds("#mma", ACCUMULATOR.replace("[4, 1]", "[8, 1]"), 128, 128)


def test_a_reduction_over_columns_of_their_own_needs_no_shuffles() -> None:
    for type, axis, own in (("tensor<64x16x8xf32, #columns>", 1, True), (WIDE, 1, False)):
        module = parse(kernel(_reduce(type, axis), arguments={"t": type}))
        module.aliases.update(ALIASES)
        reduce = the(module, "tt.reduce")
        assert reduces_in_threads(reduce) is own
        assert work_of(reduce).shuffles == (0 if own else 1)


def _reduce(type: str, axis: int) -> str:
    result = "tensor<64x8xf32, #ttg.slice<{dim = 1, parent = #columns}>>" if "x16x" in type else "tensor<64xf32>"
    lines = (
        f'%r = "tt.reduce"(%t) <{{axis = {axis} : i32}}> ({{',
        "^bb0(%a: f32, %b: f32):",
        op("arith.addf", "%a, %b", "f32, f32", "%s", "f32"),
        op("tt.reduce.return", "%s", "f32"),
        f"}}) : ({type}) -> {result}",
    )
    return "\n".join(lines)


def test_a_renaming_is_free_and_needs_no_shared_memory() -> None:
    sums = "tensor<64x8xf32, #ttg.slice<{dim = 1, parent = #columns}>>", "tensor<64x8xf32, #mma>"
    for (source, target), free in ((sums, True), ((WIDE, f"tensor<64x128xf32, {BY_ROWS}>"), False)):
        convert = ops_named(converted(source, target), "ttg.convert_layout")[0]
        assert renames(convert) is stays_in_registers(convert) is free
        assert (cost_of(convert, 4) == OpCost()) is free


def test_nothing_is_known_of_shared_memory_and_of_mmas_of_other_machines() -> None:
    assert distribution({}, (64, 64), "#ttg.swizzled_shared<{vec = 1}>") is None
    for version in (1, 5):
        assert distribution({}, (64, 64), ACCUMULATOR.replace("versionMajor = 3", f"versionMajor = {version}")) is None
    assert distribution({"#mma": OF_AMPERE}, (64, 64), OPERAND.format(2)) is None


# --- Triton says the same ---


def _layouts(random: random.Random) -> tuple[Any, str, list[int]]:
    """A random layout of Gluon, its text, and a shape."""
    from triton.experimental.gluon.language import _layouts as gluon

    shape = [1 << random.randint(4, 8) for _ in range(2)]
    warps = random.choice(([4, 1], [2, 2], [1, 4], [8, 1], [4, 2]))
    columns = random.choice((8, 16, 64, 128, 256))
    mma = gluon.NVMMADistributedLayout(version=[3, 0], warps_per_cta=warps, instr_shape=[16, columns, 16])
    text = ACCUMULATOR.replace("[4, 1]", str(warps)).replace("128", str(columns))
    kind = random.choice(("mma", "ampere", "operand", "blocked", "slice"))
    if kind == "mma":
        return mma, text, shape
    if kind == "ampere":
        warps = random.choice((*map(list, ((1, 1), (2, 1), (1, 2))), warps))
        layout = gluon.NVMMADistributedLayout(version=[2, 0], warps_per_cta=warps, instr_shape=[16, 8])
        return layout, OF_AMPERE.replace("[4, 1]", str(warps)), shape
    if kind == "operand":
        width = random.choice((1, 2, 4))
        return gluon.DotOperandLayout(0, mma, width), _operand(text, width), shape
    order, lanes = random.choice(([1, 0], [0, 1])), random.choice(([4, 8], [1, 32], [16, 2]))
    sizes = [1 << random.randint(0, 3) for _ in range(2)]
    blocked = gluon.BlockedLayout(sizes, lanes, warps, order)
    numbers = f"sizePerThread = {sizes}, threadsPerWarp = {lanes}, warpsPerCTA = {warps}, order = {order}"
    parent = f"#ttg.blocked<{{{numbers}}}>"
    if kind == "blocked":
        return blocked, parent, shape
    dim = random.randint(0, 1)
    outer, inner = random.choice(((blocked, parent), (mma, text)))
    return gluon.SliceLayout(dim, outer), f"#ttg.slice<{{dim = {dim}, parent = {inner}}}>", shape[:1]


def _operand(parent: str, width: int) -> str:
    return f"#ttg.dot_op<{{opIdx = 0, parent = {parent}, kWidth = {width}}}>"


@pytest.mark.parametrize("seed", seeds(80))
def test_triton_distributes_a_tile_in_the_same_way(seed: int) -> None:
    from triton._C.libtriton import gluon_ir, ir  # pyright: ignore[reportMissingModuleSource]

    layout, text, shape = _layouts(random.Random(seed))
    context: Any = ir.context()
    ir.load_dialects(context)
    builder: Any = gluon_ir.GluonOpBuilder(context)
    theirs = builder.to_linear_layout(layout._to_ir(builder), shape)
    ours = distribution({}, tuple(shape), text)
    assert ours is not None

    def bases(of: Any) -> list[tuple[int, ...]]:
        return [tuple(base) for base in of]

    assert (list(ours.lanes), list(ours.warps)) == (bases(theirs.lane_bases), bases(theirs.warp_bases))
    assert sorted(filter(any, ours.registers)) == sorted(filter(any, bases(theirs.reg_bases)))
