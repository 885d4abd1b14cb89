"""Constants that the condition of a release compares with the iteration number, at the aref level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.ir import Builder, Module, Value, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.effort import Effort
from tawa.verify.verdict import Checked, Refuted
from tests.support.pipeline import specialise
from tests.support.verdicts import passes
from tests.verify.barriers.test_check import ops

TILE = Path("tests/data/tile_64x64.triton3_6.mlir")
NE, SLT = 1, 2


class Make:
    """Builds a condition before an operation; `k`: the induction variable of the enclosing loop."""

    def __init__(self, builder: Builder, k: Value) -> None:
        self.builder = builder
        self.k = k

    def op(self, name: str, left: Value, right: int | Value) -> Value:
        right = self.number(right, left.type)
        return self.builder.create(f"arith.{name}", (left, right), (left.type,)).result

    def number(self, number: int | Value, type: str = "i32") -> Value:
        if isinstance(number, Value):
            return number
        text = str(bool(number)).lower() if type == "i1" else f"{number} : {type}"
        return self.builder.create("arith.constant", (), (type,), properties={"value": text}).result

    def compare(self, predicate: int, left: Value, right: int | Value) -> Value:
        properties = {"predicate": f"{predicate} : i64"}
        operands = (left, self.number(right, left.type))
        return self.builder.create("arith.cmpi", operands, ("i1",), properties=properties).result

    def pid(self) -> Value:
        return self.builder.create("tt.get_program_id", (), ("i32",), properties={"axis": "0 : i32"}).result


Condition = Callable[[Make], Value]
FAR: dict[str, Condition] = {
    "k != 1280": lambda m: m.compare(NE, m.k, 1280),
    "k < 1280": lambda m: m.compare(SLT, m.k, 1280),
    "k / 64 != 20": lambda m: m.compare(NE, m.op("divsi", m.k, 64), 20),
    "k · 64 + 3 != 81923": lambda m: m.compare(NE, m.op("addi", m.op("muli", m.k, 64), 3), 81923),
    "min(k, 1280) != 1280": lambda m: m.compare(NE, m.op("minsi", m.k, 1280), 1280),
    "k != 8192, in trip 129": lambda m: m.compare(NE, m.k, 8192),
    "not (pid == 5 and k == 1280)": lambda m: m.op(
        "xori", m.op("andi", m.compare(NE, m.pid(), 6), m.compare(NE, m.k, 1280)), 0
    ),
}
UNSOLVED: dict[str, Condition] = {
    "pid + k != 1285": lambda m: m.compare(NE, m.op("addi", m.pid(), m.k), 1285),
    "(k · 7) % 1001 != 952": lambda m: m.compare(NE, m.op("remsi", m.op("muli", m.k, 7), 1001), 952),
}
"""No number is computed by going back: neither from two unknowns, nor through a remainder."""
NEAR: dict[str, Condition] = {
    "k != 64": lambda m: m.compare(NE, m.k, 64),
    "k < 128": lambda m: m.compare(SLT, m.k, 128),
    "k / 64 != 1": lambda m: m.compare(NE, m.op("divsi", m.k, 64), 1),
}


def released_if(condition: Condition) -> Module:
    """A GEMM whose consumer releases its slots only if the condition holds."""
    outcome = specialise(TILE.read_text(), PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    module = parse_module(outcome.aref)
    release = next(
        op for op in ops(module, "aref.consumed") if any(outer.name == "scf.for" for outer in op.ancestors())
    )
    loop = next(outer for outer in release.ancestors() if outer.name == "scf.for")
    make = Make(Builder.before(release), loop.regions[0].block.args[0])
    holds = condition(make)
    if len(release.operands) > 2:
        holds = make.op("andi", release.operands[2], holds)
    operands = (*release.operands[:2], holds)
    make.builder.create("aref.consumed", operands, (), properties=dict(release.properties))
    release.erase()
    return module


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("name", FAR | NEAR)
def test_a_release_that_fails_next_to_a_constant_is_refuted(name: str, effort: Effort) -> None:
    verdict = check_credits(released_if((FAR | NEAR)[name]), effort=effort)
    assert isinstance(verdict, Refuted), verdict


@pytest.mark.parametrize("effort", ["fast", "full"])
@pytest.mark.parametrize("name", UNSOLVED)
def test_a_release_that_fails_where_no_number_was_found_is_only_checked(name: str, effort: Effort) -> None:
    verdict = check_credits(released_if(UNSOLVED[name]), effort=effort)
    assert isinstance(verdict, Checked) and verdict.left, verdict


def test_a_release_whose_condition_always_holds_passes() -> None:
    verdict = check_credits(released_if(lambda m: m.compare(SLT, m.number(-1), m.k)))
    assert passes(verdict), verdict
