"""The Plan of a kernel in the kernel's own words, and what its tasks read and write."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
from tests.mapping import kernels

SIZES: dict[str, Any] = {"num_warps": 8, "only_if_faster": False}


@pytest.fixture(scope="module")
def found() -> Any:
    return tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, **SIZES)


def test_an_explanation_has_the_plan_in_words_with_lines_and_reasons(found: Any) -> None:
    mapping = tawa.Mapping.parse(found.mapping)
    assert (mapping.kernel.name, mapping.groups.count, mapping.groups.split) == ("attend", 2, "rows")
    assert mapping.operands["k"].path == "tma" and set(mapping.loops) == {"n"}
    assert "every sum keeps its order" in found.mapping and "# kernels.py:" in found.mapping
    assert found.keeps_order and found.to_dict()["keeps_order"]


def test_tasks_name_what_they_read_and_write(found: Any) -> None:
    tasks = {(it.partition, it.loop): it for it in found.tasks}
    assert tasks["producer", "n"].reads == ("k", "v") and len(tasks["producer", "n"].puts) == 2
    assert tasks["consumer0", "n"].gets == tasks["producer", "n"].puts
    assert tasks["consumer1", ""].writes == ("o",) and str(tasks["consumer1", ""]).endswith("reads q; writes o")
    assert f"# {tasks['producer', 'n']}" in found.mapping


def test_the_mapping_read_back_makes_the_same_plan_and_another_one_is_another(found: Any) -> None:
    again = tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=found.mapping)
    assert again.plan == found.plan and again.mode == "pinned"
    text = "[operands.k]\nring = 2\n[partitions.consumer]\nregisters = 232\n[loops.n]\nstages = 2\n"
    other = tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=text)
    ring = next(it.ring for it in other.plan.operands if it.argument == "k")
    assert other.plan.ring(ring).depth == 2 and other.plan.loops[0].schedule.stages == 2
    assert {it.registers for it in other.plan.partitions if it.role == "consumer"} == {232}


def test_a_mapping_under_tawa_jit_and_of_a_configuration() -> None:
    kernel = tawa.jit(kernels.attend, mapping="[groups]\ncount = 1\n")
    assert tawa.explain(kernel, kernels.ATTEND, kernels.BLOCKS, num_warps=8).plan.groups == 1
    tuned = tawa.Config(kernels.BLOCKS, num_warps=8, mapping={"groups": {"count": 1}})
    assert tuned.kwargs["mapping"] == "[groups]\ncount = 1\n"
    with pytest.raises(tawa.PlanError, match="mapping and plan say the same"):
        tawa.jit(kernels.attend, mapping="", plan={"groups": 1})


@pytest.mark.parametrize(
    "text, parts",
    [
        (
            "[loops.n]\nin_flight = 3\n[operands.k]\nring = 2",
            ["a ring of 2 slots", "loop n (", "ring = 4 or in_flight = 1"],
        ),
        ("[operands.k]\nring = 40", ["does not fit", "k, loop n (", "cure: ring = ", " of ring"]),
        ('[operands.k]\npath = "cp.async"', ["k, loop n (", "loaded by tma", 'cure: path = "tma" or "consumer"']),
        (
            '[loops.n]\nstages = 2\ncarry = { x = "float32" }',
            ["loop n (", "does not carry x as float32", "cure: of carry"],
        ),
        ("[loops.n]\nkept = [7]", ["dot 7 of loop n (", "cure: kept without 7"]),
        ("[partitions.producer]\nregisters = 25", ["25 registers", "multiple of 8 from 24 to 256"]),
        (
            "[partitions.consumer1]\nregisters = 64\n[groups]\ncount = 1",
            ["partition 'consumer1'", "producer, consumer"],
        ),
        ("[partitions.converter]\nregisters = 64", ["a converter, which the kernel does not have"]),
        ("[rings.ring9]\nslots = 2", ["rings ring9", "the kernel has ring0"]),
    ],
)
def test_what_breaks_a_dependence_names_it_with_the_line_and_the_nearest_choice(text: str, parts: list[str]) -> None:
    with pytest.raises(tawa.PlanError) as caught:
        tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=text)
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_a_mapping_can_ask_for_stock_tritons_kernel() -> None:
    text = "[kernel]\nspecialised = false"
    found = tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=text)
    assert not found.applied and found.mapping == "" and found.keeps_order is None
