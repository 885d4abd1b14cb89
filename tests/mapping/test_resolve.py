"""A mapping becomes a partial Plan; a name that the program does not have is an error with the nearest ones."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.mapping import Mapping
from tawa.mapping.program import Program, triton_type
from tawa.mapping.resolve import resolve, types_of
from tawa.plan import LoopPlan, OperandPlan, PartitionPlan, Plan, RingPlan
from tawa.plan.schedule import Wanted

WHOLE = """
[kernel]
persistent = true
order = "longest first"

[groups]
count = 2
split = "rows of q"

[operands.q]
memory = "registers"

[operands.k]
path = "tma"
ring = 2

[loops.n]
stages = 2
carry = { p = "float32" }

[partitions.producer]
warps = 1
registers = 24
"""


def test_a_mapping_says_what_a_partial_plan_says(attend: Program) -> None:
    assert resolve(Mapping.parse(WHOLE), attend) == Plan(
        form="persistent",
        tile_order="longest_first",
        groups=2,
        split="rows",
        partitions=(PartitionPlan("", "producer", 1, 24),),
        operands=(OperandPlan("k", 0, 0, "host_descriptor", depth=2),),
        loops=(LoopPlan(0, stages=2, kept=(0,), wanted=Wanted(2, (("p", "f32"),))),),
    )


def test_a_name_without_number_stands_for_all_and_one_with_a_number_has_priority(helped: Program) -> None:
    text = '[operands.a]\nring = 3\nhoisted = false\n[operands."a.1"]\nring = 2\n[loops.step]\nin_flight = 0\n'
    plan = resolve(Mapping.parse(text), helped)
    assert [(it.key, it.depth, it.hoisted) for it in plan.operands] == [
        (("a", 0, 0), 3, False),
        (("a", 1, 0), 2, False),
    ]
    assert [(it.loop, it.mma_depth) for it in plan.loops] == [(0, 0), (1, 0)]


def test_a_star_stands_for_the_rest(helped: Program) -> None:
    plan = resolve(Mapping.parse('[operands."*"]\nring = 3\n[loops."*"]\nin_flight = 0\n'), helped)
    assert plan.rings == (RingPlan(depth=3),) and plan.loops == (LoopPlan(mma_depth=0),)


def test_a_loop_may_be_named_by_its_line(helped: Program) -> None:
    line = helped.loops[1].lines[1]
    (loop,) = resolve(Mapping.parse(f'[loops."line {line}"]\nstages = 0\n'), helped).loops
    assert loop.loop == 1


@pytest.mark.parametrize(
    "text, parts",
    [
        (
            "[operands.kk]\nring = 2",
            ["operand 'kk'", "attend (kernels.py:", "cure: k (of q, k, v)", "k at kernels"],
        ),
        ('[operands."k.1"]\nring = 2', ["operand 'k.1'", "cure: k (of"]),
        ("[stores.q]\nstaged = true", ["store 'q'", "cure: o"]),
        ("[loops.m]\nstages = 1", ["loop 'm'", "n at kernels.py:", "cure: n"]),
        (
            '[loops."line 3"]\nstages = 1',
            ["no loop with a dot begins there", "line 2", "(n)", 'cure: [loops.n] or [loops."line 2'],
        ),
        ('[groups]\nsplit = "rows of k"', ["'k' is not the left operand of a dot", 'cure: "rows", or "rows of" q']),
        ('[groups]\nsplit = "columns of q"', ["'q' is not the right operand", '"columns of" one of k, v']),
        (
            '[operands.v]\nmemory = "registers"',
            ["not the left operand of a dot in a loop", "cure: memory of q, or leave it out"],
        ),
        ("[partitions.produce]\nwarps = 1", ["partition 'produce'", "cure: producer (of"]),
        ('[kernel]\nname = "other"', ["for the kernel other (line 2 of the mapping), not for attend"]),
        ('[kernel]\nsignature = "q=*fp16"', ["q of type *fp16", "has tensordesc<fp16[128,64]>", "cure:"]),
        ("[kernel]\nspecialised = false\n[groups]\ncount = 2", ["to which no other word applies", "cure:"]),
        ('[stores.o]\npath = "pointers"', ["it stores by TMA", 'cure: path = "tma"']),
        ('[loops.n]\nsteps = ["k = get"]', ["'k = get'", "STAGE: OPERATION"]),
        ('[loops.n]\nstages = 3\nsteps = ["0: k = get"]', ["its steps have 1", "cure: stages = 1"]),
        ('[kernel]\nunit_strides = ["M"]', ["argument 'M' (line 2", "cure: one of q, k"]),
    ],
)
def test_what_the_program_does_not_have_is_refused_with_the_nearest_choice(
    attend: Program, text: str, parts: list[str]
) -> None:
    with pytest.raises(PlanError) as caught:
        resolve(Mapping.parse(text), attend)
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_a_loop_without_dots_has_no_decisions(until: Program) -> None:
    with pytest.raises(PlanError, match=r"loop 'tile' .* of until .* has no dot of its own; cure: \[loops"):
        resolve(Mapping.parse("[loops.tile]\nstages = 1"), until)


def test_a_signature_is_read_without_what_a_launch_finds_out() -> None:
    assert types_of("a=tensordesc<fp16[128, 64]>, K=i32:16") == {"a": "tensordesc<fp16[128,64]>", "K": "i32"}


def test_a_signature_is_read_without_signs_that_the_ir_does_not_have() -> None:
    """Descriptors have them."""
    found = types_of("w=*u8:16, n=u32, c=tensordesc<u16[64, 64]>")
    assert found == {"w": "*i8", "n": "i32", "c": "tensordesc<u16[64,64]>"}
    types = {"!tt.ptr<i8>": "*i8", "i32": "i32", "!tt.tensordesc<tensor<64x64xui16>>": "tensordesc<u16[64,64]>"}
    assert [triton_type(text) for text in types] == [*found.values()] == [*types.values()]
