"""How values flow through control flow, and what is added to it or dropped from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings

from tawa.dialects import structure_rules
from tawa.dialects.control_flow import (
    carry_all_through,
    carry_through,
    clone_narrowed,
    deciding,
    holder_of,
    incoming,
    loop_carried,
    narrow,
    outgoing,
    successor_operands,
)
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.flow import Outcome
from tawa.ir import Block, Module, Operation, Value, ValueMap, clone_op, parse_module, verify_structure
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs import ttgir as programs
from tests.cases.programs.nests import Statement, nests, text
from tests.cases.programs.ttgir import binary, branch, for_loop, kernel, ops_named, the
from tests.support.pipeline import specialise
from tests.support.sample import examples

SETTINGS = settings(max_examples=examples(40))


@pytest.fixture(scope="module")
def made() -> Outcome:
    return specialise(programs.persistent_gemm(), PlanOptions(aref_depth=3, mma_depth=1), Target(4, 3))


def values_of(value: Value) -> list[Value]:
    return [use.value for use in incoming(value)]


def all_values(module: Module) -> list[Value]:
    blocks = [block for it in module.walk() for region in it.regions for block in region.blocks]
    return [
        *(arg for block in blocks for arg in block.args),
        *(result for it in module.walk() for result in it.results),
    ]


def both_ways(module: Module) -> tuple[set[tuple[Operation, int, Value]], set[tuple[Operation, int, Value]]]:
    """The edges of a module as `incoming` has them, and as `outgoing` has them."""
    backwards = {(use.op, use.index, value) for value in all_values(module) for use in incoming(value)}
    uses = [it.use(index) for it in module.walk() for index in range(len(it.operands))]
    return backwards, {(use.op, use.index, value) for use in uses for value in outgoing(use)}


def two_carried() -> ForOp:
    """A loop that carries %sum and %count; only the first result is used."""
    body = "\n".join((programs.iteration(), binary("more", "addi", "count", "one")))
    carried = {"sum": ("zeros", "next", programs.ACC), "count": ("zero", "more", "i32")}
    loop = for_loop(body, carried=carried, results="%acc:2")
    store = programs.store("acc#0").replace("%acc#0_", "%acc_")
    return ForOp(the(parse_module(kernel(f"{loop}\n{store}")), "scf.for"))


def two_picked() -> IfOp:
    """A branch with two results."""
    blocks = [f'"scf.yield"(%{one}, %{other}) : (i32, i32) -> ()' for one, other in (("n", "zero"), ("m", "one"))]
    text = f'%r:2 = "scf.if"(%flag) ({{\n{blocks[0]}\n}}, {{\n{blocks[1]}\n}}) : (i1) -> (i32, i32)'
    return IfOp(the(parse_module(kernel(text)), "scf.if"))


def while_of_three() -> WhileOp:
    """A `while` with three initial values, of which it hands on two, in another order."""
    text = "\n".join(
        (
            '%r:2 = "scf.while"(%zero, %one, %two) ({',
            "^bb0(%a: i32, %b: i32, %c: i32):",
            '"scf.condition"(%flag, %c, %a) : (i1, i32, i32) -> ()',
            "}, {",
            "^bb0(%x: i32, %y: i32):",
            '"scf.yield"(%y, %n, %x) : (i32, i32, i32) -> ()',
            "}) : (i32, i32, i32) -> (i32, i32)",
        )
    )
    return WhileOp(the(parse_module(kernel(text)), "scf.while"))


def module_of(op: Operation) -> Module:
    return Module(list(op.ancestors())[-1])


def errors(op: Operation) -> list[str]:
    return [str(error) for error in verify_structure(module_of(op), structure_rules())]


# -- where values come from and where they go --------------------------------------------------------------------------


def test_a_carried_value_is_the_initial_or_the_yielded_one() -> None:
    loop = two_carried()
    for value in (loop.iter_args[1], loop.op.results[1]):
        assert values_of(value) == [loop.inits[1], loop.yielded[1]]
    assert outgoing(loop.op.use(4)) == outgoing(loop.body.terminator.use(1)) == [loop.iter_args[1], loop.op.results[1]]


def test_an_induction_variable_and_bounds_have_no_edges() -> None:
    loop = two_carried()
    assert incoming(loop.induction) == []
    assert [outgoing(loop.op.use(index)) for index in range(3)] == [[], [], []]


def test_a_result_of_a_branch_is_what_either_block_yields() -> None:
    picked = two_picked()
    assert [value.hint for value in values_of(picked.op.results[0])] == ["n", "m"]
    assert outgoing(picked.branches[1].terminator.use(1)) == [picked.op.results[1]]
    assert outgoing(picked.op.use(0)) == []


def test_a_while_hands_values_from_block_to_block() -> None:
    repeat = while_of_three()
    before, after, results = repeat.before.args, repeat.after.args, repeat.op.results
    assert values_of(before[0]) == [repeat.op.operands[0], after[1]]
    assert values_of(after[0]) == values_of(results[0]) == [before[2]]
    assert outgoing(repeat.op.use(2)) == outgoing(repeat.after.terminator.use(2)) == [before[2]]
    condition = repeat.before.terminator
    assert [outgoing(condition.use(index)) for index in range(3)] == [
        [],
        [after[0], results[0]],
        [after[1], results[1]],
    ]


def test_a_group_returns_what_it_ends_with() -> None:
    made = '%r = "warp.group"() <{partition = "consumer", role = "consumer", num_warps = 4 : i32}> ({\n'
    module = parse_module(kernel(f'{made}"warp.end"(%n) : (i32) -> ()\n}}) : () -> i32'))
    group = GroupOp(the(module, "warp.group"))
    assert [value.hint for value in values_of(group.op.result)] == ["n"]
    assert outgoing(group.body.terminator.use(0)) == [group.op.result]


@pytest.mark.parametrize("newer", [False, True])
def test_a_partition_is_given_what_is_captured(newer: bool) -> None:
    captured = ("", "()", "%n", "(i32)") if newer else ("%n", "(i32)", "", "()")
    text = "\n".join(
        (
            f'%r = "ttg.warp_specialize"({captured[0]}) <{{partitionNumWarps = array<i32: 1, 1>}}> ({{',
            '"ttg.warp_yield"(%m) : (i32) -> ()',
            "}, {",
            f'"ttg.warp_specialize.partitions"({captured[2]}) ({{',
            "^bb0(%x: i32):",
            '"ttg.warp_return"() : () -> ()',
            "}, {",
            "^bb0(%y: i32):",
            '"ttg.warp_return"() : () -> ()',
            f"}}) : {captured[3]} -> ()",
            f"}}) : {captured[1]} -> i32",
        )
    )
    fork = WarpSpecializeOp(the(parse_module(kernel(text)), "ttg.warp_specialize"))
    first, second = (block.args[0] for block in fork.partitions)
    assert [value.hint for value in (*values_of(first), *values_of(second))] == ["n", "n"]
    assert outgoing(fork.capturing.use(0)) == [first, second]
    assert [value.hint for value in values_of(fork.op.result)] == ["m"]
    assert outgoing(fork.default.terminator.use(0)) == [fork.op.result]


JUMPS = """\
"builtin.module"() ({
"tt.func"() <{function_type = (i1, i32, i32) -> (), sym_name = "kernel"}> ({
^bb0(%go: i1, %n: i32, %m: i32):
  "cf.cond_br"(%go, %n, %m)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (i1, i32, i32) -> ()
^bb1(%x: i32):
  "cf.br"(%x)[^bb2] : (i32) -> ()
^bb2(%y: i32):
  "tt.return"() : () -> ()
}) : () -> ()
}) : () -> ()
"""


def test_the_argument_of_a_block_is_what_jumps_to_it_give() -> None:
    module = parse_module(JUMPS)
    entry, first, second = the(module, "tt.func").regions[0].blocks
    assert [value.hint for value in values_of(first.args[0])] == ["n"]
    assert [value.hint for value in values_of(second.args[0])] == ["m", "x"]
    assert [outgoing(entry.terminator.use(index)) for index in range(3)] == [[], [first.args[0]], [second.args[0]]]
    assert outgoing(first.terminator.use(0)) == [second.args[0]]
    assert [target for target, _ in successor_operands(entry.terminator)] == [first, second]
    assert [incoming(arg) for arg in entry.args] == [[], [], []]


def test_arithmetic_has_no_edges() -> None:
    module = parse_module(kernel(binary("x", "addi", "n", "m")))
    add = the(module, "arith.addi")
    assert incoming(add.result) == [] and outgoing(add.use(0)) == [] and successor_operands(add) == []


def test_the_body_of_a_reduction_has_no_edges() -> None:
    tile = programs.ACC
    body = '^bb0(%x: f32, %y: f32):\n"tt.reduce.return"(%x) : (f32) -> ()'
    text = f'%s = "tt.reduce"(%zeros) <{{axis = 1 : i32}}> ({{\n{body}\n}}) : ({tile}) -> tensor<64xf32, #blocked>'
    reduce = the(parse_module(kernel(text)), "tt.reduce")
    assert incoming(reduce.regions[0].block.args[0]) == [] and incoming(reduce.result) == []
    assert outgoing(reduce.regions[0].block.terminator.use(0)) == []


@given(nests())
@SETTINGS
def test_incoming_and_outgoing_are_inverse(nest: tuple[Statement, ...]) -> None:
    backwards, forwards = both_ways(parse_module(text(nest)))
    assert backwards == forwards and backwards


@pytest.mark.parametrize("level", ["aref", "barrier"])
def test_incoming_and_outgoing_are_inverse_where_partitions_are(made: Outcome, level: str) -> None:
    backwards, forwards = both_ways(parse_module(getattr(made, level)))
    assert backwards == forwards and backwards


def test_what_decides_is_bounds_or_a_condition() -> None:
    loop, picked, repeat = two_carried(), two_picked(), while_of_three()
    assert [use.value for use in deciding(loop.op)] == loop.bounds
    assert [use.value for use in deciding(picked.op)] == [picked.condition]
    assert [(use.op, use.index) for use in deciding(repeat.op)] == [(repeat.before.terminator, 0)]
    assert deciding(repeat.before.terminator) == []


def test_a_value_belongs_to_the_operation_that_makes_it_or_holds_its_block() -> None:
    loop = two_carried()
    assert holder_of(loop.op.results[0]) is holder_of(loop.iter_args[0]) is loop.op
    assert holder_of(Block(["i32"]).args[0]) is None


def test_a_carried_value_is_found_by_its_argument_and_by_its_result() -> None:
    loop = two_carried()
    names = (loop.inits[1], loop.iter_args[1])
    for value in (loop.iter_args[1], loop.op.results[1]):
        found = loop_carried(value)
        assert found and (found.init, found.argument) == names
    assert loop_carried(loop.induction) is None and loop_carried(loop.yielded[1]) is None


# -- adding carried values ---------------------------------------------------------------------------------------------


def grown(block: Block, value: Value) -> Value:
    """One more than `value`, at the end of `block`."""
    more = Operation("arith.addi", (value, value), (value.type,))
    return block.insert(len(block.ops) - 1, more).result


@pytest.mark.parametrize("make", [two_carried, two_picked, while_of_three])
def test_a_value_is_carried_through_any_control_flow(make: Callable[[], ForOp | IfOp | WhileOp]) -> None:
    view = make()
    start = next(it.result for it in module_of(view.op).walk() if it.results and it.result.hint == "one")
    before = len(view.op.results)
    result = carry_through(view.op, start, grown, "carried")
    assert result is view.op.results[before] and result.hint == "carried" and result.type == "i32"
    assert errors(view.op) == []
    ends = [use.value.defining_op for use in incoming(result) if use.value is not start]
    assert ends and all(end is not None and end.name == "arith.addi" for end in ends)


def test_a_value_goes_through_both_blocks_of_a_while() -> None:
    repeat = while_of_three()
    seen: list[tuple[Block, Value]] = []

    def step(block: Block, value: Value) -> Value:
        seen.append((block, value))
        return value

    carry_through(repeat.op, repeat.op.operands[0], step)
    assert seen == [(repeat.before, repeat.before.args[-1]), (repeat.after, repeat.after.args[-1])]
    assert errors(repeat.op) == []


def test_a_branch_without_else_gets_one() -> None:
    module = parse_module(kernel(branch("")))
    picked = IfOp(the(module, "scf.if"))
    number = picked.op.parent.ops[0].result if picked.op.parent else None
    assert number is not None
    carry_through(picked.op, number, lambda block, value: value)
    assert len(picked.branches) == 2 and values_of(picked.op.results[0]) == [number, number]


def test_a_group_returns_a_value_of_its_own(made: Outcome) -> None:
    group = find_groups(parse_module(made.aref))[-1]
    inside = next(it.result for it in group.body.ops if len(it.results) == 1)
    before = len(group.op.results)
    result = carry_through(group.op, inside, lambda block, value: value, "out")
    assert result is group.op.results[before] and values_of(result) == [inside] and errors(group.op) == []


def test_several_values_are_carried_in_order() -> None:
    loop = two_carried()
    lower, _, step = loop.bounds

    def swap(_: Block, inside: Sequence[Value]) -> list[Value]:
        return [inside[1], inside[0]]

    results = carry_all_through(loop.op, (lower, step), swap, ("low", "by"))
    assert results == loop.op.results[2:] and [result.hint for result in results] == ["low", "by"]
    assert loop.inits[2:] == [lower, step] and loop.yielded[2:] == loop.iter_args[:1:-1]
    assert errors(loop.op) == []


def test_nothing_is_carried_through_arithmetic() -> None:
    add = the(parse_module(kernel(binary("x", "addi", "n", "m"))), "arith.addi")
    with pytest.raises(ValueError, match=r"arith.addi is neither a loop nor a branch"):
        carry_through(add, add.operands[0], lambda block, value: value)


# -- dropping carried values -------------------------------------------------------------------------------------------


def test_a_loop_loses_a_carried_value() -> None:
    loop = two_carried()
    loop.op.results[0].uses[0].op.set_operand(0, loop.inits[0])
    assert narrow(loop.op, [1])
    assert [arg.hint for arg in loop.iter_args] == ["count"] and [value.hint for value in loop.yielded] == ["more"]
    assert loop.op.result.type == "i32" and loop.op.result.index == 0 and loop.iter_args[0].index == 1
    assert not narrow(loop.op, [0])


def test_a_branch_loses_a_result() -> None:
    picked = two_picked()
    assert narrow(picked.op, [1]) and errors(picked.op) == []
    assert [value.hint for value in values_of(picked.op.result)] == ["zero", "one"]


def test_a_while_loses_results_and_initial_values_apart() -> None:
    repeat = while_of_three()
    assert narrow(repeat.op, [1], [0, 1]) and len(repeat.op.results) == 1
    assert [arg.hint for arg in repeat.before.args] == ["a", "b"] and [arg.hint for arg in repeat.after.args] == ["y"]
    assert [value.hint for value in repeat.before.terminator.operands] == ["flag", "a"]
    assert [value.hint for value in repeat.after.terminator.operands] == ["y", "n"]
    assert errors(repeat.op) == []
    assert narrow(repeat.op, [0], [0]) and len(repeat.op.operands) == 1


@pytest.mark.parametrize(
    ("make", "results", "inits"), [(two_carried, [1], []), (two_picked, [0], []), (while_of_three, [1], [0, 1])]
)
def test_a_narrowed_copy_is_what_narrowing_leaves(
    make: Callable[[], ForOp | IfOp | WhileOp], results: list[int], inits: list[int]
) -> None:
    view = make()
    mapping: ValueMap = {}

    def copy_block(source: Block, target: Block) -> None:
        for it in source.ops[:-1]:
            target.append(clone_op(it, mapping))

    old = [view.op.results[index] for index in results]
    copy = clone_narrowed(view.op, mapping, copy_block, results, inits)
    for result in view.op.results:
        for use in list(result.uses):
            use.op.set_operand(use.index, use.op.operands[0])
    original = view.op
    narrow(original, results, inits)
    assert [mapping[value] for value in old] == copy.results
    assert [it.name for it in copy.walk()] == [it.name for it in original.walk()]
    for one, other in zip(copy.walk(), original.walk(), strict=True):
        assert [value.type for value in one.operands] == [value.type for value in other.operands]
        assert [value.type for value in one.results] == [value.type for value in other.results]


def test_a_narrowed_copy_has_no_else_that_does_nothing() -> None:
    other = '"scf.yield"(%n) : (i32) -> ()'
    text = f'%r = "scf.if"(%flag) ({{\n"scf.yield"(%m) : (i32) -> ()\n}}, {{\n{other}\n}}) : (i1) -> i32'
    picked = the(parse_module(kernel(text)), "scf.if")
    copy = clone_narrowed(picked, {}, lambda source, target: None, [])
    assert [len(region.block.ops) for region in copy.regions] == [1, 0] and copy.results == []


def test_groups_of_a_kernel_carry_their_counts(made: Outcome) -> None:
    """The counts that `insert_arefs` carries are what the loops of both groups have in common."""
    module = parse_module(made.aref)
    for group in find_groups(module):
        for loop in (view for it in group.op.walk() if (view := ForOp.of(it))):
            counts = [arg for arg in loop.iter_args if arg.type.startswith("!aref.index")]
            assert counts and all(len(incoming(arg)) == 2 for arg in counts)
    assert ops_named(module, "aref.advance")
