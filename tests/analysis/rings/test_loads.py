"""Loads that feed a dot, and how: through shared memory or through registers."""

from __future__ import annotations

import pytest

from tawa.analysis.rings.loads import DotLoadInfo, dots_fed_by, find_dot_loads, in_rows, same_layout
from tawa.ir import MemDescType, Module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import (
    ACC,
    BUFFER,
    OPERAND,
    POINTERS,
    TILE,
    TRANSPOSED,
    alloc,
    dot,
    for_loop,
    kernel,
    load,
    op,
    parse,
    store,
)


def looped(*lines: str, carried: str = "next") -> Module:
    loop = for_loop("\n".join(lines), carried={"sum": ("zeros", carried, ACC)}, results="%acc")
    return parse(kernel(f"{loop}\n{programs.store()}"))


def found(*lines: str) -> dict[str, DotLoadInfo]:
    return {info.load.op.result.hint: info for info in find_dot_loads(looped(*lines))}


def test_a_load_whose_tile_goes_to_shared_memory_only_is_replaced_by_the_slot() -> None:
    info = found(programs.iteration())["a"]
    assert not info.through_registers
    assert [it.result.hint for it in info.allocations] == ["x"]
    assert str(info.payload) == programs.SLOT


def test_a_load_that_is_converted_goes_through_registers() -> None:
    convert = op("ttg.convert_layout", "%a", TILE, "%x", OPERAND)
    use = dot("next", "x", "y", "sum").replace(f"({BUFFER}, ", f"({OPERAND}, ")
    infos = found(load("a", "a_desc"), convert, load("b", "b_desc"), alloc("y", "b"), use)
    assert infos["a"].through_registers and not infos["b"].through_registers
    assert infos["a"].allocations == ()


def test_a_load_that_is_used_both_ways_goes_through_both() -> None:
    both = op("arith.addf", "%a, %a", f"{TILE}, {TILE}", "%seen", TILE)
    infos = found(programs.iteration(), both)
    assert infos["a"].through_registers and len(infos["a"].allocations) == 1


def test_a_view_of_the_slot_still_feeds_the_dot() -> None:
    trans = op("ttg.memdesc_trans", "%y", BUFFER, "%t", TRANSPOSED, properties="order = array<i32: 1, 0>")
    use = dot("next", "x", "t", "sum").replace(f", {BUFFER}, ", f", {TRANSPOSED}, ")
    infos = found(load("a", "a_desc"), load("b", "b_desc"), alloc("x", "a"), alloc("y", "b"), trans, use)
    assert list(infos) == ["a", "b"]


def test_work_on_the_tile_between_load_and_dot_does_not_hide_the_load() -> None:
    work = op("arith.mulf", "%b, %b", f"{TILE}, {TILE}", "%bb", TILE)
    infos = found(
        load("a", "a_desc"), alloc("x", "a"), load("b", "b_desc"), work, alloc("y", "bb"), dot("next", "x", "y", "sum")
    )
    assert infos["b"].through_registers and [it.name for it in infos["b"].dots] == ["ttng.warp_group_dot"]


def test_an_accumulator_is_not_an_operand() -> None:
    module = looped(programs.iteration())
    loop = programs.the(module, "scf.for")
    assert dots_fed_by(loop.regions[0].block.args[1]) == []


def test_a_load_behind_another_dot_is_not_followed_through_it() -> None:
    module = looped(programs.iteration(result="half"), programs.iteration("half", "next", "_2"))
    infos = find_dot_loads(module)
    assert [len(info.dots) for info in infos] == [1, 1, 1, 1]


def test_loads_outside_loops_and_loads_that_feed_no_dot_stay() -> None:
    alone = load("bias", "c_desc")
    body = f"{load('before', 'a_desc', '%zero, %zero')}\n{alloc('z', 'before')}"
    loop = for_loop("\n".join((programs.iteration(), alone)), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    module = parse(kernel(f"{body}\n{loop}\n{programs.store()}"))
    assert [info.load.op.result.hint for info in find_dot_loads(module)] == ["a", "b"]


def test_an_allocation_in_another_layout_is_not_the_slot() -> None:
    other = op("ttg.local_alloc", "%b", TILE, "%y", TRANSPOSED)
    use = dot("next", "x", "y", "sum").replace(f", {BUFFER}, ", f", {TRANSPOSED}, ")
    infos = found(load("a", "a_desc"), alloc("x", "a"), load("b", "b_desc"), other, use)
    assert infos["b"].allocations == () and infos["b"].through_registers
    assert str(infos["b"].payload) == programs.SLOT


def test_layouts_that_differ_in_rank_only_place_a_tile_alike() -> None:
    module = parse(programs.tile_gemm())
    module.aliases["#shared3"] = module.aliases["#shared"].replace("}>", ", rank = 3}>")
    assert same_layout(module, "#shared", "#shared3")
    assert not same_layout(module, "#shared", "#shared_t")


@pytest.mark.parametrize(
    ("layout", "columns", "holds"),
    [
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 8}>", 4, True),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 8}>", 4, False),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = true, elementBitWidth = 8}>", 4, False),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 8}>", 512, False),
        ("#ttg.shared_linear<{offset = [[0, 1], [0, 2], [1, 0]]}, alignment = 128>", 4, True),
        ("#ttg.shared_linear<{offset = [[0, 1], [1, 0], [0, 2]]}, alignment = 128>", 4, False),
        ("#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>", 4, False),
    ],
    ids=["unswizzled", "swizzled", "transposed", "several boxes", "linear", "blocks", "not by TMA"],
)  # fmt: skip
def test_one_unswizzled_box_holds_its_rows_one_after_another(layout: str, columns: int, holds: bool) -> None:
    module = parse(programs.tile_gemm())
    module.aliases["#scales"] = layout
    assert in_rows(module, MemDescType((2, columns), "i8", "#scales", "#smem")) == holds


# -- through pointers --------------------------------------------------------------------------------------------------

WIDE = "{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}"


def addresses(name: str = "ptrs") -> str:
    """Rows of 64 elements side by side, at multiples of 16 bytes."""
    row, at = "tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>", "tensor<1x64xi32, #blocked>"
    wide, base = "tensor<64x64xi32, #blocked>", "!tt.ptr<f16>"
    return "\n".join(
        (
            op("tt.make_range", "", "", f"%{name}_r", row, properties="start = 0 : i32, end = 64 : i32"),
            op("tt.expand_dims", f"%{name}_r", row, f"%{name}_e", at, properties="axis = 0 : i32"),
            op("tt.broadcast", f"%{name}_e", at, f"%{name}_b", wide),
            op("tt.splat", "%out", base, f"%{name}_s", POINTERS),
            op("tt.addptr", f"%{name}_s, %{name}_b", f"{POINTERS}, {wide}", f"%{name}", POINTERS),
        )
    )


def by_pointers(*lines: str, other: str = "") -> dict[str, DotLoadInfo]:
    operands = f"%ptrs, %mask, %{other}" if other else "%ptrs"
    types = f"{POINTERS}, tensor<64x64xi1, #blocked>, {TILE}" if other else POINTERS
    a = op("tt.load", operands, types, "%a", TILE)
    module = looped(
        addresses(), *lines, a, alloc("x", "a"), load("b", "b_desc"), alloc("y", "b"), dot("next", "x", "y", "sum")
    )
    return {info.load.op.result.hint: info for info in find_dot_loads(wide(module))}


def wide(module: Module) -> Module:
    """The arguments are divisible by 16, and a thread has eight elements of a tile side by side."""
    module.aliases["#blocked"] = f"#ttg.blocked<{WIDE}>"
    function = programs.the(module, "tt.func")
    count = len(function.regions[0].blocks[0].args)
    function.properties["arg_attrs"] = f"[{', '.join(['{tt.divisibility = 16 : i32}'] * count)}]"
    return module


def filler(value: str) -> str:
    everywhere = "tensor<64x64xi1, #blocked>"
    return "\n".join(
        (
            op("arith.constant", "", "", "%mask", everywhere, properties=f"value = dense<true> : {everywhere}"),
            op("arith.constant", "", "", "%fill", TILE, properties=f"value = dense<{value}> : {TILE}"),
        )
    )


def test_a_load_through_pointers_that_lie_side_by_side_goes_by_cp_async_into_the_slot_of_its_allocation() -> None:
    info = by_pointers()["a"]
    assert info.fill == "cp.async" and str(info.payload) == programs.SLOT
    assert [it.result.hint for it in info.allocations] == ["x"]


def test_lanes_outside_the_mask_are_filled_by_cp_async_with_zeros_only() -> None:
    assert by_pointers(filler("0.000000e+00"), other="fill")["a"].fill == "cp.async"
    assert by_pointers(filler("1.000000e+00"), other="fill")["a"].fill == "registers"
    assert by_pointers(filler("-0.000000e+00"), other="fill")["a"].fill == "registers"


def test_an_allocation_whose_other_dimension_is_dense_is_filled_through_registers() -> None:
    text = (
        addresses(),
        op("tt.load", "%ptrs", POINTERS, "%a", TILE),
        alloc("x", "a"),
        load("b", "b_desc"),
        alloc("y", "b"),
    )
    module = wide(looped(*text, dot("next", "x", "y", "sum")))
    module.aliases["#shared"] = module.aliases["#shared"].replace("transposed = false", "transposed = true")
    info = find_dot_loads(module)[0]
    assert info.through_registers and info.fill == "cp.async"
    assert "order = [1, 0]" in info.payload.encoding


def test_a_tile_that_a_dot_takes_from_registers_is_swizzled_so_that_eight_rows_lie_in_different_banks() -> None:
    load_a = op("tt.load", "%ptrs", POINTERS, "%a", TILE)
    convert = op("ttg.convert_layout", "%a", TILE, "%x", OPERAND)
    use = dot("next", "x", "y", "sum").replace(f"({BUFFER}, ", f"({OPERAND}, ")
    rest = (load("b", "b_desc"), alloc("y", "b"), use)
    info = find_dot_loads(wide(looped(addresses(), load_a, convert, *rest)))[0]
    assert info.fill == "cp.async" and "vec = 8, perPhase = 1, maxPhase = 8" in info.payload.encoding
    own = op("ttg.convert_layout", "%a", TILE, "%t", TILE)
    again = op("ttg.convert_layout", "%t2", TILE, "%x", OPERAND)
    scaled = op("arith.addf", "%t, %t", f"{TILE}, {TILE}", "%t2", TILE)
    info = find_dot_loads(wide(looped(addresses(), load_a, own, scaled, again, *rest)))[0]
    assert "vec = 1, perPhase = 1, maxPhase = 1" in info.payload.encoding, "it is read as it was written"


def test_a_tile_that_meets_a_product_stays_where_it_is() -> None:
    bias = op("tt.load", "%ptrs", POINTERS, "%bias", TILE)
    body = (addresses(), bias, programs.iteration("sum", "half"))
    narrow = op("arith.truncf", "%half", ACC, "%h", ACC.replace("f32", "f16"))
    converted = op("ttg.convert_layout", "%h", ACC.replace("f32", "f16"), "%t", TILE)
    met = op("arith.addf", "%t, %bias", f"{TILE}, {TILE}", "%p", TILE)
    second = (alloc("z", "p"), load("v", "b_desc"), alloc("w", "v"), dot("next", "z", "w", "half"))
    assert [
        info.load.op.result.hint for info in find_dot_loads(wide(looped(*body, narrow, converted, met, *second)))
    ] == [
        "a",
        "b",
        "v",
    ]


ROW_DESC = "!tt.tensordesc<tensor<64xf32, #shared>>"
ROW = "tensor<64xf32, #blocked>"


def with_row(combined: str = "scores") -> Module:
    """A row that is subtracted from a product, before the result is an operand of another dot."""
    sliced = "tensor<64xf32, #ttg.slice<{dim = 0, parent = #mma}>>"
    wide = op("tt.expand_dims", "%own", sliced, "%one", "tensor<1x64xf32, #mma>", properties="axis = 0 : i32")
    body = (
        programs.iteration("zeros", "scores"),
        op("tt.descriptor_load", "%rows, %k", f"{ROW_DESC}, i32", "%row", ROW, properties="cache = 1 : i32"),
        op("ttg.convert_layout", "%row", ROW, "%own", sliced),
        wide,
        op("tt.broadcast", "%one", "tensor<1x64xf32, #mma>", "%spread", ACC),
        op("arith.subf", f"%{combined}, %spread", f"{ACC}, {ACC}", "%less", ACC),
        op("arith.truncf", "%less", ACC, "%h", ACC.replace("f32", "f16")),
        op("ttg.convert_layout", "%h", ACC.replace("f32", "f16"), "%t", TILE),
        alloc("z", "t"),
        load("v", "c_desc"),
        alloc("w", "v"),
        dot("next", "z", "w", "sum"),
    )
    loop = for_loop("\n".join(body), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    return parse(kernel(f"{loop}\n{store()}", arguments={"rows": ROW_DESC}))


def test_a_row_travels_with_the_tile_whose_product_it_is_combined_with() -> None:
    infos = {info.load.op.result.hint: info for info in find_dot_loads(with_row())}
    row = infos["row"]
    assert row.beside and not row.allocations and row.payload.shape == (64,)
    assert row.dots == infos["a"].dots != infos["v"].dots
    assert not infos["a"].beside


def test_a_row_that_meets_no_product_of_a_loaded_tile_is_an_operand_by_itself() -> None:
    row = {info.load.op.result.hint: info for info in find_dot_loads(with_row("zeros"))}["row"]
    assert not row.beside
