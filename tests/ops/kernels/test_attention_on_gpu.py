"""Every attention case on a GPU, against float64, bit for bit the same when repeated."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from tawa.errors import UnsupportedKernel
from tests.cases.attention.cases import CASES
from tests.cases.case import Specimen

WORK = [
    pytest.param(case, depth, mma_depth, id=f"{case.name}-D{depth}P{mma_depth}")
    for case in CASES
    for depth, mma_depth in case.plans
]
STOCK = [pytest.param(case, id=case.name) for case in CASES]


def runs(case: Specimen, kernel: Any, tensors: dict[str, Any], times: int, **options: Any) -> list[dict[str, Any]]:
    """The outputs of repeated launches, each into poisoned tensors."""
    from tests.cases import launch

    found: list[dict[str, Any]] = []
    for _ in range(times):
        launch.poison(case, tensors)
        launch.launch(case, kernel, tensors, **options)
        found.append({name: tensors[name].clone() for name in launch.outputs(case)})
    return found


def _has_ones(case: Specimen) -> bool:
    """Whether a launch passes a 1, which Triton makes a constant: a loop of one iteration is gone then."""
    return 1 in case.sizes.values()


@pytest.mark.gpu
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", STOCK)
def test_kernel_is_right_in_stock_triton(case: Specimen) -> None:
    from triton.runtime.errors import OutOfResources

    from tests.cases import launch
    from tests.cases.check import judge_all

    tensors = launch.make_tensors(case, seed=zlib.crc32(case.name.encode()))
    try:
        found = runs(case, case.kernel, tensors, 2)
    except OutOfResources as failure:
        pytest.skip(f"stock Triton cannot run these blocks: {failure}")
    assert judge_all(case, tensors, found).faults == ()


@pytest.mark.gpu
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("case", "depth", "mma_depth"), WORK)
def test_specialised_kernel_is_right_and_repeats_bit_for_bit(case: Specimen, depth: int, mma_depth: int) -> None:
    import tawa
    from tests.cases import launch
    from tests.cases.check import judge_all

    if case.expect.verdict == "declined":
        pytest.skip("declined by design: what runs is stock Triton's kernel, byte for byte")
    options = {"enable_warp_specialization": True, "aref_depth": depth, "mma_depth": mma_depth}
    tensors = launch.make_tensors(case, seed=zlib.crc32(case.name.encode()))
    try:
        found = runs(case, tawa.jit(case.kernel), tensors, 3, **options)
    except UnsupportedKernel as refusal:
        if case.expect.verdict != "either" and not _has_ones(case):
            raise
        pytest.skip(f"may be declined, and is with this D and P: {refusal.remark.reason}")
    assert judge_all(case, tensors, found).faults == ()
