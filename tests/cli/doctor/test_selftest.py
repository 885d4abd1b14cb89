"""The self-test: a kernel through the compiler, the proof and the simulator, whatever state the machine is in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tawa.demo
from tawa.bridge.launch.first import background
from tawa.bridge.triton import versions
from tawa.cli.doctor.selftest import self_test
from tawa.sim import simulate
from tests.cli.doctor.conftest import by_name


def test_a_kernel_is_compiled_proved_and_simulated_without_the_users_cache(own_folders: Path) -> None:
    (own_folders / "triton").write_text("")  # a broken cache, which has its own line
    found = by_name(self_test())
    assert [it.state for it in found.values()] == ["green"] * 4
    assert list(found) == ["background worker", "compile", "proof", "simulation"]
    assert os.environ["TRITON_CACHE_DIR"] == str(own_folders / "triton")


def test_a_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_BACKGROUND", "on")
    found = next(iter(self_test()))
    assert (found.name, found.state) == ("background worker", "green") and found.data["workers"] >= 1


def test_a_worker_that_ends_is_red_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_BACKGROUND", "on")
    monkeypatch.setattr(background, "_COMPILER", "tawa.no_such_module")
    found = next(iter(self_test()))
    assert found.state == "red" and "no_such_module" in found.found and "TAWA_BACKGROUND=off" in found.cure


def test_on_an_unsupported_triton_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "triton_version", lambda: (3, 12, 0))
    (found,) = self_test()
    assert found.state == "yellow" and "outside the tested range" in found.found and "pip install" in found.cure


def test_with_a_wrong_setting_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_LOG", "loud")
    (found,) = self_test()
    assert found.state == "yellow" and "TAWA_LOG='loud'" in found.found


def test_other_bits_in_the_simulator_are_red(monkeypatch: pytest.MonkeyPatch) -> None:
    import tawa.runtime.simulation as simulation

    def wrong(module: Any, arguments: Any, grid: Any, order: Any = "eager", *rest: Any, **more: Any) -> Any:
        result = simulate(module, arguments, grid, order, *rest, **more)
        if order == "late":
            arguments["c_desc"].array[0, 0] += 1
        return result

    monkeypatch.setattr(simulation, "simulate_module", wrong)
    found = by_name(self_test())["simulation"]
    assert found.state == "red" and found.found.startswith("other bits") and "report" in found.cure


@pytest.mark.parametrize("faults, state", [((), "green"), (("2.50 x the error allowed",), "red")])
def test_on_a_hopper_gpu_the_kernel_is_launched_and_judged(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[str, ...], state: str
) -> None:
    """A stand-in plays the GPU."""
    race = ModuleType("tawa.demo.gpu_race")
    launched: list[Any] = []

    def judge_launch(_: Any, kernel: Any) -> tuple[str, ...]:
        launched.append(kernel)
        return faults

    monkeypatch.setattr(race, "hopper_present", lambda: True, raising=False)
    monkeypatch.setattr(race, "judge_launch", judge_launch, raising=False)
    monkeypatch.setitem(sys.modules, "tawa.demo.gpu_race", race)
    monkeypatch.setattr(tawa.demo, "gpu_race", race, raising=False)
    monkeypatch.setattr(tawa, "explain", lambda kernel: SimpleNamespace(applied=True))
    found = by_name(self_test())["launch"]
    assert found.state == state and launched[0].tawa_defaults.options.only_if_faster is False
    assert ("(specialised)" in found.found) == (not faults)


@pytest.mark.gpu
def test_a_kernel_is_launched_on_this_gpu() -> None:
    found = by_name(self_test())["launch"]
    assert found.state == "green" and "specialised" in found.found, found
