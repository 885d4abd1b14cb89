"""The lines on settings: each with its origin."""

from __future__ import annotations

from tawa.cli.doctor.settings import settings
from tawa.runtime.settings import Settings
from tests.cli.doctor.conftest import by_name


def test_every_setting_has_its_line_and_origin() -> None:
    found = by_name(settings({"TAWA_MMA_DEPTH": "2"}))
    assert set(found) == set(Settings.from_environment({}).as_variables())
    assert (found["TAWA_MMA_DEPTH"].found, found["TAWA_MMA_DEPTH"].data["value"]) == ("2 (environment)", "2")
    assert found["TAWA_LOG"].found == "warning (default)"
    assert {it.data["origin"] for name, it in found.items() if name != "TAWA_MMA_DEPTH"} == {"default"}


def test_a_wrong_value_is_red_and_the_others_are_still_shown() -> None:
    found = by_name(settings({"TAWA_LOG": "loud", "TAWA_MMA_DEPTH": "1"}))
    assert found["TAWA_LOG"].state == "red"
    assert found["TAWA_LOG"].found.startswith("'loud' (environment): allowed are debug")
    assert found["TAWA_LOG"].cure == "TAWA_LOG=warning, or unset TAWA_LOG"
    assert found["TAWA_MMA_DEPTH"].state == "green"


def test_settings_that_contradict_each_other_are_red() -> None:
    lines = [it for it in settings({"TAWA_AREF_DEPTH": "1", "TAWA_MMA_DEPTH": "2"}) if it.state == "red"]
    assert [it.name for it in lines] == ["TAWA_AREF_DEPTH"] and "unset" in lines[0].cure


def test_a_misspelt_setting_is_yellow_with_the_right_name() -> None:
    found = by_name(settings({"TAWA_MMA_DEPHT": "2"}))["TAWA_MMA_DEPHT"]
    assert found.state == "yellow" and "did you mean TAWA_MMA_DEPTH?" in found.cure


def test_variables_of_triton_that_change_what_tawa_does_are_shown() -> None:
    found = by_name(settings({"TRITON_INTERPRET": "1", "TRITON_PTXAS_PATH": "/cuda/bin/ptxas"}))
    assert (found["TRITON_INTERPRET"].state, found["TRITON_INTERPRET"].cure) == ("yellow", "unset TRITON_INTERPRET")
    assert found["TRITON_PTXAS_PATH"].state == "green"
    assert "TRITON_INTERPRET" not in by_name(settings({"TRITON_INTERPRET": "0"}))
