"""The backward slice of the ring operations."""

from __future__ import annotations

from tawa.ir import parse_module
from tawa.verify.skeleton.sources import Sources, origin_of
from tests.verify.barriers.test_check import made, ops


def sources(name: str) -> Sources:
    module = parse_module(made(name)[0])
    return Sources(next(op for op in module.body.ops if op.name == "tt.func"))


def test_the_slice_has_the_bounds_of_loops_and_no_tiles() -> None:
    found = sources("tile")
    entry = found.function.regions[0].block
    assert {arg.hint for arg in entry.args if arg in found.needed} == {"n"}
    assert not any(value.type.startswith("tensor<") for value in found.needed)


def test_a_count_carried_through_loops_originates_from_its_ring() -> None:
    module = parse_module(made("persistent")[0])
    for name in ("aref.put", "aref.get", "aref.consumed"):
        for op in ops(module, name):
            assert origin_of(op.operands[1]) is op.operands[0]
