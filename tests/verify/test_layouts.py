"""`difference`: programs that differ in layouts only are equal, and any other change is told."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest

from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic
from tawa.dialects.arith import MulFOp, constant_int
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import LoadOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Block, Builder, Module, Operation, Value, copy_module, parse_module, replace_op
from tawa.transforms.pipelining.hoist_conversions import HoistConversions
from tawa.transforms.pipelining.unroll_masked import UnrollMasked
from tawa.verify.layouts import difference
from tests.cases.small.row_kernels import decayed, multiplied, of_a_chunk
from tests.matrix.test_unpartitioned import launch
from tests.support.fronts import front


@cache
def _stock(kernel: object, num_warps: int) -> Module:
    """Stock Triton's program."""
    given = launch(kernel)
    made = front(given.kernel, given.signature(), num_warps=num_warps)
    mod = parse_with_triton(made.ttir, made.context)
    for part in (made.stages.front, made.stages.middle, made.stages.back):
        mod = part(mod, {}, made.options, 90)
    return parse_module(print_generic(mod))


def hoisted(num_warps: int = 1) -> tuple[Module, Module]:
    before = copy_module(_stock(decayed, num_warps))
    after = copy_module(before)
    assert HoistConversions().run(after).changed
    return before, after


def body(module: Module) -> list[Operation]:
    """The operations of the last loop."""
    return [loop for op in module.walk() if (loop := ForOp.of(op))][-1].body.ops


@pytest.mark.parametrize("num_warps", [1, 2, 4])
def test_a_program_whose_conversions_left_the_loops_is_the_same(num_warps: int) -> None:
    assert difference(*hoisted(num_warps)) == ""


def test_every_operand_that_becomes_another_value_is_told() -> None:
    count = len([op for op in body(hoisted()[1]) if op.operands])
    told = 0
    for at in range(count):
        before, after = hoisted()
        ops = [op for op in body(after) if op.operands]
        op = ops[at]
        kinds = [other.results[0] for other in ops[:at] if len(other.results) == 1 and not ConvertLayoutOp.matches(op)]
        for index, operand in enumerate(op.operands):
            others = [it for it in kinds if it.type == operand.type and it is not operand]
            if others:
                op.set_operand(index, others[-1])
                assert difference(before, after), (op.name, index)
                op.set_operand(index, operand)
                told += 1
    assert told > 5


def test_operands_that_change_places_are_told() -> None:
    told = 0
    for op in (op for op in body(hoisted()[1]) if len(op.operands) > 1):
        for one, other in combinations(range(len(op.operands)), 2):
            before, after = hoisted()
            twin = body(after)[op.parent.index_of(op)] if op.parent is not None else op
            if twin.operands[one].type == twin.operands[other].type and twin.operands[one] is not twin.operands[other]:
                first, second = twin.operands[one], twin.operands[other]
                twin.set_operand(one, second)
                twin.set_operand(other, first)
                assert difference(before, after), op.name
                told += 1
    assert told > 5


def test_an_operation_that_is_lost_is_told() -> None:
    before, after = hoisted()
    (term,) = [op for op in body(after) if op.name == "arith.select"]
    term.result.replace_all_uses_with(term.operands[1])
    term.erase()
    assert "select" in difference(before, after)


def test_another_constant_is_told() -> None:
    before, after = hoisted()
    constant = next(
        op for op in after.walk() if op.name == "arith.constant" and "0.000000e+00" in op.properties["value"]
    )
    constant.properties["value"] = constant.properties["value"].replace("0.000000e+00", "1.000000e+00")
    assert "another value" in difference(before, after)


def test_an_operand_of_a_dot_in_another_layout_is_told() -> None:
    before, after = hoisted()
    dot = next(op for op in after.walk() if op.name == "tt.dot")
    dot.operands[0].type = dot.operands[0].type.replace("kWidth = 2", "kWidth = 1")
    assert "a result has another type" in difference(before, after)


def test_a_product_that_is_no_longer_rounded_before_it_is_added_is_told() -> None:
    before = copy_module(_stock(multiplied, 4))
    after = copy_module(before)
    convert = next(
        op for op in body(after) if ConvertLayoutOp.matches(op) and op.operands[0].type.startswith("tensor<16x")
    )
    sums = convert.result.users
    convert.result.replace_all_uses_with(convert.operands[0])
    assert [it.name for it in sums] == ["arith.addf"]
    assert "is rounded before it is added in one program only" in difference(before, after)


def test_a_conversion_more_is_no_difference() -> None:
    before, after = hoisted()
    term = next(op for op in body(after) if op.name == "math.exp2")
    builder = Builder.after(term)
    other = term.result.type
    made = builder.create(ConvertLayoutOp.NAME, (term.result,), (other,)).result
    for use in list(term.result.uses):
        if use.op is not made.defining_op:
            use.op.set_operand(use.index, made)
    assert difference(before, after) == ""


def unrolled() -> tuple[Module, Module, IfOp]:
    """A program whose last loop becomes a choice between its iterations and itself."""
    before = copy_module(_stock(of_a_chunk, 1))
    after = copy_module(before)
    assert HoistConversions().run(after).changed and UnrollMasked(1).run(after).changed
    (choice,) = [it for op in after.walk() if (it := IfOp.of(op))]
    return before, after, choice


def test_iterations_one_after_another_are_the_same() -> None:
    before, after, _ = unrolled()
    assert difference(before, after) == ""


def test_every_operand_of_an_iteration_that_becomes_another_value_is_told() -> None:
    before, after, choice = unrolled()
    ops = [op for op in choice.branches[0].ops[:-1] if op.operands and not ConvertLayoutOp.matches(op)]
    told = 0
    for op in ops[-24:]:  # the last two iterations
        for index, operand in enumerate(op.operands):
            others = [it.results[0] for it in ops[: ops.index(op)] if it.results[0].type == operand.type]
            other = next((it for it in others if it is not operand and it is not _unchanged(operand)), None)
            if other is not None:
                op.set_operand(index, other)
                assert difference(before, after), (op.name, index)
                op.set_operand(index, operand)
                told += 1
    assert told > 10 and difference(before, after) == ""


def _unchanged(value: Value) -> Value | None:
    """What a value is computed from."""
    return value.defining_op.operands[0] if value.defining_op is not None and value.defining_op.operands else None


def test_another_number_of_iterations_is_told() -> None:
    before, after, choice = unrolled()
    compare = _parts(choice)[0].defining_op
    trips = compare.operands[1].defining_op if compare is not None else None
    assert trips is not None and constant_int(trips.result) == 16
    trips.properties["value"] = trips.properties["value"].replace("16", "15")
    assert "iterations give other values" in difference(before, after)


def _parts(choice: IfOp) -> list[Value]:
    """Of the condition: whether all iterations are executed, and whether all rows are there."""
    both = choice.condition.defining_op
    assert both is not None and both.name == "arith.andi"
    return both.operands


def test_iterations_without_a_condition_for_their_number_are_told() -> None:
    before, after, choice = unrolled()
    choice.op.set_operand(0, _parts(choice)[1])
    assert "the number of iterations is not known" in difference(before, after)


def test_a_loop_that_is_not_the_other_choice_is_told() -> None:
    before, after, choice = unrolled()
    loop = next(it for op in choice.branches[1].ops if (it := ForOp.of(op)))
    end = loop.body.terminator
    end.set_operand(0, loop.iter_args[0])
    assert "otherwise, " in difference(before, after)


def test_a_product_that_a_known_mask_would_leave_to_its_sum_is_told() -> None:
    before, after, _ = unrolled()
    products = [op for op in after.walk() if RoundedProductOp.matches(op)]
    assert len(products) == 17  # one in the loop
    for op in products:
        made = Builder.before(op).create(MulFOp.NAME, op.operands, (op.result.type,), properties=_FASTMATH).result
        replace_op(op, [made])
    for op in (op for op in before.walk() if ConvertLayoutOp.matches(op) and op.parent in _bodies(before)):
        if op.result.type.startswith("tensor<16x64"):
            op.result.type = op.operands[0].type
            replace_op(op, [op.operands[0]])
    assert "a known mask decides how a sum is rounded" in difference(before, after)


def test_effects_of_iterations_that_are_lost_are_told() -> None:
    before, after, _ = unrolled()
    for loop in (it for module in (before, after) for op in list(module.walk()) if (it := ForOp.of(op))):
        Builder.before(loop.body.terminator).create("test.use", (loop.induction,), ())
    assert "they do more than compute" in difference(before, after)


def test_a_loop_that_counts_without_signs_is_told() -> None:
    before, after, _ = unrolled()
    for module in (before, after):
        for loop in (it for op in module.walk() if (it := ForOp.of(op))):
            loop.op.properties["unsignedCmp"] = "unit"
    assert difference(before, after)


def test_a_load_that_no_longer_says_what_its_mask_leaves_out_is_told() -> None:
    before, after, choice = unrolled()
    loads = [load for op in choice.branches[0].ops if (load := LoadOp.of(op)) and load.other is not None]
    assert loads
    for load in loads:
        assert load.mask is not None
        _say_nothing(load)
        assert "a load no longer says what its mask leaves out" in difference(before, after)


def test_a_load_that_did_not_say_what_its_mask_leaves_out_may_leave_it_so() -> None:
    before, after, _ = unrolled()
    for module in (before, after):
        for load in [load for op in module.walk() if (load := LoadOp.of(op)) and load.other is not None]:
            _say_nothing(load)
    assert difference(before, after) == ""


def _say_nothing(load: LoadOp) -> None:
    assert load.mask is not None
    properties = {**load.op.properties, "operandSegmentSizes": "array<i32: 1, 1, 0>"}
    made = Builder.before(load.op).create(
        LoadOp.NAME, (load.pointers, load.mask), (load.op.result.type,), properties=properties
    )
    replace_op(load.op, [made.result])


@pytest.mark.parametrize("name", ["tt.reduce", "tt.scan"])
def test_a_product_that_is_no_longer_rounded_before_a_reduction_is_told(name: str) -> None:
    before, after = reduced(name, "%c"), reduced(name, "%p")
    assert difference(before, before) == "" and difference(after, after) == ""
    assert "is rounded before it is added in one program only" in difference(before, after)


def reduced(name: str, operand: str) -> Module:
    """A program that adds the elements of a product. %c: the product, converted and back."""
    a, b = (f"tensor<4x64xf32, #ttg.blocked<{{sizePerThread = {it}, threadsPerWarp = [1, 32], "
            "warpsPerCTA = [1, 1], order = [1, 0]}>>" for it in ("[4, 2]", "[4, 1]"))  # fmt: skip
    scan = name == "tt.scan"
    result = a if scan else "tensor<64xf32, #ttg.slice<{dim = 0, parent = " + a[len("tensor<4x64xf32, ") : -1] + "}>>"
    more = ", reverse = false" * scan
    return parse_module(f"""
"builtin.module"() ({{
  "tt.func"() <{{arg_attrs = [{{}}, {{}}], function_type = ({a}, i32) -> (), sym_name = "kernel"}}> ({{
  ^bb0(%x: {a}, %n: i32):
    %p = "arith.mulf"(%x, %x) : ({a}, {a}) -> {a}
    %d = "ttg.convert_layout"(%p) : ({a}) -> {b}
    %c = "ttg.convert_layout"(%d) : ({b}) -> {a}
    %r = "{name}"({operand}) <{{axis = 0 : i32{more}}}> ({{
    ^bb1(%e: f32, %f: f32):
      %s = "arith.addf"(%e, %f) : (f32, f32) -> f32
      "{name}.return"(%s) : (f32) -> ()
    }}) : ({a}) -> {result}
    "test.use"(%r) : ({result}) -> ()
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
""")


_FASTMATH = {"fastmath": "#arith.fastmath<none>"}


def _bodies(module: Module) -> list[Block]:
    return [loop.body for op in module.walk() if (loop := ForOp.of(op))]
