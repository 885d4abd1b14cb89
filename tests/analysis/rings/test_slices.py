"""Slices: what a set of roots needs, and nothing else."""

from __future__ import annotations

from tawa.analysis.rings.slices import SliceInfo, slice_from
from tawa.ir import Module, Operation
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, for_loop, gemm_loop, kernel, op, ops_named, parse, the


def sliced(module: Module, roots: list[Operation]) -> SliceInfo:
    return slice_from(roots, the(module, "tt.func"))


def names(module: Module, part: SliceInfo) -> list[str]:
    return [it.results[0].hint or it.name if it.results else it.name for it in module.walk() if it in part]


def test_of_a_loop_only_the_carried_values_somebody_needs_survive() -> None:
    module = parse(programs.tile_gemm())
    loads = ops_named(module, "tt.descriptor_load")
    part = sliced(module, loads)
    loop = the(module, "scf.for")
    assert names(module, part) == ["zero", "one", "acc", "a", "b"]
    assert part.kept_indices(loop) == []


def test_a_carried_value_brings_its_start_and_its_next_value() -> None:
    body = "\n".join((programs.binary("walk_next", "addi", "walk", "two"), programs.iteration(at="%zero, %walk")))
    carried = {"sum": ("zeros", "next", ACC), "walk": ("m", "walk_next", "i32")}
    module = parse(kernel(f"{for_loop(body, carried=carried, results='%acc:2')}\n"))
    part = sliced(module, ops_named(module, "tt.descriptor_load"))
    assert part.kept_indices(the(module, "scf.for")) == [1]
    assert "walk_next" in names(module, part) and "two" in names(module, part)
    assert "next" not in names(module, part) and "zeros" not in names(module, part)


def test_values_that_carry_each_other_come_together() -> None:
    carried = {"one_": ("zero", "other", "i32"), "other": ("m", "one_", "i32")}
    module = parse(kernel(for_loop(programs.load("a", "a_desc", "%zero, %one_"), carried=carried, results="%r:2")))
    part = sliced(module, ops_named(module, "tt.descriptor_load"))
    assert part.kept_indices(the(module, "scf.for")) == [0, 1]


def test_the_control_around_a_root_comes_with_its_bounds_and_conditions() -> None:
    module = parse(programs.branching_gemm())
    part = sliced(module, ops_named(module, "tt.descriptor_load")[:1])
    found = names(module, part)
    assert {"odd", "is_even", "two"} <= set(found)
    assert [it in part for it in ops_named(module, "scf.for")] == [True, True, False]


def test_a_branch_keeps_only_the_results_that_are_used() -> None:
    pick = (
        '%u:2 = "scf.if"(%flag) ({\n"scf.yield"(%zero, %one) : (i32, i32) -> ()\n}, {\n'
        '"scf.yield"(%one, %two) : (i32, i32) -> ()\n}) : (i1) -> (i32, i32)'
    )
    body = f"{pick}\n{programs.load('a', 'a_desc', '%u#1, %u#1')}"
    module = parse(kernel(body))
    part = sliced(module, ops_named(module, "tt.descriptor_load"))
    assert part.kept_indices(the(module, "scf.if")) == [1]
    assert names(module, part) == ["one", "two", "flag", "u", "a"]


def test_a_while_keeps_everything_it_carries() -> None:
    module = parse(programs.while_gemm())
    repeat = the(module, "scf.while")
    part = sliced(module, ops_named(module, "tt.descriptor_load"))
    assert part.kept_indices(repeat) == [0]
    assert {"t_more", "t_next", "m"} - set(names(module, part)) == {"m"}


def test_what_is_nested_in_a_root_belongs_to_it() -> None:
    reduce = (
        f'%r = "tt.reduce"(%zeros) <{{axis = 1 : i32}}> ({{\n^bb0(%l: f32, %s: f32):\n'
        '%p = "arith.addf"(%l, %s) : (f32, f32) -> f32\n"tt.reduce.return"(%p) : (f32) -> ()\n'
        f"}}) : ({ACC}) -> tensor<64xf32>"
    )
    module = parse(kernel(reduce))
    part = sliced(module, [the(module, "tt.reduce")])
    assert {"p", "zeros"} <= set(names(module, part))


def test_nothing_behind_the_roots_is_taken() -> None:
    module = parse(kernel(f"{gemm_loop()}\n{programs.store()}\n{op('tt.print', '%n', 'i32')}"))
    part = sliced(module, ops_named(module, "ttng.warp_group_dot"))
    assert not {"tt.print", "tt.descriptor_store"} & set(names(module, part))
    assert part.kept_indices(the(module, "scf.for")) == [0]


def test_of_a_while_only_what_somebody_needs_is_carried() -> None:
    module = parse(programs.while_sum())
    loop = the(module, "scf.while")
    part = sliced(module, ops_named(module, "tt.descriptor_load"))
    assert (part.kept_inits(loop), part.kept_indices(loop)) == ([1], [1])
    assert "t_next" in names(module, part) and "next" not in names(module, part)
    part = sliced(module, ops_named(module, "tt.descriptor_store"))
    assert (part.kept_inits(loop), part.kept_indices(loop)) == ([0, 1], [0, 1])
    assert "idle_next" not in names(module, part)


def test_guards_and_what_decides_them_are_left_out() -> None:
    module = parse(programs.guarded_gemm())
    loads, guard = ops_named(module, "tt.descriptor_load"), the(module, "scf.if")
    assert guard in sliced(module, loads)
    part = slice_from(loads, the(module, "tt.func"), [guard])
    assert guard not in part and the(module, "scf.for") in part
    assert not {"go", "zeros"} & set(names(module, part))


def test_values_can_be_sliced_for() -> None:
    module = parse(programs.guarded_gemm())
    part = slice_from((), the(module, "tt.func"), (), [the(module, "scf.if").operands[0]])
    assert names(module, part) == ["zero", "go"]
