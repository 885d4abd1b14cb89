"""No protocol leaves the pipeline unproved: what becomes of a kernel that is proved, refuted, or neither."""

from __future__ import annotations

import json

import pytest

from tawa import flow
from tawa.errors import ProtocolError
from tawa.flow import Outcome
from tawa.ir import Module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.remarks import SourceLocation
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tawa.transforms.result import PassResult
from tawa.verify.effort import Verification
from tawa.verify.verdict import Checked, Proved, Unknown, Verdict
from tests.cases.programs import ttgir as programs
from tests.support.pipeline import specialise
from tests.support.verdicts import passes

TARGET = Target(4, 3)
PINNED = PlanOptions(enable_warp_specialization=True)
AUTOMATIC = PlanOptions(only_if_faster=False)

PLACE = SourceLocation("k.py", 7)
CHECKED = Checked("up to 3 trips", "a loop at k.py:7", PLACE)
COMPARED = Checked("4 choices", "the others")


def make(options: PlanOptions = AUTOMATIC, verification: Verification = "fast") -> Outcome:
    return specialise(programs.tile_gemm(), options, TARGET, verification=verification)


@pytest.mark.parametrize("verification", ["fast", "full"])
def test_a_kernel_comes_out_proved_at_the_aref_level_and_without_a_fault_below(verification: Verification) -> None:
    made = make(verification=verification)
    assert made.applied and made.trusted and passes(made.verdict)
    assert made.verdicts["credits"] == Proved() and passes(made.verdicts["barriers"])


def checked_up_to_three(name: str, monkeypatch: pytest.MonkeyPatch, refines: Verdict = COMPARED) -> list[str]:
    """A check that only tried some runs; returns the efforts with which the levels are compared."""
    compared: list[str] = []

    def compare(aref: Module, barrier: Module, effort: str) -> Verdict:
        compared.append(effort)
        return refines

    monkeypatch.setattr(flow, f"check_{name}", lambda module, effort: CHECKED)
    monkeypatch.setattr(flow, "check_refinement", compare)
    return compared


def test_a_barrier_level_that_is_only_checked_is_compared_with_the_aref_level(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = checked_up_to_three("barriers", monkeypatch)
    made = make()
    assert made.applied and made.trusted and compared == ["fast"]
    assert made.verdict == Checked("barriers: up to 3 trips; refinement: 4 choices", "a loop at k.py:7", PLACE)


@pytest.mark.parametrize("verification", ["fast", "full"])
def test_a_proved_barrier_level_is_compared_at_full_effort_only(
    verification: Verification, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = checked_up_to_three("barriers", monkeypatch)
    monkeypatch.setattr(flow, "check_barriers", lambda module, effort: Proved())
    assert make(verification=verification).applied
    assert compared == ["full"] * (verification == "full")


@pytest.mark.parametrize(("name", "refines"), [("credits", COMPARED), ("barriers", Unknown("a clock in the loop"))])
def test_a_level_that_is_only_checked_is_not_launched_in_automatic_mode_for_its_own_sake(
    name: str, refines: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aref level that is not proved; a barrier level that cannot be compared with it."""
    checked_up_to_three(name, monkeypatch, refines)
    made = make()
    assert not made.applied and not made.trusted and "cannot be proved: " in made.remarks[0].reason
    pinned = make(PINNED)
    assert pinned.applied and not pinned.trusted
    assert any("cannot be proved: " in remark.reason for remark in pinned.remarks[1:])


def test_nothing_is_checked_where_checks_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_credits", "check_barriers", "check_refinement"):
        monkeypatch.setattr(flow, check, lambda *_, **__: pytest.fail("checked"))
    made = make(verification="off")
    assert made.applied and made.verdict is None


def test_a_release_that_the_compiler_forgets_is_refuted_at_the_aref_level(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = PipelineMma.run

    def forgets(self: PipelineMma, module: Module) -> PassResult:
        result = honest(self, module)
        for op in [op for op in module.walk() if op.name == "aref.consumed"]:
            op.erase()
        return result

    monkeypatch.setattr(PipelineMma, "run", forgets)
    with pytest.raises(ProtocolError, match="aref level of the kernel is refuted") as caught:
        make(PlanOptions(enable_warp_specialization=True, aref_depth=2))
    assert set(caught.value.files) == {"aref.mlir", "witness.json"}
    assert json.loads(caught.value.files["witness.json"])["traceEvents"]


def test_an_arrival_that_the_lowering_forgets_is_refuted_at_the_barrier_level(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LowerArefs.run

    def forgets(self: LowerArefs, module: Module) -> PassResult:
        result = honest(self, module)
        for op in [op for op in module.walk() if op.name == "ttng.arrive_barrier"]:
            op.erase()
        return result

    monkeypatch.setattr(LowerArefs, "run", forgets)
    with pytest.raises(ProtocolError, match=r"barrier level of the kernel is refuted \(deadlock\)") as caught:
        make()
    assert set(caught.value.files) == {"barrier.mlir", "witness.json"}
    assert make(verification="off").applied, "only the check stands between this kernel and the GPU"


def cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "check_barriers", lambda module, effort: Unknown("a clock in the loop"))


def test_a_kernel_that_cannot_be_proved_is_left_alone_in_automatic_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    cannot_tell(monkeypatch)
    made = make()
    assert not made.applied and not made.barrier
    assert made.remarks[0].reason.endswith("cannot be proved: barriers: a clock in the loop")
    assert "tl.assume" in made.remarks[0].cure


def test_a_fast_check_that_cannot_tell_is_followed_by_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def slow(module: Module, effort: str) -> Verdict:
        tried.append(effort)
        return Unknown("the budget ran out") if effort == "fast" else Proved()

    monkeypatch.setattr(flow, "check_barriers", slow)
    made = make()
    assert made.applied and tried == ["fast", "full"]


def test_a_pinned_kernel_that_cannot_be_proved_is_made_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cannot_tell(monkeypatch)
    made = make(PINNED)
    assert made.applied and isinstance(made.verdict, Unknown)
    assert any("cannot be proved" in remark.reason for remark in made.remarks[1:])
