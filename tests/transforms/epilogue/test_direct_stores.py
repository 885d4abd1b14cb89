"""`direct_stores`: fp32 accumulators are stored from the layout of the dot where a conversion takes ring memory."""

from __future__ import annotations

import pytest

from tawa.analysis.layout.direct_stores import find_direct_stores
from tawa.ir import Module, parse_module
from tawa.machine.distribution import distribution
from tawa.transforms.epilogue.direct_stores import DirectStores
from tests.cases.programs.ttgir import ACC, binary, for_loop, gemm_loop, kernel, op, ops_named

ROW = "#ttg.slice<{dim = 1, parent = #blocked}>"
COLUMN = "#ttg.slice<{dim = 0, parent = #blocked}>"


def tile(element: str, shape: str = "64x64", layout: str = "#blocked") -> str:
    return f"tensor<{shape}x{element}, {layout}>"


def pointers(element: str = "f32") -> str:
    """``%p``: result + row · n + column, and the mask ``%mask``: column < m."""
    numbers, wide = tile("i32"), tile(f"!tt.ptr<{element}>")
    row, column = tile("i32", "64", ROW), tile("i32", "64", COLUMN)
    high, flat = tile("i32", "64x1"), tile("i32", "1x64")
    range_ = "start = 0 : i32, end = 64 : i32"
    return "\n".join(
        (
            op("tt.make_range", "", "", "%r", row, properties=range_),
            op("tt.make_range", "", "", "%c", column, properties=range_),
            op("tt.expand_dims", "%r", row, "%r1", high, properties="axis = 1 : i32"),
            op("tt.expand_dims", "%c", column, "%c1", flat, properties="axis = 0 : i32"),
            op("tt.splat", "%n", "i32", "%n1", high),
            binary("r2", "muli", "r1", "n1", high),
            op("tt.broadcast", "%r2", high, "%r3", numbers),
            op("tt.broadcast", "%c1", flat, "%c2", numbers),
            binary("offset", "addi", "r3", "c2", numbers),
            op("tt.splat", "%result", f"!tt.ptr<{element}>", "%base", wide),
            op("tt.addptr", "%base, %offset", f"{wide}, {numbers}", "%p", wide),
            op("tt.splat", "%m", "i32", "%m1", numbers),
            op(
                "arith.cmpi", "%c2, %m1", f"{numbers}, {numbers}", "%mask", tile("i1"), properties="predicate = 2 : i64"
            ),
        )
    )


def convert(result: str = "t", source: str = "acc", element: str = "f32") -> str:
    return op("ttg.convert_layout", f"%{source}", tile(element, layout="#mma"), f"%{result}", tile(element))


def store(value: str = "t", element: str = "f32") -> str:
    types = f"{tile(f'!tt.ptr<{element}>')}, {tile(element)}, {tile('i1')}"
    properties = "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"
    return op("tt.store", f"%p, %{value}, %mask", types, line=20, properties=properties)


def added(value: str = "t", sem: int = 1) -> str:
    """As `store`, but the tile is added. sem: 1 is relaxed, 4 acquires and releases."""
    types = f"{tile('!tt.ptr<f32>')}, {tile('f32')}, {tile('i1')}"
    properties = f"atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = {sem} : i32"
    return op("tt.atomic_rmw", f"%p, %{value}, %mask", types, "%old", tile("f32"), properties=properties)


def renamed(order: tuple[int, ...]) -> tuple[str, ...]:
    """The accumulator as 8 x 8 x 8 x 8, with the dimensions in another order, as 64 x 64, converted."""
    of_dot = distribution(parse_module(kernel("")).aliases, (64, 64), "#mma")
    assert of_dot is not None
    shape = (8, 8, 8, 8)
    moved = tuple(shape[dim] for dim in order)
    parts = of_dot.reshaped((64, 64), shape)
    turned = parts.transposed(order)
    whole = turned.reshaped(moved, (64, 64))
    sizes = ["x".join(map(str, it)) for it in (shape, moved)]
    types = [tile("f32", size, str(it)) for size, it in zip((*sizes, "64x64"), (parts, turned, whole), strict=True)]
    return (
        op("tt.reshape", "%acc", ACC, "%parts", types[0]),
        op("tt.trans", "%parts", types[0], "%turned", types[1],
           properties=f"order = array<i32: {', '.join(map(str, order))}>"),
        op("tt.reshape", "%turned", types[1], "%u", types[2]),
        op("ttg.convert_layout", "%u", types[2], "%t", tile("f32")),
    )  # fmt: skip


def program(*epilogue: str, pointer: str = "f32", persistent: bool = False) -> Module:
    body = "\n".join((gemm_loop(), pointers(pointer), *epilogue))
    body = for_loop(body, induction="t", upper="m") if persistent else body
    return parse_module(kernel(body, arguments={"result": f"!tt.ptr<{pointer}>"}))


def stored(module: Module, groups: int) -> tuple[bool, str]:
    """Whether the pass changed the module, and the layout of the store."""
    changed = DirectStores(find_direct_stores(module, groups)).run(module).changed
    (found,) = ops_named(module, "tt.store")
    layouts = {it.type.rpartition(", ")[2].rstrip(">") for it in found.operands}
    assert len(layouts) == 1
    return changed, layouts.pop()


def test_groups_store_their_accumulators_directly() -> None:
    module = program(convert(), store())
    assert stored(module, 2) == (True, "#mma")
    assert ops_named(module, "ttg.convert_layout") == []
    assert {it.result.type for it in ops_named(module, "tt.make_range")} == {
        f"tensor<64xi32, #ttg.slice<{{dim = {dim}, parent = #mma}}>>" for dim in (0, 1)
    }
    assert ops_named(module, "tt.store")[0].operands[1] is ops_named(module, "scf.for")[0].result


def test_a_remark_names_the_line_of_the_store() -> None:
    module = program(convert(), store())
    (remark,) = DirectStores(find_direct_stores(module, 2)).run(module).remarks
    assert remark.kind == "done" and "layout of the dot" in remark.reason and str(remark.location) == "kernel.py:20"


def test_so_does_a_loop_over_tiles_of_one_group() -> None:
    assert stored(program(convert(), store(), persistent=True), 1) == (True, "#mma")


def test_behind_the_rings_one_group_keeps_its_wide_stores() -> None:
    assert stored(program(convert(), store()), 1) == (False, "#blocked")


def test_two_bytes_would_not_fill_a_sector() -> None:
    narrow = op("arith.truncf", "%acc", ACC, "%half", tile("f16", layout="#mma"))
    text = (narrow, convert("t", "half", "f16"), store(element="f16"))
    assert stored(program(*text, pointer="f16"), 2) == (False, "#blocked")


def test_a_tile_that_is_loaded_for_the_sum_keeps_the_layout_of_its_load() -> None:
    properties = (
        "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
        "operandSegmentSizes = array<i32: 1, 0, 0>"
    )
    old = op("tt.load", "%p", tile("!tt.ptr<f32>"), "%old", tile("f32"), properties=properties)
    total = binary("u", "addf", "t", "old", tile("f32"))
    assert stored(program(old, convert(), total, store("u")), 2) == (False, "#blocked")


@pytest.mark.parametrize(("sem", "changed"), [(1, True), (4, False)])
def test_relaxed_additions_leave_from_the_layout_of_the_dot_too(sem: int, changed: bool) -> None:
    module = program(convert(), added(sem=sem))
    assert DirectStores(find_direct_stores(module, 2)).run(module).changed == changed
    (found,) = ops_named(module, "tt.atomic_rmw")
    layout = "#mma" if changed else "#blocked"
    assert all(it.type.endswith(f", {layout}>") for it in (*found.operands, found.result))


@pytest.mark.parametrize(
    ("order", "changed"),
    [
        ((0, 1, 2, 3), True),  # the same tile: 32 bytes are those of four threads
        ((2, 0, 1, 3), True),  # rows of 8 columns follow each other
        ((0, 1, 3, 2), False),  # neighbours are 8 columns apart: in one thread, in four instructions of 8 bytes
        ((0, 2, 3, 1), True),  # neighbours are rows: those of eight threads
    ],
)
def test_an_accumulator_with_other_dimensions_leaves_directly_in_whole_sectors(
    order: tuple[int, ...], changed: bool
) -> None:
    module = program(*renamed(order), added())
    assert DirectStores(find_direct_stores(module, 2)).run(module).changed == changed
    assert (ops_named(module, "ttg.convert_layout") == []) == changed


def test_pointers_that_a_loop_carries_are_not_computed_again() -> None:
    wide = tile("!tt.ptr<f32>")
    body = "\n".join((convert(), store().replace("%p,", "%q,")))
    inner = for_loop(body, induction="t", upper="m", carried={"q": ("p", "q", wide)}, results="%last")
    assert stored(program(inner), 2) == (False, "#blocked")


@pytest.mark.parametrize("groups", [1, 2])
def test_a_kernel_without_such_a_store_does_not_change(groups: int) -> None:
    module = parse_module(kernel(gemm_loop()))
    assert not DirectStores(find_direct_stores(module, groups)).run(module).changed
