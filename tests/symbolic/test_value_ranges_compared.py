"""Random scalar programs, executed: every value lies in the range that is known of it, and its divisor divides it."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.ir import Block, Builder, Operation, Region, Value
from tawa.ir.attributes import read_int
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import DIVISORS, Proof, Trust
from tawa.symbolic.value_ranges import ValueRanges
from tests.analysis.tile_programs import GREATER, LESS, LESS_EQUAL, TileProgram
from tests.support.sample import examples

LIMIT = 1 << 31
MOST_TRIPS = 6


class Undefined(Exception):
    """A number overflows, or something is divided by 0."""


def quotient(left: int, right: int) -> int:
    if right == 0:
        raise Undefined
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


BINARY: dict[str, Callable[[int, int], int]] = {
    "addi": int.__add__,
    "subi": int.__sub__,
    "muli": int.__mul__,
    "minsi": min,
    "maxsi": max,
    "andi": int.__and__,
    "divsi": quotient,
    "remsi": lambda left, right: left - right * quotient(left, right),
    "shrsi": int.__rshift__,
    "shli": int.__lshift__,
}
COMPARED: dict[int, Callable[[int, int], bool]] = {LESS: int.__lt__, LESS_EQUAL: int.__le__, GREATER: int.__gt__}


class Writer:
    """Writes a program of scalars, chosen by `lot`, with branches and loops."""

    def __init__(self, lot: random.Random) -> None:
        self.lot = lot
        self.program = TileProgram(("m",), m="i32", k="i32", s="i32")
        self.numbers = [0, 1, 2, 3, 8, 16, 48, -1, -16]

    def write(self) -> None:
        p = self.program
        known = [*p.args.values(), p.pid(), *(p.number(it) for it in self.lot.sample(self.numbers, 4))]
        self.block(known, 2)
        p.finish()

    def block(self, known: list[Value], depth: int) -> list[Value]:
        """Some operations; returns the values that are there behind them."""
        known = list(known)
        for _ in range(self.lot.randrange(2, 6)):
            kinds = [self.arithmetic] * 5 + [self.selection, self.narrow, self.remainder]
            kinds += [self.loop, self.branch, self.repeat] if depth else []
            known += self.lot.choice(kinds)(known, depth)
        return known

    def arithmetic(self, known: list[Value], _: int) -> list[Value]:
        name, left = self.lot.choice(list(BINARY)), self.lot.choice(known)
        shift = name in ("shrsi", "shli")
        right = self.program.number(self.lot.randrange(5)) if shift else self.lot.choice(known)
        return [self.program.binary(name, left, right)]

    def condition(self, known: list[Value]) -> Value:
        return self.program.compare(self.lot.choice(known), self.lot.choice(known), self.lot.choice(list(COMPARED)))

    def selection(self, known: list[Value], _: int) -> list[Value]:
        operands = [self.condition(known), self.lot.choice(known), self.lot.choice(known)]
        return [self.program.op("arith.select", operands, "i32")]

    def remainder(self, known: list[Value], _: int) -> list[Value]:
        """What a quotient leaves, written as a difference."""
        dividend, divisor = self.lot.choice(known), self.lot.choice(known)
        taken = self.program.mul(self.program.binary("divsi", dividend, divisor), divisor)
        rest = self.program.binary("subi", dividend, taken)
        return [rest, self.program.mul(rest, self.lot.choice(known))]

    def narrow(self, known: list[Value], _: int) -> list[Value]:
        short = self.program.op("arith.trunci", [self.lot.choice(known)], "i8")
        return [self.program.op(self.lot.choice(["arith.extsi", "arith.extui"]), [short], "i32")]

    def loop(self, known: list[Value], depth: int) -> list[Value]:
        inits = [self.lot.choice(known) for _ in range(self.lot.randrange(1, 3))]
        bounds = (self.lot.choice(known), self.lot.choice(known), self.program.number(self.lot.choice([1, 3, 16])))
        op = self.program.loop(bounds, inits, lambda args: self.ends([*known, *args], inits, depth))
        return op.results

    def ends(self, known: list[Value], inits: list[Value], depth: int) -> list[Value]:
        known = self.block(known, depth - 1)
        return [self.lot.choice(known[-6:]) for _ in inits]

    def branch(self, known: list[Value], depth: int) -> list[Value]:
        op = self.holder("scf.if", [self.condition(known)])
        for _ in range(2):
            self.region(op, Block(), lambda: ("scf.yield", [self.lot.choice(self.block(known, depth - 1)[-4:])]))
        return op.results

    def repeat(self, known: list[Value], depth: int) -> list[Value]:
        """A loop that goes on while a number is under another."""
        p, before, after = self.program, Block(["i32"]), Block(["i32"])
        limit, step = self.lot.choice(known), p.number(self.lot.choice([1, 8, 48]))
        op = self.holder("scf.while", [self.lot.choice(known)])

        def test() -> list[Value]:
            number = before.args[0]
            return [p.compare(number, limit), self.lot.choice([number, p.binary("maxsi", number, limit)])]

        self.region(op, before, lambda: ("scf.condition", test()))
        self.region(op, after, lambda: ("scf.yield", [p.add(after.args[0], step)]))
        return op.results

    def holder(self, name: str, operands: list[Value]) -> Operation:
        return Builder.at_end(self.program.block).create(name, operands, ("i32",))

    def region(self, op: Operation, block: Block, body: Callable[[], tuple[str, list[Value]]]) -> None:
        outer, self.program.block = self.program.block, block
        op.add_region(Region([block]))
        name, operands = body()
        self.program.effect(name, operands)
        self.program.block = outer


class Machine:
    """Executes a program and keeps all numbers that each value has been."""

    def __init__(self, env: dict[Value, int], pid: int) -> None:
        self.env, self.pid = env, pid
        self.seen: dict[Value, list[int]] = {value: [number] for value, number in env.items()}
        self.positive_divisors = True

    def set(self, value: Value, number: int) -> None:
        if not -LIMIT <= number < LIMIT:
            raise Undefined
        self.env[value] = number
        self.seen.setdefault(value, []).append(number)

    def get(self, values: list[Value]) -> list[int]:
        return [self.env[value] for value in values]

    def run(self, block: Block) -> list[int]:
        """Returns the operands of the terminator."""
        for op in block.ops[:-1]:
            self.step(op)
        return self.get(block.ops[-1].operands)

    def step(self, op: Operation) -> None:
        loop, branch, repeat = ForOp.of(op), IfOp.of(op), WhileOp.of(op)
        if loop:
            results = self.loop(loop)
        elif branch:
            results = self.run(op.regions[0 if self.env[branch.condition] else 1].block)
        elif repeat:
            results = self.repeat(repeat)
        else:
            results = [self.number(op)]
        for value, number in zip(op.results, results, strict=True):
            self.set(value, number)

    def loop(self, loop: ForOp) -> list[int]:
        lower, upper, step = self.get(loop.bounds)
        carried = self.get(loop.inits)
        for index in range(lower, min(upper, lower + MOST_TRIPS * step), step):
            for value, number in zip(loop.body.args, [index, *carried], strict=True):
                self.set(value, number)
            carried = self.run(loop.body)
        return carried

    def repeat(self, repeat: WhileOp) -> list[int]:
        carried = self.get(repeat.op.operands)
        for _ in range(MOST_TRIPS):
            self.set(repeat.before.args[0], carried[0])
            more, *handed = self.run(repeat.before)
            if not more:
                return handed
            self.set(repeat.after.args[0], handed[0])
            carried = self.run(repeat.after)
        raise Undefined

    def number(self, op: Operation) -> int:
        operands, (_, _, name) = self.get(op.operands), op.name.partition(".")
        match name:
            case "constant":
                return read_int(op.properties["value"])
            case "get_program_id":
                return self.pid
            case "cmpi":
                return int(COMPARED[read_int(op.properties["predicate"])](*operands))
            case "select":
                return operands[1] if operands[0] else operands[2]
            case "trunci":
                return (operands[0] + 128) % 256 - 128
            case "extui":
                return operands[0] % 256
            case "extsi":
                return operands[0]
            case _:
                self.positive_divisors &= name != "divsi" or operands[1] > 0
                return BINARY[name](*operands)


def holds(proof: Proof, machine: Machine) -> bool:
    """Whether the premises of a proof were true in a run."""
    positive = machine.positive_divisors or DIVISORS not in proof.taken
    return positive and all(machine.env[argument] >= 0 for argument in proof.arguments)


@settings(max_examples=examples(400))
@given(st.integers(0, 1 << 32))
def test_what_is_known_of_a_number_is_true_in_every_run(seed: int) -> None:
    lot = random.Random(seed)
    writer = Writer(lot)
    writer.write()
    p, affine = writer.program, Affine()
    ranges = ValueRanges(p.function, affine)
    for _ in range(4):
        numbers = {"m": 16 * lot.randrange(-1, 9), "k": lot.randrange(-5, 40), "s": lot.randrange(-2, 99)}
        machine = Machine({p.args[name]: number for name, number in numbers.items()}, lot.randrange(9))
        try:
            machine.run(p.function.body)
        except Undefined:
            continue
        for value, seen in machine.seen.items():
            if value.type == "i1":
                continue
            poly, about = affine.poly(value), (seed, value.owner, seen)
            for trust in Trust:
                known = ranges.known(poly, trust)
                assert all(it % known.multiple == 0 if known.multiple else it == 0 for it in seen), (about, known)
                if holds(known.premises, machine):
                    assert known.low <= min(seen) and max(seen) <= known.high, (about, known)
            at = value.owner if isinstance(value.owner, Operation) else value.owner.ops[0]
            proof = ranges.not_negative(poly, at)
            if proof is not None and holds(proof, machine):
                assert min(seen) >= 0, (about, proof)
