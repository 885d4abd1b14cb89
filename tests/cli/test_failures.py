"""Failures that are not the kernel's: one message with place and cure, and never "Triton cannot compile" for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tawa.errors import ISSUES_URL
from tests.bridge import faulty_gluon, faulty_kernels
from tests.cli.conftest import GEMM, KERNELS

FAULTY = Path(faulty_kernels.__file__)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A kernel that no cache knows: Tawa's settings and Triton's entries are its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    file = tmp_path / f"kernels_{tmp_path.name}.py"
    file.write_text(KERNELS.read_text())
    return [f"{file}:gemm", *GEMM[1:]]


@pytest.mark.parametrize("command", ["explain", "compile", "verify"])
def test_a_mistake_in_a_helper_is_shown_with_its_line_and_the_calls(tawa, command) -> None:
    result = tawa(command, f"{FAULTY}:shapes", "--sig", "p=*fp32", "--const", "BLOCK=64")
    assert result.exit_code == (2 if command == "verify" else 1)
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: Triton cannot compile the kernel shapes: in adds: ")
    assert "return x + wide" in result.stderr and "--> tests/bridge/faulty_kernels.py" in result.stderr
    assert [line.rpartition(", in ")[2].partition(":")[0] for line in lines[-3:-1]] == ["helper", "shapes"]


RUN = ["simulate", "--grid", "1"]


@pytest.mark.parametrize("command", ["explain", "compile", "verify"])
def test_a_kernel_at_which_triton_ends_the_process_is_an_error(tawa, command) -> None:
    result = tawa(command, f"{FAULTY}:assembly", "--sig", "p=*i32")
    assert result.exit_code == (2 if command == "verify" else 1)
    assert result.stderr.startswith("error: Triton cannot compile the kernel assembly: it ends the process (SIGABRT: ")
    assert "--> tests/bridge/faulty_kernels.py" in result.stderr and "inline assembly" in result.stderr


def test_a_gluon_kernel_at_which_triton_ends_the_process_is_an_error(tawa) -> None:
    result = tawa("explain", f"{faulty_gluon.__file__}:assembly", "--sig", "p=*i32")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: Triton cannot compile the kernel assembly: it ends the process (SIGABRT: ")
    assert "--> tests/bridge/faulty_gluon.py" in result.stderr


@pytest.mark.parametrize("command", [["verify"], RUN], ids=lambda it: it[0])
def test_a_text_at_which_triton_ends_the_process_is_wrong_usage(tawa, command, tmp_path) -> None:
    text = tmp_path / "kernel.ttgir"
    text.write_text("#layout = #ttg.slice<{i1 = 1}>\nmodule {}\n")
    result = tawa(*command, str(text))
    assert result.exit_code == 3
    assert "cannot read kernel.ttgir: it ends the process (SIGSEGV)" in result.stderr and "cure: " in result.stderr


@pytest.mark.parametrize("command", ["explain", "compile", "verify"])
def test_a_cache_that_cannot_be_written_is_named(tawa, command, fresh, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    result = tawa(command, *fresh)
    assert result.exit_code == (2 if command == "verify" else 1)
    assert f"error: Triton's cache {tmp_path}/file/cache cannot be used: Not a directory" in result.stderr
    assert "cure: TRITON_CACHE_DIR=" in result.stderr
    assert "cannot compile" not in result.stderr


def test_an_internal_error_without_a_reproducer_says_that_nothing_was_written(
    tawa, fresh, tmp_path, monkeypatch
) -> None:
    from tawa.bridge.driver import driver

    def fails(*_: object) -> None:
        raise ZeroDivisionError("broken on purpose")

    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TAWA_REPRODUCER_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(driver, "outcome_of", fails)
    result = tawa("explain", *fresh, "--option", "enable_warp_specialization=true")
    assert result.exit_code == 1
    assert "internal error: gemm: ZeroDivisionError: broken on purpose" in result.stderr
    assert f"nothing was written to {tmp_path}/file" in result.stderr
    assert "tawa replay" not in result.stderr and "cannot compile" not in result.stderr
    assert f"cure: please report it: {ISSUES_URL}" in result.stderr


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_a_fault_outside_the_attempt_is_an_internal_error_with_the_address(tawa, command, fresh, monkeypatch) -> None:
    from tawa.bridge.driver import compilation

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken on purpose")

    monkeypatch.setattr(compilation.record, "make_record", fails)
    result = tawa(command, *fresh)
    assert result.exit_code == (2 if command == "verify" else 1)
    assert "error: internal error: ZeroDivisionError: broken on purpose" in result.stderr
    assert ISSUES_URL in result.stderr and "cannot compile" not in result.stderr


def test_a_damaged_cache_entry_is_compiled_again_with_a_note(tawa, fresh, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    first = tawa("compile", *fresh, "--emit", "ptx")
    (metadata,) = (tmp_path / "cache").glob("*/gemm.json")
    metadata.write_text('{"hash": ')
    command = [sys.executable, "-c", "from tawa.cli.main import app; app()", "compile", *fresh, "--emit", "ptx"]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert again.stderr.count(str(metadata.parent)) == 1


@pytest.mark.parametrize("kind", ["*float16", "tensordesc<float16[128,64]>"])
def test_a_type_of_another_language_is_wrong_usage_with_tritons_name(tawa, kind) -> None:
    result = tawa("explain", GEMM[0], "--sig", GEMM[2].replace("a=tensordesc<fp16[128,64]>", f"a={kind}"), *GEMM[3:])
    assert result.exit_code == 2
    assert "Triton calls this type fp16" in result.stderr
    assert f"cure: a={kind.replace('float16', 'fp16')}" in result.stderr


@pytest.mark.parametrize("command", ["explain", "compile", "verify"])
def test_tiles_that_no_launch_can_have_are_told_before_tritons_back_end(tawa, command, monkeypatch) -> None:
    from triton.backends.nvidia.compiler import CUDABackend

    monkeypatch.setattr(CUDABackend, "make_llir", None)  # whoever comes so far fails otherwise
    sig = GEMM[2].replace("128", "512")
    result = tawa(command, GEMM[0], "--sig", sig, "--const", "BM=512,BN=512", "--num-warps", "8")
    assert result.exit_code == (2 if command == "verify" else 1)
    assert "stock Triton's kernel needs 524288 bytes of shared memory, and one CTA has 232448" in result.stderr
    assert "cure: smaller blocks" in result.stderr and "kernels.py:" in result.stderr
