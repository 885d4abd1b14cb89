"""The lines on GPU, driver, ptxas and compiler. The GPUs are a script that answers as nvidia-smi."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tawa.cli.doctor import machine as part
from tawa.cli.doctor.machine import machine
from tests.cli.doctor.conftest import by_name

H200 = "NVIDIA H200, 9.0, 143771 MiB, 580.159.04"
A100 = "NVIDIA A100-SXM4-80GB, 8.0, 81920 MiB, 580.159.04"
B200 = "NVIDIA B200, 10.0, 183359 MiB, 580.159.04"


@pytest.fixture(autouse=True)
def without_pytorch(packages) -> None:
    packages(torch=None)


def test_a_machine_without_a_gpu_is_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "gpus", list)
    monkeypatch.setattr(part, "driver_cuda", lambda: None)
    found = by_name(machine())
    assert found["GPU"].state == found["driver"].state == "yellow"
    assert "H100" in found["GPU"].cure and "driver" in found["driver"].cure


def test_gpus_of_one_kind_are_one_line(gpu) -> None:
    gpu(H200, H200)
    found = by_name(machine())
    assert found["GPU"].state == "green" and found["GPU"].found == "2 × NVIDIA H200, 143771 MiB, sm_90"
    assert found["driver"].state == "green" and found["driver"].found == "580.159.04, CUDA 13.0"


def test_a_gpu_that_is_not_hopper_is_yellow(gpu) -> None:
    gpu(A100)
    found = by_name(machine())["GPU"]
    assert found.state == "yellow" and "left to stock Triton" in found.found and "sm_90" in found.cure


def test_blackwell_is_green_once_it_is_asked_for(gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(B200)
    found = by_name(machine())["GPU"]
    assert found.state == "yellow" and found.cure.startswith("TAWA_ARCH=sm_100")
    monkeypatch.setenv("TAWA_ARCH", "sm_100")
    assert by_name(machine())["GPU"].state == "green"


def test_a_driver_older_than_ptxas_is_red(gpu) -> None:
    gpu(H200, cuda=(11, 8))
    found = by_name(machine())["driver"]
    assert found.state == "red" and "CUDA 12.0 or newer" in found.cure


def test_a_gpu_without_the_library_of_the_driver_is_red(gpu) -> None:
    gpu(H200, cuda=None)
    found = by_name(machine())["driver"]
    assert found.state == "red" and "--gpus all" in found.cure


@pytest.mark.parametrize(
    "cuda, hidden, state, cure",
    [(None, None, "red", "PyTorch with CUDA"), ("13.0", None, "red", "driver"), ("13.0", "", "yellow", "unset CUDA_")],
)
def test_a_gpu_that_pytorch_does_not_see_says_why(
    gpu, packages, monkeypatch: pytest.MonkeyPatch, cuda: str | None, hidden: str | None, state: str, cure: str
) -> None:
    gpu(H200)
    packages(torch="2.11.0")
    torch = ModuleType("torch")
    torch.cuda, torch.version = SimpleNamespace(is_available=lambda: False), SimpleNamespace(cuda=cuda)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    found = by_name(machine())["PyTorch's GPU"]
    assert found.state == state and cure in found.cure


def test_a_triton_without_a_ptxas_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "ptxas_versions", dict)
    found = by_name(machine())["ptxas"]
    assert found.state == "red" and "TRITON_PTXAS_PATH" in found.cure


def test_the_ptxas_is_that_of_triton() -> None:
    found = [it for it in machine() if it.name == "ptxas"]
    assert found and all(it.state == "green" and it.data["version"] in it.found for it in found)


def test_without_a_c_compiler_no_kernel_can_be_launched(gpu, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(part.shutil, "which", lambda name: None)
    assert by_name(machine())["C compiler"].state == "yellow"
    monkeypatch.setattr(part, "gpus", lambda: [{"name": "NVIDIA H200", "compute_capability": "9.0"}])
    found = by_name(machine())["C compiler"]
    assert found.state == "red" and "apt install gcc" in found.cure
    monkeypatch.setenv("CC", "mycc")
    assert "unset CC" in by_name(machine())["C compiler"].cure
