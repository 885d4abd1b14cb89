from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.runtime.history.process_report import ProcessReport
from tawa.runtime.history.report_file import read_reports, write_report
from tests.runtime.history.reports import FILL, GEMM


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
