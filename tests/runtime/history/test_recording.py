"""What became of the kernels of a process, as they are compiled and launched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import triton
from triton.compiler.compiler import CompiledKernel

import tawa
from tawa.runtime.history import recording
from tawa.runtime.history.process_report import ProcessReport
from tests.bridge import fakes, kernels
from tests.runtime.history.conftest import Launching

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
LONG = 1 << 20  # K of a launch that is worth specialising


def test_launches_and_versions_are_counted_and_the_reason_is_kept(fill: Any, launcher: Launching) -> None:
    tawa.install()
    for block in (64, 64, 128, 64):
        fill(block)
    (kernel,) = tawa.report().kernels
    (verdict,) = kernel.verdicts
    assert (kernel.name, kernel.launches, verdict.versions, verdict.applied) == ("softmax_rows", 4, 2, False)
    assert "no tl.dot" in verdict.reason
    assert verdict.location is not None and verdict.location.rpartition(":")[0].endswith("tests/bridge/kernels.py")
    assert launcher.launched == ["softmax_rows"] * 4
    assert verdict.compile_ms > 0


def test_a_specialised_kernel_and_a_declined_version_of_it_are_told_apart(
    pipeline_is: Any, launcher: Launching
) -> None:
    kernel = triton.jit(kernels.gemm_pointers.fn)
    tensors = [kernels.half_tensor() for _ in range(3)]
    tawa.install(only_if_faster=False)
    pipeline_is(fakes.untouched)
    for _ in range(2):
        kernel[(1,)](*tensors, LONG, **BLOCKS)
    pipeline_is(fakes.declines)
    kernel[(1,)](*tensors, LONG, **{**BLOCKS, "BN": 32})
    (found,) = tawa.report().kernels
    assert [(it.applied, it.launches, it.reason) for it in found.verdicts] == [
        (True, 2, "specialised by a fake"),
        (False, 1, "a store in the way"),
    ]
    assert found.verdicts[1].cure == "move it"


def test_a_kernel_from_the_cache_on_disk_is_recorded_too(fill: Any) -> None:
    tawa.install()
    fill()
    recording.RECORDER.forget()
    again = triton.jit(kernels.softmax_rows.fn)
    again[(1,)](kernels.half_tensor(), kernels.half_tensor(), 100, BLOCK=64)
    (kernel,) = tawa.report().kernels
    assert "no tl.dot" in kernel.verdicts[0].reason


def test_recording_ends_with_the_installation_and_leaves_nothing_behind(fill: Any) -> None:
    before = (CompiledKernel.__init__, CompiledKernel._init_handles)
    tawa.install()
    tawa.install(aref_depth=2)
    fill()
    tawa.uninstall()
    assert (CompiledKernel.__init__, CompiledKernel._init_handles) == before
    fill(128)
    assert tawa.report().kernels[0].launches == 1


def test_a_wrapper_that_is_wrapped_by_someone_else_stays_and_is_idle(
    fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tawa.install()
    ours = CompiledKernel.__init__
    theirs = lambda self, *args, **kwargs: ours(self, *args, **kwargs)  # noqa: E731
    monkeypatch.setattr(CompiledKernel, "__init__", theirs)
    tawa.uninstall()
    assert CompiledKernel.__init__ is theirs
    fill()
    assert tawa.report().kernels == ()


def test_a_kernel_that_cannot_be_loaded_fails_as_it_does_without_us(fill: Any, launcher: Launching) -> None:
    launcher.fails = True
    tawa.install()
    with pytest.raises(RuntimeError, match="no memory"):
        fill()
    assert tawa.report().kernels[0].launches == 0


def test_without_an_installation_nothing_is_recorded(fill: Any) -> None:
    fill()
    assert tawa.report() == ProcessReport(())
    assert str(tawa.report()) == "no kernel was compiled under tawa.install()"


def test_a_stock_kernel_for_launches_that_a_specialised_one_cannot_take_says_so() -> None:

    def kernel(arch: int) -> SimpleNamespace:
        return SimpleNamespace(metadata=SimpleNamespace(name="gemm", target=SimpleNamespace(arch=arch)))

    assert "not asked" in recording.RECORDER._stock_record(kernel(90))["reason"]
    recording.RECORDER._versions.append(recording._Version("gemm", {"applied": True, "launch": {"descriptors": []}}))
    assert "a condition on the arguments does not hold" in recording.RECORDER._stock_record(kernel(90))["reason"]
    assert "compute capability 80" in recording.RECORDER._stock_record(kernel(80))["reason"]
    assert "TAWA_ARCH=sm_100 asks for them" in recording.RECORDER._stock_record(kernel(100))["reason"]


def test_a_profile_counts_what_nobody_else_does(fill: Any) -> None:
    tawa.install()
    fill()
    recording.RECORDER.add_profile({"softmax_rows": 1.5, "cublas": 4.5}, {"softmax_rows": 40, "cublas": 2})
    report = tawa.report()
    assert (report.kernels[0].launches, report.kernels[0].gpu_ms, report.gpu_ms) == (40, 1.5, 6.0)
    assert report.share(report.kernels[0]) == 0.25
