"""Code under construction: registers of values, moves, kinds, and the readers and writers of rings."""

from __future__ import annotations

from tawa.dialects.aref import CreateOp, GetOp, PutOp
from tawa.dialects.tt import FuncOp
from tawa.ir import Operation, parse_module
from tawa.verify.skeleton.emitter import Emitter
from tawa.verify.skeleton.program import MAIN, Code, Part, Program, Ring, Terms
from tawa.verify.skeleton.sources import Sources
from tests.verify.barriers.test_check import made


def emitter() -> tuple[Emitter, list[Operation]]:
    """An emitter for a kernel with rings, and the operations of the kernel."""
    module = parse_module(made("tile")[0])
    (function,) = [op for op in module.body.ops if FuncOp.matches(op)]
    code = Emitter(Program(module, [], [], [], {}, Terms()), Sources(function), None, MAIN)
    ops = list(function.walk())
    for op in ops:
        if create := CreateOp.of(op):
            code.rings[op.result] = len(code.program.rings)
            code.program.rings.append(Ring(create.name, create.type.depth))
    return code, ops


def test_a_value_has_one_register() -> None:
    code, ops = emitter()
    values = [op.result for op in ops if len(op.results) == 1]
    numbers = [code.define(value) for value in values]
    assert numbers == [code.use(value) for value in values] and len({*numbers}) == len(values) == len(code.registers)


def test_a_move_leaves_out_what_is_not_needed() -> None:
    code, ops = emitter()
    needed = next(op.result for op in ops if len(op.results) == 1 and op.result in code.needed)
    other = next(op.result for op in ops if len(op.results) == 1 and op.result not in code.needed)
    code.move([needed, needed], [needed, other])
    assert code.part.code == [(Code.MOVE, (code.use(needed),), (code.use(needed),))]
    code.move([needed], [other])
    assert len(code.part.code) == 1


def test_a_target_is_known_later() -> None:
    code, _ = emitter()
    at = code.emit(None, Code.JUMP, -1)
    code.patch(at, 1, code.emit(None, Code.END))
    assert code.part.code == [(Code.JUMP, 1), (Code.END,)]


def test_the_count_of_a_ring_has_the_kind_of_the_ring() -> None:
    code, ops = emitter()
    get = next(found for op in ops if (found := GetOp.of(op)))
    assert code.program.kinds[code.use(get.index)] == code.ring(get)


def test_readers_are_numbered_and_writers_are_noted_once() -> None:
    code, ops = emitter()
    ring = code.ring(next(found for op in ops if (found := PutOp.of(op))))
    for name in ("one", "two", "one"):
        code.part = Part(name)
        code.writer(ring)
        assert code.reader(ring) == ("one", "two").index(name)
    made_of = code.program.rings[ring]
    assert made_of.readers == made_of.writers == ["one", "two"]
    code.part = Part(MAIN)
    assert code.reader(ring) == 0, "the code behind the partitions goes on as the first reader"
