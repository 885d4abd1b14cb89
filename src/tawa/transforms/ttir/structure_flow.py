"""Structure flow: jumps become `scf.if`s again, on TTIR.

Triton's front end writes a `return` that is not the last statement as a branch to a block that leaves:

    cond_br %c, ^out, ^on                      %go = xori %c, true
    ^out: return                       →       scf.if %go { rest }
    ^on: rest; return                          return

Each block is put where all ways to it have been decided: inside the branch that alone leads to it, or behind the `if`
whose branches lead to it. Where some of these ways leave before, the `if` says whether the block is reached, and with
what:

    cond_br %c, ^a, ^b(%x)                     %go, %v = scf.if %c {
    ^a: A; cond_br %d, ^out, ^b(%y)     →        A; %g, %w = scf.if %d { yield false, 0 } else { yield true, %y }
    ^b(%v): B; return                            yield %g, %w
                                               } else { yield true, %x }
                                               scf.if %go { B }

Requires: TTIR, before layouts.
Ensures: the same effects in the same order; one block, unless jumps go back, a function returns values, or a value
that only some ways bring is of a type that has no zero: then the function stays as it is.
Source: N. Ramsey, "Beyond Relooper" (ICFP 2022): a block goes behind the code of its immediate dominator.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.arith import ConstantOp, XOrIOp
from tawa.dialects.builtin import BranchOp, CondBranchOp
from tawa.dialects.control_flow import successor_operands
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import IfOp, YieldOp
from tawa.dialects.tt import FuncOp, IntToPtrOp, ReturnOp, SplatOp
from tawa.ir import Block, Builder, Module, Operation, PointerType, Region, TensorType, Value, parse_type
from tawa.transforms.result import PassResult

_ENDS = op_names(ReturnOp, BranchOp, CondBranchOp)


@dataclass(frozen=True, slots=True)
class StructureFlow:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Structures every function that jumps."""
        changed = False
        for op in module.body.ops:
            function = FuncOp.of(op)
            if function is not None and not function.structured:
                graph = _Graph(function)
                if graph.understood():
                    _Structurer(graph).run()
                    changed = True
        return PassResult(changed)


@dataclass(frozen=True, slots=True)
class _Edge:
    """A way from the end of one block to another, with what it gives to the arguments."""

    target: Block
    given: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """That a block is to come next: when (None for always), and with what."""

    when: Value | None
    given: tuple[Value, ...]


_Arrivals = dict[Block, _Arrival]
"""The blocks behind a piece of code that it may lead to; exactly one of them, or none if it left the function."""


class _Graph:
    """The blocks of a function in an order in which every jump goes forward."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.blocks = function.op.regions[0].blocks
        self.order = self._forward()
        self.ways: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.order:
            for edge in _edges(block):
                self.ways[edge.target].append(block)
        self.dominator = self._dominators() if self.understood_jumps() else {}

    def understood_jumps(self) -> bool:
        """Whether only jumps that go forward leave the blocks."""
        places = {block: place for place, block in enumerate(self.order)}
        return all(
            block.terminator.name in _ENDS and all(places[edge.target] > places[block] for edge in _edges(block))
            for block in self.order
        )

    def understood(self) -> bool:
        """Whether the function can be structured."""
        if not self.understood_jumps() or any(b.terminator.operands for b in self.order if not _edges(b)):
            return False
        return all(_has_zero(arg.type) for block in self.order[1:] for arg in block.args)

    def leaves(self, block: Block) -> bool:
        """Whether there is nothing in a block but the return."""
        return len(block.ops) == 1 and ReturnOp.matches(block.terminator)

    def joins(self, block: Block) -> list[Block]:
        """The blocks that come behind `block` and several ways lead to, from the first to the last."""
        return [it for it in self.order if self.dominator.get(it) is block and len(self.ways[it]) > 1]

    def _forward(self) -> list[Block]:
        """The blocks that can be reached: each before those it leads to, where no jump goes back."""
        found: list[Block] = []
        seen: set[Block] = set()

        def visit(block: Block) -> None:
            seen.add(block)
            for successor in reversed(block.terminator.successors):
                if successor not in seen:
                    visit(successor)
            found.append(block)

        visit(self.blocks[0])
        return found[::-1]

    def _dominators(self) -> dict[Block, Block]:
        """For each block but the first the last one that every way to it passes."""
        places = {block: place for place, block in enumerate(self.order)}
        found: dict[Block, Block] = {}
        for block in self.order[1:]:
            common, *others = self.ways[block]
            for other in others:
                while common is not other:
                    if places[common] > places[other]:
                        common = found[common]
                    else:
                        other = found[other]
            found[block] = common
        return found


def _edges(block: Block) -> list[_Edge]:
    """The ways out of a block."""
    edges = successor_operands(block.terminator)
    return [_Edge(target, tuple(use.value for use in uses)) for target, uses in edges]


class _Structurer:
    """Writes the one block that a function becomes."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph
        self.last = graph.order[-1].terminator.loc

    def run(self) -> None:
        entry, region = self.graph.blocks[0], self.graph.function.op.regions[0]
        body = Block()
        body.args, entry.args = entry.args, []
        for arg in body.args:
            arg.owner = body
        self.code(entry, body)
        body.append(Operation(ReturnOp.NAME, loc=self.last))
        for block in region.blocks:
            for op in reversed(list(block.ops)):
                op.erase()
        region.blocks.clear()
        region.append(body)

    def code(self, block: Block, into: Block) -> _Arrivals:
        """Moves the operations of `block`, and of all that comes behind it alone, to the end of `into`."""
        end = block.terminator
        for op in block.ops[:-1]:
            into.append(op.detach())
        edges = _edges(block)
        if branch := CondBranchOp.of(end):
            sides = Block(), Block()
            arrived = [self.follow(edge, side) for edge, side in zip(edges, sides, strict=True)]
            pending = self.choose(branch.condition, sides, arrived, into, end.loc)
        else:
            pending = self.follow(edges[0], into) if edges else {}
        for join in self.graph.joins(block):
            arrival = pending.pop(join, None)
            if arrival is not None:
                pending = self.join(join, arrival, pending, into)
        return pending

    def follow(self, edge: _Edge, into: Block) -> _Arrivals:
        """What comes behind an edge: nothing, the code that it alone leads to, or a block that others lead to too."""
        if self.graph.leaves(edge.target):
            return {}
        if len(self.graph.ways[edge.target]) > 1:
            return {edge.target: _Arrival(None, edge.given)}
        _bind(edge.target, edge.given)
        return self.code(edge.target, into)

    def join(self, block: Block, arrival: _Arrival, others: _Arrivals, into: Block) -> _Arrivals:
        """The code of a block that several ways lead to; `others`: what those lead to that do not come here."""
        _bind(block, arrival.given)
        if arrival.when is None:
            return self.code(block, into)
        loc = block.ops[0].loc
        sides = Block(), Block()
        arrived = [self.code(block, sides[0]), others]
        return self.choose(arrival.when, sides, arrived, into, loc)

    def choose(
        self, condition: Value, sides: tuple[Block, Block], arrived: list[_Arrivals], into: Block, loc: str
    ) -> _Arrivals:
        """An `if` with these sides, which hands on where they lead to."""
        builder = Builder.at_end(into, loc)
        ends = [Builder.at_end(side, loc) for side in sides]
        yields: list[list[Value]] = [[], []]
        places: dict[Block, tuple[int | None, list[int | Value]]] = {}
        for join in [block for block in self.graph.order if block in arrived[0] or block in arrived[1]]:
            found = [arrivals.get(join) for arrivals in arrived]
            sure = all(arrival is not None and arrival.when is None for arrival in found)
            flag = None if sure else _hand_on(yields, [_flag(end, it) for end, it in zip(ends, found, strict=True)])
            given: list[int | Value] = []
            for index, arg in enumerate(join.args):
                values = [it.given[index] if it else None for it in found]
                if values[0] is not None and values[0] is values[1]:
                    given.append(values[0])
                else:
                    given.append(
                        _hand_on(yields, [it or _zero(end, arg.type) for end, it in zip(ends, values, strict=True)])
                    )
            places[join] = flag, given
        results = _make_if(builder, condition, sides, yields)
        return {
            join: _Arrival(
                None if flag is None else results[flag],
                tuple(it if isinstance(it, Value) else results[it] for it in given),
            )
            for join, (flag, given) in places.items()
        }


def _bind(block: Block, given: tuple[Value, ...]) -> None:
    """Lets the code of a block use what it is given."""
    for arg, value in zip(block.args, given, strict=True):
        arg.replace_all_uses_with(value)


def _hand_on(yields: list[list[Value]], values: list[Value]) -> int:
    """One more result of an `if`, with its value on each side; returns its number."""
    for side, value in zip(yields, values, strict=True):
        side.append(value)
    return len(yields[0]) - 1


def _flag(builder: Builder, arrival: _Arrival | None) -> Value:
    """Whether a block is to come next, as a number."""
    if arrival is not None and arrival.when is not None:
        return arrival.when
    return builder.constant(int(arrival is not None), "i1")


def _make_if(builder: Builder, condition: Value, sides: tuple[Block, Block], yields: list[list[Value]]) -> list[Value]:
    """The `if`; none where neither side does anything, and a negated one where only the second does."""
    then, other = sides
    if not (then.ops or other.ops or yields[0]):
        return []
    if not (then.ops or yields[0]):
        yes = builder.constant(1, "i1")
        condition = XOrIOp.create(builder, condition, yes)
        then, other = other, then
    for side, values in zip((then, other), yields, strict=True):
        if side is then or side.ops or values:
            side.append(Operation(YieldOp.NAME, values, loc=builder.loc))
    types = [value.type for value in yields[0]]
    return builder.create(IfOp.NAME, (condition,), types, regions=[Region([then]), Region([other])]).results


def _has_zero(type: str) -> bool:
    parsed = parse_type(type)
    element = parse_type(parsed.element) if isinstance(parsed, TensorType) else parsed
    return isinstance(element, PointerType) or _zero_text(str(element)) != ""


def _zero_text(type: str) -> str:
    """How MLIR spells the zero of a scalar type; empty where there is none."""
    if type == "i1":
        return "false"
    if type.startswith("i") and type[1:].isdigit():
        return f"0 : {type}"
    return f"0.000000e+00 : {type}" if type.startswith(("f", "bf")) else ""


def _zero(builder: Builder, type: str) -> Value:
    """What nobody reads: a value for the side of an `if` that does not lead to the block which takes it."""
    parsed = parse_type(type)
    if isinstance(parsed, TensorType):
        if isinstance(parse_type(parsed.element), PointerType):
            return builder.create(SplatOp.NAME, (_zero(builder, parsed.element),), (type,)).result
        text = _zero_text(parsed.element).partition(" ")[0]
        return builder.create(ConstantOp.NAME, (), (type,), properties={"value": f"dense<{text}> : {type}"}).result
    if isinstance(parsed, PointerType):
        return builder.create(IntToPtrOp.NAME, (_zero(builder, "i64"),), (type,)).result
    return builder.create(ConstantOp.NAME, (), (type,), properties={"value": _zero_text(type)}).result


__all__ = ["StructureFlow"]
