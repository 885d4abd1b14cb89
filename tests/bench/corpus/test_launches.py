"""Recorded launches, on a kernel that is compiled but not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.corpus import launches
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.triton.signature import Signature
from tests.cases.pointers import gemm
from tests.cases.pointers.builders import gemm_case


class _Tensor:
    def data_ptr(self) -> int:
        return 1 << 40


def test_records_grid_and_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launches, "KEPT", tmp_path)
    case = gemm_case("recorded", gemm.gemm_tutorial, GROUP_M=8, sizes={"M": 512, "N": 256, "K": 128})
    constants = {(case.kernel.arg_names.index(key),): value for key, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    kernel: Any = compile_kernel(case.kernel, signature, None, **case.options())
    ran: list[Any] = []
    kernel._run = lambda *args: ran.append(args)
    types = kernel.src.signature.values()
    args = [_Tensor() if it.startswith("*") else 640 if it != "constexpr" else 3 for it in types]
    with launches.recorded_launches() as found:
        for grid in ((8, 1, 1), (8, 1, 1), (4, 2, 1)):
            kernel.run(*grid, 0, None, None, None, None, None, *args)
    kernel.run(1, 1, 1, 0, None, None, None, None, None, *args)
    assert len(ran) == 4 and len(found) == 3
    path = launches.keep_launches("package: operation", found, {kernel.metadata.name: "gemm_tutorial"})
    data = json.loads(path.read_text())
    assert data["case"] == "package: operation"
    first, second = data["kernels"]["gemm_tutorial"]
    assert (first["grid"], first["times"], second["grid"]) == ([8, 1, 1], 2, [4, 2, 1])
    assert 640 in first["values"] and 1 << 40 not in first["values"]
    assert first["facts"]["registers"] > 0
    assert (tmp_path / f"{first['ttir']}.ttir").read_text() == kernel.asm["ttir"]
    other = launches.keep_launches("package: operation", found, {"another": "other"})
    assert json.loads(other.read_text())["kernels"] == {"other": []}
