"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.errors import PlanError
from tawa.plan import PlanOptions
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
            "TAWA_GLUON": "raise",
            "TAWA_AREF_DEPTH": "3",
            "TAWA_MMA_DEPTH": "1",
            "TAWA_COMPILE_BUDGET_S": "2.5",
            "TAWA_REPRODUCER_DIR": "/x",
            "TAWA_LOG": "info",
            "TAWA_REPORT": "/y/",
            "TAWA_TUNE_BUDGET": "0.5",
            "TAWA_COLLECT": "/z",
            "TAWA_BACKGROUND": "off",
            "TAWA_ARCH": "sm_100",
        }
    )
    first = ("off", "full", "raise", 3, 1, 2.5, Path("/x"), "info", "/y/", 0.5, Path("/z"), "off", "sm_100")
    assert settings == Settings(*first)
    assert settings.as_variables() == {
        "TAWA_ENABLE": "off",
        "TAWA_VERIFY": "full",
        "TAWA_GLUON": "raise",
        "TAWA_AREF_DEPTH": "3",
        "TAWA_MMA_DEPTH": "1",
        "TAWA_COMPILE_BUDGET_S": "2.5",
        "TAWA_REPRODUCER_DIR": "/x",
        "TAWA_LOG": "info",
        "TAWA_REPORT": "/y/",
        "TAWA_TUNE_BUDGET": "0.5",
        "TAWA_COLLECT": "/z",
        "TAWA_BACKGROUND": "off",
        "TAWA_ARCH": "sm_100",
    }


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("TAWA_ENABLE", "maybe", "auto, off"),
        ("TAWA_VERIFY", "maybe", "off, fast, full"),
        ("TAWA_GLUON", "refuse", "auto, warn, raise, checked, proved"),
        ("TAWA_AREF_DEPTH", "0", "whole numbers, 1 or more"),
        ("TAWA_AREF_DEPTH", "two", "whole numbers, 1 or more"),
        ("TAWA_MMA_DEPTH", "-1", "whole numbers, 0 or more"),
        ("TAWA_COMPILE_BUDGET_S", "soon", "seconds, 0 or more"),
        ("TAWA_COMPILE_BUDGET_S", "nan", "seconds, 0 or more"),
        ("TAWA_LOG", "loud", "debug, info, warning, error"),
        ("TAWA_TUNE_BUDGET", "soon", "seconds, 0 or more"),
        ("TAWA_TUNE_BUDGET", "-1", "seconds, 0 or more"),
        ("TAWA_TUNE_BUDGET", "inf", "seconds, 0 or more"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(PlanError, match=f"{name}='{value}': allowed are {allowed}"):
        Settings.from_environment({name: value})


def test_an_empty_variable_is_no_setting() -> None:
    assert Settings.from_environment({"TAWA_AREF_DEPTH": " "}).aref_depth is None
