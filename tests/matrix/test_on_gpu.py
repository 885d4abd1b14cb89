"""Every case on a GPU, against float64; `bench/gemm/correctness.py` adds trip counts, plans, whole-GPU problems."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from tawa.errors import UnsupportedKernel
from tests.cases.case import Specimen
from tests.cases.gemm.cases import CASES

WORK = [
    pytest.param(case, depth, mma_depth, id=f"{case.name}-D{depth}P{mma_depth}")
    for case in CASES
    if case.reference
    for depth, mma_depth in (case.plans if case.expect.verdict != "declined" else ((2, 1),))
]


@pytest.mark.gpu
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("case", "depth", "mma_depth"), WORK)
def test_case_is_right_and_repeats_bit_for_bit(case: Specimen, depth: int, mma_depth: int) -> None:
    import tawa
    from tests.cases import launch
    from tests.cases.check import judge

    launch.allow_device_descriptors()
    options: dict[str, Any] = {}
    if case.expect.verdict != "declined":
        options = {"enable_warp_specialization": True, "aref_depth": depth, "mma_depth": mma_depth}
    kernel = tawa.jit(case.kernel)
    tensors = launch.make_tensors(case, seed=zlib.crc32(case.name.encode()))
    outputs = []
    for _ in range(3):
        launch.poison(case, tensors)
        try:
            launch.launch(case, kernel, tensors, **options)
        except UnsupportedKernel:
            if case.expect.verdict != "either":
                raise
            options = {}
            launch.launch(case, kernel, tensors)
        outputs.append(tensors["c"].clone())
    launch.poison(case, tensors)
    launch.launch(case, case.kernel, tensors)
    assert judge(case, tensors, outputs, tensors["c"].clone()).faults == ()
