"""A protocol that is refuted is a fault of Tawa's, but of the Plan where the user gave one."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.bridge.driver import driver
from tawa.bridge.driver.request import Request
from tawa.errors import InternalError, PlanError, ProtocolError
from tawa.plan import Plan, PlanOptions
from tests.cases.gemm.cases import find
from tests.matrix.compiling import compile_kernel, signature

PINNED = PlanOptions(enable_warp_specialization=True)


@pytest.mark.parametrize(
    ("request_", "kind"), [(Request(PlanOptions(), Plan(early_puts=1)), PlanError), (Request(PINNED), InternalError)]
)
def test_a_refuted_protocol_is_blamed_on_whoever_made_the_plan(
    request_: Request, kind: type[Exception], monkeypatch: Any
) -> None:
    def refuted(*_: Any) -> Any:
        raise ProtocolError("the aref level of the kernel is refuted")

    monkeypatch.setattr(driver._Driver, "_through", refuted)
    case = find("tile_64x64")
    with pytest.raises(kind, match="the aref level of the kernel is refuted"):
        compile_kernel(case.kernel, signature(case), request_, **case.options())
