"""`tawa.jit` and `tawa.install` on Gluon kernels: compiled as they are, verified in the compile."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import triton

import tawa
from tawa.errors import PlanError, ProtocolError
from tawa.remarks import SourceLocation
from tawa.verify.verdict import Checked, Proved, Verdict
from tests.bridge.kernels import tensor_of
from tests.rings import kernels
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("own_cache")

RACE = "released before it is read"


@pytest.fixture(autouse=True)
def on_paper(request: pytest.FixtureRequest) -> None:
    """Without a GPU, kernels are compiled for one and not launched."""
    if request.node.get_closest_marker("gpu") is None:
        request.getfixturevalue("driver")


def compiled(kernel: Any, fault: str = "none", **more: Any) -> Any:
    tensors = (tensor_of("float32"), tensor_of("float32"))
    return kernel.warmup(*tensors, 8, grid=(1,), D=2, FAULT=fault, **{"num_warps": 4, **more})


def verdict(kernel: Any) -> str:
    return kernel.metadata.tawa["verdict"]["verdict"]


def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("slot 3 of 2")

    monkeypatch.setattr("tawa.bridge.gluon.check.check_levels", fails)


@pytest.mark.contract
def test_a_gluon_kernel_is_compiled_as_it_is_and_its_record_has_the_verdict() -> None:
    ours, theirs = compiled(tawa.jit(kernels.squares)), compiled(kernels.squares)
    assert passes(ours.metadata.tawa["verdict"]) and not ours.metadata.tawa["applied"]
    assert ours.asm["ttgir"] == theirs.asm["ttgir"] and ours.asm["ptx"] == theirs.asm["ptx"]
    assert ours.metadata.tawa["compile_ms"] > ours.metadata.tawa["tawa_ms"] > 0
    assert not hasattr(theirs.metadata, "tawa")


def test_it_is_a_gluon_kernel_still() -> None:
    kernel = tawa.jit(kernels.squares)
    assert kernel.is_gluon() and isinstance(kernel, type(kernels.squares))
    assert compiled(kernel) is compiled(kernel)


def test_a_refuted_kernel_is_a_warning_with_place_and_cure(caplog: pytest.LogCaptureFixture) -> None:
    found = compiled(tawa.jit(kernels.squares), RACE)
    assert verdict(found) == "refuted"
    (said,) = [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]
    assert said.startswith("squares: the protocol is wrong: ") and f"{Path(kernels.__file__).name}:" in said
    assert f"tawa verify --cached {found.metadata.hash[:12]} shows the run that goes wrong" in said


def test_a_kernel_from_the_cache_is_a_warning_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(tawa.jit(kernels.squares), RACE)
    unknown(monkeypatch)  # nothing is checked a second time
    caplog.clear()
    again = compiled(tawa.jit(kernels.squares), RACE)  # of another process: nothing in memory, everything on disk
    assert verdict(again) == "refuted" and "the protocol is wrong" in caplog.text


def test_a_kernel_that_triton_has_in_its_cache_is_checked_all_the_same() -> None:
    compiled(kernels.squares)
    assert passes(compiled(tawa.jit(kernels.squares)).metadata.tawa["verdict"])


@pytest.mark.parametrize("policy", ["raise", "checked", "proved"])
def test_a_refuted_kernel_is_an_error_at_every_launch_if_asked(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(tawa.jit(kernels.squares), RACE)
    monkeypatch.setenv("TAWA_GLUON", policy)
    kernel = tawa.jit(kernels.squares)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="squares: the protocol is wrong"):
            compiled(kernel, RACE)
    if policy != "proved":
        assert passes(compiled(kernel).metadata.tawa["verdict"])


def test_what_is_not_proved_is_an_error_only_if_proofs_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unknown(monkeypatch)
    monkeypatch.setenv("TAWA_GLUON", "raise")
    assert verdict(compiled(tawa.jit(kernels.squares))) == "unknown" and not caplog.text
    for policy in ("checked", "proved"):
        monkeypatch.setenv("TAWA_GLUON", policy)
        with pytest.raises(ProtocolError, match="not proved: the check failed: ValueError: slot 3 of 2"):
            compiled(tawa.jit(kernels.squares))


def says(found: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.bridge.gluon.check.check_levels", lambda *_, **__: found)


CHECKED = Checked("barriers: n in 0, 1, 8", "the loop's end is loaded in its body", SourceLocation("k.py", 7))


def test_what_is_only_checked_is_an_error_if_proofs_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    says(CHECKED, monkeypatch)
    monkeypatch.setenv("TAWA_GLUON", "proved")
    with pytest.raises(ProtocolError) as caught:
        compiled(tawa.jit(kernels.squares))
    what, left, place, cure = str(caught.value).splitlines()
    assert what == "squares: the protocol is checked, not proved: barriers: n in 0, 1, 8"
    assert left == "  not proved: the loop's end is loaded in its body" and place == "  at k.py:7"
    assert cure.startswith("  cure: ") and "TAWA_GLUON=checked" in cure


@pytest.mark.parametrize("policy", ["auto", "warn", "raise", "checked"])
def test_what_is_only_checked_is_no_error_otherwise(
    policy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    says(CHECKED, monkeypatch)
    monkeypatch.setenv("TAWA_GLUON", policy)
    assert verdict(compiled(tawa.jit(kernels.squares))) == "checked" and not caplog.text


@pytest.mark.parametrize("policy", ["checked", "proved"])
def test_a_proof_is_always_accepted(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    says(Proved(), monkeypatch)
    monkeypatch.setenv("TAWA_GLUON", policy)
    assert verdict(compiled(tawa.jit(kernels.squares))) == "proved"


def test_without_checks_there_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_VERIFY", "off")
    assert compiled(tawa.jit(kernels.squares), RACE).metadata.tawa["verdict"] is None
    monkeypatch.setenv("TAWA_GLUON", "proved")
    with pytest.raises(ProtocolError, match="not checked: TAWA_VERIFY=off"):
        compiled(tawa.jit(kernels.squares))


def test_an_installation_checks_gluon_kernels_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = triton_copy()
    tawa.install()
    try:
        assert not hasattr(compiled(fresh, RACE).metadata, "tawa")
        monkeypatch.setenv("TAWA_GLUON", "raise")
        tawa.install()
        with pytest.raises(ProtocolError, match="the protocol is wrong"):
            compiled(fresh, RACE)
        found = verdict(compiled(fresh))
        (history,) = [it for it in tawa.report().kernels if it.name == "squares"]
        assert any(f"its protocol is {found}" in it.reason for it in history.verdicts)
    finally:
        tawa.uninstall()


def triton_copy() -> Any:
    """The kernel without what other tests compiled in this process."""
    return type(kernels.squares)(kernels.squares.fn)


def test_stock_triton_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_ENABLE", "off")
    assert not hasattr(compiled(tawa.jit(kernels.squares), RACE).metadata, "tawa")


def test_options_are_refused() -> None:
    with pytest.raises(PlanError, match=r"aref_depth: squares is a Gluon kernel.*leave it out"):
        tawa.jit(kernels.squares, aref_depth=3)
    with pytest.raises(PlanError, match=r"aref_depth, mma_depth: squares is a Gluon kernel.*leave them out"):
        compiled(tawa.jit(kernels.squares), aref_depth=3, mma_depth=1)


def test_an_autotuned_gluon_kernel_is_checked() -> None:
    tuner = triton.autotune([triton.Config({}, num_warps=4)], key=[])(kernels.squares)
    (found,) = tawa.jit(tuner).warmup(tensor_of("float32"), tensor_of("float32"), 8, grid=(1,), D=2, FAULT="none")
    assert passes(found.metadata.tawa["verdict"])


def test_a_level_from_a_file_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.bridge.gluon.check.overridden", lambda options: True)
    found = compiled(tawa.jit(kernels.squares), RACE).metadata.tawa["verdict"]
    assert found["verdict"] == "unknown" and "from a file" in found["reason"]
    assert json.dumps(found)


@pytest.mark.gpu
def test_on_a_gpu_it_is_launched_as_triton_launches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    a, b = (torch.randn(128, 256, device="cuda", dtype=torch.float16) for _ in "ab")
    b = b[:64].T.contiguous()
    c = torch.full((128, 64), float("nan"), device="cuda", dtype=torch.float16)
    made = [
        TensorDescriptor.from_tensor(x, box, gl.NVMMASharedLayout.get_default_for(box, gl.float16))
        for x, box in ((a, [128, 64]), (b, [64, 64]), (c, [64, 64]))
    ]
    constants = {"BK": 64, "D": 3, "P": 1, "num_warps": 4}
    kernel = tawa.jit(kernels.products)
    for _ in range(3):
        c.fill_(float("nan"))
        kernel[(1,)](*made, 256, **constants, FAULT="none")
        torch.testing.assert_close(c, a @ b, atol=0.05, rtol=0.01)
    assert tawa.explain(kernel).verdict is not None
    monkeypatch.setenv("TAWA_GLUON", "raise")
    with pytest.raises(ProtocolError, match="the protocol is wrong"):
        tawa.jit(kernels.products)[(1,)](*made, 256, **constants, FAULT="one group does not release")
    torch.cuda.synchronize()  # nothing was launched, so nothing hangs
