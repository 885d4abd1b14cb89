"""Operands that a loop computes into alternating buffers: Triton's barriers order the warps between them."""

from __future__ import annotations

import dataclasses
import re

import pytest

pytest.importorskip("triton")

from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.plan import PlanOptions
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.cases import CASES
from tests.matrix.compiling import compile_case

pytestmark = pytest.mark.slow
WEIGHTS = next(case for case in CASES if case.name == "weights_i8_8warps")
BOTH = dataclasses.replace(find_gemm("tile_fp32_tn"), num_warps=8)


@pytest.mark.parametrize("case", [WEIGHTS, BOTH], ids=lambda case: case.name)
def test_all_warps_have_waited_before_one_writes_the_buffer_again(case: Specimen) -> None:
    """Eight warps are two warp groups, and each waits only for its own wgmmas."""
    with launched_by_us():
        made = compile_case(case, PlanOptions(enable_warp_specialization=True, mma_depth=1))
    lines = made.asm["ptx"].splitlines()
    wait = next(at for at, line in enumerate(lines) if re.search(r"wgmma\.wait_group\S* 1;", line))
    back = next(at for at in range(wait, len(lines)) if "bra" in lines[at])
    label = re.search(r"\$\w+", lines[back])
    assert label is not None
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"{label.group()}:"))
    loop = [*lines[wait:back], *lines[begin:wait]]
    store = next(at for at, line in enumerate(loop) if "st.shared" in line)
    assert any("bar.sync" in line for line in loop[:store])
    assert any("bar.sync" in line for line in loop[store:])
