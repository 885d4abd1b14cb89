"""Operations that only the barrier level has: events, views, tiles in flight, and the conditions of events."""

from __future__ import annotations

from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalDeallocOp
from tawa.verify.run.events import Act
from tawa.verify.run.places import Place
from tawa.verify.skeleton.barrier_code import BarrierCode
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.emitter import Emitter
from tawa.verify.skeleton.program import Code, Program, Terms
from tawa.verify.skeleton.sources import Sources
from tests.verify.barriers.test_foreign import ALLOC, DOT, DOT_WAIT, LANDED, LOAD, TILE, TWO, kernel, slots

FREE = f'"ttg.local_dealloc"(%tile) : ({TILE}) -> ()'


def kinds(*lines: str) -> list[str]:
    """The events of a kernel, in order."""
    main = compile_barriers(kernel(*lines)).parts[0]
    return [instruction[1].kind for instruction in main.code if instruction[0] == Code.ACT]


def test_operations_become_events_in_their_order() -> None:
    assert kinds(*LANDED, LOAD)[:5] == ["init", "expect", "copy in", "wait", "read"]


def test_a_use_of_a_tile_in_flight_is_an_event_of_its_own() -> None:
    negated = '%not = "arith.negf"({}) : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>'
    early = kinds(*LANDED, DOT, negated.format("%sum"), DOT_WAIT)
    late = kinds(*LANDED, DOT, DOT_WAIT, negated.format("%done"))
    assert early.index("dot") < early.index("use") < early.index("dot wait")
    assert late.index("dot wait") < late.index("use"), "nothing tells yet that the tile is complete"


def test_a_view_of_a_slot_is_an_instruction_and_an_allocation_a_place() -> None:
    program = compile_barriers(kernel(*slots("tile", 1, TWO, TILE), LOAD))
    (view,) = [it for it in program.parts[0].code if it[0] == Code.VIEW]
    assert program.registers[view[1]] == Place(0) and program.registers[view[2]] == 1


def code_of(*lines: str) -> BarrierCode:
    module = kernel(*lines)
    (function,) = [op for op in module.body.ops if FuncOp.matches(op)]
    accesses = Accesses(function)
    program = Program(module, [], [], [], {}, Terms())
    return BarrierCode(Emitter(program, Sources(function, accesses), accesses, "default"), accesses)


def test_an_event_under_a_condition_is_left_out_if_it_is_false_and_else_branched_around() -> None:
    made = code_of(ALLOC, FREE)
    (op,) = [op for op in made.accesses.ops if LocalDeallocOp.matches(op)]
    zero, yes = (op.result for op in made.accesses.ops if op.name == "arith.constant")
    made.code.canonical.update({zero: 0, yes: 1})
    made.act(Act("free", op), zero)
    assert made.code.part.code == []
    made.act(Act("free", op), yes)
    assert [it[0] for it in made.code.part.code] == [Code.ACT]
    del made.code.canonical[yes]
    made.act(Act("free", op), yes)
    assert made.code.part.code[1:-1] == [(Code.IF, made.use(yes), 3)]
