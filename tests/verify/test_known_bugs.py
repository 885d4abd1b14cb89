"""Known bugs, each as a program: the wrong one is refuted, its fixed twin and Tawa's own kernels are proved.

A file in `known_bugs` contains both: lines marked ``// wrong`` or ``// mended`` belong to one of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import FaultKind, Proved, Refuted, Verdict
from tawa.verify.witness import describe
from tests.cases.gemm.cases import find
from tests.cases.programs import ttgir as programs
from tests.matrix.compiling import compile_case, pinned
from tests.support.pipeline import specialise
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

BUGS = Path(__file__).parent / "known_bugs"


def twin(name: str, which: str) -> Module:
    """The wrong or the fixed program of a file."""
    other = {"wrong": "mended", "mended": "wrong"}[which]
    lines = (BUGS / f"{name}.mlir").read_text().splitlines()
    kept = [line.partition("  // ")[0] for line in lines if not line.startswith("//") and not line.endswith(other)]
    assert len(kept) < len([line for line in lines if not line.startswith("//")]), "the twins are the same"
    return parse_module("\n".join(kept))


def credits_tell(name: str, kind: FaultKind, inputs: dict[str, int]) -> None:
    """The credit check refutes the wrong program by its smallest run, and proves its twin for all trip counts."""
    _tells(name, kind, inputs, check_credits)
    assert check_credits(twin(name, "mended")) == Proved()


def barriers_tell(name: str, kind: FaultKind, inputs: dict[str, int]) -> None:
    """The barrier check refutes the wrong program, and proves its twin."""
    _tells(name, kind, inputs, check_barriers)
    mended = check_barriers(twin(name, "mended"))
    assert passes(mended), describe(mended)


def _tells(name: str, kind: FaultKind, inputs: dict[str, int], check: Callable[[Module], Verdict]) -> None:
    wrong = check(twin(name, "wrong"))
    assert isinstance(wrong, Refuted), wrong
    assert wrong.witness.kind == kind, describe(wrong)
    assert {argument: wrong.witness.inputs.get(argument) for argument in inputs} == inputs


def own_kernel_is_proved(text: str, plans: tuple[tuple[int, int], ...] = ((1, 0), (2, 1), (3, 2))) -> None:
    """Tawa specialises a kernel of the same shape, and both levels are proved."""
    for depth, mma_depth in plans:
        made = specialise(text, PlanOptions(aref_depth=depth, mma_depth=mma_depth), Target(4, 3))
        assert made.applied, made.remarks
        assert check_credits(parse_module(made.aref)) == Proved()
        low = check_barriers(parse_module(made.barrier))
        assert passes(low), describe(low)


# -- trip counts -------------------------------------------------------------------------------------------------------


def test_a_loop_of_a_single_iteration_deadlocks() -> None:
    """tilelang#2566: kernels with one k-iteration hang."""
    credits_tell("single_iteration", "deadlock", {"n": 1})
    own_kernel_is_proved(programs.tile_gemm())


def test_zero_trips_leave_a_slot_full() -> None:
    """triton#2146: K = 0 hangs or gives a wrong result."""
    credits_tell("zero_trips", "leftover credit", {"n": 0})
    own_kernel_is_proved(programs.tile_gemm())


def test_fewer_trips_than_wgmmas_in_flight_release_a_slot_before_its_get() -> None:
    """Prologues and epilogues written for P iterations, with K / BK < P."""
    credits_tell("trips_below_p", "order", {"n": 0})
    own_kernel_is_proved(programs.tile_gemm(), ((2, 1), (3, 2), (4, 3)))


def test_after_an_empty_first_loop_the_second_has_nothing_to_release() -> None:
    """triton#9728: causal attention with two consecutive loops; the first is empty for the first rows."""
    credits_tell("empty_first_loop", "order", {"n": 0})
    own_kernel_is_proved(programs.two_loops())


def test_tile_times_trips_is_a_wrong_count_if_trips_vary_by_tile() -> None:
    """Ragged and triangular kernels: slot and parity computed from the tile index."""
    barriers_tell("trips_that_vary_by_tile", "read before write", {"n": 0, "m": 2})
    own_kernel_is_proved(programs.persistent_gemm())


# -- slots and parities ------------------------------------------------------------------------------------------------


def test_a_parity_that_does_not_flip_when_a_slot_is_reused() -> None:
    """A wait that is correct on the first round of the ring passes at once, or never, on the second."""
    barriers_tell("constant_parity", "phase overrun", {"n": 3})
    own_kernel_is_proved(programs.tile_gemm())


def test_a_second_persistent_wave_that_restarts_its_parity() -> None:
    """tilelang#2674: persistent kernels hang in their second wave."""
    barriers_tell("second_wave", "parity alias", {"n": 1})
    own_kernel_is_proved(programs.persistent_gemm(waves=3))


def test_a_loop_inside_a_while_that_restarts_its_count() -> None:
    """Persistent kernels written with while: the count must be carried through both loops."""
    credits_tell("loop_inside_while", "order", {"n": 1})
    own_kernel_is_proved(programs.while_gemm())


# -- releases ----------------------------------------------------------------------------------------------------------


def test_an_operand_of_a_wgmma_in_flight_is_overwritten() -> None:
    """The wgmma is asynchronous: it reads its operands until its wait."""
    barriers_tell("released_before_the_wgmma_is_done", "write before release", {"n": 3})
    own_kernel_is_proved(programs.gate_up())


def test_two_readers_and_one_release() -> None:
    """Two consumer groups share a tile, but the arrival count of the empty barrier is one."""
    barriers_tell("two_readers_and_one_release", "arrive count", {"n": 1})


def test_one_reader_and_two_releases() -> None:
    """An empty barrier with an arrival count of two, but only one consumer group arrives."""
    barriers_tell("one_reader_and_two_releases", "arrive count", {"n": 3})


def test_a_ring_of_p_slots_is_too_shallow() -> None:
    """D = P: the reader borrows every slot while it waits for the next."""
    credits_tell("ring_as_deep_as_p", "deadlock", {"n": 2})
    own_kernel_is_proved(programs.tile_gemm(), ((2, 1),))


SHAPES = [
    "tile_k_zero",
    "tile_k_below_block",
    "persistent_k_zero",
    "persistent_while",
    "two_loops",
    "ragged",
    "triangular",
]


@pytest.mark.parametrize("name", SHAPES)
def test_kernels_of_these_shapes_are_proved_as_compiled(name: str) -> None:
    """Zero iterations, fewer than P, while, consecutive loops, trip counts that vary by tile; compiled from source."""
    case = find(name)
    for depth, mma_depth in case.plans[:2]:
        made = compile_case(case, pinned(depth, mma_depth))
        aref = check_credits(parse_module(made.asm["aref"]), effort="fast")
        assert passes(aref), describe(aref)
        low = check_barriers(parse_module(made.asm["barrier"]), effort="fast")
        assert passes(low), describe(low)


def test_every_program_has_its_test() -> None:
    text = Path(__file__).read_text()
    assert [path.stem for path in sorted(BUGS.glob("*.mlir")) if f'"{path.stem}"' not in text] == []


@pytest.mark.parametrize("path", sorted(BUGS.glob("*.mlir")), ids=lambda path: path.stem)
def test_every_program_starts_with_a_comment_on_its_bug(path: Path) -> None:
    assert path.read_text().startswith("// ")
