"""Groups that own different dots: what goes wrong between them is refuted, and the values are right."""

from __future__ import annotations

import functools
from typing import Any

import pytest

pytest.importorskip("triton")

import tawa
from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_final, read_levels
from tawa.dialects.aref import ConsumedOp, GetOp, PutOp
from tawa.dialects.ttg import MemDescSubsliceOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.errors import PlanError
from tawa.ir import Module, parse_module
from tawa.plan import Plan, PlanOptions
from tawa.transforms.partition import exchange_parts
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Proved, Refuted, Verdict
from tests.cases.attention.builders import backward_case
from tests.cases.case import Specimen
from tests.cases.compiled import compile_case
from tests.cases.simulated import ORDERS, errors, simulated, unspecialised
from tests.matrix.compiling import Levels, attempted, signature
from tests.support.sample import sample
from tests.support.verdicts import passes

OPTIONS = PlanOptions(only_if_faster=False)
OWNED = {"groups": 2, "split": "columns", "exchange": True}


def the_case(causal: bool = False, dim: int = 256, **sizes: int) -> Specimen:
    """The operator's kernel for wide heads."""
    small: dict[str, Any] = {"SQ": 192, "SK": 192, "B": 1, "H": 1, "HK": 1, **sizes}
    return backward_case("owned", "owned", dim=dim, dtype="bf16", causal=causal, **small)


def made(plan: dict[str, object], case: Specimen) -> tuple[Specialised, Levels]:
    with launched_by_us(function=case.kernel):
        found, levels = attempted(case, OPTIONS, Plan.of(plan), verification="full")
    assert isinstance(found, Specialised), found.remarks
    return found, levels


@functools.cache
def texts() -> tuple[str, str]:
    levels = made(OWNED, the_case())[1]
    return levels.asm["aref"], levels.asm["barrier"]


def group(module: Module, number: int) -> GroupOp:
    return [it for it in find_groups(module) if it.role == "consumer"][number]


def dots(module: Module, number: int) -> list[str]:
    return sorted({op.result.hint for op in group(module, number).op.walk() if WarpGroupDotOp.matches(op)})


def exchanged(view: PutOp | GetOp | ConsumedOp) -> bool:
    return view.ring.hint.startswith("exchange")


def test_the_protocol_is_proved_at_both_levels() -> None:
    aref, barrier = map(parse_module, texts())
    assert isinstance(check_credits(aref), Proved)
    assert passes(check_barriers(barrier))
    assert passes(check_refinement(aref, barrier))


def test_each_group_has_the_dots_that_it_owns_and_columns_of_the_others() -> None:
    module = parse_module(texts()[0])
    first, second = dots(module, 0), dots(module, 1)
    assert len(first) == len(second) == 4 and len({*first, *second}) == 5
    puts = [
        [put.ring.hint for op in group(module, it).op.walk() if (put := PutOp.of(op)) and exchanged(put)]
        for it in (0, 1)
    ]
    assert [len(it) for it in puts] == [1, 1] and puts[0] != puts[1]
    own = [[get.own for op in group(module, it).op.walk() if (get := GetOp.of(op)) and exchanged(get)] for it in (0, 1)]
    assert sorted(own[0]) == sorted(own[1]) == [False, True]


def test_one_slot_of_what_is_exchanged_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_parts, "SLOTS", exchange_parts.SLOTS - 1)
    with pytest.raises(PlanError, match="barrier level of the kernel is refuted"):
        made(OWNED, the_case())


def test_every_wait_of_a_group_is_needed() -> None:
    def without(place: int) -> tuple[str, Verdict]:
        module = parse_module(texts()[1])
        wait = [op for op in module.walk() if op.name == "ttng.wait_barrier"][place]
        found = wait.operands[0].defining_op.operands[0]  # type: ignore[union-attr]
        wait.erase()
        return found.hint, check_barriers(module)

    count = sum(op.name == "ttng.wait_barrier" for op in parse_module(texts()[1]).walk())
    kept = [name for name, verdict in map(without, range(count)) if not isinstance(verdict, Refuted)]
    # The group of dS gets P only when the other one has got Q. The producer waits for a slot of Q, then for one of dO.
    assert kept == ["ring0_full", "ring1_empty"]


def test_dots_that_share_an_exchanged_tile_do_not_run_behind() -> None:
    """dK reads the tile of dQ in the same iteration."""
    with pytest.raises(PlanError, match=r"behind in loop 0 .*cure: behind=false"):
        made({**OWNED, "loops": [{"behind": True}]}, the_case())


def staged(module: Module) -> list[MemDescSubsliceOp]:
    """The boxes in which the groups stage what they store."""
    return [view for op in module.walk() if (view := MemDescSubsliceOp.of(op))
            and any(user.name == "ttng.async_tma_copy_local_to_global" for user in op.result.users)]  # fmt: skip


def test_results_are_staged_in_what_the_other_group_does_not_read() -> None:
    module = parse_module(texts()[1])
    boxes = staged(module)
    assert sorted(int(it.offsets[-1]) for it in boxes) == [0, 0, 0, 128]
    assert not any(it.hint == "stage" for op in module.walk() for it in op.results)
    boxes[0].op.properties["offsets"] = "array<i32: 0, 128>"  # of K: the other group may still read these columns
    assert isinstance(check_barriers(module), Refuted)


KINDS: list[tuple[int, bool, dict[str, int]]] = [
    (256, False, {}),
    (256, True, {"SQ": 130, "SK": 200}),
    (256, False, {"SQ": 200, "SK": 130, "H": 2}),
    (128, False, {"SQ": 130}),
    (128, True, {"H": 2, "HK": 2}),
]
"""Head dimension, causal, sizes."""


@pytest.mark.parametrize(("dim", "causal", "sizes"), sample(KINDS, 4))
def test_gradients_have_the_bits_of_the_unspecialised_kernel_in_all_orders(
    dim: int, causal: bool, sizes: dict[str, int]
) -> None:
    case = the_case(causal, dim, **sizes)
    found, levels = made(OWNED, case)
    wanted = simulated(case, unspecialised(case, levels))
    assert errors(case, wanted).share <= 1
    module = read_levels(levels)[1]
    for order in ORDERS:
        arrays = simulated(case, module, order, launch=found.launch)
        assert all(arrays[key].tobytes() == values.tobytes() for key, values in wanted.items()), order


def test_a_mapping_and_json_give_the_same_plan_with_a_schedule_for_each_group() -> None:
    case = the_case()
    sizes: dict[str, Any] = {"num_warps": case.num_warps, "num_stages": case.num_stages}
    found = tawa.explain(case.kernel, signature(case), {}, plan=OWNED, only_if_faster=False, **sizes)
    assert found.plan is not None and all(len(it.schedules) == 2 for it in found.plan.loops)
    assert 'split = "columns"' in found.mapping and "exchange = true" in found.mapping
    assert "in group 1" in next(it.value for it in found.decisions if it.field == "loops.0")
    assert Plan.from_json(found.plan.to_json()) == found.plan
    again = tawa.explain(case.kernel, signature(case), {}, mapping=found.mapping, **sizes)
    assert again.plan == found.plan


@pytest.mark.usefixtures("without_ptx")
def test_the_kernel_in_gluon_gives_the_same_bits() -> None:
    pytest.importorskip("triton.experimental.gluon")
    from tawa.bridge.gluon.emit import compile_emitted, emit_gluon

    case = the_case()
    compiled = compile_case(case, plan=OWNED, only_if_faster=False)
    wanted = simulated(case, read_final(compiled))
    found = simulated(case, read_final(compile_emitted(emit_gluon(compiled))))
    assert all(found[key].tobytes() == values.tobytes() for key, values in wanted.items())
