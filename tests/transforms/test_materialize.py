"""`materialize`: a polynomial becomes operations, each part as far out as its atoms are known."""

from __future__ import annotations

import pytest

from tawa.dialects.scf import ForOp
from tawa.ir import Builder, Operation, Value
from tawa.symbolic.affine import Affine
from tawa.symbolic.polynomial import Poly
from tawa.transforms.materialize import Materializer, cast, last_definition
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check


def looped() -> tuple[TileProgram, Value, Operation]:
    """A loop over 0, 64, …; its variable; and an operation inside."""
    p = TileProgram((), n="i32", s="i32", far="i64")
    inside: list[Operation] = []

    def body(args: list[Value]) -> list[Value]:
        args[0].hint = "k"
        inside.append(p.effect("tt.assert", [], message='"here"'))
        return []

    loop = p.loop((p.number(0), p.args["n"], p.number(64)), [], body)
    p.finish()
    return p, ForOp(loop).induction, inside[0]


def test_what_a_loop_does_not_change_is_computed_in_front_of_it() -> None:
    p, variable, user = looped()
    affine = Affine()
    poly = affine.poly(p.args["s"]) * Poly.of([((), 3)]) + affine.poly(variable)
    Materializer(affine.atoms).number_for(user, poly)
    check(
        brief(p.module),
        """
        CHECK:      [[S:%\\w+]] = "arith.muli"(%s_0, {{.*}})
        CHECK:      "scf.for"
        CHECK:      "arith.addi"([[S]], {{.*}})
        CHECK:      "tt.assert"
        """,
    )


def test_the_constant_of_a_sum_is_made_in_front_of_the_loop() -> None:
    _p, variable, user = looped()
    affine = Affine()
    total = Materializer(affine.atoms).number_for(user, affine.poly(variable) + Poly.of([((), 5)]))
    assert total.defining_op is not None and user.parent is not None
    five = next(it.defining_op for it in total.defining_op.operands if it is not variable)
    assert five is not None and five.properties["value"] == "5 : i32"
    assert total.defining_op.parent is user.parent is not five.parent


@pytest.mark.parametrize("number", [0, -7])
def test_a_constant_polynomial_is_one_constant(number: int) -> None:
    p, _, user = looped()
    before = len(list(p.module.walk()))
    value = Materializer(Affine().atoms).number_for(user, Poly.of([((), number)]))
    assert value.defining_op is not None
    assert value.defining_op.properties["value"] == f"{number} : i32"
    assert len(list(p.module.walk())) == before + 1


@pytest.mark.parametrize(
    ("name", "type", "made"),
    [("s", "i64", "arith.extsi"), ("far", "i32", "arith.trunci"), ("s", "index", "arith.index_cast")],
)
def test_a_number_changes_its_width_with_its_sign(name: str, type: str, made: str) -> None:
    p, _, user = looped()
    value = cast(Builder.before(user), p.args[name], type)
    assert value.type == type and value.defining_op is not None and value.defining_op.name == made
    assert cast(Builder.before(user), value, type) is value


def test_of_values_the_last_that_a_block_makes_is_found_and_arguments_are_made_by_none() -> None:
    p = TileProgram((), n="i32")
    one, two = p.number(1), p.number(2)
    p.finish()
    assert last_definition([two, one, p.args["n"]], p.function.body.ops) is two.defining_op
    assert last_definition([p.args["n"]], p.function.body.ops) is None
