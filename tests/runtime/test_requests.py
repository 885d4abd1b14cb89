"""Requests from options, defaults and settings."""

from __future__ import annotations

import pytest

from tawa.errors import PlanError
from tawa.runtime.requests import make_request
from tawa.runtime.settings import Settings
from tests.runtime.test_settings import PLAN


def test_what_is_nearer_to_the_launch_wins() -> None:
    settings = Settings(aref_depth=5, mma_depth=1)
    scope = make_request({"aref_depth": 4}, None, settings)
    assert (scope.options.aref_depth, scope.options.mma_depth) == (4, 1)
    launch = make_request({"num_buffers_warp_spec": 3}, scope, settings)
    assert (launch.options.aref_depth, launch.options.mma_depth) == (3, 1)


def test_a_plan_and_a_refusal_exclude_each_other_and_the_nearer_one_wins() -> None:
    refused = make_request({"enable_warp_specialization": False}, None, Settings())
    planned = make_request({"plan": PLAN}, None, Settings())
    launch = make_request({"plan": PLAN}, refused, Settings())
    assert launch.pinned and launch.plan == PLAN and not launch.stock
    assert make_request({"enable_warp_specialization": False}, planned, Settings()).stock
    with pytest.raises(PlanError, match="cure: give one"):
        make_request({"aref_depth": 7}, planned, Settings())


def test_off_wins_over_everything() -> None:
    request = make_request({"enable_warp_specialization": True}, None, Settings(enable="off"))
    assert request.stock and not request.pinned


def test_settings_and_options_that_contradict_each_other_are_an_error() -> None:
    with pytest.raises(PlanError, match="D >= P"):
        make_request({"mma_depth": 2}, None, Settings(aref_depth=1))
