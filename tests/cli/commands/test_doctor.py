"""`tawa doctor`: a line for everything, also where a check fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tawa as package
from tawa.cli.doctor import folders
from tawa.cli.doctor.finding import Finding


def test_every_line_that_is_not_green_has_its_cure_and_status_0_says_that_nothing_is_red(tawa_json) -> None:
    found = tawa_json("doctor", "--quick")
    assert found["tawa"] == package.__version__ and found["state"] in ("green", "yellow")
    lines = [it for part in found.values() if isinstance(part, list) for it in part]
    assert {it["name"] for it in lines} >= {"Triton", "GPU", "ptxas", "Triton's cache", "TAWA_ENABLE"}
    assert all(bool(it["cure"]) == (it["state"] != "green") for it in lines)


def test_a_line_without_a_cure_is_refused() -> None:
    with pytest.raises(ValueError, match="has a cure"):
        Finding("GPU", "none", "yellow")
    with pytest.raises(ValueError, match="has a cure"):
        Finding("GPU", "one", "green", "buy another")


def test_something_red_is_status_1_and_the_cure_can_be_pasted(tawa, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TAWA_VERIFY", "perhaps")
    result = tawa("doctor", "--quick")
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "cure: TAWA_VERIFY=fast, or unset TAWA_VERIFY" in lines
    assert "1 must be mended" in lines[-1]


def test_a_check_that_fails_itself_is_a_red_line_and_the_others_are_made(tawa, monkeypatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("nothing here")

    monkeypatch.setattr(folders, "_tables", broken)
    result = tawa("doctor", "--quick", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and found["state"] == "red"
    (line,) = [it for it in found["folders"] if it["state"] == "red"]
    assert "ZeroDivisionError: nothing here" in line["found"] and "report" in line["cure"]
    assert found["settings"]


@pytest.mark.slow
def test_where_kernels_are_interpreted_the_self_test_compiles_one(tmp_path) -> None:
    variables = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tawa", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    found = json.loads(done.stdout)
    assert {it["name"]: it["state"] for it in found["self-test"]}["simulation"] == "green"
    assert {it["name"]: it["state"] for it in found["settings"]}["TRITON_INTERPRET"] == "yellow"


def test_tawa_env_says_where_it_has_gone(tawa) -> None:
    for more in ([], ["--json"]):
        result = tawa("env", *more)
        assert result.exit_code == 2 and "cure: tawa doctor" in result.stderr
    assert " env " not in tawa("--help").stdout
