"""Groups that exchange a tile, and the warp that stores: what goes wrong between them is refuted."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

pytest.importorskip("triton")

from tawa.dialects.aref import CreateOp, GetOp
from tawa.errors import PlanError
from tawa.ir import Builder, Module, Operation, parse_module
from tawa.plan import Plan, PlanOptions
from tawa.transforms.partition import exchange_parts
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Proved, Refuted, Verdict
from tests.cases.attention.cases import find
from tests.matrix.compiling import attempted
from tests.support.verdicts import passes

GROUPS = PlanOptions(num_consumer_groups=2, only_if_faster=False)
PLAIN = {"exchange": True, "stores": [{"argument": "dq_desc", "loop": 0, "store_warp": True}]}
BEHIND = {**PLAIN, "loops": [{"behind": True}]}
BY_THREADS: dict[str, object] = {"exchange": True, "loops": [{"behind": True}]}
"""Of a kernel whose threads add up by atomics what the late dots computed."""
SPECIMENS = [("added_fp16_d64_full", PLAIN), ("added_fp16_d64_full", BEHIND), ("from_registers_d128", BY_THREADS)]


@functools.cache
def text(level: str, specimen: int = 0) -> str:
    name, plan = SPECIMENS[specimen]
    return attempted(find(name), GROUPS, Plan.of(plan))[1].asm[level]


def broken(level: str, change: Callable[[Module], None]) -> Verdict:
    module = parse_module(text(level))
    change(module)
    return check_credits(module) if level == "aref" else check_barriers(module)


def group(module: Module, name: str) -> list[Operation]:
    return list(next(op for op in module.walk() if op.properties.get("partition") == f'"{name}"').walk())


def ring_of(op: Operation) -> str:
    create = CreateOp.of(op.operands[0].defining_op)
    return create.name if create else ""


@pytest.mark.parametrize("specimen", range(len(SPECIMENS)))
def test_groups_that_exchange_are_proved_at_both_levels(specimen: int) -> None:
    aref, barrier = (parse_module(text(level, specimen)) for level in ("aref", "barrier"))
    assert isinstance(check_credits(aref), Proved)
    assert passes(check_barriers(barrier))
    assert passes(check_refinement(aref, barrier))


@pytest.mark.parametrize(("name", "plan"), SPECIMENS)
def test_one_slot_less_is_refuted(name: str, plan: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_parts, "SLOTS", exchange_parts.SLOTS - 1)
    with pytest.raises(PlanError, match="barrier level of the kernel is refuted"):
        attempted(find(name), GROUPS, Plan.of(plan))


def test_groups_that_wait_for_each_other_before_they_store_are_refuted() -> None:
    def change(module: Module) -> None:
        for name in ("consumer0", "consumer1"):
            ops = group(module, name)
            put = next(op for op in ops if op.name == "aref.put" and ring_of(op).startswith("exchange"))
            gets = [op for op in ops if (it := GetOp.of(op)) and ring_of(it.op).startswith("exchange")]
            for get in gets:
                Builder.before(put).insert(get.detach())

    verdict = broken("aref", change)
    assert isinstance(verdict, Refuted) and verdict.witness.kind == "deadlock"


def test_every_wait_of_a_group_and_of_the_store_warp_is_needed() -> None:
    def without(place: int) -> tuple[str, Verdict]:
        module = parse_module(text("barrier"))
        wait = [op for op in module.walk() if op.name == "ttng.wait_barrier"][place]
        found = wait.operands[0].defining_op.operands[0]  # type: ignore[union-attr]
        wait.erase()
        return found.hint, check_barriers(module)

    count = sum(op.name == "ttng.wait_barrier" for op in parse_module(text("barrier")).walk())
    found = [without(place) for place in range(count)]
    assert [name for name, verdict in found if not isinstance(verdict, Refuted)] == ["ring1_empty"]  # ring0 implies it


def test_a_group_does_not_wait_for_what_it_stored_itself() -> None:
    ops = group(parse_module(text("aref")), "consumer1")
    gets = [(ring_of(op), get.own) for op in ops if (get := GetOp.of(op)) and ring_of(op).startswith("exchange")]
    assert gets == [("exchange0_0", False), ("exchange0_1", True)]


def test_a_store_warp_that_releases_a_slot_before_tma_has_read_it_is_refuted() -> None:
    def change(module: Module) -> None:
        partitions = next(op for op in module.walk() if op.name == "ttg.warp_specialize.partitions")
        waits = [op for op in partitions.walk() if op.name == "ttng.async_tma_store_wait"]
        inside = [op for op in waits if op.parent_op is not None and op.parent_op.name == "scf.for"]
        assert len(inside) == 2
        inside[-1].erase()

    assert isinstance(broken("barrier", change), Refuted)
