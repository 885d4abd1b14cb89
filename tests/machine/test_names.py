"""The GPUs by name, and the one that a program was made for or needs."""

from __future__ import annotations

import pytest

from tawa.errors import TargetError
from tawa.ir import Module, parse_module
from tawa.machine.machines import MACHINES, SM_90, SM_100, Machine, machine_for, machine_named, machine_of_module
from tawa.machine.needed import needed_target


def program(op: str, attributes: str = "") -> Module:
    """A module with one operation."""
    return parse_module(f'"builtin.module"() ({{\n  {op}\n}}) {{{attributes}}} : () -> ()\n')


@pytest.mark.parametrize("target", MACHINES, ids=lambda it: it.name)
@pytest.mark.parametrize("spelling", ["sm_{}", "{}", "sm_{}a", "SM_{}", "sm{}"])
def test_a_target_has_its_names(target: Machine, spelling: str) -> None:
    assert machine_named(spelling.format(target.capability)) is target


@pytest.mark.parametrize("name", ["sm_103", "sm_120", "sm_110", "sm_80", "sm_103a", "120"])
def test_other_gpus_are_declined_by_name(name: str) -> None:
    with pytest.raises(TargetError, match=f"{name}: Tawa knows sm_90 and sm_100") as refused:
        machine_named(name)
    assert refused.value.cure == "name one of sm_90 (H100, H200), sm_100 (B200, GB200)"


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(TargetError, match="no GPU of this name is known") as refused:
        machine_named("sm_10")
    assert refused.value.cure == "did you mean 'sm_100'?"
    with pytest.raises(TargetError) as refused:
        machine_named("hopper")
    assert refused.value.cure.startswith("name one of sm_90")


def test_a_capability_that_is_not_known_has_no_target() -> None:
    assert [machine_for(it) for it in (90, 100, 80, None)] == [SM_90, SM_100, None, None]


@pytest.mark.parametrize(
    "attributes, target",
    [
        ('ttg.target = "cuda:90"', SM_90),
        ('ttg.target = "cuda:100"', SM_100),
        ('ttg.target = "cuda:80"', None),
        ('ttg.target = "hip:gfx942"', None),
        ("ttg.target = 90 : i32", None),
        ("", None),
    ],
)
def test_the_target_of_a_module_is_in_its_attributes(attributes: str, target: Machine | None) -> None:
    assert machine_of_module(program("", attributes)) is target


@pytest.mark.parametrize(
    "op, target",
    [
        ('%0 = "ttng.tmem_alloc"() : () -> !ttg.memdesc<1xf32, #t, #ttng.tensor_memory, mutable>', SM_100),
        ('"ttng.clc_try_cancel_sync"() : () -> ()', SM_100),
        ('"ttng.warp_group_dot_wait"() <{pendings = 0 : i32}> : () -> ()', SM_90),
        ('"ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()', None),
    ],
)
def test_operations_tell_the_target_that_a_program_needs(op: str, target: Machine | None) -> None:
    found = needed_target(program(op))
    assert (found and found[0]) is target
    assert found is None or found[1].name in op
