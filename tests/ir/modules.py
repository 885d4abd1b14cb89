"""Random modules: nested regions, several blocks, multiple results, properties, attributes, locations, hints."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tawa.ir import Block, Module, Operation, Region, Value

TYPES = (
    "i32",
    "i1",
    "f8E4M3FN",
    "tensor<64x64xf16, #blocked>",
    "!ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>",
    "!tt.tensordesc<tensor<64x64xf16, #shared>>",
    "!aref.ring<3 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<8xi64, #s, #smem>)>",
    "(i32, (i1) -> f16) -> (i64)",
    "tuple<>",
)
PROPERTIES = (
    ("value", "3 : i32"),
    ("value", "dense<0xFF800000> : tensor<64xf32, #mma>"),
    ("order", "array<i32: 1, 0>"),
    ("empty", "array<i32>"),
    ("text", '"a, b }> \\" -> ({ : () loc("'),
    ("nested", '{a = [1, 2], "b.c" = {d, e = "x"}}'),
    ("map", "affine_map<(d0) -> (d0 + 1)>"),
    ("unit", ""),
)
ATTRIBUTES = (*PROPERTIES, ('"ttg.num-warps"', "4 : i32"), ("tt.divisibility", "16 : i32"))
LOCATIONS = (
    "unknown",
    "#loc3",
    '"kernel.py":12:4',
    '"kernel.py":12:4 to 13:8',
    '"acc"(#loc3)',
    'callsite(#loc1 at "acc"(#loc2))',
    'fused<"x">[#loc1, "kernel.py":1:2]',
)
HINTS = ("", "", "acc", "a_desc", "x$y", "x.1", "_private", "not a name", "7up")


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """A well-formed module of up to some 40 operations."""
    seed = draw(st.integers(0, 2**32))
    maker = _Maker(random.Random(seed), budget=draw(st.integers(1, 40)))
    top = Operation("builtin.module", regions=[maker.region(0, [])], loc="#loc")
    aliases = {"#blocked": "#ttg.blocked<{order = [1, 0]}>", "#smem": "#ttg.shared_memory"}
    locs = {"#loc": 'loc("kernel.py":1:0)', "#loc3": "loc(unknown)"}
    return Module(top, aliases, locs)


class _Maker:
    def __init__(self, rng: random.Random, budget: int) -> None:
        self.rng = rng
        self.budget = budget

    def region(self, depth: int, visible: list[Value]) -> Region:
        rng = self.rng
        blocks = [Block() for _ in range(1 if depth == 0 or rng.random() < 0.8 else rng.randint(2, 3))]
        known = list(visible)
        for position, block in enumerate(blocks):
            if depth:
                for _ in range(rng.randint(0, 2)):
                    block.add_arg(rng.choice(TYPES), rng.choice(HINTS), rng.choice(LOCATIONS))
            known += block.args
            for _ in range(rng.randint(0, 4) if self.budget > 0 else 0):
                op = block.append(self.operation(depth, known))
                known += op.results
            if depth:
                targets = [other for other in blocks[1:] if rng.random() < 0.5]  # never the entry
                block.append(Operation("cf.br", self.operands(known), successors=targets, loc=rng.choice(LOCATIONS)))
            elif position == 0 and not block.ops:
                block.append(Operation("test.only"))
        return Region(blocks)

    def operands(self, known: list[Value]) -> list[Value]:
        return [self.rng.choice(known) for _ in range(self.rng.randint(0, 3))] if known else []

    def operation(self, depth: int, known: list[Value]) -> Operation:
        rng = self.rng
        self.budget -= 1
        regions = [self.region(depth + 1, known) for _ in range(rng.randint(0, 2) if depth < 3 else 0)]
        types = [rng.choice(TYPES) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
        return Operation(
            rng.choice(("arith.addi", "tt.load", "test.op", "a.b.c")),
            self.operands(known),
            types,
            properties=dict(rng.sample(PROPERTIES, rng.randint(0, 3))),
            attributes=dict(rng.sample(ATTRIBUTES, rng.randint(0, 2))),
            regions=regions,
            loc=rng.choice(LOCATIONS),
            hints=[rng.choice(HINTS) for _ in types],
        )


def uses_agree(module: Module) -> bool:
    """Whether every operand lists its use and every use is an operand, each once."""
    operands = [(value, op, index) for op in module.walk() for index, value in enumerate(op.operands)]
    for value, op, index in operands:
        if sum(use.op is op and use.index == index for use in value.uses) != 1:
            return False
    values = [value for op in module.walk() for value in op.results]
    values += [arg for op in module.walk() for region in op.regions for block in region.blocks for arg in block.args]
    return sum(len(value.uses) for value in values) == len(operands)


def same(first: Operation, second: Operation) -> bool:
    """Whether two operations agree in everything but the identity of values."""
    numbers: tuple[dict[Value, int], dict[Value, int]] = ({}, {})
    return _same(first, second, numbers)


def _same(first: Operation, second: Operation, numbers: tuple[dict[Value, int], dict[Value, int]]) -> bool:
    left, right = numbers

    def number(known: dict[Value, int], value: Value) -> int:
        return known.setdefault(value, len(known))

    def alike(ours: list[Value], theirs: list[Value]) -> bool:
        return [(number(left, value), value.type) for value in ours] == [
            (number(right, value), value.type) for value in theirs
        ]

    for name in ("name", "properties", "attributes", "loc"):
        if getattr(first, name) != getattr(second, name):
            return False
    if not alike(first.operands, second.operands) or len(first.regions) != len(second.regions):
        return False
    for ours, theirs in zip(first.regions, second.regions, strict=True):
        if len(ours.blocks) != len(theirs.blocks):
            return False
        labels = {block: index for index, block in enumerate(ours.blocks)}
        other_labels = {block: index for index, block in enumerate(theirs.blocks)}
        for block, other in zip(ours.blocks, theirs.blocks, strict=True):
            if not alike(block.args, other.args) or len(block.ops) != len(other.ops):
                return False
            if [arg.loc for arg in block.args] != [arg.loc for arg in other.args]:
                return False
            for op, twin in zip(block.ops, other.ops, strict=True):
                if [labels[it] for it in op.successors] != [other_labels[it] for it in twin.successors]:
                    return False
                if not _same(op, twin, numbers):
                    return False
    return alike(first.results, second.results)
