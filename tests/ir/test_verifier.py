"""The structural verifier: each rule rejects its smallest bad program."""

from __future__ import annotations

import pytest

from tawa.dialects import structure_rules
from tawa.ir import Operation, parse_module, verify_structure
from tests.cases.programs import ttgir as programs

RING = f"!aref.ring<2 x ({programs.SLOT}, {programs.SLOT})>"


def errors_of(*lines: str) -> list[str]:
    body = "\n".join(("^bb0(%n: i32, %c: i1, %f: f32):", *lines, '"tt.return"() : () -> ()'))
    text = f'"builtin.module"() ({{\n"tt.func"() ({{\n{body}\n}}) : () -> ()\n}}) : () -> ()\n'
    return [str(error) for error in verify_structure(parse_module(text), structure_rules())]


def loop(args: str, yielded: str, types: str, inits: str = "", to: str = "()", result: str = "") -> list[str]:
    """A loop from %n to %n; `types` are those of its operands behind the bounds."""
    return [
        f'{result}"scf.for"(%n, %n, %n{inits}) ({{',
        f"^bb0({args}):",
        yielded,
        f"}}) : (i32, i32, i32{types}) -> {to}",
    ]


YIELD = '"scf.yield"() : () -> ()'
GOOD: dict[str, list[str]] = {
    "empty": [],
    "for": loop("%i: i32, %x: f32", '"scf.yield"(%x) : (f32) -> ()', ", f32", ", %f", "f32", "%r = "),
    "if": [
        '%r = "scf.if"(%c) ({',
        '"scf.yield"(%n) : (i32) -> ()',
        "}, {",
        '"scf.yield"(%n) : (i32) -> ()',
        "}) : (i1) -> i32",
    ],
    "if_without_else": ['"scf.if"(%c) ({', YIELD, "}, {", "}) : (i1) -> ()"],
    "while": [
        '%r = "scf.while"(%n) ({',
        "^bb0(%x: i32):",
        '"scf.condition"(%c, %f) : (i1, f32) -> ()',
        "}, {",
        "^bb0(%y: f32):",
        '"scf.yield"(%n) : (i32) -> ()',
        "}) : (i32) -> f32",
    ],
}


@pytest.mark.parametrize("lines", GOOD.values(), ids=GOOD)
def test_a_right_program_has_no_errors(lines: list[str]) -> None:
    assert errors_of(*lines) == []


def ring(*lines: str) -> list[str]:
    return [
        f'%ring = "aref.create"() <{{name = "r"}}> : () -> {RING}',
        f'%i = "aref.first"(%ring) : ({RING}) -> !aref.index<2>',
        '%j = "test.op"() : () -> !aref.index<3>',
        f'%t = "test.op"() : () -> {programs.TILE}',
        *lines,
    ]


BAD: dict[str, tuple[list[str], str]] = {
    "loop_without_bounds": (
        ['"scf.for"(%n) ({', "^bb0(%i: i32):", YIELD, "}) : (i32) -> ()"],
        "scf.for: a loop needs lower bound, upper bound and step",
    ),
    "loop_without_argument": (
        loop("%i: i32", YIELD, ", f32", ", %f", "f32", "%r = "),
        "1 initial values for 0 carried",
    ),
    "loop_argument_type": (
        loop("%i: i32, %x: i32", '"scf.yield"(%f) : (f32) -> ()', ", f32", ", %f", "f32", "%r = "),
        "initial values ['f32'] but arguments ['i32']",
    ),
    "loop_result_type": (
        loop("%i: i32, %x: f32", '"scf.yield"(%f) : (f32) -> ()', ", f32", ", %f", "i32", "%r = "),
        "initial values ['f32'] but results ['i32']",
    ),
    "loop_yield_type": (
        loop("%i: i32, %x: f32", '"scf.yield"(%n) : (i32) -> ()', ", f32", ", %f", "f32", "%r = "),
        "initial values ['f32'] but yielded values ['i32']",
    ),
    "loop_yield_count": (
        loop("%i: i32, %x: f32", YIELD, ", f32", ", %f", "f32", "%r = "),
        "initial values ['f32'] but yielded values []",
    ),
    "if_condition": (['"scf.if"(%n) ({', YIELD, "}, {", "}) : (i32) -> ()"], "the condition is i32, not i1"),
    "if_branch_type": (
        [
            '%r = "scf.if"(%c) ({',
            '"scf.yield"(%f) : (f32) -> ()',
            "}, {",
            '"scf.yield"(%n) : (i32) -> ()',
            "}) : (i1) -> i32",
        ],
        "results ['i32'] but a branch yields ['f32']",
    ),
    "if_result_without_else": (
        ['%r = "scf.if"(%c) ({', '"scf.yield"(%n) : (i32) -> ()', "}, {", "}) : (i1) -> i32"],
        "it has results but a branch yields none",
    ),
    "while_argument_type": (
        [line.replace("%x: i32", "%x: i1") for line in GOOD["while"]],
        "initial values, arguments and yielded values differ in type",
    ),
    "while_yield_type": (
        [line.replace('"scf.yield"(%n) : (i32)', '"scf.yield"(%f) : (f32)') for line in GOOD["while"]],
        "initial values, arguments and yielded values differ in type",
    ),
    "while_handed_type": (
        [line.replace("%y: f32", "%y: i1") for line in GOOD["while"]],
        "the condition hands on other types than the body takes or the loop returns",
    ),
    "while_result_type": (
        [line.replace("-> f32", "-> i1") for line in GOOD["while"]],
        "the condition hands on other types than the body takes or the loop returns",
    ),
    "used_before_defined": (
        [
            '"scf.if"(%c) ({',
            '%x = "test.op"() : () -> i32',
            YIELD,
            "}, {",
            '"test.use"(%x) : (i32) -> ()',
            YIELD,
            "}) : (i1) -> ()",
        ],
        "test.use: operand 0 (i32) is not defined before its use",
    ),
    "used_behind_the_region": (
        [
            '"scf.if"(%c) ({',
            '%x = "test.op"() : () -> i32',
            YIELD,
            "}, {",
            "}) : (i1) -> ()",
            '"test.use"(%x) : (i32) -> ()',
        ],
        "test.use: operand 0 (i32) is not defined before its use",
    ),
    "no_terminator": (
        ['"scf.if"(%c) ({', '"test.op"() : () -> ()', "}, {", "}) : (i1) -> ()"],
        "test.op: the block does not end in a terminator",
    ),
    "terminator_in_the_middle": (
        ['"scf.if"(%c) ({', YIELD, YIELD, "}, {", "}) : (i1) -> ()"],
        "scf.yield: a terminator in the middle of a block",
    ),
    "segment_sizes": (
        ['"test.op"(%n, %n) <{operandSegmentSizes = array<i32: 1, 0>}> : (i32, i32) -> ()'],
        "test.op: operandSegmentSizes array<i32: 1, 0> for 2 operands",
    ),
    "put_index": (
        ring(
            '"aref.put"(%ring, %j) ({',
            f'"aref.filled"(%t, %t) : ({programs.TILE}, {programs.TILE}) -> ()',
            f"}}) : ({RING}, !aref.index<3>) -> ()",
        ),
        "aref.put: index !aref.index<3> into a ring of depth 2",
    ),
    "put_payload": (
        ring(
            '"aref.put"(%ring, %i) ({',
            f'"aref.filled"(%t, %t, %t) : ({", ".join([programs.TILE] * 3)}) -> ()',
            f"}}) : ({RING}, !aref.index<2>) -> ()",
        ),
        "aref.put: the ring takes 2 tiles",
    ),
    "put_of_nothing": (
        ring('"aref.put"(%ring, %i) ({', '"aref.filled"() : () -> ()', f"}}) : ({RING}, !aref.index<2>) -> ()"),
        "aref.put: the ring takes 2 tiles",
    ),
    "get_index": (
        ring(f'%v:2 = "aref.get"(%ring, %j) : ({RING}, !aref.index<3>) -> ({programs.SLOT}, {programs.SLOT})'),
        "aref.get: index !aref.index<3> into a ring of depth 2",
    ),
    "get_payload": (
        ring(f'%v:3 = "aref.get"(%ring, %i) : ({RING}, !aref.index<2>) -> ({", ".join([programs.SLOT] * 3)})'),
        "aref.get: 3 views of 2 buffers",
    ),
    "get_view_type": (
        ring(f'%v:2 = "aref.get"(%ring, %i) : ({RING}, !aref.index<2>) -> ({programs.SLOT}, i32)'),
        f"aref.get: views ['{programs.SLOT}', 'i32'] of buffers",
    ),
    "consumed_index": (
        ring(f'"aref.consumed"(%ring, %j) : ({RING}, !aref.index<3>) -> ()'),
        "aref.consumed: index !aref.index<3> into a ring of depth 2",
    ),
    "landed_index": (
        ring(f'"aref.landed"(%ring, %j) : ({RING}, !aref.index<3>) -> ()'),
        "aref.landed: index !aref.index<3> into a ring of depth 2",
    ),
    "consumed_condition": (
        ring(f'"aref.consumed"(%ring, %i, %n) : ({RING}, !aref.index<2>, i32) -> ()'),
        "aref.consumed: the condition is i32, not i1",
    ),
    "not_a_ring": (
        ['"aref.consumed"(%n, %n) : (i32, i32) -> ()'],
        "aref.consumed: incomplete or of the wrong type: not a ring type: i32",
    ),
    "empty_loop_body": (
        ['"scf.for"(%n, %n, %n) ({', "^bb0(%i: i32):", "}) : (i32, i32, i32) -> ()"],
        "scf.for: incomplete or of the wrong type",
    ),
    "no_operands": (['"scf.if"() ({', YIELD, "}, {", "}) : () -> ()"], "scf.if: incomplete or of the wrong type"),
    "captures": (
        [
            '"ttg.warp_specialize"(%n) <{partitionNumWarps = array<i32: 1>}> ({',
            '"ttg.warp_yield"() : () -> ()',
            "}, {",
            '"ttg.warp_specialize.partitions"() ({',
            "^bb0(%x: f32):",
            '"ttg.warp_return"() : () -> ()',
            "}) : () -> ()",
            "}) : (i32) -> ()",
        ],
        "captures ['i32'] but a partition takes ['f32']",
    ),
    "isolated_partition": (
        [
            '"ttg.warp_specialize"() <{partitionNumWarps = array<i32: 1>}> ({',
            '"ttg.warp_yield"() : () -> ()',
            "}, {",
            '"ttg.warp_specialize.partitions"() ({',
            '"test.use"(%n) : (i32) -> ()',
            '"ttg.warp_return"() : () -> ()',
            "}) : () -> ()",
            "}) : () -> ()",
        ],
        "test.use: operand 0 (i32) is not defined before its use",
    ),
}


@pytest.mark.parametrize(("lines", "reason"), BAD.values(), ids=BAD)
def test_a_wrong_program_is_refused(lines: list[str], reason: str) -> None:
    errors = errors_of(*lines)
    assert any(reason in error for error in errors), errors


def test_a_function_sees_nothing_from_outside() -> None:
    text = (
        '"builtin.module"() ({\n%x = "test.op"() : () -> i32\n"tt.func"() ({\n"test.use"(%x) : (i32) -> ()\n'
        '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )
    (error,) = verify_structure(parse_module(text), structure_rules())
    assert str(error) == "test.use: operand 0 (i32) is not defined before its use"


def test_values_of_blocks_that_reach_this_one_are_visible_and_others_not() -> None:
    def errors(first: str, second: str) -> list[str]:
        return errors_of(
            '"cf.cond_br"(%c)[^bb1, ^bb2] : (i1) -> ()',
            "^bb1:",
            f'%x = "test.op"() : () -> i32\n{first}',
            "^bb2:",
            f'"test.use"(%x) : (i32) -> ()\n{second}',
            "^bb3:",
        )

    assert errors('"cf.br"()[^bb2] : () -> ()', '"cf.br"()[^bb3] : () -> ()') == []
    assert len(errors('"cf.br"()[^bb3] : () -> ()', '"cf.br"()[^bb3] : () -> ()')) == 1


def test_a_use_that_the_value_does_not_list_is_an_error() -> None:
    module = parse_module(programs.tile_gemm())
    op = next(op for op in module.walk() if op.operands)
    op.operands[0].uses.clear()
    assert any("does not list this use" in str(error) for error in verify_structure(module, structure_rules()))


def test_an_operation_whose_parent_is_another_block_is_an_error() -> None:
    module = parse_module(programs.tile_gemm())
    op = next(op for op in module.walk() if op.name == "arith.constant")
    op.parent = None
    assert any("parent link" in str(error) for error in verify_structure(module, structure_rules()))


def test_errors_name_their_operation() -> None:
    module = parse_module(programs.tile_gemm())
    module.body.ops[0].regions[0].block.append(Operation("test.late"))
    errors = verify_structure(module, structure_rules())
    assert {error.op.name for error in errors} == {"tt.return", "test.late"}
