"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.errors import PlanError
from tawa.plan import PlanOptions
from tawa.runtime.requests import make_request
from tawa.runtime.settings import Settings
from tests.bridge import fakes

PLAN = fakes.plan_of(depth=6)


def test_without_variables_everything_is_automatic() -> None:
    settings = Settings.from_environment({})
    assert (settings.enable, settings.aref_depth, settings.mma_depth, settings.log) == ("auto", None, None, "warning")
    assert settings.verify == "fast"
    assert settings.reproducer_dir.name == "reproducers"
    assert settings.options() == PlanOptions()


def test_every_variable_is_read() -> None:
    settings = Settings.from_environment(
        {
            "TAWA_ENABLE": "OFF",
            "TAWA_VERIFY": "full",
            "TAWA_AREF_DEPTH": "3",
            "TAWA_MMA_DEPTH": "1",
            "TAWA_REPRODUCER_DIR": "/x",
            "TAWA_LOG": "info",
            "TAWA_REPORT": "/y/",
        }
    )
    assert settings == Settings("off", "full", 3, 1, Path("/x"), "info", "/y/")
    assert settings.as_variables() == {
        "TAWA_ENABLE": "off",
        "TAWA_VERIFY": "full",
        "TAWA_AREF_DEPTH": "3",
        "TAWA_MMA_DEPTH": "1",
        "TAWA_REPRODUCER_DIR": "/x",
        "TAWA_LOG": "info",
        "TAWA_REPORT": "/y/",
    }


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("TAWA_ENABLE", "maybe", "auto, off"),
        ("TAWA_VERIFY", "maybe", "off, fast, full"),
        ("TAWA_AREF_DEPTH", "0", "whole numbers, 1 or more"),
        ("TAWA_AREF_DEPTH", "two", "whole numbers, 1 or more"),
        ("TAWA_MMA_DEPTH", "-1", "whole numbers, 0 or more"),
        ("TAWA_LOG", "loud", "debug, info, warning, error"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(PlanError, match=f"{name}='{value}': allowed are {allowed}"):
        Settings.from_environment({name: value})


def test_an_empty_variable_is_no_setting() -> None:
    assert Settings.from_environment({"TAWA_AREF_DEPTH": " "}).aref_depth is None


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
