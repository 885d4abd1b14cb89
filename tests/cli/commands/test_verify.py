"""``tawa verify``: what is proved, checked, refuted and unknown, as whoever types it sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tawa.remarks import SourceLocation
from tawa.runtime import protocol
from tawa.verify import check
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict, Witness
from tests.cli.conftest import FILL, GEMM, KERNELS
from tests.support.verdicts import credits_proved, passes

DATA = Path(__file__).parents[2] / "verify" / "data"
GLUON = DATA / "gluon_gemm.triton3_6.mlir"
ACCEPT = ("--accept", "checked")
TRIED = Checked("barriers: K in 0, 64, 448", "the loop's end is loaded in its body", SourceLocation(str(KERNELS), 7))

Tawa = Callable[..., Result]


@pytest.fixture
def barrier(tawa: Tawa) -> str:
    """The barrier level of a kernel, as Tawa writes it."""
    return tawa("compile", *GEMM, "--emit", "barrier").stdout


def without(text: str, part: str) -> str:
    """The text without its first line that has `part`."""
    lines = text.splitlines()
    del lines[next(number for number, line in enumerate(lines) if part in line)]
    return "\n".join(lines)


@pytest.fixture
def broken(barrier: str, tmp_path: Path) -> Path:
    """A program that never gives its slots back."""
    path = tmp_path / "broken.mlir"
    path.write_text(without(barrier, '"ttng.arrive_barrier"'))
    return path


@pytest.mark.parametrize("path", sorted(DATA.glob("*.mlir")), ids=lambda path: path.name)
def test_programs_by_other_hands_pass(tawa: Tawa, path: Path) -> None:
    result = tawa("verify", str(path), *ACCEPT)
    assert result.exit_code == 0, result.stdout
    assert passes(result.stdout)


def test_of_a_kernel_both_levels_pass_and_their_refinement(tawa: Tawa) -> None:
    result = tawa("verify", *GEMM, *ACCEPT, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert credits_proved(found) and found["levels"] == ["aref", "barrier"]


@pytest.mark.parametrize(("level", "found"), [("aref", "aref"), ("barrier", "barrier"), ("ttgir", "barrier")])
def test_what_compile_prints_can_be_verified(tawa: Tawa, tmp_path: Path, level: str, found: str) -> None:
    path = tmp_path / f"gemm.{level}"
    path.write_text(tawa("compile", *GEMM, "--emit", level).stdout)
    result = tawa("verify", str(path), *ACCEPT, "--json")
    assert result.exit_code == 0, result.stdout
    assert json.loads(result.stdout)["levels"] == [found]


def test_a_proof_is_status_0_and_says_for_which_runs(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "gemm.aref"
    path.write_text(tawa("compile", *GEMM, "--emit", "aref").stdout)
    result = tawa("verify", str(path))
    assert result.exit_code == 0, result.stdout
    assert result.stdout == "proved: all trip counts, all arguments, all interleavings\n"


@pytest.mark.parametrize(("accept", "status"), [((), 4), (("--accept", "proved"), 4), (ACCEPT, 0)])
def test_what_is_only_checked_is_status_4_unless_that_is_accepted(
    accept: tuple[str, ...], status: int, tawa: Tawa, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "check_levels", lambda *_, **__: TRIED)
    result = tawa("verify", str(GLUON), *accept)
    assert result.exit_code == status
    lines = result.stdout.splitlines()
    assert lines[:2] == ["checked: barriers: K in 0, 64, 448", "  not proved: the loop's end is loaded in its body"]
    assert lines[2].startswith("  --> ") and lines[2].endswith(f"{KERNELS.name}:7")
    found = json.loads(tawa("verify", str(GLUON), *accept, "--json").stdout)
    assert (found["verdict"], found["bound"], found["left"]) == ("checked", TRIED.bound, TRIED.left)
    assert found["location"] == f"{KERNELS}:7"


@pytest.mark.parametrize("verdict", [Unknown("a clock"), Refuted(Witness("deadlock", "nobody moves", {}, ()))])
def test_accepting_a_check_accepts_nothing_else(verdict: Verdict, tawa: Tawa, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "check_levels", lambda *_, **__: verdict)
    statuses = [tawa("verify", str(GLUON), *accept).exit_code for accept in ((), ACCEPT)]
    assert statuses == [2 if isinstance(verdict, Unknown) else 1] * 2


def test_of_a_declined_kernel_stock_tritons_program_is_checked_and_that_is_said(tawa: Tawa) -> None:
    result = tawa("verify", *FILL, *ACCEPT)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()[:2]
    assert first.startswith("note: not specialised: no tl.dot") and first.endswith("stock Triton's program is checked")
    assert passes(second)


def test_a_refuted_program_shows_message_place_and_table(tawa: Tawa, broken: Path) -> None:
    result = tawa("verify", str(broken))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("refuted: deadlock: ") and "waits for" in lines[0]
    assert lines[0].count("deadlock") == 1
    assert lines[1].startswith("  --> ") and "kernels.py:" in lines[1]
    assert "acc = tl.dot(" in lines[2] and lines[3].strip(" |") == "^"
    assert any(line.split() == ["#", "default", "TMA", "barrier", "partition0"] for line in lines)
    assert lines[-1] == "numbers after a colon are lines of kernels.py"


def test_a_program_without_locations_is_shown_by_its_own_lines(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "gluon.mlir"
    path.write_text(without(GLUON.read_text(), '"ttng.arrive_barrier"'))
    result = tawa("verify", str(path))
    assert result.exit_code == 1
    assert f"--> {path}:" in result.stdout and '"ttng.wait_barrier"' in result.stdout


def test_the_run_that_goes_wrong_is_saved_as_a_trace(tawa: Tawa, broken: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert tawa("verify", str(broken), "--trace", str(trace)).exit_code == 1
    assert any(event["name"].startswith("wait") for event in json.loads(trace.read_text())["traceEvents"])


def test_of_a_program_without_a_fault_there_is_no_trace_and_that_is_said(tawa: Tawa, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = tawa("verify", str(GLUON), *ACCEPT, "--trace", str(trace))
    assert result.exit_code == 0 and not trace.exists()
    assert f"no {trace} was written" in result.stderr


def test_json_has_the_same_keys_for_every_verdict(tawa: Tawa, broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [tawa("verify", str(broken), "--json")]
    for verdict in (Unknown("who knows"), TRIED, Proved()):
        monkeypatch.setattr(check, "check_levels", lambda *_, verdict=verdict, **__: verdict)
        results.append(tawa("verify", str(GLUON), "--json"))
    assert [it.exit_code for it in results] == [1, 2, 4, 0]
    refuted, unknown, checked, proved = found = [json.loads(it.stdout) for it in results]
    assert refuted.keys() == unknown.keys() == checked.keys() == proved.keys()
    assert {"verdict", "bound", "left", "kind", "witness", "assumptions", "reason", "levels", "specialised"} <= (
        proved.keys()
    )
    assert [it["verdict"] for it in found] == ["refuted", "unknown", "checked", "proved"]
    assert refuted["kind"] == "deadlock" and refuted["witness"]["steps"]
    assert proved["levels"] == ["barrier"] and proved["specialised"] is None


def test_assumptions_and_trips_reach_the_check_and_are_reported(tawa: Tawa, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []

    def checks(*_, **options) -> Proved:
        given.append({name: options[name] for name in ("assume", "max_trips")})
        return Proved(tuple(options["assume"]))

    monkeypatch.setattr(check, "check_levels", checks)
    result = tawa("verify", str(GLUON), "--assume", "arg15 >= 128", "--assume", "arg15 % 64 == 0", "--trips", "1")
    assert result.exit_code == 0
    assert given == [{"assume": ["arg15 >= 128", "arg15 % 64 == 0"], "max_trips": 1}]
    assert {"  assuming arg15 >= 128", "  assuming arg15 % 64 == 0"} <= {*result.stdout.splitlines()}


def test_what_is_refuted_in_a_kernel_is_status_1(tawa: Tawa, monkeypatch: pytest.MonkeyPatch) -> None:
    read_levels = protocol.read_levels

    def without_releases(compiled):
        levels = read_levels(compiled)
        for op in [op for op in levels[1].walk() if op.name == "ttng.arrive_barrier"]:
            op.erase()
        return levels

    monkeypatch.setattr(protocol, "read_levels", without_releases)
    result = tawa("verify", *GEMM)
    assert result.exit_code == 1
    assert result.stdout.startswith("refuted: ")


# --- unknown ----------------------------------------------------------------------------------------------------------


def test_what_is_not_understood_is_unknown_with_its_place(tawa: Tawa, barrier: str, tmp_path: Path) -> None:
    path = tmp_path / "mystery.mlir"
    path.write_text(barrier.replace('"ttng.arrive_barrier"', '"ttng.mystery"', 1))
    result = tawa("verify", str(path))
    assert result.exit_code == 2
    assert result.stdout.startswith("unknown: ") and "ttng.mystery" in result.stdout
    assert "proved" not in result.stdout
    assert "--> " in result.stdout and "tl.dot" in result.stdout


def test_a_spent_budget_comes_with_a_cure(tawa: Tawa, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        check, "check_levels", lambda *_, **__: Unknown("barriers: the budget ended after 1 of 9 choices")
    )
    result = tawa("verify", str(GLUON))
    assert result.exit_code == 2
    assert "cure: try fewer trips (--trips 2)" in result.stdout


def test_assumptions_that_leave_no_run_prove_nothing(tawa: Tawa) -> None:
    result = tawa("verify", *GEMM, "--assume", "K >= 128 and K < 128")
    assert result.exit_code == 2
    assert result.stdout.startswith("unknown: ")


def test_a_failure_of_the_check_itself_is_not_taken_for_a_refutation(
    tawa: Tawa, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_, **__) -> Proved:
        raise KeyError("slot")

    monkeypatch.setattr(check, "check_levels", fails)
    result = tawa("verify", str(GLUON))
    assert result.exit_code == 2
    assert "internal error: KeyError: 'slot'" in result.stderr


def test_a_kernel_that_triton_refuses_is_status_2(tawa: Tawa) -> None:
    result = tawa("verify", f"{KERNELS}:broken", "--sig", "x=*fp16", "--const", "BM=64")
    assert result.exit_code == 2
    assert "NameError: no_such_name is not defined" in result.stderr


# --- wrong usage ------------------------------------------------------------------------------------------------------

WRONG = {
    "nothing": ([], "no program is named", "--cached NAME"),
    "unknown option": ([str(GLUON), "--tripz", "3"], "No such option", ""),
    "no number": ([str(GLUON), "--trips", "many"], "Invalid value for '--trips'", ""),
    "no such file": (["tests/verify/data/gluon_gem.triton3_6.mlir"], "no file", "did you mean"),
    "a folder": ([str(DATA)], "is a folder", "cure: name a file in it"),
    "kernel without name": ([str(KERNELS)], "names no kernel", "FILE.py:KERNEL"),
    "no such kernel": ([f"{KERNELS}:gem"], "has no kernel 'gem'", "did you mean 'gemm'?"),
    "signature of a program": ([str(GLUON), "--sig", "K=i32"], "--sig goes with FILE.py:KERNEL", "leave --sig out"),
    "no assumption": ([str(GLUON), "--assume", "L > K"], "'L > K' is not an assumption", "L >= 128"),
    "assumption about nobody": ([str(GLUON), "--assume", "nobody >= 1"], "argument nobody", "arg15"),
    "option of Tawa": ([*GEMM, "--option", "aref_dept=3"], "unknown option 'aref_dept'", "'aref_depth'"),
    "trace nowhere": ([str(GLUON), "--trace", "/no/such/folder/trace.json"], "--trace /no/such", "folder that exists"),
}


@pytest.mark.parametrize(("arguments", "what", "cure"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_status_3_and_says_what_to_type(
    tawa: Tawa, monkeypatch: pytest.MonkeyPatch, arguments: list[str], what: str, cure: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    result = tawa("verify", *arguments)
    assert result.exit_code == 3, result.stdout
    assert result.stdout == ""
    assert what in result.stderr and cure in result.stderr


def test_unreadable_programs_are_status_3_with_the_line(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "hello.ttgir"
    path.write_text("module {\n  hello\n}\n")
    result = tawa("verify", str(path))
    assert result.exit_code == 3
    assert "cannot read hello.ttgir" in result.stderr and f"--> {path}:2" in result.stderr and "cure:" in result.stderr


@pytest.mark.parametrize("command", ["verify", "simulate"])
def test_help_names_the_statuses(tawa: Tawa, command: str) -> None:
    result = tawa(command, "--help")
    assert result.exit_code == 0
    assert "Exit status: 0 " in result.stdout and "3 wrong usage" in result.stdout
