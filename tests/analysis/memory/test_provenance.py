"""Where addresses come from: through arithmetic, selects, loops and branches."""

from __future__ import annotations

import pytest

from tawa.analysis.memory.provenance import (
    Root,
    made_in_a_loop,
    memory_roots,
    stores_must_not_wait,
    written_arguments,
)
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, Value
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import DESC, for_loop, kernel, op, parse

PTR = "!tt.ptr<f16>"
TWO = {"p": PTR, "q": PTR}


def offset(result: str, base: str) -> str:
    return op("tt.addptr", f"%{base}, %n", f"{PTR}, i32", f"%{result}", PTR)


def value_named(module: Module, hint: str) -> Value:
    (found,) = [value for it in module.walk() for value in it.results if value.hint == hint]
    return found


def roots(body: str, name: str = "x") -> list[str] | None:
    found = memory_roots(value_named(parse(kernel(body, arguments=TWO)), name))
    return None if found is None else sorted(root.argument.hint + " behind" * root.behind for root in found)


def test_an_offset_pointer_comes_from_its_base() -> None:
    assert roots(offset("y", "p") + "\n" + offset("x", "y")) == ["p"]


def test_a_tile_of_pointers_comes_from_its_base() -> None:
    splat = op("tt.splat", "%p", PTR, "%s", programs.POINTERS)
    assert roots(splat + "\n" + op("tt.broadcast", "%s", programs.POINTERS, "%x", programs.POINTERS)) == ["p"]


def test_a_descriptor_made_in_the_kernel_comes_from_its_pointer() -> None:
    made = op("tt.make_tensor_descriptor", "%p, %n, %m, %n", f"{PTR}, i32, i32, i32", "%x", DESC)
    assert roots(made) == ["p"]


def test_a_descriptor_that_the_launcher_adds_comes_from_the_argument_it_is_made_of() -> None:
    module = parse(kernel("", arguments={"given": DESC, "added": DESC}))
    (function,) = [view for it in module.body.ops if (view := FuncOp.of(it))]
    given, added = function.body.args[-2:]
    names = [value.hint for value in function.body.args]
    attributes = ["{}"] * (len(names) - 1) + [f"{{tawa.base = {names.index('out')} : i32}}"]
    function.op.properties["arg_attrs"] = f"[{', '.join(attributes)}]"
    assert memory_roots(given) == [Root(given)]
    assert [root.name for root in memory_roots(added) or ()] == ["'out'"]


def test_a_select_comes_from_both() -> None:
    assert roots(op("arith.select", "%flag, %p, %q", f"i1, {PTR}, {PTR}", "%x", PTR)) == ["p", "q"]


def test_a_branch_comes_from_both_sides() -> None:
    body = programs.branch(offset("x_then", "p"), offset("x_else", "q"), result="x", type=PTR)
    assert roots(body) == ["p", "q"]


def test_a_pointer_that_walks_through_a_loop_comes_from_where_it_began() -> None:
    body = offset("next", "walk") + "\n" + offset("inside", "walk")
    text = for_loop(body, carried={"walk": ("p", "next", PTR)}, results="%x")
    assert roots(text) == ["p"]
    assert roots(text, "inside") == ["p"]


def test_a_pointer_that_a_loop_swaps_comes_from_both() -> None:
    carried = {"one": ("p", "two_ptr", PTR), "two_ptr": ("q", "one", PTR)}
    assert roots(for_loop(offset("inside", "one"), carried=carried, results="%x:2"), "inside") == ["p", "q"]


@pytest.mark.parametrize(
    "body",
    [
        op("tt.int_to_ptr", "%n", "i32", "%x", PTR),
        op("tt.load", "%unknown", PTR, "%x", PTR),
        op("made.up", "%p", PTR, "%x", PTR),
        op("arith.select", "%flag, %p, %unknown", f"i1, {PTR}, {PTR}", "%x", PTR),
    ],
)
def test_a_pointer_of_unknown_origin_has_no_roots(body: str) -> None:
    assert roots(op("made.up", "", "", "%unknown", PTR) + "\n" + body) is None


def test_an_address_in_memory_leads_behind_the_argument_that_it_lies_in() -> None:
    loaded = f"{op('tt.load', '%p', PTR, '%i', 'i64')}\n{op('tt.int_to_ptr', '%i', 'i64', '%at', PTR)}"
    assert roots(f"{loaded}\n{offset('x', 'at')}") == ["p behind"]


def test_an_address_that_a_list_leads_to_is_its_head_or_behind_it() -> None:
    step = op("tt.load", "%node", PTR, "%following", PTR)
    assert roots(for_loop(step, carried={"node": ("p", "following", PTR)}, results="%x")) == ["p", "p behind"]


def test_lanes_outside_a_mask_may_have_another_address() -> None:
    properties = "operandSegmentSizes = array<i32: 1, 1, 1>"
    masked = op("tt.load", "%p, %flag, %q", f"{PTR}, i1, {PTR}", "%x", PTR, properties=properties)
    assert roots(masked) == ["p behind", "q"]


def test_a_pointer_that_a_while_carries_is_what_it_starts_from() -> None:
    text = (
        f'%x = "scf.while"(%p) ({{\n^bb0(%b: {PTR}):\n"scf.condition"(%flag, %b) : (i1, {PTR}) -> ()\n}}, {{\n'
        f'^bb0(%a: {PTR}):\n"scf.yield"(%a) : ({PTR}) -> ()\n}}) : ({PTR}) -> {PTR}'
    )
    assert roots(text) == ["p"]


# -- reading back ------------------------------------------------------------------------------------------------------


def test_a_kernel_that_loads_what_it_stores_reads_back() -> None:
    back = programs.load("back", "c_desc", "%zero, %zero")
    assert stores_must_not_wait(parse(kernel(f"{programs.gemm_loop()}\n{programs.store()}\n{back}")))


def test_a_kernel_that_loads_other_tensors_does_not() -> None:
    assert not stores_must_not_wait(parse(programs.tile_gemm()))


def test_a_load_of_unknown_origin_may_read_back() -> None:
    unknown = op("made.up", "", "", "%u", PTR) + "\n" + op("tt.load", "%u", PTR, "%v", "f16")
    assert stores_must_not_wait(parse(kernel(f"{unknown}\n{programs.gemm_loop()}\n{programs.store()}")))


def test_a_kernel_that_also_writes_by_pointers_what_it_stores_keeps_their_order() -> None:
    made = op("tt.make_tensor_descriptor", "%out, %n, %m, %n", f"{PTR}, i32, i32, i32", "%own", DESC)
    half = op("arith.constant", "", "", "%h", "f16", properties="value = 0.0 : f16")
    body = f"{made}\n{half}\n{programs.gemm_loop()}\n{programs.store(desc='own')}"
    assert not stores_must_not_wait(parse(kernel(body)))
    assert stores_must_not_wait(parse(kernel(body + "\n" + op("tt.store", "%out, %h", f"{PTR}, f16"))))


def test_a_kernel_without_tma_stores_has_none_to_keep_in_place() -> None:
    unknown = op("made.up", "", "", "%u", PTR) + "\n" + op("tt.load", "%u", PTR, "%v", "f16")
    assert not stores_must_not_wait(parse(kernel(unknown)))


# -- where descriptors are made ----------------------------------------------------------------------------------------


def make(result: str = "x") -> str:
    return op("tt.make_tensor_descriptor", "%p, %n, %m, %n", f"{PTR}, i32, i32, i32", f"%{result}", DESC)


def loop_maker(body: str, name: str) -> str | None:
    module = parse(kernel(body, arguments=TWO))
    found = made_in_a_loop(module, value_named(module, name))
    return found.result.hint if found else None


def test_a_descriptor_made_outside_loops_is_made_once() -> None:
    assert loop_maker(make(), "x") is None


def test_a_descriptor_made_in_a_loop_is_made_again() -> None:
    assert loop_maker(for_loop(make()), "x") == "x"


def test_a_descriptor_that_a_loop_replaces_is_made_again() -> None:
    loop = for_loop(make("next"), carried={"now": ("first", "next", DESC)}, results="%x")
    assert loop_maker(f"{make('first')}\n{loop}", "x") == "next"


def test_a_descriptor_of_unknown_origin_may_be_any_that_is_made_in_a_loop() -> None:
    unknown = op("made.up", "", "", "%x", DESC)
    assert loop_maker(unknown, "x") is None
    assert loop_maker(f"{unknown}\n{for_loop(make('next'))}", "x") == "next"


def test_the_arguments_that_a_kernel_writes_are_known_unless_an_address_comes_from_memory() -> None:
    stored = op("tt.store", "%q, %n", f"{PTR.replace('f16', 'i32')}, i32")
    arguments = {"p": PTR, "q": "!tt.ptr<i32>", "table": "!tt.ptr<i64>"}
    module = parse(kernel(stored, arguments=arguments))
    assert [module_names(module)[at] for at in written_arguments(module) or ()] == ["q"]
    behind = (
        op("tt.load", "%table", "!tt.ptr<i64>", "%a", "i64")
        + "\n"
        + op("tt.int_to_ptr", "%a", "i64", "%to", "!tt.ptr<i32>")
    )
    behind += "\n" + op("tt.store", "%to, %n", "!tt.ptr<i32>, i32")
    assert written_arguments(parse(kernel(behind, arguments=arguments))) is None


def module_names(module: Module) -> list[str]:
    (function,) = [view for it in module.body.ops if (view := FuncOp.of(it))]
    return [value.hint for value in function.body.args]
