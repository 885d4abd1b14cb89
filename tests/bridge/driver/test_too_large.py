"""A Plan that does not fit is a PlanError with the operands and the cure; Triton's autotuner skips it."""

from __future__ import annotations

import pytest
from triton.runtime.errors import OutOfResources

from tawa.bridge.driver.request import Request
from tawa.errors import PlanError
from tawa.plan import Plan, PlanOptions, RingPlan
from tests.cases.gemm.cases import find
from tests.matrix.compiling import compile_kernel, signature


@pytest.mark.parametrize("depth", [5, 9])
def test_rings_that_do_not_fit_are_named_with_what_they_carry(depth: int) -> None:
    case = find("tile_8warps_nt")
    request = Request(PlanOptions(), Plan(rings=(RingPlan("ring0", depth=depth),)))
    with pytest.raises(PlanError) as caught:
        compile_kernel(case.kernel, signature(case), request, **case.options())
    text = str(caught.value)
    assert isinstance(caught.value, OutOfResources)
    assert all(part in text for part in ("ring0", "a_desc, loop 0 (", "b_desc, loop 0 (", "cure: aref_depth=4")), text
