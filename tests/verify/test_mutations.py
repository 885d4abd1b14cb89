"""Mutants are refuted or equivalent, by kind and shape of kernel: a sample of the sweep of ``bench/mutations.py``.

A hash of the names selects the kernel of a shape, and the site in it.
"""

from __future__ import annotations

import functools
import itertools
import zlib

import pytest

pytest.importorskip("triton")

from tawa.errors import PlanError
from tawa.ir import parse_module, parse_type
from tawa.ir.types import MemDescType
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Refuted
from tests.cases.case import Specimen
from tests.cases.gemm.cases import SPECIALISED, find
from tests.sim.problems import ttgir
from tests.support.pipeline import specialise
from tests.support.sample import EVERY_CASE, sample
from tests.support.verdicts import passes
from tests.verify import mutations_aref, mutations_barrier
from tests.verify.mutations_edits import ARRIVE, WAIT, Kind, Mutant, drop
from tests.verify.mutations_oracle import DATA, GLUON, Level, Oracle, Subject, converter, hand_written, kernel
from tests.verify.mutations_sweep import all_sites, check, family, judge, kinds, mutant_of

LEVELS: tuple[Level, ...] = ("aref", "barrier")
FAMILIES: dict[str, list[Specimen]] = {
    name: list(cases) for name, cases in itertools.groupby(sorted(SPECIALISED, key=family), key=family)
}


def hashed(*names: str) -> int:
    return zlib.crc32(" ".join(names).encode())


@functools.cache
def oracle(name: str, level: Level) -> Oracle:
    return Oracle(hand_written(name) if name in GLUON else kernel(name, level))


def chosen(subject: Subject, kind: Kind) -> Mutant | None:
    """One mutant of a kind; None if the program has no site for it."""
    places = [site for site in all_sites(subject) if site.kind is kind]
    start = hashed(subject.name, subject.level, kind.name)
    for step in range(len(places)):
        mutant = mutant_of(subject, places[(start + step) % len(places)])
        if mutant is not None:
            return mutant
    return None


def unlike(simulator: Oracle, wanted: Kind) -> str:
    """The objection to the fate of one mutant; empty if there is none."""
    mutant = chosen(simulator.subject, wanted)
    if mutant is None:
        return ""
    found = judge(mutant, simulator)
    fine = found.fate in ("refuted", "equivalent", "other values")
    return "" if fine else f"{found.subject}, {found.mutant}: {found.fate}: {found.why}"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", FAMILIES)
def test_every_kind_of_mutant_is_refuted_or_equivalent(shape: str, level: Level) -> None:
    cases = FAMILIES[shape]
    picked = [(hashed(shape, kind.name), kind) for kind in kinds(level)]
    found = [
        unlike(oracle(cases[it // 3 % len(cases)].name, level), kind)
        for it, kind in picked
        if EVERY_CASE or it % 18 == 0
    ]
    assert [text for text in found if text] == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["tile_64x64", "persistent"])
def test_every_kind_of_mutant_with_three_slots_is_refuted_or_equivalent(name: str, level: Level) -> None:
    simulator = Oracle(kernel(name, level, 3, 2))
    found = [unlike(simulator, kind) for kind in sample(kinds(level), 8)]
    assert [text for text in found if text] == []


@pytest.mark.parametrize("level", LEVELS)
def test_every_kind_of_mutant_with_a_converter_is_refuted_or_equivalent(level: Level) -> None:
    simulator = Oracle(converter(level))
    found = [unlike(simulator, kind) for kind in sample(kinds(level), 8)]
    assert [text for text in found if text] == []


@pytest.mark.parametrize("name", GLUON)
def test_every_kind_of_mutant_of_hand_written_programs_is_refuted_or_equivalent(name: str) -> None:
    found = [unlike(oracle(name, "barrier"), kind) for kind in sample(mutations_barrier.KINDS, 8)]
    assert [text for text in found if text] == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", FAMILIES)
def test_programs_without_a_mutation_are_proved(shape: str, level: Level) -> None:
    subject = kernel(FAMILIES[shape][0].name, level)
    verdict = check(level, parse_module(subject.text))
    assert passes(verdict), verdict


def test_every_kind_applies_somewhere() -> None:
    names = ("tile_64x64", "persistent", "gate_up")
    for level in LEVELS:
        subjects = [*(oracle(name, level).subject for name in names), kernel("persistent", level, 3, 2)]
        if level == "barrier":
            subjects.append(oracle(GLUON[1], level).subject)
        for kind in kinds(level):
            assert any(chosen(subject, kind) for subject in subjects), kind.name


# -- ping-pong ---------------------------------------------------------------------------------------------------------

PING_PONG = (DATA / "gluon_attention_ping_pong.triton3_6.mlir").read_text()


def token_arrivals() -> list[int]:
    """The numbers of the arrivals on the barriers of the ping-pong token."""
    module = parse_module(PING_PONG)
    row = next(op.result for op in module.walk() if any(result.hint.startswith("pp") for result in op.results))
    held = next(op for op in module.walk() if op.name == "ttg.warp_specialize")
    captured = [block.args[held.operands.index(row)] for block in held.regions[1].block.ops[0].regions[0].blocks]
    captured += [region.block.args[held.operands.index(row)] for region in held.regions[1].block.ops[0].regions[1:]]
    numbers: list[int] = []
    for number, op in enumerate(op for op in module.walk() if op.name == ARRIVE):
        view = op.operands[0].defining_op
        if view is not None and view.operands[0] in (row, *captured):
            numbers.append(number)
    return numbers


def test_a_ping_pong_token_that_is_never_put_is_a_deadlock() -> None:
    numbers = token_arrivals()
    assert len(numbers) == 4  # at entry and in the loop, of each group
    for number in numbers:
        module = parse_module(PING_PONG)
        drop([op for op in module.walk() if op.name == ARRIVE][number])
        verdict = check_barriers(module)
        assert isinstance(verdict, Refuted) and verdict.witness.message.startswith("deadlock"), (number, verdict)
        assert any(step.action == "wait" for step in verdict.witness.steps)


# -- D and P -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "mma_depth"), [(1, 1), (2, 2), (2, 3), (3, 3)])
def test_a_plan_with_too_few_slots_is_an_error(depth: int, mma_depth: int) -> None:
    case = find("persistent")
    text, target = ttgir("persistent"), Target(case.num_warps, case.num_stages)
    with pytest.raises(PlanError, match=r"D >= P \+ 1"):
        specialise(text, PlanOptions(aref_depth=depth, mma_depth=mma_depth), target)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["tile_64x64", "persistent", "gate_up", "two_loops"])
@pytest.mark.parametrize("change", [mutations_aref.one_slot_less, mutations_aref.as_many_pending])
def test_a_program_built_without_that_check_is_refuted(name: str, level: Level, change: object) -> None:
    subject = kernel(name, level)
    kind = next(it for it in mutations_aref.DEPTHS if it.change is change)
    mutant = chosen(subject, kind)
    assert mutant is not None
    verdict = check(level, mutant.module)
    assert isinstance(verdict, Refuted), verdict
    assert verdict.witness.kind in ("deadlock", "write before release", "arrive count")


def test_a_lowered_mutant_has_one_barrier_per_slot() -> None:
    kind = mutations_aref.DEPTHS[2]
    mutant = chosen(kernel("persistent", "barrier"), kind)
    assert mutant is not None
    types = [parse_type(op.result.type) for op in mutant.module.walk() if op.name == "ttg.local_alloc"]
    rows = [type.shape[0] for type in types if isinstance(type, MemDescType) and type.element == "i64"]
    assert rows == [3, 3]
    assert any(op.name == WAIT for op in mutant.module.walk())
