"""The dependence graph of a loop body."""

from __future__ import annotations

import pytest

from tawa.analysis.loops.dependences import DependenceInfo, captured, find_dependences, stores_invariant_operand
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import LocalAllocOp, whole_of
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Builder, parse_module
from tawa.plan.decide.loops import staged_loops
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, op
from tests.support.passes import after

Edge = tuple[str, str, int, str]


def graph_of(text: str) -> DependenceInfo:
    module, _ = after(PipelineMma, text, mma_depth=0)
    return find_dependences(staged_loops(module)[0])


def plain(body: str, **carried: str) -> DependenceInfo:
    """The graph of a loop that no pass has seen."""
    values = {name: ("zeros", value, ACC) for name, value in carried.items()}
    results = f"%acc:{len(values)}" if len(values) > 1 else "%acc" if values else ""
    module = parse_module(staged.kernel(programs.for_loop(body, carried=values, results=results)))
    (loop,) = [loop for found in module.walk() if (loop := ForOp.of(found))]
    return find_dependences(loop)


def edges(graph: DependenceInfo, *kinds: str) -> set[Edge]:
    def name(number: int) -> str:
        node = graph.nodes[number]
        return node.results[0].hint if node.results else node.name

    return {(name(e.source), name(e.target), e.distance, e.kind) for e in graph.edges if e.kind in kinds}


def scaled(result: str, source: str) -> str:
    return op("arith.mulf", f"%{source}, %half", f"{ACC}, {ACC}", f"%{result}", ACC)


def test_values_are_edges_within_an_iteration_and_carried_ones_across_it() -> None:
    graph = plain(f"{scaled('one', 'u')}\n{scaled('two', 'one')}", u="two")
    assert edges(graph, "value") == {("one", "two", 0, "value"), ("two", "one", 1, "value")}


def test_a_value_that_moves_through_two_carried_variables_is_two_iterations_old() -> None:
    graph = plain(f"{scaled('one', 'u')}\n{scaled('two', 'v')}", u="one", v="u")
    assert edges(graph, "value") == {("one", "one", 1, "value"), ("one", "two", 2, "value")}


def test_carried_variables_that_only_change_places_depend_on_nothing() -> None:
    assert edges(plain(scaled("one", "u"), u="v", v="u"), "value") == set()


def test_a_branch_is_one_node_that_needs_what_is_used_inside() -> None:
    then, other = scaled("picked_then", "u"), scaled("picked_else", "half")
    graph = plain(programs.branch(then, other, result="picked", type=ACC), u="picked")
    assert [node.name for node in graph.nodes] == ["scf.if"]
    assert {value.hint for value in captured(graph.nodes[0])} == {"flag", "u", "half"}
    assert edges(graph, "value") == {("picked", "picked", 1, "value")}


def test_a_slot_is_released_behind_its_readers() -> None:
    graph = graph_of(staged.attention())
    readers = {(source, target) for source, target, _, _ in edges(graph, "release")}
    assert readers == {("s", "aref.consumed"), ("next", "aref.consumed")}
    dots = [number for number, node in enumerate(graph.nodes) if WarpGroupDotOp.of(node)]
    releases = [(e.source, e.target) for e in graph.edges if e.kind == "release"]
    assert [source for source, _ in releases] == dots and len({target for _, target in releases}) == 2


def test_accesses_to_one_ring_stay_in_their_order_from_one_iteration_to_the_next() -> None:
    graph = graph_of(staged.attention())
    assert {("a", "a", 1, "order"), ("b", "b", 1, "order")} <= edges(graph, "order")
    assert ("a", "b", 0, "order") not in edges(graph, "order")


def test_a_view_of_a_slot_stays_with_its_get() -> None:
    assert {("a", "s", 0, "together"), ("b", "next", 0, "together")} <= edges(graph_of(staged.attention()), "together")


def test_an_accumulator_that_only_the_next_dot_takes_is_a_sum() -> None:
    body = "\n".join((programs.iteration("u", "first"), programs.iteration("first", "second", "_2")))
    assert edges(plain(f"{body}\n{scaled('out', 'second')}", u="out"), "sum") == {("first", "second", 0, "sum")}
    twice = f"{body}\n{scaled('out', 'first')}"
    assert edges(plain(twice, u="out", v="second"), "sum") == set()


def test_stores_to_one_tensor_keep_their_order_and_reads_do_not_have_one() -> None:
    two = f"{programs.store('u')}\n{programs.store('half')}"
    stores = edges(plain(two, u="u"), "order")
    assert ("tt.descriptor_store", "tt.descriptor_store", 0, "order") in stores
    assert ("tt.descriptor_store", "tt.descriptor_store", 1, "order") in stores
    apart = f"{programs.store('u')}\n{programs.store('half', 'b_desc')}"
    assert ("tt.descriptor_store", "tt.descriptor_store", 0, "order") not in edges(plain(apart, u="u"), "order")
    loads = f"{programs.load('a', 'a_desc')}\n{programs.load('b', 'a_desc')}"
    assert edges(plain(loads), "order") == set()


@pytest.mark.parametrize(
    ("semantics", "used", "before", "behind"),
    [("relaxed", True, False, False), ("release", False, True, False), ("acquire", True, False, True),
     ("acquire", False, False, False), ("acq_rel", True, True, True)],
)  # fmt: skip
def test_accesses_to_other_memory_stay_before_a_release_and_behind_an_acquire(
    semantics: str, used: bool, before: bool, behind: bool
) -> None:
    """used: whether something reads the result of the atomic; nobody learns otherwise what it has acquired."""
    numbers = {"relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4}
    atomic = programs.atomic("old", "one", sem=numbers[semantics])
    told = f"{atomic}\n{programs.binary('more', 'addi', 'old', 'one')}" if used else atomic
    text = programs.for_loop(f"{programs.store('half')}\n{told}")
    given = "%out: !tt.ptr<f16>"
    module = parse_module(staged.kernel(text).replace(given, f"{given}, %counter: !tt.ptr<i32>"))
    (loop,) = [loop for found in module.walk() if (loop := ForOp.of(found))]
    found = edges(find_dependences(loop), "order")
    assert (("tt.descriptor_store", "old", 0, "order") in found) == before
    assert (("old", "tt.descriptor_store", 1, "order") in found) == behind


def test_only_a_buffer_that_every_iteration_fills_with_the_same_tile_keeps_its_dot_synchronous() -> None:
    body = programs.iteration("u", "next")
    (dot,) = [dot for node in plain(body, u="next").nodes if (dot := WarpGroupDotOp.of(node))]
    assert not stores_invariant_operand(dot)
    stored = LocalAllocOp.of(whole_of(dot.a).defining_op)
    assert stored is not None and stored.source is not None
    load = stored.source.defining_op
    assert load is not None and dot.op.parent is not None and dot.op.parent.parent_op is not None
    Builder.before(dot.op.parent.parent_op).insert(load.detach())
    assert stores_invariant_operand(dot)


def test_what_an_inner_loop_leaves_in_flight_is_ended_before_its_slots_are_released() -> None:
    inner = programs.for_loop(
        programs.iteration("low", "low_next", "_2"),
        induction="k_2",
        carried={"low": ("sum", "low_next", ACC)},
        results="%low_sum",
    )
    text = staged.kernel(
        programs.for_loop(
            f"{programs.iteration()}\n{scaled('other', 'next')}\n{inner}",
            carried={"sum": ("zeros", "low_sum", ACC), "more": ("zeros", "other", ACC)},
            results="%acc:2",
        )
        + "\n"
        + op("arith.addf", "%acc#0, %acc#1", f"{ACC}, {ACC}", "%total", ACC)
        + "\n"
        + programs.store("total")
    )
    module, _ = after(PipelineMma, text, mma_depth=1)
    graph = find_dependences(staged_loops(module)[0])
    names = [node.name for node in graph.nodes]
    wait = names.index("ttng.warp_group_dot_wait")
    release = max(number for number, name in enumerate(names) if name == "aref.consumed")
    found = {(e.source, e.target, e.distance, e.kind) for e in graph.edges}
    assert (names.index("scf.for"), wait, 0, "together") in found and (wait, release, 0, "order") in found
