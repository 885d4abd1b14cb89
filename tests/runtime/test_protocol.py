"""The protocol of a kernel, asserted in a test suite."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.remarks import SourceLocation
from tawa.runtime import protocol, pytest_plugin
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict, Witness
from tests.support.verdicts import passes

FOLDER = Path(__file__).parents[2] / "examples" / "rings"
CONSTANTS = {"BM": 128, "BN": 128, "BK": 64, "D": 3}
TYPES = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, M=i32, N=i32, K=i32"
GEMM = Path(__file__).parents[1] / "cli" / "kernels.py"
OF_GEMM = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, K=i32:16"


def broken(tmp_path: Path) -> Any:
    text = (FOLDER / "gemm_4_producer.py").read_text()
    (tmp_path / "broken.py").write_text(text.replace("ring.consumed(1, pred=k > 0)", "ring.consumed()"))
    return load_kernel(f"{tmp_path / 'broken.py'}:gemm")


def test_the_plugin_accepts_a_triton_kernel(assert_protocol: Callable[..., Any]) -> None:
    kernel = load_kernel(f"{GEMM}:gemm")
    assert passes(assert_protocol(kernel, OF_GEMM, {"BM": 128, "BN": 128}, accept="checked"))


def test_the_plugin_accepts_a_gluon_kernel(assert_protocol: Callable[..., Any]) -> None:
    kernel = load_kernel(f"{FOLDER / 'gemm_4_producer.py'}:gemm")
    assert passes(assert_protocol(kernel, TYPES, CONSTANTS, num_warps=8, accept="checked"))


def says(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel of which the checks say this."""
    monkeypatch.setattr(protocol, "check_protocol", lambda *_, **__: verdict)
    return load_kernel(f"{GEMM}:gemm")


CHECKED = Checked("barriers: K in 0, 64, 448", "the loop's end is loaded in its body", SourceLocation("k.py", 7))


def test_what_is_only_checked_fails_with_its_runs_and_what_is_left_and_the_cure(
    assert_protocol: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = says(CHECKED, monkeypatch)
    with pytest.raises(AssertionError) as caught:
        assert_protocol(kernel, OF_GEMM)
    assert str(caught.value).splitlines() == [
        "the protocol of gemm is checked, not proved: barriers: K in 0, 64, 448",
        "  not proved: the loop's end is loaded in its body (k.py:7)",
        '  cure: accept="checked" accepts a check of these runs',
    ]


def test_what_is_only_checked_passes_where_a_check_is_accepted(
    assert_protocol: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert assert_protocol(says(CHECKED, monkeypatch), OF_GEMM, accept="checked") is CHECKED
    assert assert_protocol(says(Proved(), monkeypatch), OF_GEMM, accept="checked") == Proved()
    assert assert_protocol(says(Proved(), monkeypatch), OF_GEMM) == Proved()


@pytest.mark.parametrize("verdict", [Unknown("a clock"), Refuted(Witness("deadlock", "nobody moves", {}, ()))])
def test_a_check_that_finds_a_fault_or_cannot_tell_is_never_accepted(
    verdict: Verdict, assert_protocol: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = says(verdict, monkeypatch)
    with pytest.raises(AssertionError, match=r"is not proved: a clock|is wrong: deadlock"):
        assert_protocol(kernel, OF_GEMM, accept="checked")


def test_a_wrong_protocol_fails_with_the_run_that_goes_wrong(tmp_path: Path) -> None:
    kernel = broken(tmp_path)
    assert isinstance(tawa.check_protocol(kernel, TYPES, CONSTANTS, num_warps=8), Refuted)
    with pytest.raises(AssertionError, match=r"(?s)the protocol of gemm is wrong: write before release.*copy in tiles"):
        tawa.assert_protocol(kernel, TYPES, CONSTANTS, num_warps=8)


def test_what_is_not_understood_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = says(Unknown("barriers: a clock", SourceLocation("k.py", 7)), monkeypatch)
    with pytest.raises(AssertionError, match=r"^the protocol of gemm is not proved: barriers: a clock \(k\.py:7\)$"):
        tawa.assert_protocol(kernel, OF_GEMM)


def test_an_assumption_is_taken_and_named_where_it_is_needed() -> None:
    kernel = load_kernel(f"{FOLDER / 'gemm_3_ring.py'}:gemm")
    assert isinstance(tawa.check_protocol(kernel, TYPES, CONSTANTS, num_warps=8), Refuted)
    found = tawa.check_protocol(kernel, TYPES, CONSTANTS, assume=["K >= 0"], num_warps=8)
    assert passes(found) and found.assumptions == ("K >= 0",)
    kernel = load_kernel(f"{GEMM}:gemm")
    assert tawa.check_protocol(kernel, OF_GEMM, {"BM": 128, "BN": 128}, assume=["K >= 128"]) == Proved()


def test_options_are_taken() -> None:
    kernel = load_kernel(f"{GEMM}:gemm")
    options = {"aref_depth": 2, "enable_warp_specialization": True}
    assert passes(tawa.check_protocol(kernel, OF_GEMM, {"BM": 128, "BN": 128}, **options))
    with pytest.raises(tawa.PlanError, match=r"D >= P \+ 1"):
        tawa.check_protocol(kernel, OF_GEMM, {"BM": 128, "BN": 128}, mma_depth=2, **options)


def test_pytest_finds_the_plugin_where_tawa_is_installed() -> None:
    (found,) = entry_points(group="pytest11", name="tawa")
    assert found.load() is pytest_plugin
