"""Requests: which one is active, and its part of the keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.bridge.driver.request import PROCESS, Request, activate, active_request, active_suffix, surrounding_request
from tawa.bridge.launch.host import Host
from tawa.plan import Plan, PlanOptions

DEEP = Request(PlanOptions(aref_depth=3))
STOCK = Request(PlanOptions(enable_warp_specialization=False))


def test_the_source_of_tawa_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from tawa.bridge.driver import request

    before = replace(DEEP).cache_suffix()
    assert replace(DEEP).cache_suffix() == before
    monkeypatch.setattr(request, "source_hash", lambda: "another Tawa")
    assert replace(DEEP).cache_suffix() != before


def test_the_context_goes_before_the_process_and_none_means_stock_triton() -> None:
    assert active_request() is None
    PROCESS.replace(DEEP)
    assert active_request() is DEEP and active_suffix() == DEEP.cache_suffix()
    with activate(None):
        assert active_request() is None and active_suffix() == ""
    with activate(STOCK):
        assert active_request() is None and surrounding_request() is STOCK and active_suffix() == ""
    assert active_request() is DEEP


def test_a_process_request_for_stock_triton_has_no_suffix() -> None:
    PROCESS.replace(STOCK)
    assert (active_request(), surrounding_request(), active_suffix()) == (None, STOCK, "")


def test_the_host_is_no_part_of_a_key() -> None:
    served = replace(DEEP, host=Host(capturing=lambda: True))
    assert served == DEEP and served.cache_suffix() == DEEP.cache_suffix()


@pytest.mark.parametrize(
    ("request_", "pinned"),
    [
        (Request(), False),
        (Request(PlanOptions(enable_warp_specialization=True)), True),
        (Request(plan=Plan(form="persistent")), True),
        (Request(plan=Plan(form="stock")), False),
        (STOCK, False),
    ],
)
def test_a_plan_or_a_demand_pins_a_kernel(request_: Request, pinned: bool) -> None:
    assert request_.pinned is pinned
