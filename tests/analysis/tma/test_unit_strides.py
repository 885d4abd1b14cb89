"""`find_unit_strides`: arguments that tiles need to be 1."""

from __future__ import annotations

from tawa.analysis.tma.unit_strides import find_unit_strides
from tawa.ir import Module, Value, clone_op, print_module
from tests.analysis.tile_programs import TileProgram

ALL = frozenset({"sm", "sk", "sc"})


def product(divisible: tuple[str, ...] = ("a", "b", "c", "sm"), in_loop: bool = True) -> Module:
    """A · B, the tile of A with a stride along either dimension, that of C with one along its columns."""
    kinds = {
        "a": "!tt.ptr<f16>",
        "b": "!tt.ptr<f16>",
        "c": "!tt.ptr<f32>",
        **dict.fromkeys(("sm", "sk", "sc", "k"), "i32"),
    }
    p = TileProgram(divisible, **kinds)

    def tile(pointer: str, row: Value, column: Value | None) -> Value:
        rows = p.mul(p.expand(p.range(32), 1), p.splat(row, 32, 1))
        columns = p.expand(p.range(32), 0)
        if column is not None:
            columns = p.mul(columns, p.splat(column, 1, 32))
        at = p.add(p.broadcast(rows, 32, 32), p.broadcast(columns, 32, 32))
        return p.add(p.splat(p.args[pointer], 32, 32), at)

    result = "tensor<32x32xf32>"
    zeros = p.op("arith.constant", [], result, value=f"dense<0.000000e+00> : {result}")
    a, b = tile("a", p.args["sm"], p.args["sk"]), tile("b", p.number(32), None)

    def body(args: list[Value]) -> list[Value]:
        return [
            p.op(
                "tt.dot",
                [p.load(a), p.load(b), args[1]],
                result,
                inputPrecision="0 : i32",
                maxNumImpreciseAcc="0 : i32",
            )
        ]

    total = p.loop((p.number(0), p.args["k"], p.number(1)), [zeros], body).results[0] if in_loop else zeros
    p.store(tile("c", p.number(32), p.args["sc"]), total)
    return p.finish()


def found(module: Module, may_be_one: frozenset[str] = ALL) -> list[tuple[int, str]]:
    return [(it.index, it.name) for it in find_unit_strides(module, may_be_one)]


def test_a_stride_that_a_load_needs_brings_that_of_the_store() -> None:
    assert found(product()) == [(4, "sk"), (5, "sc")]


def test_of_several_the_last_dimensions_is_one() -> None:
    assert found(product(divisible=("a", "b", "c")))[0] == (4, "sk")


def test_what_two_divides_is_not_one() -> None:
    assert found(product(divisible=("a", "b", "c", "sk")))[0] == (3, "sm")


def test_a_parameter_whose_value_is_told_is_left() -> None:
    assert found(product(), frozenset({"sc"})) == [] == found(product(), frozenset())


def test_without_a_load_no_store_needs_one() -> None:
    assert found(product(in_loop=False)) == []


def test_several_functions_are_left() -> None:
    module = product()
    module.body.append(clone_op(module.body.ops[0], {})).properties["sym_name"] = '"other"'
    assert found(module) == []


def test_nothing_is_changed() -> None:
    module = product()
    before = print_module(module)
    assert found(module)
    assert print_module(module) == before
