"""Structure flow: converts forward branches between blocks into `scf.if`, on TTIR.

Triton's front end lowers a `return` that is not the last statement to a branch to a block that returns:

    cond_br %c, ^out, ^on                      %go = xori %c, true
    ^out: return                       →       scf.if %go { rest }
    ^on: rest; return                          return

A block with one predecessor goes into the branch that leads to it. A block with several goes after the `if` of its
immediate dominator. If some paths return before the block, the `if` yields a flag that says whether the block is
reached, and the values of its arguments:

    cond_br %c, ^a, ^b(%x)                     %go, %v = scf.if %c {
    ^a: A; cond_br %d, ^out, ^b(%y)     →        A; %g, %w = scf.if %d { yield false, 0 } else { yield true, %y }
    ^b(%v): B; return                            yield %g, %w
                                               } else { yield true, %x }
                                               scf.if %go { B }

Requires: TTIR, before layouts.
Ensures: the same effects in the same order, in one block. A function stays as it is if it has a back edge, if it
returns values, or if a block argument has a type without a zero (needed on paths that do not reach the block).
Source: N. Ramsey, "Beyond Relooper" (ICFP 2022): a block is placed after the code of its immediate dominator.
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
        """Structures every function of several blocks."""
        changed = False
        for op in module.body.ops:
            function = FuncOp.of(op)
            if function is not None and not function.structured:
                graph = _Graph(function)
                if graph.can_be_structured():
                    _Structurer(graph).run()
                    changed = True
        return PassResult(changed)


@dataclass(frozen=True, slots=True)
class _Edge:
    """A control-flow edge: the target block and the values of its arguments."""

    target: Block
    given: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Under which condition control reaches a block (None: always), and the values of its arguments."""

    when: Value | None
    given: tuple[Value, ...]


_Arrivals = dict[Block, _Arrival]
"""The pending successors of a piece of code. Exactly one of them is reached, or none if the code has returned."""


class _Graph:
    """The control-flow graph of a function, in reverse postorder: every forward edge goes to a later block."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.blocks = function.op.regions[0].blocks
        self.order = self._reverse_postorder()
        self.predecessors: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.order:
            for edge in _edges(block):
                self.predecessors[edge.target].append(block)
        self.dominator = self._dominators() if self.has_forward_edges_only() else {}

    def has_forward_edges_only(self) -> bool:
        """Whether all terminators are known and there is no back edge."""
        places = {block: place for place, block in enumerate(self.order)}
        return all(
            block.terminator.name in _ENDS and all(places[edge.target] > places[block] for edge in _edges(block))
            for block in self.order
        )

    def can_be_structured(self) -> bool:
        """Whether the function can be structured."""
        if not self.has_forward_edges_only() or any(b.terminator.operands for b in self.order if not _edges(b)):
            return False
        return all(_has_zero(arg.type) for block in self.order[1:] for arg in block.args)

    def only_returns(self, block: Block) -> bool:
        """Whether a block consists of the return alone."""
        return len(block.ops) == 1 and ReturnOp.matches(block.terminator)

    def joins(self, block: Block) -> list[Block]:
        """The blocks with several predecessors whose immediate dominator is `block`, in order."""
        return [it for it in self.order if self.dominator.get(it) is block and len(self.predecessors[it]) > 1]

    def _reverse_postorder(self) -> list[Block]:
        """The reachable blocks in reverse postorder."""
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
        """The immediate dominator of each block but the entry."""
        places = {block: place for place, block in enumerate(self.order)}
        found: dict[Block, Block] = {}
        for block in self.order[1:]:
            common, *others = self.predecessors[block]
            for other in others:
                while common is not other:
                    if places[common] > places[other]:
                        common = found[common]
                    else:
                        other = found[other]
            found[block] = common
        return found


def _edges(block: Block) -> list[_Edge]:
    """The outgoing edges of a block."""
    edges = successor_operands(block.terminator)
    return [_Edge(target, tuple(use.value for use in uses)) for target, uses in edges]


class _Structurer:
    """Builds the single block of the structured function."""

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
        """Appends the code of `block` and of the blocks that it dominates to `into`; returns the pending successors."""
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
        """Follows an edge: to a return, to a block with no other predecessor (its code is appended), or to a join."""
        if self.graph.only_returns(edge.target):
            return {}
        if len(self.graph.predecessors[edge.target]) > 1:
            return {edge.target: _Arrival(None, edge.given)}
        _bind(edge.target, edge.given)
        return self.code(edge.target, into)

    def join(self, block: Block, arrival: _Arrival, others: _Arrivals, into: Block) -> _Arrivals:
        """Appends the code of a join. others: the pending successors of the paths that do not reach it."""
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
        """Builds an `if` of two sides that yields the flags and arguments of their pending successors."""
        builder = Builder.at_end(into, loc)
        ends = [Builder.at_end(side, loc) for side in sides]
        yields: list[list[Value]] = [[], []]
        places: dict[Block, tuple[int | None, list[int | Value]]] = {}
        for join in [block for block in self.graph.order if block in arrived[0] or block in arrived[1]]:
            found = [arrivals.get(join) for arrivals in arrived]
            sure = all(arrival is not None and arrival.when is None for arrival in found)
            flag = None if sure else _add_result(yields, [_flag(end, it) for end, it in zip(ends, found, strict=True)])
            given: list[int | Value] = []
            for index, arg in enumerate(join.args):
                values = [it.given[index] if it else None for it in found]
                if values[0] is not None and values[0] is values[1]:
                    given.append(values[0])
                else:
                    given.append(
                        _add_result(yields, [it or _zero(end, arg.type) for end, it in zip(ends, values, strict=True)])
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
    """Replaces the arguments of a block by the values of its one incoming edge."""
    for arg, value in zip(block.args, given, strict=True):
        arg.replace_all_uses_with(value)


def _add_result(yields: list[list[Value]], values: list[Value]) -> int:
    """Adds a result to an `if`, with its value on each side; returns its index."""
    for side, value in zip(yields, values, strict=True):
        side.append(value)
    return len(yields[0]) - 1


def _flag(builder: Builder, arrival: _Arrival | None) -> Value:
    """Whether control reaches a block, as an i1."""
    if arrival is not None and arrival.when is not None:
        return arrival.when
    return builder.constant(int(arrival is not None), "i1")


def _make_if(builder: Builder, condition: Value, sides: tuple[Block, Block], yields: list[list[Value]]) -> list[Value]:
    """Builds the `if`: omitted if both sides are empty, with a negated condition if only the second side has code."""
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
    """The text of the zero of a scalar type in MLIR; empty if the type has none."""
    if type == "i1":
        return "false"
    if type.startswith("i") and type[1:].isdigit():
        return f"0 : {type}"
    return f"0.000000e+00 : {type}" if type.startswith(("f", "bf")) else ""


def _zero(builder: Builder, type: str) -> Value:
    """A placeholder, never read: the side of an `if` that does not lead to the block yields it for an argument."""
    parsed = parse_type(type)
    if isinstance(parsed, TensorType):
        if isinstance(parse_type(parsed.element), PointerType):
            return builder.create(SplatOp.NAME, (_zero(builder, parsed.element),), (type,)).result
        text = _zero_text(parsed.element).partition(" ")[0]
        return builder.create(ConstantOp.NAME, (), (type,), properties={"value": f"dense<{text}> : {type}"}).result
    if isinstance(parsed, PointerType):
        return builder.create(IntToPtrOp.NAME, (_zero(builder, "i64"),), (type,)).result
    return builder.create(ConstantOp.NAME, (), (type,), properties={"value": _zero_text(type)}).result
