"""The Plan of a kernel in the kernel's own words, and what its tasks read and write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.bridge.triton.signature import as_signature
from tawa.bridge.triton.structured import read_kernel
from tawa.mapping.of_plan import mapping_of
from tawa.mapping.program import program_of
from tawa.mapping.resolve import resolve
from tawa.plan import LoopPlan, OperandPlan, Plan
from tests.mapping import kernels
from tests.support.fronts import front

pytestmark = pytest.mark.usefixtures("without_ptx")

TWO_LOOPS = "q=tensordesc<fp16[64,64]>, k=tensordesc<fp16[64,64]>, c=*fp32, K=i32:16"
SIZES: dict[str, Any] = {"num_warps": 8, "only_if_faster": False}


@triton.jit
def two_loops(q, k, c, K):
    qs = q.load([0, 0])
    acc = tl.zeros((64, 64), tl.float32)
    for n in range(0, K, 64):
        acc = tl.dot(qs, k.load([0, n]), acc)
    for m in range(0, K, 64):
        acc = tl.dot(qs, k.load([64, m]), acc)
    tl.store(c + tl.arange(0, 64), tl.sum(acc, 1))


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


def test_a_tile_that_is_converted_inside_of_a_dot_is_carried_by_the_name_of_the_variable(found: Any) -> None:
    text = '[loops.n]\nstages = 2\ncarry = { p = "float16" }\n'
    made = tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=text)
    assert "p = convert_layout" in {it.label for it in made.plan.loops[0].schedule.carried}
    assert dict(tawa.Mapping.parse(made.mapping).loops["n"].carry or ())["p"] == "float16"
    with pytest.raises(tawa.PlanError, match=r'does not carry p as float32 .* cure: p = "float16"'):
        wide = text.replace("float16", "float32")
        tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=wide)


def test_an_operand_has_one_memory_only_where_all_loops_agree() -> None:
    """Two loops read q, and one of them keeps it: no word of q says that."""
    made = front(two_loops, as_signature(TWO_LOOPS, {}, two_loops.arg_names), num_warps=4, num_stages=3)
    program = program_of(read_kernel(made.ttir, made.context))
    first, second = (it.number for it in program.loops)
    apart = Plan(operands=(OperandPlan("q"),), loops=(LoopPlan(first, kept=(0,)), LoopPlan(second, kept=())))
    mapping = mapping_of(apart, program)
    assert mapping.operands["q"].memory is None
    assert [it.kept for it in mapping.loops.values()] == [(0,), ()]
    both = replace(apart, loops=(LoopPlan(first, kept=(0,)), LoopPlan(second, kept=(0,))))
    assert mapping_of(both, program).operands["q"].memory == "registers"
    alone = replace(both, operands=())
    assert mapping_of(alone, program).operands["q"].memory == "registers"
    for plan in (apart, both, alone):
        assert [it.kept for it in resolve(mapping_of(plan, program), program).loops] == [it.kept for it in plan.loops]


def test_each_decision_of_a_mapping_names_its_words_and_their_line(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[kernel]\nslot_views = "own"\n[groups]\ncount = 2\nsplit = "rows of q"\n[operands.k]\npath = "tma"\n'
        'ring = 3\n[operands."*"]\nhoisted = false\n[operands.q]\nmemory = "shared"\n[loops.n]\nstages = 2\n'
        "[stores.o]\nstaged = true\n[partitions.consumer]\nregisters = 232\n"
    )
    made = tawa.explain(kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping=file)
    ring = next(it.ring for it in made.plan.operands if it.argument == "k")
    told = {it.field: it.reason for it in made.decisions if it.by == "mapping"}
    assert told == {
        "slot_views": "[kernel] slot_views (a.toml:2)",
        "groups": "[groups] count (a.toml:4)",
        "split": "[groups] split (a.toml:5)",
        "operands.k, loop 0": '[operands.k] path, ring (a.toml:7); [operands."*"] hoisted (a.toml:10)',
        "operands.v, loop 0": '[operands."*"] hoisted (a.toml:10)',
        f"rings.{ring}": "[operands.k] ring (a.toml:8)",
        "loops.0": "[loops.n] stages (a.toml:14)",
        "loops.0.kept": "[operands.q] memory (a.toml:12)",
        "stores.o": "[stores.o] staged (a.toml:16)",
        "partitions.consumer0": "[partitions.consumer] registers (a.toml:18)",
        "partitions.consumer1": "[partitions.consumer] registers (a.toml:18)",
    }
    assert not [it for it in made.decisions if it.by == "user" or "plan=" in it.reason]
    in_python = tawa.explain(
        kernels.attend, kernels.ATTEND, kernels.BLOCKS, num_warps=8, mapping={"groups": {"count": 1}}
    )
    assert next(it.reason for it in in_python.decisions if it.field == "groups") == "[groups] count"


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
