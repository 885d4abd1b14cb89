"""`version_loop`: a runtime check of strides selects between a loop and a copy that keeps its pointer loads."""

from __future__ import annotations

from tawa.analysis.tma.descriptor_places import Limit
from tawa.dialects import structure_rules
from tawa.dialects.parameters import STAYS
from tawa.dialects.tt import LoadOp
from tawa.ir import Value, print_module, verify_structure
from tawa.symbolic.affine import Affine
from tawa.transforms.materialize import Materializer
from tawa.transforms.ttir.version_loop import version_loop
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check


def asked() -> TileProgram:
    """A loop that loads a tile, versioned by two strides."""
    p = TileProgram((), a="!tt.ptr<f16>", s="i32", t="i32", n="i32")
    rows = p.broadcast(p.mul(p.expand(p.range(64), 1), p.splat(p.args["s"], 64, 1)), 64, 32)
    tile = p.add(p.splat(p.args["a"], 64, 32), p.add(rows, p.spread(p.range(32), 0, 64, 32)))

    def body(args: list[Value]) -> list[Value]:
        p.load(args[1])
        return [p.add(args[1], p.splat(p.number(32), 64, 32))]

    loop = p.loop((p.number(0), p.args["n"], p.number(1)), [tile], body)
    p.store(loop.results[0], p.zeros(loop.results[0]))
    p.finish()
    affine = Affine()
    limits = [Limit(affine.poly(p.args[name]), 1 << 39) for name in ("s", "t")]
    version_loop(loop, limits, Materializer(affine.atoms), lambda op: op.name == "tt.load")
    assert verify_structure(p.module, structure_rules()) == []
    return p


def test_the_loop_is_executed_if_all_limits_hold_and_else_its_copy() -> None:
    check(
        brief(asked().module),
        """
        CHECK: [[S:%\\w+]] = "arith.cmpi"({{.*}}) <{predicate = 6 : i64}>
        CHECK: [[T:%\\w+]] = "arith.cmpi"({{.*}}) <{predicate = 6 : i64}>
        CHECK: [[BOTH:%\\w+]] = "arith.andi"([[S]], [[T]])
        CHECK: [[CHOSEN:%\\w+]] = "scf.if"([[BOTH]]) ({
        CHECK: [[ONE:%\\w+]] = "scf.for"
        CHECK: "scf.yield"([[ONE]])
        CHECK: }, {
        CHECK: [[OTHER:%\\w+]] = "scf.for"
        CHECK: "scf.yield"([[OTHER]])
        CHECK: "tt.store"([[CHOSEN]],
        """,
    )


def test_only_the_loads_of_the_copy_stay() -> None:
    loads = [view for op in asked().module.walk() if (view := LoadOp.of(op))]
    assert [load.stays for load in loads] == [False, True]
    assert print_module(asked().module).count(STAYS) == 1
