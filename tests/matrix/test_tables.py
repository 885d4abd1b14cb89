"""Tiles addressed through pointer tables: TMA where it is provably correct, with the same bits for all tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tawa.analysis.tma.promotions import find_promotions
from tawa.bridge.driver.data import Specialised
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic_ttir
from tawa.bridge.triton.signature import Signature
from tawa.dialects.scf import enclosing_loops
from tawa.ir import Module, Operation, parse_module, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.sim import Addresses, simulate
from tawa.sim.errors import DescriptorInUse, SimulationError
from tawa.transforms.partition import insert_arefs
from tawa.transforms.ttir import promote_to_tma
from tawa.transforms.ttir.promote_to_tma import PromoteToTma
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Checked, Proved
from tawa.verify.witness import describe
from tests.cases.case import Number
from tests.cases.pointers.cases import find
from tests.cases.small.table_kernels import table_gemm
from tests.matrix.compiling import attempted, signature
from tests.matrix.promoting import NESTED, lay_out
from tests.support.fronts import Front, front
from tests.support.pipeline import specialise
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

BM, BN, BK = 64, 64, 32
ORDERS = ("eager", "late", "random")
MAKE = "tt.make_tensor_descriptor"


@dataclass(frozen=True)
class Group:
    """One product: its rows, its K, and the strides of A and B."""

    m: int
    k: int
    lda: int
    ldb: int


GROUPS = (
    Group(128, 96, 104, 72),
    Group(64, 32, 32, 64),
    Group(64, 0, 8, 8),
    Group(0, 32, 32, 64),
    Group(192, 64, 64, 200),
)
TRANSPOSED = (
    Group(64, 96, 104, 64),
    Group(128, 64, -72, 64),
    Group(64, 64, 64, 0),
    Group(64, 32, 32, -64),
    Group(64, 64, 64, 72),
)


def kernel(**choices: Any) -> Front:
    """The kernel as TTIR. wide: strides have 64 bits. choices: constexprs."""
    names = table_gemm.arg_names
    constants = {"BM": BM, "BN": BN, "BK": BK, "HINT": 16, "WHERE": "tile", "MASK": "", "ASSUME": False}
    constants |= {name: value for name, value in choices.items() if name != "wide"}
    types = dict.fromkeys(names, "constexpr") | {name: "*i64" for name in names if name.endswith("addresses")}
    strides = "*i64" if choices.get("wide") else "*i32"
    types |= {"sizes_ptr": "*i32", "strides_ptr": strides, "GROUPS": "i32", "N": "i32"}
    marked = [name for name, type in types.items() if type.startswith("*")]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in marked}
    places = {(names.index(name),): value for name, value in constants.items()}
    return front(table_gemm, Signature({name: types[name] for name in names}, places, attributes), num_warps=4)


def promoted(make: Any = "host", tables: bool = True, **choices: Any) -> tuple[Any, Module, Front]:
    """The result of the pass, and the kernel with layouts."""
    made = kernel(**choices)
    module = parse_module(print_generic_ttir(parse_with_triton(made.ttir, made.context)))
    result = PromoteToTma(find_promotions(module, make, NESTED, tables=tables)).run(module)
    return result, module, made


def reasons(result: Any) -> str:
    return "\n".join(str(remark) for remark in result.remarks)


def launch(groups: tuple[Group, ...], seed: int = 0, wide: bool = False) -> dict[str, Any]:
    """Random operands per group; with a negative stride the pointer is that of the last row."""
    lot = np.random.default_rng(seed)
    places: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    ends = dict.fromkeys("abc", 0)
    for group in groups:
        sides = (("a", group.m, group.k, group.lda), ("b", group.k, BN, group.ldb), ("c", group.m, BN, BN))
        for key, rows, length, stride in sides:
            steps = max(0, rows - 1)
            places[key].append(ends[key] + steps * max(0, -stride))
            ends[key] += -(-(steps * abs(stride) + length) // 8) * 8
    a, b = (lot.standard_normal(ends[key] + 8).astype(np.float16) for key in "ab")
    arrays = {"a": a, "b": b, "c": np.full(ends["c"] + 8, np.nan, np.float16)}
    tables = {f"{key}_addresses": Addresses(arrays[key], tuple(places[key])) for key in "abc"}
    sizes = np.array([(group.m, group.k) for group in groups], np.int32)
    strides = np.array([(group.lda, group.ldb) for group in groups], np.int64 if wide else np.int32)
    return {**tables, "sizes_ptr": sizes, "strides_ptr": strides, "GROUPS": len(groups), "N": BN, "c": arrays["c"]}


def result_of(module: Module, groups: tuple[Group, ...], order: Any = "eager", seed: int = 0) -> bytes:
    """The bytes of C after a launch of two programs."""
    wide = "!tt.ptr<i64>" in module.body.ops[0].regions[0].block.args[4].type
    arguments = launch(groups, seed, wide)
    found = arguments.pop("c")
    simulate(module, arguments, (2,), order, seed)
    return found.tobytes()


def specialised(ttgir: str, depth: int = 2, verification: Any = "full") -> Any:
    options = PlanOptions(enable_warp_specialization=True, aref_depth=depth)
    return specialise(ttgir, options, Target(4, 3), verification=verification)


def makers(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.name == MAKE]


# -- promotion to TMA --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["host", "kernel"])
def test_tiles_behind_tables_are_boxes_of_descriptors_made_in_the_kernel(make: str) -> None:
    result, module, _ = promoted(make)
    assert (result.promoted, result.left) == (2, 0), reasons(result)
    assert not result.launch.descriptors and not result.launch.conditions
    assert "if lda is positive at run time" in reasons(result)
    assert len([op for op in module.walk() if op.name == "tt.descriptor_load"]) == 2


def test_a_descriptor_stands_as_far_outside_as_its_pointer_and_index_allow() -> None:
    module = promoted()[1]
    loops = {op.operands[0].hint: len(enclosing_loops(op)) for op in makers(module)}
    assert loops == {"a_ptr": 1, "b_ptr": 2}  # the pointers of A are loaded for each group, those of B for each tile
    module = promoted(WHERE="unknown")[1]
    assert {len(enclosing_loops(op)) for op in makers(module)} == {
        2
    }  # a tile at an arbitrary address is a tensor of its own


def test_strides_assumed_positive_are_not_checked() -> None:
    result, module, _ = promoted(ASSUME=True)
    assert result.promoted == 2 and "at run time" not in reasons(result)
    assert not [op for op in module.walk() if op.name == "scf.if"]


def test_a_wide_stride_is_checked_against_the_limit_of_tma() -> None:
    result, module, _ = promoted(ASSUME=True, wide=True)
    assert result.promoted == 2 and "if lda is positive at run time" in reasons(result)
    limit = [op for op in module.walk() if op.name == "arith.constant" and op.properties["value"].startswith("5497558")]
    assert limit  # 2^40 bytes in elements, less one


@pytest.mark.parametrize(
    ("choices", "left", "expected"),
    [
        ({"HINT": 0}, 2, "its pointer is not known to be a multiple of 16 bytes"),
        ({"HINT": 8}, 2, "its pointer is not known to be a multiple of 16 bytes"),
        ({"MASK": "diagonal"}, 1, "the mask is not a conjunction of bounds of one dimension each"),
        ({"WHERE": "iteration"}, 1, "its pointer is defined in the loop of the load"),
    ],
)
def test_unproved_loads_stay_with_a_reason(choices: dict[str, Any], left: int, expected: str) -> None:
    result, _, _ = promoted(**choices)
    assert (result.promoted, result.left) == (2 - left, left), reasons(result)
    assert expected in reasons(result)


def test_tables_are_left_where_a_program_has_little_work() -> None:
    result, _, _ = promoted(tables=False)
    assert not result.changed and "if a program computes a single tile" in reasons(result)


@pytest.mark.parametrize("name", ["grouped", "grouped_edges", "array"])
def test_automatic_mode_takes_programs_of_many_tiles(name: str) -> None:
    found, _ = attempted(find(name), PlanOptions())
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    assert [ring.fill for ring in found.outcome.plan.rings] == ["tma"]


# -- results -----------------------------------------------------------------------------------------------------------

FORMS: dict[str, dict[str, Any]] = {
    "asked": {}, "assumed": {"ASSUME": True}, "masked": {"MASK": "rows"}, "wide": {"wide": True},
}  # fmt: skip


@simulated_once
@pytest.mark.parametrize("form", sample(FORMS, 6))
def test_a_table_kernel_is_proved_and_gives_the_same_bits_in_every_order(form: str) -> None:
    result, module, made = promoted(**FORMS[form])
    assert result.promoted == 2, reasons(result)
    laid_out = print_module(lay_out(made, print_module(module)))
    outcome = specialised(laid_out)
    assert outcome.applied, outcome.remarks
    assert passes(outcome.verdict), outcome.verdict
    before, stages = parse_module(laid_out), [parse_module(level) for level in (outcome.aref, outcome.barrier)]
    for seed, groups in enumerate((GROUPS,) if form == "assumed" else (GROUPS, TRANSPOSED)):
        wanted = result_of(made.whole(), groups, seed=seed)
        assert result_of(before, groups, seed=seed) == wanted
        for module in stages:
            for order in ORDERS:
                assert result_of(module, groups, order, seed) == wanted, order


def test_the_fallback_loop_with_pointer_loads_has_no_ring() -> None:
    _, module, made = promoted()
    outcome = specialised(print_module(lay_out(made, print_module(module))), verification="off")
    parsed = parse_module(outcome.aref)
    assert len([op for op in parsed.walk() if op.name == "aref.create"]) == 1
    producer, consumer = [op for op in parsed.walk() if op.name == "warp.group"]
    tiles = [op for op in parsed.walk() if op.name == "tt.load" and "tensor<" in op.result.type]
    assert len(tiles) == 2 and all(consumer.is_ancestor_of(op) for op in tiles)
    assert not any(op.name == "tt.load" and "tensor<" in op.result.type for op in producer.walk())
    buffers = [op.result.type for op in parsed.walk() if op.name == "ttg.local_alloc"]
    assert len(buffers) == 2 and not any("<2x" in type for type in buffers)  # one buffer, not one per dot in flight


# -- mutations ---------------------------------------------------------------------------------------------------------


@simulated_once
def test_without_its_condition_a_non_positive_stride_gives_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote_to_tma._Promotion, "version_loops", lambda self, decisions: None)
    _, module, made = promoted()
    wrong = lay_out(made, print_module(module))
    assert result_of(wrong, GROUPS) == result_of(made.whole(), GROUPS)
    try:
        found = result_of(wrong, TRANSPOSED)
    except SimulationError:
        return
    assert found != result_of(made.whole(), TRANSPOSED)


def test_a_descriptor_made_before_the_copies_of_the_last_have_landed_is_not_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, module, made = promoted()
    laid_out = print_module(lay_out(made, print_module(module)))
    monkeypatch.setattr(insert_arefs, "_wait_for_copies", lambda *_: [])
    options = PlanOptions(enable_warp_specialization=True, aref_depth=2)
    unproved = specialise(laid_out, options, Target(4, 3), verification="off")
    verdict = check_barriers(parse_module(unproved.barrier))
    text = verdict.left if isinstance(verdict, Checked) else describe(verdict)
    assert not isinstance(verdict, Proved) and "while a TMA copy of partition0 may still" in text, text
    with pytest.raises(DescriptorInUse):
        result_of(parse_module(unproved.barrier), GROUPS, "late")


# -- launch conditions -------------------------------------------------------------------------------------------------


def test_stride_arguments_are_checked_at_launch() -> None:
    case = find("array")
    made = front(case.kernel, signature(case), num_warps=4)
    module = parse_module(print_generic_ttir(parse_with_triton(made.ttir, made.context)))
    result = PromoteToTma(find_promotions(module, "host", NESTED)).run(module)
    assert result.promoted == 2 and [spec.base for spec in result.launch.descriptors] == [
        0,
        2,
    ]  # A and C, checked by the launcher
    assert not [op for op in module.walk() if op.name == "scf.if"]
    names = [name for name in case.kernel.arg_names if name in case.arguments]
    given = [case.arguments[name] for name in names]
    values = [case.size(str(it.value)) if isinstance(it, Number) else 1 << 40 for it in given]
    assert result.launch.broken(values) is None
    at = names.index("stride_bk")
    for stride in (0, -272, 20):
        broken = result.launch.broken([*values[:at], stride, *values[at + 1 :]])
        assert broken is not None and "stride_bk" in str(broken)
