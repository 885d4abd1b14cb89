"""`split_dims`: which dimension of which tile is split, and why none is."""

from __future__ import annotations

import pytest

from tawa.analysis.dims.split_dims import SplitInfo, find_split, rows_suffice
from tawa.ir import parse_module
from tawa.remarks import Remark
from tests.cases.programs.ttgir import op
from tests.cases.programs.ttir import LOAD, PLAIN, constant, dot, kernel, load, store

F32 = "tensor<128x128xf32>"
ROWS = "tensor<128xf32>"
POINTERS = "tensor<128x128x!tt.ptr<f32>>"


def split_of(text: str, groups: int) -> SplitInfo | Remark:
    module = parse_module(text)
    return find_split(module, groups, "rows" if rows_suffice(module, groups) else "columns")


def found(text: str, groups: int = 2) -> SplitInfo:
    info = split_of(text, groups)
    assert isinstance(info, SplitInfo), info
    return info


def dims(text: str) -> dict[str, int]:
    """The split dimension of every value that has a name."""
    return {value.hint: dim for value, dim in found(text).dims.items() if value.hint}


def refused(text: str, groups: int = 2) -> Remark:
    info = split_of(text, groups)
    assert isinstance(info, Remark)
    assert info.kind == "declined" and info.cure
    return info


def unary(name: str, value: str, source: str, result: str, target: str, properties: str = "", line: int = 0) -> str:
    return op(name, f"%{value}", source, f"%{result}", target, properties=properties, line=line)


def fold(name: str, value: str, source: str, result: str, target: str, axis: int) -> str:
    """A reduction or scan of one tile of f32 by addition, at line 7."""
    body = (
        (f'^bb0(%x: f32, %y: f32):\n%z = "arith.addf"(%x, %y) : (f32, f32) -> f32\n"{name}.return"(%z) : (f32) -> ()')
        .replace("%x", f"%x_{result}")
        .replace("%y", f"%y_{result}")
        .replace("%z", f"%z_{result}")
    )
    kind = f"axis = {axis} : i32" + (", reverse = false" if name == "tt.scan" else "")
    return f'%{result} = "{name}"(%{value}) <{{{kind}}}> ({{\n{body}\n}}) : ({source}) -> {target} loc("kernel.py":7:0)'


def binary(name: str, left: str, right: str, result: str, type: str) -> str:
    return op(name, f"%{left}, %{right}", f"{type}, {type}", f"%{result}", type)


# --- what hangs together ---


def test_rows_of_a_dot_are_rows_of_its_first_operand_and_of_what_is_loaded_and_stored() -> None:
    info = found(kernel())
    assert (info.axis, info.size, info.part) == ("rows", 128, 64)
    assert dims(kernel()) == {"a": 0, "a_desc": 0, "s": 0, "c_desc": 0}


def test_columns_are_split_where_a_group_would_get_fewer_than_64_rows() -> None:
    info = found(kernel(rows=64))
    assert (info.axis, info.size, info.part) == ("columns", 128, 64)
    assert dims(kernel(rows=64)) == {"b": 1, "b_desc": 1, "s": 1, "c_desc": 1}


def test_a_value_of_scalars_alone_is_split_use_by_use() -> None:
    info = found(kernel())
    assert {(use.name, index): dim for (use, index), dim in info.uses.items()} == {("tt.dot", 2): 0}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([unary("math.exp2", "s", F32, "t", F32)], {"t": 0}),
        ([unary("arith.truncf", "s", F32, "t", "tensor<128x128xf16>")], {"t": 0}),
        ([unary("tt.bitcast", "s", F32, "t", "tensor<128x128xi32>")], {"t": 0}),
        ([fold("tt.reduce", "s", F32, "m", ROWS, 1)], {"m": 0}),
        ([fold("tt.scan", "s", F32, "m", F32, 1)], {"m": 0}),
        (
            [
                fold("tt.reduce", "s", F32, "m", ROWS, 1),
                unary("tt.expand_dims", "m", ROWS, "e", "tensor<128x1xf32>", "axis = 1 : i32"),
                unary("tt.broadcast", "e", "tensor<128x1xf32>", "w", F32),
            ],
            {"m": 0, "e": 0, "w": 0},
        ),
        (
            [
                fold("tt.reduce", "s", F32, "m", ROWS, 1),
                unary("tt.expand_dims", "m", ROWS, "e", "tensor<1x128xf32>", "axis = 0 : i32"),
            ],
            {"m": 0, "e": 1},
        ),
        ([unary("tt.trans", "s", F32, "t", F32, "order = array<i32: 1, 0>")], {"t": 1}),
        ([unary("tt.reshape", "s", F32, "t", "tensor<1x128x2x64xf32>")], {"t": 1}),
        (
            [
                unary("tt.reshape", "s", F32, "t", "tensor<128x64x2xf32>"),
                op("tt.split", "%t", "tensor<128x64x2xf32>", "%h:2", "(tensor<128x64xf32>, tensor<128x64xf32>)"),
                op("tt.join", "%h#0, %h#1", "tensor<128x64xf32>, tensor<128x64xf32>", "%j", "tensor<128x64x2xf32>"),
            ],
            {"t": 0, "h": 0, "j": 0},
        ),
        (
            [
                constant("i", "dense<3>", "tensor<128x64xi32>"),
                op(
                    "tt.gather",
                    "%s, %i",
                    f"{F32}, tensor<128x64xi32>",
                    "%g",
                    "tensor<128x64xf32>",
                    properties="axis = 1 : i32",
                ),
            ],
            {"g": 0},
        ),
    ],
)
def test_a_tile_follows_the_rows_through(lines: list[str], expected: dict[str, int]) -> None:
    base = {"a": 0, "a_desc": 0, "s": 0, "c_desc": 0}
    assert dims(kernel("\n".join(lines))) == {**base, **expected}


def test_a_second_dot_takes_the_rows_of_the_first_on() -> None:
    middle = "\n".join(
        (
            unary("arith.truncf", "s", F32, "p", "tensor<128x128xf16>"),
            load("v", "v_desc", "128x128xf16", "%zero, %zero"),
            dot("o", "p", "v", "zeros", 128, 128, 128),
        )
    )
    text = kernel(middle, store("o")).replace("%row: i32)", "%row: i32, %v_desc: !tt.tensordesc<tensor<128x128xf16>>)")
    assert dims(text) == {"a": 0, "a_desc": 0, "s": 0, "p": 0, "o": 0, "c_desc": 0}


def test_a_load_through_pointers_of_scalars_is_split_with_what_it_is_added_to() -> None:
    middle = "\n".join(
        (
            op("tt.splat", "%out", "!tt.ptr<f32>", "%at", POINTERS),
            op("tt.load", "%at", POINTERS, "%x", F32, properties=LOAD),
            binary("arith.addf", "s", "x", "t", F32),
        )
    )
    info = found(kernel(middle, store("t")))
    assert {value.hint for value in info.dims} == {"a", "a_desc", "s", "x", "t", "c_desc"}
    assert {(use.name, index) for use, index in info.uses} == {("tt.dot", 2), ("tt.load", 0)}


def test_a_load_that_has_nothing_to_do_with_the_rows_stays_whole() -> None:
    middle = "\n".join(
        (
            op("tt.splat", "%out", "!tt.ptr<f32>", "%at", "tensor<128x!tt.ptr<f32>>"),
            op("tt.load", "%at", "tensor<128x!tt.ptr<f32>>", "%x", ROWS, properties=LOAD),
            unary("tt.expand_dims", "x", ROWS, "e", "tensor<1x128xf32>", "axis = 0 : i32"),
            unary("tt.broadcast", "e", "tensor<1x128xf32>", "w", F32),
            binary("arith.addf", "s", "w", "t", F32),
        )
    )
    assert dims(kernel(middle, store("t"))) == {"a": 0, "a_desc": 0, "s": 0, "w": 0, "t": 0, "c_desc": 0}


def test_rows_go_round_a_loop_and_through_both_branches_of_an_if() -> None:
    loop = (
        f'%one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32\n'
        f'%l = "scf.for"(%zero, %n, %one, %s) ({{\n^bb0(%k: i32, %c: {F32}):\n'
        f'%i = "scf.if"(%flag) ({{\n{unary("math.exp2", "c", F32, "y", F32)}\n"scf.yield"(%y) : ({F32}) -> ()\n}}, {{\n'
        f'"scf.yield"(%zeros) : ({F32}) -> ()\n}}) : (i1) -> {F32}\n'
        f'"scf.yield"(%i) : ({F32}) -> ()\n}}) : (i32, i32, i32, {F32}) -> {F32}'
    )
    info = found(kernel(loop, store("l")))
    assert {value.hint: dim for value, dim in info.dims.items()} == dict.fromkeys(
        ("a", "a_desc", "s", "l", "c", "i", "y", "c_desc"), 0
    )
    assert ("scf.yield", 0) in {(use.name, index) for use, index in info.uses}


def test_rows_go_round_a_while_loop() -> None:
    loop = (
        f'%l = "scf.while"(%s) ({{\n^bb0(%c: {F32}):\n"scf.condition"(%flag, %c) : (i1, {F32}) -> ()\n}}, {{\n'
        f'^bb0(%w: {F32}):\n{unary("math.exp2", "w", F32, "y", F32)}\n"scf.yield"(%y) : ({F32}) -> ()\n'
        f"}}) : ({F32}) -> {F32}"
    )
    assert dims(kernel(loop, store("l"))) == dict.fromkeys(("a", "a_desc", "s", "l", "c", "w", "y", "c_desc"), 0)


def test_a_descriptor_is_followed_through_a_loop() -> None:
    box = f"!tt.tensordesc<{F32}>"
    loop = (
        f'%one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32\n'
        f'%l = "scf.for"(%zero, %n, %one, %c_desc) ({{\n^bb0(%k: i32, %c: {box}):\n'
        f'"scf.yield"(%c) : ({box}) -> ()\n}}) : (i32, i32, i32, {box}) -> {box}'
    )
    assert dims(kernel(loop, store(desc="l"))) == {"a": 0, "a_desc": 0, "s": 0, "c_desc": 0, "c": 0, "l": 0}


# --- what is in the way ---

REFUSALS = {
    "reduction": (fold("tt.reduce", "s", F32, "m", ROWS, 0), "a reduction runs along the rows"),
    "scan": (fold("tt.scan", "s", F32, "m", F32, 0), "a scan runs along the rows"),
    "gather": (
        constant("i", "dense<3>", "tensor<64x128xi32>")
        + "\n"
        + op("tt.gather", "%s, %i", f"{F32}, tensor<64x128xi32>", "%g", "tensor<64x128xf32>",
             properties="axis = 0 : i32", line=7),
        "a gather reads anywhere along the rows",
    ),
    "sort": (unary("tt.reshape", "s", F32, "t", "tensor<64x2x128xf32>", line=7), "a reshape of 128x128 to 64x2x128"),
    "reorder": (
        unary("tt.reshape", "s", F32, "t", "tensor<128x128x1xf32>", "allow_reorder", line=7),
        "a reshape of 128x128 to 128x128x1 mixes",
    ),
    "concatenation": (
        op("tt.cat", "%s, %s", f"{F32}, {F32}", "%t", "tensor<256x128xf32>", line=7),
        "nothing is known of what tl.cat does with the rows",
    ),
    "unknown": (op("my.twist", "%s", F32, "%t", F32, line=7), "my.twist has unknown effects"),
    "transposed contraction": (
        "\n".join((
            unary("arith.truncf", "s", F32, "p", "tensor<128x128xf16>"),
            unary("tt.trans", "p", "tensor<128x128xf16>", "q", "tensor<128x128xf16>", "order = array<i32: 1, 0>"),
            dot("t", "q", "p", "zeros", 128, 128, 128, 7),
        )),
        "a dot sums over the rows",
    ),
    "atomic": (
        op("tt.splat", "%out", "!tt.ptr<f32>", "%at", POINTERS)
        + "\n"
        + op("tt.atomic_rmw", "%at, %s", f"{POINTERS}, {F32}", "%old", F32,
             properties="atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 1 : i32", line=7),
        "an atomic",
    ),
    "scalar store": (
        constant("f", "0.000000e+00 : f32", "f32")
        + "\n"
        + op("tt.store", "%out, %f", "!tt.ptr<f32>, f32", properties=PLAIN, line=7),
        "a store does not have the rows",
    ),
    "whole store": (
        "\n".join((
            unary("arith.extf", "b", "tensor<64x128xf16>", "w", "tensor<64x128xf32>"),
            op("tt.splat", "%out", "!tt.ptr<f32>", "%at", "tensor<64x128x!tt.ptr<f32>>"),
            op("tt.store", "%at, %w", "tensor<64x128x!tt.ptr<f32>>, tensor<64x128xf32>", properties=PLAIN, line=7),
        )),
        "a store does not have the rows",
    ),
    "print": (op("tt.print", "%s", F32, properties='hex = false, isSigned = array<i32: 1>, prefix = "s"', line=7),
              "tl.device_print would happen once in each group"),
    "barrier": (op("gpu.barrier", "", "", line=7), "tl.debug_barrier would happen once in each group"),
    "impure assembly": (
        op("tt.elementwise_inline_asm", "%n", "i32", "%t", "i32",
           properties='asm_string = "x", constraints = "=r,r", packed_element = 1 : i32, pure = false', line=7),
        "tl.inline_asm_elementwise has unknown effects, which would happen once in each group",
    ),
    "load of what is stored": (
        load("x", "c_desc", "128x128xf32", "%zero, %zero", 7)
        + "\n"
        + binary("arith.addf", "s", "x", "t", F32),
        "a group may load what another one has already overwritten",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_mixes_the_rows_is_declined_with_its_line(name: str) -> None:
    lines, reason = REFUSALS[name]
    remark = refused(kernel(lines))
    assert reason in remark.reason
    assert remark.location is not None and remark.location.line == 7


def test_a_tile_that_meets_its_own_transpose_is_declined() -> None:
    transposed = unary("tt.trans", "s", F32, "q", F32, "order = array<i32: 1, 0>")
    remark = refused(kernel(f"{transposed}\n{binary('arith.addf', 's', 'q', 't', F32)}"))
    assert "both dimensions of a tile are tied to the rows" in remark.reason


def test_two_stores_of_different_rows_of_one_tensor_are_declined() -> None:
    remark = refused(kernel(store(at="%n, %zero", line=8)))
    assert "a store may overwrite what another one wrote" in remark.reason
    assert remark.location is not None and remark.location.line == 9


def test_two_stores_of_the_same_rows_of_one_tensor_keep_their_order_in_each_group() -> None:
    assert found(kernel(store(at="%row, %n"))).part == 64


def test_stores_in_two_branches_of_an_if_never_meet() -> None:
    branches = f'"scf.if"(%flag) ({{\n{store()}\n"scf.yield"() : () -> ()\n}}, {{\n'
    branches += f'{store(at="%n, %zero")}\n"scf.yield"() : () -> ()\n}}) : (i1) -> ()'
    assert found(kernel(branches, "")).part == 64
    assert "overwrite" in refused(kernel(branches)).reason


def test_a_tile_may_be_loaded_and_stored_again_at_the_same_rows() -> None:
    again = f"{load('x', 'c_desc', '128x128xf32', '%row, %zero', 7)}\n{binary('arith.addf', 's', 'x', 't', F32)}"
    assert found(kernel(again, store("t"))).part == 64


AT = op("tt.splat", "%out", "!tt.ptr<f32>", "%at", POINTERS)
TRANSPOSE = "order = array<i32: 1, 0>"


def put(value: str, line: int = 0) -> str:
    return op("tt.store", f"%at, %{value}", f"{POINTERS}, {F32}", properties=PLAIN, line=line)


def test_a_tile_that_is_stored_at_its_own_pointers_is_shared_out_but_its_transpose_is_not() -> None:
    read = op("tt.load", "%at", POINTERS, "%x", F32, properties=LOAD)
    again = f"{AT}\n{read}\n{binary('arith.addf', 's', 'x', 't', F32)}"
    assert found(kernel(f"{again}\n{put('t')}")).part == 64
    transposed = unary("tt.trans", "t", F32, "q", F32, TRANSPOSE)
    assert "already overwritten" in refused(kernel(f"{again}\n{transposed}\n{put('q')}")).reason


def test_two_stores_at_the_same_pointers_keep_their_order_unless_one_is_of_the_transpose() -> None:
    exponent, transposed = unary("math.exp2", "s", F32, "t", F32), unary("tt.trans", "s", F32, "q", F32, TRANSPOSE)
    assert found(kernel(f"{AT}\n{exponent}\n{put('s')}\n{put('t')}")).part == 64
    remark = refused(kernel(f"{AT}\n{transposed}\n{put('s')}\n{put('q', 7)}"))
    assert "a store may overwrite" in remark.reason
    assert remark.location is not None and remark.location.line == 7


def test_a_tile_that_is_loaded_again_in_a_loop_is_declined() -> None:
    again = f"{load('x', 'c_desc', '128x128xf32', '%row, %zero', 7)}\n{binary('arith.addf', 'c', 'x', 't', F32)}"
    loop = (
        f'%one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32\n'
        f'%l = "scf.for"(%zero, %n, %one, %s) ({{\n^bb0(%k: i32, %c: {F32}):\n{again}\n'
        f'"scf.yield"(%t) : ({F32}) -> ()\n}}) : (i32, i32, i32, {F32}) -> {F32}'
    )
    assert "already overwritten" in refused(kernel(loop, store("l"))).reason


def test_a_descriptor_of_a_split_and_of_a_whole_tile_is_declined() -> None:
    remark = refused(kernel(load("x", "a_desc", "128x64xf16", "%zero, %zero", 7)))
    assert "a descriptor is used for a tile that is split and for one that is not" in remark.reason
    assert "two descriptors" in remark.cure
    assert remark.location is not None and remark.location.line == 7


def test_a_descriptor_that_is_split_and_used_by_an_unknown_operation_is_declined() -> None:
    types = "!tt.tensordesc<tensor<128x64xf16>>, tensor<32xi32>, i32"
    gather = op("tt.descriptor_gather", "%a_desc, %x, %zero", types, "%g", "tensor<32x64xf16>", line=7)
    text = kernel(f"{constant('x', 'dense<3>', 'tensor<32xi32>')}\n{gather}")
    assert "a descriptor's gather does with a descriptor" in refused(text).reason


def test_a_free_tile_that_cannot_be_had_in_parts_is_declined() -> None:
    middle = "\n".join(
        (
            op("tt.make_range", "", "", "%r", "tensor<16384xi32>", properties="end = 16384 : i32, start = 0 : i32"),
            unary("tt.reshape", "r", "tensor<16384xi32>", "w", "tensor<128x128xi32>", line=7),
            op("arith.sitofp", "%w", "tensor<128x128xi32>", "%f", F32),
            binary("arith.addf", "s", "f", "t", F32),
        )
    )
    remark = refused(kernel(middle, store("t")))
    assert "a reshape of 16384 to 128x128 mixes the rows" in remark.reason
    assert remark.location is not None and remark.location.line == 7


def test_a_constant_of_different_elements_is_declined() -> None:
    lines = f"{constant('c', 'dense<[[1.0, 2.0]]>', F32)}\n{binary('arith.addf', 's', 'c', 't', F32)}"
    assert "arith.constant" in refused(kernel(lines, store("t"))).reason


def test_dots_of_unrelated_rows_are_split_each_by_itself() -> None:
    middle = "\n".join(
        (
            load("v", "v_desc", "128x64xf16", "%zero, %zero"),
            dot("o", "v", "b", "zeros", 128, 64, 128, 7),
        )
    )
    text = kernel(middle).replace("%row: i32)", "%row: i32, %v_desc: !tt.tensordesc<tensor<128x64xf16>>)")
    split = dims(text)
    assert (split["s"], split["v"], split["o"]) == (0, 0, 0) and "b" not in split


@pytest.mark.parametrize(("rows", "groups"), [(128, 3), (256, 3), (16, 16)])
def test_rows_and_columns_that_do_not_divide_are_declined(rows: int, groups: int) -> None:
    remark = refused(kernel(rows=rows), groups)
    assert f"into {groups} groups" in remark.reason
    assert f"at least {groups * 64} rows" in remark.cure


def test_few_rows_whose_columns_are_summed_over_are_declined_for_both() -> None:
    narrow = "tensor<64x128xf32>"
    middle = fold("tt.reduce", "s", narrow, "m", "tensor<64xf32>", 1)
    remark = refused(kernel(middle, rows=64))
    assert "64 rows are too few for 2 groups of 64" in remark.reason
    assert "a reduction runs along the columns" in remark.reason
    assert remark.cure == "use a tile of at least 128 rows"


def test_a_kernel_without_a_dot_is_declined() -> None:
    text = f'"builtin.module"() ({{\n{op("tt.return", "", "")}\n}}) : () -> ()'
    assert "no dot" in refused(text).reason


def test_a_kernel_of_several_blocks_is_declined() -> None:
    jump = f'"cf.br"()[^bb1] : () -> ()\n^bb1:\n{op("tt.return", "", "")}\n'
    text = kernel().replace(op("tt.return", "", ""), jump)
    assert "jumps between blocks" in refused(text).reason


def test_a_scaled_dot_is_split_as_a_dot() -> None:
    assert dims(kernel().replace('"tt.dot"', '"tt.dot_scaled"')) == dims(kernel())
