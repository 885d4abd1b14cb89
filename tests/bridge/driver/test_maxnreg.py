"""Launches with Triton's option ``maxnreg``: what stock Triton can launch, a specialised kernel can."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import triton

from tawa.bridge.driver.request import Request
from tawa.bridge.triton.artifacts.few_registers import FewRegisters
from tawa.machine.nvidia import REGISTERS
from tawa.plan import PlanOptions
from tests.cases.gemm.cases import find
from tests.matrix.compiling import compile_kernel, signature

CASE = "tile_8warps_nt"
LEGAL = PlanOptions(only_if_faster=False)


def compiled(maxnreg: int, options: PlanOptions = LEGAL) -> Any:
    case = find(CASE)
    return compile_kernel(case.kernel, signature(case), Request(options), maxnreg=maxnreg, **case.options())


def registers(kernel: Any, folder: Path) -> int:
    """Registers per thread, as the file for the GPU asks for them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(kernel.asm["cubin"])
    found = subprocess.run([tool, "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"REG:(\d+)", found)[0])


@pytest.mark.parametrize("maxnreg", [168, 176, 250, 256])
def test_a_specialised_kernel_has_no_more_registers_than_an_sm(maxnreg: int, tmp_path: Path) -> None:
    kernel = compiled(maxnreg)
    assert not kernel.asm["aref"].startswith("//") and kernel.metadata.num_warps == 12
    assert registers(kernel, tmp_path) * 32 * kernel.metadata.num_warps <= REGISTERS


def test_a_pinned_kernel_for_which_maxnreg_is_too_little_is_refused_with_that_cure() -> None:
    with pytest.raises(FewRegisters, match=r"96 registers for each thread are too few.* cure: maxnreg above 100, or a"):
        compiled(100, PlanOptions(enable_warp_specialization=True))
