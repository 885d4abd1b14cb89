"""Rows in the order of the next dot, on real kernels: no exchanges in the PTX, the same numbers in the simulator."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from triton import knobs

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import compiled_by_plan, known_without, launch_spec
from tawa.bridge.launch.answer import answer_for
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.instead import IN_ORDER
from tawa.bridge.triton.read_module import read_levels
from tawa.errors import PlanError
from tawa.plan import OperandPlan, Plan, PlanOptions
from tawa.plan.decide import orders
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir import order_rows
from tests.cases.attention.builders import forward_case
from tests.cases.case import Specimen
from tests.cases.simulated import ORDERS, errors, orders_with_other_bits, simulated, unspecialised
from tests.cases.small import ordered_kernels as kernels
from tests.matrix.compiling import signature
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

EXCHANGES = ("shfl.sync.idx", "prmt")
WARP_NUMBERS = 2
"""The shuffles of every specialised kernel, which broadcast the number of a warp."""


@pytest.fixture(autouse=True, scope="module")
def unasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As where rows are put in another order without being asked; kernels of other tests are not."""
    with pytest.MonkeyPatch.context() as patch, knobs.cache.scope():
        patch.setattr(orders, "UNASKED", True)
        knobs.cache.dir = str(tmp_path_factory.mktemp("cache"))
        yield


def compiled(case: Specimen, plan: Plan | None = None, **options: Any) -> Any:
    wanted = PlanOptions(**{"enable_warp_specialization": True, **options})
    with launched_by_us():
        launched = {"num_warps": case.num_warps, "num_stages": case.num_stages}
        return compile_kernel(case.kernel, signature(case), Request(wanted, plan), **launched)


def exchanges(made: Any) -> int:
    """The instructions of a kernel by which threads exchange elements, or a thread moves bytes between registers."""
    return sum(made.asm["ptx"].count(word) for word in EXCHANGES) - WARP_NUMBERS


def rows(made: Any) -> dict[str, str]:
    """The decisions about rows, with their reasons."""
    found = {it["field"]: it for it in made.metadata.tawa["decisions"]}
    return {name: f"{it['value']}: {it['reason']}" for name, it in found.items() if name.endswith(".rows")}


def ordered(made: Any) -> LaunchSpec:
    """What launches of a kernel with ordered rows need; the kernel is proved."""
    spec = launch_spec(made)
    assert len(spec.descriptors) == 1 and passes(made.metadata.tawa["verdict"])
    return spec


@functools.cache
def attention(
    dim: int = 64, causal: bool = True, form: str = "two_loops", queries: int = 130, keys: int = 262, **more: Any
) -> Specimen:
    """fp8 attention with the keys of V innermost, on one head."""
    return forward_case(f"ordered_{form}_d{dim}", form, dtype="fp8e4nv", dim=dim, causal=causal, tile=(128, 64, 8),
                        B=1, H=1, HK=1, SQ=queries, SK=keys, **more)  # fmt: skip


# -- the exchange is gone ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_cubin")
@pytest.mark.parametrize(
    ("dim", "keys", "causal"),
    sample([(dim, keys, causal) for dim, keys in ((64, 128), (128, 128), (256, 64)) for causal in (True, False)], 8),
)
def test_attention_takes_the_weights_as_they_are(dim: int, keys: int, causal: bool) -> None:
    case = forward_case("ordered", dtype="fp8e4nv", dim=dim, causal=causal, tile=(128, keys, 8))
    made, before = compiled(case, precision="relaxed"), compiled(case, IN_ORDER, precision="relaxed")
    ordered(made)
    assert launch_spec(before).descriptors == ()
    assert (made.asm["ptx"].count("prmt"), before.asm["ptx"].count("prmt") >= keys // 4) == (0, True)
    assert exchanges(made) < exchanges(before) // 4
    assert "tensor.5d.shared" in made.asm["ptx"]


@pytest.mark.usefixtures("without_ptx")
def test_the_kernel_stays_as_it_is_where_the_order_of_sums_is_kept() -> None:
    made = compiled(attention())
    assert launch_spec(made) == LaunchSpec()
    assert all("a sum along them would round differently" in it for it in rows(made).values())


@pytest.mark.usefixtures("without_cubin")
@pytest.mark.parametrize("kernel", [kernels.plain, kernels.causal, kernels.branched])
def test_a_kernel_without_sums_needs_no_permission(kernel: Any) -> None:
    made = compiled(kernels.case(kernel))
    ordered(made)
    assert exchanges(made) == 0 < exchanges(compiled(kernels.case(kernel), IN_ORDER))


@pytest.mark.usefixtures("without_cubin")
def test_loads_through_pointers_are_ordered_by_the_descriptor_that_replaces_them() -> None:
    made = compiled(kernels.case(kernels.by_pointers))
    assert exchanges(made) == 0 and len(launch_spec(made).descriptors) == 3
    assert rows(made) == {
        "operands.k_ptr, loop 0.rows":
            "for next dot: the next dot takes the result as it is: 64 cycles of exchanges less in each iteration"
    }  # fmt: skip


@pytest.mark.usefixtures("without_cubin")
def test_kernels_that_are_not_free_stay_as_they_are() -> None:
    for kernel in (kernels.written, kernels.first_of_largest, kernels.read_twice, kernels.odd_start):
        made = compiled(kernels.case(kernel), precision="relaxed")
        assert launch_spec(made) == LaunchSpec() and exchanges(made) > 0
        assert list(rows(made)) == ["operands.k_desc, loop 0.rows"]


# -- the same numbers --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize(
    ("case", "options"),
    sample(
        [
            pytest.param(attention(), {}, id="causal"),
            pytest.param(attention(causal=False, keys=150), {}, id="keys end within a tile"),
            pytest.param(attention(dim=128, queries=70, keys=34), {}, id="fewer keys than a tile"),
            pytest.param(attention(window=70), {}, id="window"),
            pytest.param(attention(alibi=True, softcap=True), {}, id="alibi and softcap"),
            pytest.param(attention(form="branch"), {}, id="branch"),
            pytest.param(attention(dim=256, keys=134), {"aref_depth": 1}, id="two boxes of columns"),
            pytest.param(attention(causal=False, keys=192), {"ping_pong": True}, id="ping-pong"),
            pytest.param(attention(causal=False, keys=192), {"num_consumer_groups": 1}, id="one group"),
        ],
        6,
    ),
)
def test_attention_with_ordered_rows_is_right_in_every_landing_order(case: Specimen, options: dict[str, Any]) -> None:
    made = compiled(case, precision="relaxed", **options)
    spec = ordered(made)
    for order in ORDERS:
        assert errors(case, simulated(case, read_levels(made)[1], order, launch=spec)).share <= 1, order


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_a_persistent_form_has_them_too() -> None:
    case = attention(form="persistent")
    made = compiled(case, precision="relaxed", persistent=True)
    spec = ordered(made)
    assert spec.axes == 1
    assert errors(case, simulated(case, read_levels(made)[1], "random", tiles_on=1, launch=spec)).share <= 1


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_programs_that_share_a_cta_have_them_too() -> None:
    case = forward_case("ordered", dtype="fp8e4nv", dim=64, tile=(64, 64, 4), B=1, H=1, HK=1, SQ=200, SK=262)
    made = compiled(case, Plan(groups=2, split="programs"), precision="relaxed")
    spec = ordered(made)
    assert spec.grouped is not None
    assert errors(case, simulated(case, read_levels(made)[1], "random", launch=spec)).share <= 1


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("kernel", [kernels.plain, kernels.causal, kernels.branched, kernels.by_pointers])
def test_a_kernel_without_sums_has_the_bits_of_the_kernel_as_written(kernel: Any) -> None:
    """Each k-step of the second dot sums the same columns as before, and the first dot the same products."""
    case = kernels.case(kernel)
    made = compiled(case)
    wanted = simulated(case, unspecialised(case, made))
    assert errors(case, wanted, kernels.expected).share <= 1
    assert orders_with_other_bits(case, made, wanted, launch=launch_spec(made)) == []


@pytest.mark.usefixtures("without_ptx")
@simulated_once
@pytest.mark.parametrize("kernel", [kernels.normalised, kernels.scaled])
def test_a_plan_that_asks_for_it_is_right(kernel: Any) -> None:
    case = kernels.case(kernel)
    made = compiled(case, Plan(operands=(OperandPlan("k_desc", 0, rows="for_next_dot"),)))
    assert rows(made) == {"operands.k_desc, loop 0.rows": "for next dot: plan="}
    assert errors(case, simulated(case, read_levels(made)[1], launch=ordered(made)), kernels.expected).share <= 1


# -- every part is needed ----------------------------------------------------------------------------------------------


def wrong(case: Specimen, spec: LaunchSpec | None = None) -> bool:
    """Whether the kernel computes something else. spec: in place of what its launches need."""
    with knobs.cache.scope(), TemporaryDirectory() as own:
        knobs.cache.dir = own  # no kernel of another test is the mutant, and none of theirs may be
        made = compiled(case)
    arrays = simulated(case, read_levels(made)[1], launch=spec or launch_spec(made))
    return errors(case, arrays, kernels.expected).share > 1


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_an_operand_that_is_not_put_in_order_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_rows, "_in_rows", lambda operand, order: operand)
    assert wrong(kernels.case(kernels.plain))


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_a_mask_that_is_not_put_in_order_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_rows, "_to_places", lambda value, dim, order: value)
    assert wrong(kernels.case(kernels.causal)) and not wrong(kernels.case(kernels.plain))


@pytest.mark.usefixtures("without_ptx")
@simulated_once
def test_rows_that_come_in_their_own_order_are_refuted() -> None:
    case = kernels.case(kernels.plain)
    (spec,) = launch_spec(compiled(case)).descriptors
    one, two, columns = spec.strides
    assert wrong(case, LaunchSpec((replace(spec, strides=(two, one, columns)),)))


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_a_plan_for_what_is_not_free_is_an_error_with_the_cure() -> None:
    asked = Plan(operands=(OperandPlan("k_desc", 0, rows="for_next_dot"),))
    with pytest.raises(PlanError, match=r"k_desc, loop 0 \(.*\) for the next dot: .*tl.store.*cure: rows='in_order'"):
        compiled(kernels.case(kernels.written), asked)


@pytest.mark.usefixtures("without_ptx")
def test_an_odd_number_of_rows_gets_the_stock_kernel() -> None:
    case = attention(keys=151)
    spec = ordered(compiled(case, precision="relaxed"))
    with pytest.raises(ValueError, match=r"k_desc.shape\[2\] % 2 == 0: rows are loaded in another order"):
        simulated(case, read_levels(compiled(case, precision="relaxed"))[1], launch=spec)


# -- what launches get -------------------------------------------------------------------------------------------------


def k_of(length: int) -> Any:
    """As much of a host descriptor of K as is asked."""
    base = SimpleNamespace(data_ptr=lambda: 4096)
    return SimpleNamespace(base=base, shape=[length, 64], strides=[64, 1], padding="zero")


@pytest.mark.usefixtures("without_ptx")
def test_launches_of_all_lengths_are_specialised_since_rows_may_stay_in_order() -> None:
    made = compiled(kernels.case(kernels.plain))
    assert [answer_for(made, {"k_desc": k_of(length)}).decision for length in (128, 151)] == ["specialised"] * 2


@pytest.mark.usefixtures("without_ptx")
def test_the_kernel_with_rows_in_order_is_specialised_too() -> None:
    made = compiled(attention(), precision="relaxed")
    assert known_without(made)
    other = compiled_by_plan(made, IN_ORDER, attached)
    assert other.metadata.tawa["applied"] and launch_spec(other) == LaunchSpec()
    assert {it.partition(":")[0] for it in rows(other).values()} == {"in order"}


@pytest.mark.usefixtures("without_ptx")
def test_a_plan_that_asks_for_the_order_depends_on_the_length() -> None:
    made = compiled(kernels.case(kernels.plain), Plan(operands=(OperandPlan("k_desc", 0, rows="for_next_dot"),)))
    assert answer_for(made).condition == "k_desc.shape[0] % 2 == 0 and k_desc.shape[0] > 0"
    assert answer_for(made, {"k_desc": k_of(151)}).decision == "declined"


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("keys", [384, 334, 333])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "tile"), [(64, (128, 128, 8)), (128, (128, 128, 8)), (256, (128, 64, 8))])
def test_attention_on_a_gpu(dim: int, tile: tuple[int, int, int], causal: bool, keys: int) -> None:
    """Rows in the order of the next dot; an odd number of them in order."""
    import tawa
    from tests.cases import launch
    from tests.cases.check import judge_all

    case = forward_case("ordered", dtype="fp8e4nv", dim=dim, causal=causal, tile=tile, SQ=200, SK=keys)
    tensors = launch.make_tensors(case, seed=keys)
    kernel, found = tawa.jit(case.kernel), list[dict[str, Any]]()
    for _ in range(2):
        launch.poison(case, tensors)
        made = launch.launch(case, kernel, tensors, enable_warp_specialization=True, precision="relaxed")
        found.append({name: tensors[name].clone() for name in launch.outputs(case)})
    assert len(launch_spec(made).descriptors) == 1
    assert judge_all(case, tensors, found).faults == ()


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["plain", "causal", "branched", "by_pointers"])
def test_a_kernel_without_sums_has_the_bits_of_rows_in_order_on_a_gpu(name: str) -> None:
    import torch

    import tawa
    from tests.cases import launch

    case = kernels.case(getattr(kernels, name), M=256, N=256)
    tensors = launch.make_tensors(case, seed=0)
    outputs: list[Any] = []
    for plan in (None, IN_ORDER):
        launch.poison(case, tensors)
        launch.launch(case, tawa.jit(case.kernel), tensors, enable_warp_specialization=True, plan=plan)
        outputs.append(tensors["o"].clone())
    assert torch.equal(*outputs) and not outputs[0].isnan().any()
