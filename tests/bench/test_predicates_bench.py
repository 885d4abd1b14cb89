"""The programs and the truth of ``python -m bench.predicates``."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.predicates.__main__ import main
from bench.predicates.draw import Draw, program_at
from bench.predicates.programs import Load, Program, simple, text
from bench.predicates.runs import faulty, run_of, stuck
from bench.predicates.terms import ALWAYS, COMPARISONS, NUMBERS, Term, number, term, variable
from bench.predicates.truth import Known, launches, truth_of
from bench.predicates.verdicts import Judged
from tawa.ir import parse_module
from tests.support.sample import seeds

K, T, ITEM, PID = (variable(name) for name in ("K", "T", "i", "pid"))


def ring(release: Term, **more: Any) -> Program:
    """A ring of two slots around one loop to K, with changes."""
    return replace(Program(2, None, simple(K), ("count", "pair"), (release,), "random"), **more)


@pytest.mark.parametrize("seed", seeds(300))
def test_counting_the_releases_and_stepping_agree(seed: int) -> None:
    program = Draw(random.Random(seed)).program()
    for vector in islice(launches(program, program.variables()), 25):
        run = run_of(program, vector)
        if run is not None and run.total <= 60:
            assert faulty(program, run) == bool(stuck(program, vector)), f"{program}, {vector}"


@pytest.mark.parametrize(
    ("program", "launch"),
    [
        pytest.param(ring(term("ge", K, term("add", PID, 1))), {"pid": 5}, id="the program is large"),
        pytest.param(ring(term("ne", ITEM, 300)), {"pid": 0}, id="an iteration far away"),
        pytest.param(ring(term("lt", term("rem", term("mul", ITEM, 3), 7), 6)), {"pid": 0}, id="a remainder"),
        pytest.param(ring(ALWAYS, releases=(ALWAYS, ALWAYS)), {"pid": 0}, id="released twice"),
        pytest.param(ring(term("eq", term("rem", K, 64), 0)), {"pid": 0}, id="no multiple"),
    ],
)
def test_a_faulty_program_has_a_launch_that_is_stuck(program: Program, launch: dict[str, int]) -> None:
    known = truth_of(program)
    assert known is not None
    assert known.truth == "faulty"
    assert known.wrong
    assert known.launch.items() >= launch.items()


def test_the_last_rounds_need_no_release() -> None:
    assert truth_of(ring(term("lt", variable("k"), term("sub", K, 2)), right=True)) == Known("right", {})
    known = truth_of(ring(term("lt", variable("k"), term("sub", K, 3))))
    assert known is not None
    assert known.truth == "faulty"


def test_a_predicate_that_is_only_said_to_be_right_is_an_error() -> None:
    with pytest.raises(AssertionError, match="right by construction"):
        truth_of(ring(term("ne", ITEM, 3), right=True))


def test_a_program_without_a_fault_or_a_reason_is_not_decided() -> None:
    assert truth_of(ring(term("ge", term("add", K, T), term("add", T, K)))) is None


def test_a_masked_number_is_its_default() -> None:
    load = Load(number(0), term("gt", K, 3), 2)
    program = ring(term("gt", variable("m"), 1), inner=simple(3), depth=1, load=load)
    known = truth_of(program)
    assert known is not None
    assert known.launch["K"] > 3


@pytest.mark.parametrize(
    ("op", "a", "b", "value"),
    [
        ("div", -7, 2, -3), ("rem", -7, 2, -1), ("rem", 7, -4, 3), ("add", 2**31 - 1, 1, -(2**31)),
        ("sub", -(2**31), 1, 2**31 - 1), ("mul", 2**30, 2, -(2**31)), ("left", 3, 30, -(2**30)), ("right", -5, 1, -3),
        ("bit_and", -3, 1, 1), ("min", -3, 1, -3), ("ult", 1, -1, 1), ("lt", 1, -1, 0),
    ],
)  # fmt: skip
def test_numbers_have_32_bits(op: str, a: int, b: int, value: int) -> None:
    assert op in NUMBERS or op in COMPARISONS
    assert int(term(op, a, b).value({})) == value


def test_the_same_number_is_the_same_program() -> None:
    once, again = ([str(program_at(1, place).program) for place in range(20)] for _ in range(2))
    assert once == again
    assert len(set(once)) == len(once)


def test_triton_reads_every_program() -> None:
    pytest.importorskip("triton")
    from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
    from tawa.bridge.triton.structured import new_context

    context = new_context()
    for seed in seeds(120):
        written = text(Draw(random.Random(seed)).program())
        parse_module(written)
        parse_with_triton(written, context)


def test_a_verdict_is_false_if_it_is_the_opposite_of_the_truth() -> None:
    drawn = program_at(0, 0)
    wrong = {"faulty": "proved", "right": "refuted"}[drawn.known.truth]
    assert {it: bool(Judged(0, drawn, it, "", 0.0).false) for it in ("proved", "refuted", "unknown", "checked")} == {
        **dict.fromkeys(("proved", "refuted", "unknown", "checked"), False),
        wrong: True,
    }


def test_a_run_of_the_bench_writes_counts_and_false_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.harness.RESULTS", tmp_path)
    status = main(["--count", "30", "--processes", "1", "--effort", "fast"])
    rows = json.loads((tmp_path / "predicates.json").read_text())["rows"]
    assert sum(row["case"]["programs"] for row in rows if row["candidate"] == "verdicts") == 30
    assert status == any(row["candidate"] in ("false proved", "false refuted") for row in rows)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_dumped_program_can_be_read(place: int, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    from tawa.bridge.triton.read_module import read_ttgir

    main(["--dump", str(place), str(tmp_path)])
    (path,) = tmp_path.iterdir()
    assert path.suffixes[0] == {"faulty": ".refuted", "right": ".proved"}[program_at(0, place).known.truth]
    assert [arg.hint for arg in kernel_arguments(read_ttgir(path))][-2:] == ["K", "T"]


def kernel_arguments(module: Any) -> Any:
    from tawa.bridge.triton.read_module import kernel_of

    return kernel_of(module).body.args
