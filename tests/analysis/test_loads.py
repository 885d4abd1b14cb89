"""Loads that feed a dot, and how: through shared memory or through registers."""

from __future__ import annotations

from tawa.analysis.loads import DotLoadInfo, dots_fed_by, find_dot_loads, operand_source, same_layout
from tawa.ir import Module
from tests.support import programs
from tests.support.programs import ACC, BUFFER, OPERAND, TILE, TRANSPOSED, alloc, dot, for_loop, kernel, load, op, parse


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


def test_the_source_of_an_operand_is_found_through_layouts_and_views() -> None:
    module = parse(programs.tile_gemm())
    dot_op = programs.the(module, "ttng.warp_group_dot")
    source = operand_source(dot_op.operands[0])
    assert source is not None and source.name == "tt.descriptor_load"
    assert operand_source(dot_op.operands[2]) is None
