"""A chain of three partitions: what goes wrong between a producer, a converter and a consumer is refuted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

pytest.importorskip("triton")

from tawa.ir import Builder, Module, Operation, parse_module
from tawa.ir.attributes import int_attr, read_int
from tawa.plan import PlanOptions, RingPlan
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Proved, Refuted, Verdict
from tests.cases.gemm.transposed import SMALL
from tests.cases.programs.ttgir import ops_named
from tests.sim.problems import ttgir_of
from tests.support.pipeline import specialise
from tests.support.verdicts import passes
from tests.verify.mutations_oracle import BY_CONVERTER, Level, converter


@functools.cache
def text(level: Level) -> str:
    return converter(level).text


def deeper() -> str:
    """The barrier level with more slots for A than for B."""
    plan = replace(BY_CONVERTER, rings=tuple(RingPlan(name, depth=depth) for name, depth in DEEPER.items()))
    options = PlanOptions(enable_warp_specialization=True, mma_depth=1)
    return specialise(ttgir_of(SMALL), options, Target(SMALL.num_warps, SMALL.num_stages), plan).barrier


DEEPER = {"ring0": 4, "ring1": 2, "ring1_transposed": 2}


def part(module: Module, role: str) -> list[Operation]:
    """The operations of a partition, in order."""
    group = next(it for it in ops_named(module, "warp.group") if it.properties["role"] == f'"{role}"')
    return list(group.walk())


def inside(module: Module) -> list[Operation]:
    """The operations of the converter at the barrier level: the first partition beside the consumer."""
    return list(ops_named(module, "ttg.warp_specialize.partitions")[0].regions[0].block.parent_op.regions[0].block.ops)  # type: ignore[union-attr]


def nested(module: Module, name: str) -> list[Operation]:
    return [op for outer in inside(module) for op in outer.walk() if op.name == name]


def broken(level: Level, change: Callable[[Module], None]) -> Verdict:
    module = parse_module(text(level))
    change(module)
    return check_credits(module) if level == "aref" else check_barriers(module)


def kind(verdict: Verdict) -> str:
    assert isinstance(verdict, Refuted), verdict
    return verdict.witness.kind


def test_the_chain_is_proved_at_both_levels() -> None:
    assert isinstance(check_credits(parse_module(text("aref"))), Proved)
    assert passes(check_barriers(parse_module(text("barrier"))))
    assert passes(check_refinement(parse_module(text("aref")), parse_module(text("barrier"))))


# -- credits -----------------------------------------------------------------------------------------------------------


def test_a_converter_that_does_not_release_its_slot_stops_the_producer() -> None:
    def change(module: Module) -> None:
        next(op for op in part(module, "converter") if op.name == "aref.consumed").erase()

    assert kind(broken("aref", change)) in ("deadlock", "leftover credit")  # with few trips nobody waits


def test_a_converter_that_releases_its_slot_before_it_has_read_it_is_refuted() -> None:
    def change(module: Module) -> None:
        ops = part(module, "converter")
        release, put = (next(op for op in ops if op.name == f"aref.{name}") for name in ("consumed", "put"))
        Builder.before(put).insert(release.detach())

    assert kind(broken("aref", change)) == "write before release"


def test_a_converter_that_fills_nothing_leaves_the_consumer_waiting() -> None:
    def change(module: Module) -> None:
        next(op for op in part(module, "converter") if op.name == "aref.put").erase()

    assert kind(broken("aref", change)) == "deadlock"


def test_a_converter_that_does_not_wait_for_an_empty_slot_is_refuted() -> None:
    def change(module: Module) -> None:
        put = next(op for op in part(module, "converter") if op.name == "aref.put")
        put.properties["fresh"] = "true"

    assert kind(broken("aref", change)) == "write before release"


# -- barriers ----------------------------------------------------------------------------------------------------------


def test_without_its_fence_the_wgmma_reads_what_may_not_be_visible() -> None:
    def change(module: Module) -> None:
        nested(module, "ttng.fence_async_shared")[0].erase()

    assert kind(broken("barrier", change)) == "missing fence"


def arrives_before(module: Module, arrival: int, last: str) -> None:
    """Moves an arrival of the converter, with the view of its barrier, before the last operation of a kind."""
    moved = nested(module, "ttng.arrive_barrier")[arrival]
    view = moved.operands[0].defining_op
    assert view is not None
    place = Builder.before(nested(module, last)[-1])
    place.insert(view.detach())
    place.insert(moved.detach())


def test_an_arrival_before_the_last_store_is_refuted() -> None:
    def change(module: Module) -> None:
        arrives_before(module, 0, "ttg.local_store")

    assert isinstance(broken("barrier", change), Refuted)


def test_a_release_before_the_last_load_is_refuted_where_no_other_ring_orders_it() -> None:
    """With as many slots as the ring of A, the producer waits for the release of A, which comes after the last load."""

    def change(module: Module) -> None:
        arrives_before(module, 1, "ttg.local_load")

    module = parse_module(deeper())
    assert passes(check_barriers(module))
    change(module)
    assert isinstance(check_barriers(module), Refuted)
    assert passes(broken("barrier", change))


@pytest.mark.parametrize("more", [1, 2])
def test_barriers_with_other_counts_of_arrivals_are_refuted(more: int) -> None:
    found = len(ops_named(parse_module(text("barrier")), "ttng.init_barrier"))

    def change(number: int) -> Callable[[Module], None]:
        def apply(module: Module) -> None:
            op = ops_named(module, "ttng.init_barrier")[number]
            op.properties["count"] = int_attr(read_int(op.properties["count"]) + more)

        return apply

    assert found == 12  # three rings of two slots, each full and empty
    assert all(isinstance(broken("barrier", change(number)), Refuted) for number in range(found))


def test_a_store_into_a_part_of_the_slot_that_is_read_elsewhere_is_one_access_only() -> None:
    """Stores into different pieces of a slot do not conflict; a piece stored twice in a phase does not either."""
    stores = nested(parse_module(text("barrier")), "ttg.local_store")
    offsets = [op.operands[1].defining_op.properties["offsets"] for op in stores if op.operands[1].defining_op]
    assert len(set(offsets)) == len(stores) == 4
