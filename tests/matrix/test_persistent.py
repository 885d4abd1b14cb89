"""Kernels with one tile per program made persistent keep their bits on any number of programs, specialised or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.flow import Outcome
from tawa.ir import Module, parse_module, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir.make_persistent import MakePersistent
from tests.cases.attention.cases import CASES as ATTENTION
from tests.cases.gemm.cases import CASES as GEMMS
from tests.cases.pointers.cases import CASES as POINTERS
from tests.cases.simulated import errors, orders_with_other_bits, simulated, unspecialised
from tests.cases.small import promoted_kernels as kernels
from tests.matrix import test_promoted as cases
from tests.matrix.compiling import attempted
from tests.matrix.promoting import Launch, Promoted, addresses, lay_out, promoted, run
from tests.support.pipeline import specialise
from tests.support.sample import sample, simulated_once
from tests.support.verdicts import passes

REFUSED = (
    "tl.atomic_add may give programs an order", "tl.debug_barrier may give programs an order",
    "the protocol of the specialised kernel cannot be proved",
)  # fmt: skip
LAUNCHES: dict[str, Launch] = {
    "tutorial": cases.tutorial(cases.EVEN),
    "tutorial, B transposed": cases.tutorial(cases.EVEN, b_t=True),
    "tutorial, fp32": cases.tutorial(cases.EVEN, dtype=cases.np.float32),
    "masked": cases.gemm(kernels.masked_gemm, cases.EVEN, MASK=True, MOVE=True),
    "batched": cases.batched(),
    "windowed": cases.windowed(),
    "dequantised": cases.dequantised((200, 144, 112)),
    "attention": cases.attention(causal=False, mask=True, s=200),
    "causal attention": cases.attention(causal=True, mask=True, s=200),
    "listed attention that jumps": cases.listed(jump=True),
    "flex attention with masks": cases.flex(False, 250),
}


def persistent(launch: Launch) -> tuple[Promoted, Module, LaunchSpec]:
    """The kernel after promotion to TMA, its persistent form as TTIR, and the launch specification of that form."""
    found = promoted(launch, persistent=True)
    module = parse_module(found.ttir)
    result = MakePersistent().run(module)
    assert result.changed, result.remarks
    spec = replace(found.result.launch, axes=result.axes)
    assert spec.broken(addresses(module, launch.arguments)) is None
    return found, module, spec


def same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, array in before.items():
        assert array.tobytes() == after[name].tobytes(), name


@simulated_once
@pytest.mark.parametrize("name", sample(LAUNCHES, 4))
def test_programs_with_several_tiles_give_the_same_bits(name: str) -> None:
    launch = LAUNCHES[name]
    found, module, spec = persistent(launch)
    text = print_module(module)
    assert "tt.descriptor_store" in text, found.reasons()
    before = run(launch, found.made.whole(), LaunchSpec())
    laid_out = lay_out(found.made, text)
    for programs in (1, 3, 100):
        same(before, run(launch, laid_out, spec, programs=programs))


def specialised(found: Promoted, module: Module, **options: Any) -> Outcome:
    asked = PlanOptions(enable_warp_specialization=True, **options)
    outcome = specialise(print_module(lay_out(found.made, print_module(module))), asked, Target(4, 3))
    assert outcome.applied, outcome.remarks
    return outcome


@pytest.mark.parametrize("name", sample(LAUNCHES, 6))
def test_a_persistent_form_is_specialised_and_proved(name: str) -> None:
    found, module, _ = persistent(LAUNCHES[name])
    assert passes(specialised(found, module).verdict)


@simulated_once
@pytest.mark.parametrize("name", sample(["tutorial", "batched", "dequantised", "causal attention"], 4))
@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_a_specialised_persistent_form_gives_the_same_bits_in_every_order(name: str, order: str) -> None:
    launch = LAUNCHES[name]
    found, module, spec = persistent(launch)
    outcome = specialised(found, module)
    before = run(launch, found.made.whole(), LaunchSpec())
    same(before, run(launch, parse_module(outcome.barrier), spec, order, programs=3))


ALL = {case.name: case for case in (*GEMMS, *POINTERS, *ATTENTION) if case.expect.verdict == "specialised"}


@simulated_once
@pytest.mark.parametrize("name", sample(ALL, 45))
def test_a_case_made_persistent_gives_the_same_bits(name: str) -> None:
    """On two programs. Pointer loads stay, since descriptors for them are created by the launcher.

    Sums that programs add up in memory depend on the order in which they run: they are compared with float64.
    """
    case, asked = ALL[name], PlanOptions(only_if_faster=False, pointer_loads="cp.async")
    _, plain = attempted(case, asked)
    with launched_by_us():
        found, levels = attempted(case, replace(asked, persistent=True))
    if not isinstance(found, Specialised):
        assert found.remarks[0].reason.startswith(REFUSED)
        return
    wanted = simulated(case, unspecialised(case, plain))
    if wanted.pop("sums", None) is not None:
        assert errors(case, simulated(case, read_levels(levels)[1], tiles_on=2)).share <= 1
    assert orders_with_other_bits(case, levels, wanted, tiles_on=2) == []
