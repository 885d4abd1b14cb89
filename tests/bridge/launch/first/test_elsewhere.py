"""A worker process compiles a kernel into the entry of Triton's cache that a launch looks up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import triton
from triton.runtime.cache import get_cache_manager

import tawa
from tawa.bridge.launch import added_arguments, launcher
from tawa.bridge.launch.first import background, elsewhere
from tawa.bridge.launch.first.compiler import compile_job
from tawa.bridge.launch.first.elsewhere import CompileJob, NotMade, apply_settings
from tawa.bridge.launch.launcher import Launcher
from tests.bridge import kernels
from tests.bridge.launch.test_cost import described_product, tensor
from tests.bridge.launching import Launching

pytestmark = pytest.mark.contract


@pytest.fixture(autouse=True)
def workers(in_the_background: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Real worker processes."""
    monkeypatch.setattr(added_arguments, "make", elsewhere.make)
    monkeypatch.setattr(launcher, "rank", elsewhere.rank)
    monkeypatch.setattr(background, "_POOL", [background.Pool(1)])
    yield
    background.wait(60)
    background._POOL[0].stop()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[CompileJob]:
    """What was asked of workers."""
    asked, make = list[CompileJob](), elsewhere.make
    monkeypatch.setattr(added_arguments, "make", lambda job: (asked.append(job), make(job)))
    return asked


def test_a_launch_finds_what_a_worker_made(gpu: Launching, jobs: list[CompileJob]) -> None:
    function = triton.jit(kernels.gemm_descriptors.fn)
    with tawa.scope():
        made = described_product(function)
        assert tawa.wait(120)
        described_product(function)
    assert len(jobs) == 1 and elsewhere.is_cached(jobs[0])
    assert isinstance(made._run, Launcher)
    ours = made._run.kernel
    tuning = [it.metadata.tawa["tuning"]["key"] for it in (made, ours)]
    assert tuning[0] == tuning[1], "a table knows both by one key"
    assert ours.metadata.tawa["launch"]["learns"] and "aref" in ours.asm


def test_it_is_the_kernel_that_this_process_would_make(
    gpu: Launching, jobs: list[CompileJob], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function = triton.jit(kernels.gemm_pointers.fn)
    with tawa.scope():
        function[(512,)](*(tensor(1 << at) for at in (20, 21, 22)), 4096, BM=128, BN=128, BK=64, num_warps=8)
        assert tawa.wait(120)
    (job,) = jobs
    there = _asm(job)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "another"))
    compile_job(elsewhere.replace(job, variables={**job.variables, "TRITON_CACHE_DIR": str(tmp_path / "another")}))
    assert there == _asm(job) and there["cubin"]


def _asm(job: CompileJob) -> dict[str, bytes]:
    folder = get_cache_manager(sha256(job.key.encode()).hexdigest())
    group: Any = folder.get_group(f"{job.name}.json")
    return {Path(path).suffix[1:]: Path(path).read_bytes() for path in group.values() if not path.endswith("json")}


def test_a_worker_that_dies_costs_a_form_and_no_launch(gpu: Launching, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(self: Any, *_: Any) -> Any:
        raise EOFError("the worker ended with status -9")

    monkeypatch.setattr("tawa.processes.WorkerProcess.ask", dying)
    function = triton.jit(kernels.gemm_descriptors.fn)
    with tawa.scope():
        made = described_product(function)
        assert tawa.wait(60)
        described_product(function)
    assert not isinstance(made._run, Launcher) and len(gpu.launched) == 2


def test_what_a_worker_cannot_compile_is_told(gpu: Launching, jobs: list[CompileJob]) -> None:
    with tawa.scope():
        described_product(triton.jit(kernels.gemm_descriptors.fn))
        assert tawa.wait(120)
    broken = elsewhere.replace(jobs[0], source="module { this is no IR }", key="another")
    told: list[str] = []

    def make() -> None:
        with pytest.raises(NotMade) as error:
            elsewhere.make(broken)
        told.append(str(error.value))

    assert background.submit(make).ended.wait(60) and "RuntimeError" in told[0]


@pytest.mark.parametrize("start", ["stock", "ready"])
def test_where_only_binaries_are_kept_launches_go_on(
    start: str, gpu: Launching, all_pay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    function = triton.jit(kernels.gemm_descriptors.fn)
    with tawa.scope(start=start):
        for _ in range(3):
            made = described_product(function)
            assert tawa.wait(120)
    assert isinstance(made._run, Launcher) and len(gpu.launched) == 3


def test_settings_of_triton_go_along() -> None:
    with mock.patch.dict(os.environ, {"TRITON_ONLY_HERE": "1"}), triton.knobs.compilation.scope():
        apply_settings({"compilation": {"always_compile": True}}, {"TRITON_PTXAS_PATH_OF_A_TEST": "there"})
        assert triton.knobs.compilation.always_compile and "TRITON_ONLY_HERE" not in os.environ
        assert os.environ["TRITON_PTXAS_PATH_OF_A_TEST"] == "there"
