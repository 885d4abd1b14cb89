"""The faults that ``python -m bench.foreign`` seeds into programs of others, on programs of this repository."""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from bench.foreign.faults import FAULTS, Fault
from bench.foreign.programs import Program, files_of
from bench.foreign.runs import oracle_of
from bench.foreign.verdicts import judge, verify
from tests.support.sample import sample
from tests.verify.mutations_oracle import Oracle, hand_written

GEMM = Path(__file__).parents[1] / "verify" / "data" / "gluon_gemm.triton3_6.mlir"
ATTENTION = GEMM.with_name("gluon_attention_ping_pong.triton3_6.mlir")


@cache
def programs() -> tuple[Program, ...]:
    pytest.importorskip("triton")
    from bench.foreign.programs import own_programs

    by_hand = (Program(path.name, path.stem, "", path.read_text()) for path in (GEMM, ATTENTION))
    in_tensor_memory = [it for it in own_programs(100) if it.version == "D=2"]
    return (*by_hand, *own_programs(), *in_tensor_memory)


@cache
def oracle(program: Program) -> Oracle | None:
    return Oracle(hand_written(program.kernel)) if program.kernel.startswith("gluon") else oracle_of(program)


def test_programs_without_a_fault_pass() -> None:
    assert {verify(it).verdict for it in programs()} <= {"proved", "checked"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda it: it.name)
def test_a_fault_is_refuted_where_it_applies_or_has_a_reason(fault: Fault) -> None:
    mutants = [(it, program) for program in programs() for it in sample(islice(fault.mutants(program.text), 6), 4)]
    found = [judge(it, oracle(program)) for it, program in mutants]
    assert any(it.verdict == "refuted" for it in found)
    assert [it for it in found if not it.explained] == []


def test_a_reason_that_rests_on_many_runs_explains_nothing_without_them() -> None:
    program = next(it for it in programs() if it.kernel == "attention")
    no_wait_for_full = next(it for it in FAULTS if it.name == "no wait for full")
    implied = next(it for it in no_wait_for_full.mutants(program.text) if it.site.number == 2)
    assert (judge(implied).verdict, judge(implied).why, judge(implied).explained) == ("proved", "implied", False)
    assert judge(implied, oracle(program)).explained


def test_a_checkout_of_triton_gives_its_gluon_files(tmp_path: Path) -> None:
    folder = tmp_path / "python" / "tutorials" / "gluon"
    folder.mkdir(parents=True)
    for name in ("01-intro.py", "conftest.py", "__init__.py"):
        (folder / name).write_text("")
    assert [name for name, _ in files_of(tmp_path)] == ["python/tutorials/gluon/01-intro.py"]
    assert [name for name, _ in files_of(folder)] == ["01-intro.py"]
    assert [name for name, _ in files_of(folder / "01-intro.py")] == ["01-intro.py"]
