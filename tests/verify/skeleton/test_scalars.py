"""Scalars of the skeleton: instructions that compute them, and terms of those that no loop changes."""

from __future__ import annotations

from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Operation
from tawa.verify.skeleton.emitter import Emitter
from tawa.verify.skeleton.program import Code, Program, Term, Terms, integer_arguments
from tawa.verify.skeleton.scalars import Scalars
from tawa.verify.skeleton.sources import Sources
from tests.verify.barriers.test_foreign import kernel

FLAG = '%flag = "arith.cmpi"(%n, %zero) <{predicate = 4 : i64}> : (i32, i32) -> i1'
MASKED = (
    '%got = "tt.load"(%counter, %flag, %zero) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false, '
    "operandSegmentSizes = array<i32: 1, 1, 1>}> : (!tt.ptr<i32>, i1, i32) -> i32"
)


def compiled(*lines: str) -> tuple[Emitter, dict[str, Operation]]:
    """The code of all scalars of a kernel, and the operations by the name of their result."""
    module = kernel(*lines)
    (function,) = [op for op in module.body.ops if FuncOp.matches(op)]
    code = Emitter(Program(module, [], [], [], {}, Terms()), Sources(function), None, "kernel")
    for arg, name in integer_arguments(function).items():
        code.canonical[arg] = code.program.terms(("argument", arg.index), name)
        code.define(arg, code.canonical[arg])
    scalars = Scalars(code, function.walk())
    ops = [op for op in function.walk() if op.results]
    for op in ops:
        scalars.compile(op)
    return code, {op.result.hint: op for op in ops}


def summed(name: str, left: str, right: str) -> str:
    return f'%{name} = "arith.addi"({left}, {right}) : (i32, i32) -> i32'


def test_constants_are_numbers_in_registers() -> None:
    code, ops = compiled()
    assert code.registers[code.use(ops["yes"].result)] == code.canonical[ops["yes"].result] == 1
    assert code.part.code == []


def test_an_operation_computes_its_result_from_the_registers_of_its_operands() -> None:
    code, ops = compiled(summed("more", "%n", "%n"))
    ((kind, function, ins, out, _),) = code.part.code
    assert kind == Code.SCALAR and function(2, 3) == 5
    assert ins == (code.use(ops["more"].operands[0]),) * 2 and out == code.use(ops["more"].result)


def test_equal_expressions_of_arguments_are_one_term_and_others_are_not() -> None:
    lines = (summed("one", "%n", "%zero"), summed("same", "%zero", "%n"), summed("other", "%n", "%n"))
    code, ops = compiled(*lines)
    one, same, other = (code.canonical[ops[name].result] for name in ("one", "same", "other"))
    assert isinstance(one, Term) and one is same and one is not other


def test_a_load_with_a_mask_chooses_between_memory_and_its_default() -> None:
    code, ops = compiled(FLAG, MASKED)
    *_, (_, _, pointer, loaded, key), (_, choose, ins, _, _) = code.part.code
    assert key == (LoadOp.NAME,) and pointer == (code.use(ops["got"].operands[0]),)
    assert ins == (code.use(ops["flag"].result), loaded, code.use(ops["zero"].result))
    assert (choose(1, 7, 0), choose(0, 7, 0)) == (7, 0)


def test_an_operation_is_evaluated_in_the_type_of_its_numbers() -> None:
    narrow = (
        '%short = "arith.trunci"(%n) : (i32) -> i8',
        '%product = "arith.muli"(%short, %short) : (i8, i8) -> i8',
        '%back = "arith.extui"(%product) : (i8) -> i32',
    )
    code, ops = compiled(
        '%square = "arith.muli"(%n, %n) : (i32, i32) -> i32',
        *narrow,
        '%half = "arith.trunci"(%n) : (i32) -> i16',
        '%wide = "arith.extui"(%half) : (i16) -> i32',
    )
    terms, (argument,) = code.program.terms, [it for it in code.canonical.values() if getattr(it, "given", "") == "n"]
    found = {name: code.canonical[ops[name].result] for name in ("square", "back", "wide")}
    for number, expected in ((32, (1024, 0, 32)), (-1, (1, 1, 65535)), (40, (1600, 64, 40))):
        assert tuple(terms.evaluate(it, {argument.text: number}) for it in found.values()) == expected
    assert [ops["product"].result.type, code.canonical[ops["product"].result].narrow] == ["i8", True]
    assert not any(it.narrow for it in found.values())
