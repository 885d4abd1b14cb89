"""What became of the kernels of a process: recorded, counted, merged, written, read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton
from triton.compiler.compiler import CompiledKernel
from triton.runtime import driver as slot

import tawa
from tawa.runtime import recording
from tawa.runtime.history import KernelHistory, ProcessReport, Verdict, merge_reports
from tawa.runtime.profiling import profiled, read_profile
from tawa.runtime.report_file import read_reports, write_report
from tests.bridge import fakes, kernels

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
LONG = 1 << 20  # K of a launch that is worth specialising


class Launching:
    """The driver of the bridge's tests, and launchers that only note that they were called."""

    def __init__(self, on_paper: Any) -> None:
        self.on_paper = on_paper
        self.launched: list[str] = []
        self.fails = False
        self.utils = SimpleNamespace(
            load_binary=self._load,
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            fill_tma_descriptor=lambda *about: about,
            fill_tma_descriptor_tiled=lambda *about: about,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.on_paper, name)

    def _load(self, *args: Any) -> tuple[Any, ...]:
        if self.fails:
            raise RuntimeError("no memory")
        return ("module", "function", 32, 0, 1024)

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        return lambda *args: self.launched.append(metadata.name)


@pytest.fixture
def launcher(driver: None) -> Iterator[Launching]:
    on_paper = slot.active
    found = Launching(on_paper)
    slot.set_active(found)
    yield found
    slot._active = on_paper


@pytest.fixture(autouse=True)
def nothing_recorded() -> Iterator[None]:
    recording.forget()
    yield
    tawa.uninstall()
    recording.forget()


@pytest.fixture
def fill(launcher: Launching) -> Any:
    """Launches a kernel without a dot; with another block size it is another version."""
    kernel = triton.jit(kernels.softmax_rows.fn)
    tensors = [kernels.half_tensor(), kernels.half_tensor()]
    return lambda block=64: kernel[(1,)](*tensors, 100, BLOCK=block)


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
    tawa.install()
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
    recording.forget()
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

    assert "not asked" in recording._stock_record(kernel(90))["reason"]
    recording._versions.append(recording._Version("gemm", {"applied": True, "launch": {"descriptors": []}}))
    assert "not with these arguments" in recording._stock_record(kernel(90))["reason"]
    assert "compute capability 100" in recording._stock_record(kernel(100))["reason"]


# --- values ---


def verdict(applied: bool, launches: int | None, reason: str = "why", cure: str = "") -> Verdict:
    return Verdict(applied, reason, "pack/gemm.py:7", cure, 1, launches, 10.0, 1.0)


GEMM = KernelHistory("gemm", (verdict(True, 8), verdict(False, 1, "too small", "larger blocks")), 30.0)
FILL = KernelHistory("fill", (verdict(False, 90, "no tl.dot"),), 5.0)


def test_the_table_says_what_takes_the_time_what_became_of_it_and_the_cure() -> None:
    text = str(ProcessReport((GEMM, FILL), 50.0))
    assert text.splitlines()[0] == "2 kernels, 1 specialised: 60% of 50.0 ms of GPU time"
    assert text.index("60.0%") < text.index("10.0%")
    for wanted in ("specialised: why", "not specialised: too small", "at pack/gemm.py:7", "cure: larger blocks"):
        assert wanted in text


def test_what_is_not_known_is_said() -> None:
    uncounted = KernelHistory("triton_mm", (verdict(True, None),))
    text = str(ProcessReport((uncounted,)))
    assert "tawa run --profile" in text and "torch.compile" in text
    assert "there is no GPU" in str(ProcessReport((uncounted,), note="there is no GPU"))


def test_reports_of_processes_add_up() -> None:
    merged = merge_reports([ProcessReport((GEMM, FILL), 50.0), ProcessReport((GEMM,), 30.0, processes=2)])
    gemm, fill = merged.kernels
    assert (gemm.name, gemm.gpu_ms, gemm.launches) == ("gemm", 60.0, 18)
    assert [(it.launches, it.versions, it.compile_ms) for it in gemm.verdicts] == [(16, 2, 20.0), (2, 2, 20.0)]
    assert fill == FILL
    assert (merged.gpu_ms, merged.processes) == (80.0, 3)
    assert merge_reports([ProcessReport((KernelHistory("k", (verdict(True, None),)),))] * 2).kernels[0].launches is None


def test_json_is_read_back() -> None:
    report = ProcessReport((GEMM, FILL), 50.0, "note", 2)
    assert ProcessReport.from_dict(json.loads(report.to_json())) == report


def test_a_profile_is_read_over_all_callers() -> None:
    leaf = {"frame": {"name": "gemm"}, "metrics": {"time (ns)": 2_000_000, "count": 3}, "children": []}
    other = {"frame": {"name": "cublas"}, "metrics": {"time (ns)": 500_000, "count": 1}, "children": []}
    scope = {"frame": {"name": "train"}, "metrics": {}, "children": [leaf, other]}
    root = {"frame": {"name": "ROOT"}, "metrics": {}, "children": [scope, leaf]}
    assert read_profile([root, {"CUDA": {}}]) == ({"gemm": 4.0, "cublas": 0.5}, {"gemm": 6, "cublas": 1})


def test_a_profile_counts_what_nobody_else_does(fill: Any) -> None:
    tawa.install()
    fill()
    recording.set_profile({"softmax_rows": 1.5, "cublas": 4.5}, {"softmax_rows": 40, "cublas": 2})
    report = tawa.report()
    assert (report.kernels[0].launches, report.kernels[0].gpu_ms, report.gpu_ms) == (40, 1.5, 6.0)
    assert report.share(report.kernels[0]) == 0.25


def test_where_no_profiler_starts_the_block_runs_and_the_reason_is_noted() -> None:
    ran = []
    with profiled():
        ran.append(True)
    assert ran
    assert tawa.report().note


# --- files ---


@pytest.mark.parametrize("name", ["report.jsonl", "folder/"])
def test_every_process_writes_its_own_and_they_are_read_as_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_report(ProcessReport((GEMM,), 30.0), f"{tmp_path}/{name}")
    write_report(ProcessReport((FILL,), 20.0), f"{tmp_path}/{name}")
    found = read_reports(path)
    assert [kernel.name for kernel in found.kernels] == ["gemm", "fill"]
    assert (found.gpu_ms, found.processes) == (50.0, 2)
    assert path.is_dir() == name.endswith("/")


def test_a_file_that_is_no_report_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_report(ProcessReport((GEMM,)), str(path))
    with path.open("a") as file:
        file.write('{"format": 99, "report": {}}\n')
    with pytest.raises(ValueError, match=r"r\.jsonl:2 .*format 99"):
        read_reports(path)
    with pytest.raises(FileNotFoundError):
        read_reports(tmp_path / "none")


SCRIPT = """
import os, sys
import tawa
from tests.bridge import kernels
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
tawa.install()
source = ASTSource(kernels.softmax_rows, {"x_ptr": "*fp16", "y_ptr": "*fp16", "columns": "i32", "BLOCK": "constexpr"},
                   {"BLOCK": 64})
import triton
triton.compile(source, target=GPUTarget("cuda", 90, 32))
if "fork" in sys.argv and os.fork() == 0:
    assert tawa.report().kernels == ()
    sys.exit()
os.chdir("/")
"""


@pytest.mark.parametrize("argument", ["", "fork"])
def test_a_process_writes_its_report_at_its_end(argument: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TAWA_REPORT": "r.jsonl", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, argument]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = read_reports(tmp_path / "r.jsonl")
    assert [(it.name, it.verdicts[0].versions) for it in found.kernels] == [("softmax_rows", 1)]
    assert found.processes == 1
