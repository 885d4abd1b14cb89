"""A protocol with one writer is split by its readers; what is wrong for one of them is never proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.ir import parse_module, print_module
from tawa.verify.arefs import check_credits
from tawa.verify.free.pairs import pairs_of
from tawa.verify.skeleton.compiler import compile_barriers, compile_skeleton
from tawa.verify.skeleton.program import Part, Program
from tawa.verify.verdict import Proved
from tests.cases.programs import ping_pong as pairs
from tests.cases.programs import streams
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ops_named
from tests.support.sample import sample
from tests.verify.barriers.test_check import barrier
from tests.verify.credits.test_check import aref
from tests.verify.credits.test_check_mutations import wrong
from tests.verify.free.test_proof import proved
from tests.verify.mutations_aref import mutants


def skeleton(text: str) -> Program:
    program = compile_skeleton(parse_module(text))
    assert program is not None
    return program


def taken(ping_pong: bool) -> str:
    text = pairs.grouped(programs.tile_gemm())
    module, remarks = pairs.made(text, pairs.plan_of(text, ping_pong=ping_pong))
    assert not [it for it in remarks if it.kind == "declined"]
    return print_module(module)


def test_each_reader_makes_a_pair_with_the_writer() -> None:
    program = skeleton(taken(ping_pong=False))
    found = pairs_of(program)
    assert [[part.name for part in pair.parts] for pair in found] == [
        ["kernel", "producer", name] for name in ("consumer0", "consumer1")
    ]
    assert all(len(ring.readers) == 1 for pair in found for ring in pair.rings)


def test_a_ring_of_another_reader_stays_with_its_counts_and_never_waits() -> None:
    text = pairs.grouped(programs.tile_gemm()).replace("(%a_desc, %k,", "(%a_desc, %shift,")
    module, _ = pairs.made(text, pairs.plan_of(text, ping_pong=False))
    for pair in pairs_of(skeleton(print_module(module))):
        assert sorted(ring.left_out for ring in pair.rings) == [False, False, True]
    assert proved(module)


@pytest.mark.parametrize("text", [aref("tile"), taken(ping_pong=True)], ids=["one reader", "readers that alternate"])
def test_other_protocols_stay_whole(text: str) -> None:
    program = skeleton(text)
    assert pairs_of(program) == [program]


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_groups_that_read_parts_of_one_stream_are_proved(depth: int, tiles: bool) -> None:
    module = parse_module(streams.at_arefs(depth, streams.streams(tiles=tiles)))
    assert wrong(module, depth) == ""
    assert check_credits(module, effort="fast") == Proved()


@pytest.mark.parametrize("tiles", sample([True, False], 3))
def test_no_mutant_of_a_stream_with_a_fault_is_proved(tiles: bool) -> None:
    kept = refuted = 0
    for mutant in mutants(streams.at_arefs(2, streams.streams(tiles=tiles)), 3):
        if not proved(mutant.module):
            refuted += 1
            continue
        kept += 1
        if "second" not in mutant.kind and mutant.kind != "does not wait":
            assert wrong(mutant.module, 2) == "", str(mutant)
    assert kept and refuted > 5


@pytest.mark.parametrize("change", ["a cap may be negative", "more is left", "a stage takes all"])
def test_a_stream_is_proved_only_in_the_form_in_which_groups_read_it(change: str) -> None:
    module = parse_module(streams.at_arefs())
    least = [it for it in ops_named(module, "arith.minsi") if it.result.hint.startswith("trips")]
    if change == "a cap may be negative":
        caps = [it.operands[0].defining_op for it in least]
        for op in (it for it in caps if it is not None and it.name == "arith.maxsi"):
            op.result.replace_all_uses_with(op.operands[0])
    elif change == "more is left":
        for op in (it for it in ops_named(module, "arith.subi") if it.result.hint.startswith("left")):
            op.set_operand(1, op.operands[0])
    else:
        for op in least:
            op.result.replace_all_uses_with(op.operands[0])
    assert not proved(module)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_stage_that_is_left_out_is_not_proved(stage: int) -> None:
    """What is left is computed as before, but the group does not take its part."""
    module = parse_module(streams.at_arefs())
    loops = [it for it in ops_named(module, "scf.for") if "aref.get" in {op.name for op in it.walk()}]
    skipped = loops[3 + stage]  # of the second group: the first loop of the other one has no trips
    for result, init in zip(skipped.results, skipped.operands[3:], strict=True):
        result.replace_all_uses_with(init)
    skipped.erase()
    assert wrong(module, 2) and not proved(module)


def test_a_program_of_the_barrier_level_stays_whole() -> None:
    program = compile_barriers(barrier("tile"))
    two_readers = replace(program, parts=[*program.parts, Part("one"), Part("two")])
    assert pairs_of(two_readers) == [two_readers]
