"""What Triton's back end makes is kept by all that decides it, and what it refuses is not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend, get_ptxas

from tawa.bridge.triton.device import gpu_target
from tawa.machine.machines import SM_90
from tests.cases.gemm.cases import find
from tests.matrix.compiling import compile_case, pinned
from tests.support import back_end
from tests.support.sample import EVERY_CASE

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out) {{
  .reg .b32 %r; .reg .b64 %a;
  ld.param.u64 %a, [out];
  mov.u32 %r, {value};
  st.global.u32 [%a], %r;
  ret;
}}
"""


@pytest.fixture
def ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Assembles a text as Triton does; `ptxas.runs` has the commands that were run."""
    runs: list[list[str]] = []

    def run(command: list[str], **keywords: Any) -> Any:
        if "-o" in command:  # Triton asks for the version, too
            runs.append(command)
        return really(command, **keywords)

    really = back_end._run
    monkeypatch.setattr(back_end, "_run", run)

    def assemble(text: str, name: str = "a.ptx", *options: str) -> tuple[bytes, str]:
        source, target, log = tmp_path / name, tmp_path / f"{name}.o", tmp_path / f"{name}.log"
        source.write_text(text)
        command = [get_ptxas(90).path, "-v", *options, "--gpu-name=sm_90a", str(source), "-o", str(target)]
        with log.open("w") as said:
            back_end.run(command, check=True, close_fds=False, stderr=said, folder=tmp_path / "kept")
        return target.read_bytes(), log.read_text()

    assemble.runs = runs  # pyright: ignore[reportFunctionMemberAccess]
    return assemble


def test_ptxas_runs_once_for_one_text_whatever_its_file_is_called(ptxas: Any) -> None:
    first, again = ptxas(PTX.format(value=1)), ptxas(PTX.format(value=1), "b.ptx")
    assert first == again and first[0] and "registers" in first[1]
    assert len(ptxas.runs) == 1


def test_ptxas_runs_for_another_text_and_for_other_options(ptxas: Any) -> None:
    first, other, unoptimised = (
        ptxas(PTX.format(value=1)), ptxas(PTX.format(value=2)), ptxas(PTX.format(value=1), "a.ptx", "--opt-level", "0")
    )  # fmt: skip
    assert first[0] != other[0] and first[0] != unoptimised[0]
    assert len(ptxas.runs) == 3


def test_what_ptxas_refuses_is_refused_each_time(ptxas: Any) -> None:
    for name in ("a.ptx", "b.ptx"):
        with pytest.raises(subprocess.CalledProcessError):
            ptxas(PTX.format(value="nothing"), name)


def test_other_commands_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    assert back_end.call_of(["cat", str(tmp_path / "a")]) is None
    assert back_end.call_of([get_ptxas(90).path, "--version"]) is None


def test_a_stage_is_kept_with_what_it_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def make(self: Any, src: Any, metadata: Any, options: Any, capability: int) -> str:
        runs.append(src)
        metadata["shared"] = len(src) if capability == 90 else 0
        return f"{src}, {options}"

    stage = back_end.keeping(make, tmp_path)
    backend, first, again = CUDABackend(gpu_target(SM_90)), {"shared": 0, "warps": 4}, dict[str, Any]()
    assert stage(backend, "text", first, "O3", 90) == stage(backend, "text", again, "O3", 90) == "text, O3"
    assert first == {"shared": 4, "warps": 4} and again == {"shared": 4}
    assert runs == ["text"]
    stage(backend, "text", {}, "O2", 90)
    stage(backend, "text", {}, "O3", 100)
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        stage(backend, "text", {}, "O3", 90)
    monkeypatch.setattr(back_end, "get_ptxas", lambda arch: SimpleNamespace(version="13.0"))
    stage(backend, "text", {}, "O3", 90)
    assert runs == ["text"] * 5


def test_kernels_without_ptx_have_all_levels_above_and_are_kept_apart() -> None:
    case, options = find("tile_64x64"), pinned(2, 1)
    with back_end.without_ptx():
        short = compile_case(case, options)
    whole = compile_case(case, options)
    assert all(short.asm[it] == whole.asm[it] for it in ("ttir", "ttgir", "aref", "barrier"))
    assert short.metadata.shared == whole.metadata.shared and short.metadata.name == whole.metadata.name
    assert ("wgmma" in short.asm["ptx"], "wgmma" in whole.asm["ptx"]) == (EVERY_CASE, True)


def test_what_llvm_cannot_lower_fails_without_ptx_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("failed to translate")

    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setattr(back_end.llvm, "to_module", refuse)
    with back_end.without_ptx(), pytest.raises(Exception, match="failed to translate"):
        compile_case(find("tile_64x64"), None)
