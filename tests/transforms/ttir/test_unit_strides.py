"""`unit_strides`: strides become 1, under a condition for each launch."""

from __future__ import annotations

from tawa.analysis.tma.promotions import find_promotions
from tawa.analysis.tma.unit_strides import find_unit_strides
from tawa.dialects import structure_rules
from tawa.dialects.tt import FuncOp
from tawa.ir import print_module, verify_structure
from tawa.symbolic.host.expr import Argument
from tawa.transforms.ttir.unit_strides import AssumeUnitStrides
from tests.analysis.tma.test_unit_strides import ALL, product


def test_a_stride_is_replaced_by_the_constant_one() -> None:
    module = product()
    args = FuncOp(module.body.ops[0]).body.args
    assert AssumeUnitStrides((Argument(4, "sk"),)).run(module).changed
    assert verify_structure(module, structure_rules()) == []
    assert [bool(args[at].uses) for at in (3, 4, 5)] == [True, False, True]


def test_each_launch_has_a_condition_per_stride() -> None:
    result = AssumeUnitStrides((Argument(4, "sk"), Argument(5, "sc"))).run(product())
    assert [str(it) for it in result.conditions] == ["sk == 1", "sc == 1"]


def test_no_stride_changes_nothing() -> None:
    module = product()
    before = print_module(module)
    result = AssumeUnitStrides(()).run(module)
    assert not result.changed and result.conditions == () and print_module(module) == before


def test_afterwards_the_tiles_are_boxes() -> None:
    module = product()
    assert find_promotions(module).loads[0].decision is None
    AssumeUnitStrides(find_unit_strides(module, ALL)).run(module)
    assert find_promotions(module).loads[0].decision is not None
