"""Chain dots: an iteration issues its dots before the results of the iteration before it are used.

    for k, acc, i:                        for k in steps of 2, acc, i:
      x, y = get r[i]                       x, y = get r[i]; s = dot(x, y, 0) {isAsync}; f = load; i' = i + 1
      f = load                              x', y' = get r[i']; s' = dot(x', y', 0) {isAsync}; f' = load
      s = dot(x, y, 0)              →       s = wait(s) {pendings = 1}; consumed r[i]; acc' = acc + s * f
      consumed r[i]                         s', acc' = wait(s', acc') {pendings = 0}; consumed r[i'] …
      acc = acc + s * f                   for k, the rest: the original loop

A loop that adds what it computes from the result of a dot (a scaled product, a sum in another type) uses the result in
the iteration that computes it, so its dot cannot stay in flight over the back edge: the registers of the result would
have to be renamed. Without more, the tensor cores are idle while the threads compute, unless another group happens to
use them. In a chain of N iterations, that is so once in N; each other result is used while the next dot runs. Two
results of dots are live at a time.

The *front* of an iteration is what does not depend on its dots. The fronts follow each other, in the order of
iterations, and the rest of an iteration follows the front of the next one. Dots are issued first in a front. Slots that
threads have read are fenced in the front, beside the dots.

A wait takes what the chain has carried so far with it, so that LLVM does not move the arithmetic behind the last wait.

Requires: `partition`; runs after `pipeline_mma`, for loops with P = 0.
Ensures: the same operations on the same values, in the same order for each sum; at most two slots of a ring are held.
Leaves a loop as it is (with a note) if a dot needs the result of another one, if a front needs what the rest of the
iteration before it computes, or if an operand is in registers or in a buffer that the loop fills. Raises PlanError if
the Plan asks for the chain of this very loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.analysis.loops.async_wgmma import dots_in, is_aside
from tawa.analysis.loops.dependences import DependenceInfo, find_dependences
from tawa.analysis.names import loop_number
from tawa.dialects.aref import ConsumedOp
from tawa.dialects.arith import AddIOp, AndIOp, CmpIOp, MulIOp, Predicate, SelectOp, SubIOp, constant_int
from tawa.dialects.scf import ForOp, YieldOp
from tawa.dialects.ttg import LocalAllocOp, LocalLoadOp
from tawa.dialects.ttng import FenceAsyncSharedOp, WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import find_groups
from tawa.errors import PlanError
from tawa.ir import (
    Block,
    Builder,
    Module,
    Operation,
    Region,
    TensorType,
    Value,
    ValueMap,
    Worklist,
    clone_op,
    parse_type,
    source_of,
)
from tawa.ir.attributes import bool_attr, int_attr
from tawa.plan import LoopPlan, Plan
from tawa.plan.decide.wanted import given_slots
from tawa.remarks import Remark
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class ChainDots:
    """Options: the Plan, whose loops say how many iterations are a chain, and the part of it that was pinned.

    The result has the length of the chains of each loop: 1 if its iterations are not chained.
    """

    plan: Plan
    pins: Plan = Plan()

    def run(self, module: Module) -> PassResult:
        """Chains the loops of every consumer; the same loops of other partitions take as many iterations at a time."""
        remarks: list[Remark] = []
        chained: dict[int, int] = {}
        groups = sorted(find_groups(module), key=lambda group: group.role != "consumer")
        for group in groups:
            for op in list(group.op.walk()):
                loop, number = ForOp.of(op), loop_number(op)
                length = self.plan.loop(number).chain or 1
                if loop is None or number is None or length < 2:
                    continue
                if group.role != "consumer":
                    if number in chained:
                        _Iterations(loop).run(length)
                    continue
                if not dots_in(loop) or is_aside(loop):
                    continue
                chain = _Chain(find_dependences(loop))
                reason = chain.obstacle()
                where = source_of(module, op)
                if not reason:
                    chain.run(length)
                    chained[number] = length
                elif any(it.loop == number and (it.chain or 1) > 1 for it in self.pins.loops):
                    raise PlanError(f"the Plan has a chain in loop {number} ({where}): {reason}; cure: chain=1")
                else:
                    remarks.append(Remark("note", f"no iterations are chained: {reason}", where))
        asked = [it.loop for it in self.plan.loops if it.loop is not None and (it.chain or 1) > 1]
        decided = Plan(loops=tuple(LoopPlan(number, chain=chained.get(number, 1)) for number in asked))
        return PassResult(bool(chained), tuple(remarks), decided)


class _Iterations:
    """A loop that takes several iterations at a time, as long as there are so many, and then the others."""

    def __init__(self, loop: ForOp) -> None:
        self.loop = loop

    def run(self, length: int) -> None:
        """Puts a loop over whole chains before the loop, which keeps the other iterations."""
        builder = Builder.before(self.loop.op)
        lower, _, step = self.loop.bounds
        inits = [*self.loop.inits, lower]
        body = Block()
        chained = Operation(
            ForOp.NAME,
            (lower, self._end(builder, length), _times(builder, step, length), *inits),
            [it.type for it in inits],
            properties=dict(self.loop.op.properties),
            attributes=dict(self.loop.op.attributes),
            loc=self.loop.op.loc,
            hints=[*(it.hint for it in self.loop.op.results), "next"],
        )
        chained.add_region(Region([body]))
        induction = body.add_arg(lower.type, self.loop.induction.hint)
        carried = [body.add_arg(arg.type, arg.hint) for arg in self.loop.iter_args]
        body.add_arg(lower.type, "next")
        inside = Builder.at_end(body, self.loop.op.loc)
        values: ValueMap = dict(zip(self.loop.iter_args, carried, strict=True))
        following = self.write(inside, induction, values, length)
        following.append(AddIOp.create(inside, induction, _times(inside, step, length)))
        inside.create(YieldOp.NAME, following)
        builder.insert(chained)
        self.loop.op.set_operand(0, chained.results[-1])
        for index, result in enumerate(chained.results[:-1]):
            self.loop.op.set_operand(3 + index, result)

    def _end(self, builder: Builder, length: int) -> Value:
        """The end of the first iterations of whole chains; the difference of the bounds fits an unsigned number."""
        lower, upper, step = self.loop.bounds
        ahead = _times(builder, step, length - 1)
        some = CmpIOp.create(builder, Predicate.SLT, lower, upper)
        whole = CmpIOp.create(builder, Predicate.UGT, SubIOp.create(builder, upper, lower), ahead)
        both = AndIOp.create(builder, some, whole)
        return SelectOp.create(builder, both, SubIOp.create(builder, upper, ahead), lower)

    def write(self, builder: Builder, induction: Value, values: ValueMap, length: int) -> list[Value]:
        """The body: one iteration after the other. values: those that the first begins with; returns the last ones."""
        for number in range(length):
            self.begin(builder, induction, values, number)
            for op in self.loop.body.ops[:-1]:
                builder.insert(clone_op(op, values))
            values = self.following(values)
        return [values[arg] for arg in self.loop.iter_args]

    def begin(self, builder: Builder, induction: Value, values: ValueMap, number: int) -> None:
        """Sets the induction variable of an iteration of a chain."""
        step = self.loop.bounds[2]
        moved = AddIOp.create(builder, induction, _times(builder, step, number)) if number else induction
        values[self.loop.induction] = moved

    def following(self, values: ValueMap) -> ValueMap:
        """What the next iteration begins with, as far as it is known."""
        found: ValueMap = {}
        for arg, source in zip(self.loop.iter_args, self.loop.yielded, strict=True):
            if source in values:
                found[arg] = values[source]
            elif not self._inside(source):
                found[arg] = source
        return found

    def _inside(self, value: Value) -> bool:
        body = self.loop.body
        return value.owner is body or (value.defining_op is not None and value.defining_op.parent is body)


class _Chain(_Iterations):
    """The chain of one loop. rest: the nodes that follow the front of the next iteration, by number."""

    def __init__(self, graph: DependenceInfo) -> None:
        _Iterations.__init__(self, graph.loop)
        self.nodes = list(graph.nodes)
        self.edges = graph.edges
        self.slots = given_slots(graph)
        self.dots = [number for number, op in enumerate(self.nodes) if WarpGroupDotOp.of(op)]
        releases = [number for number, op in enumerate(self.nodes) if ConsumedOp.of(op)]
        used = [edge.target for edge in self.edges if edge.source in self.dots and not edge.distance]
        pairs = [(edge.source, edge.target) for edge in self.edges if not edge.distance]
        self.rest = _reached([*used, *releases], pairs)
        self.first = _reached(self.dots, [(target, source) for source, target in pairs])
        """The dots, and what they depend on in the same iteration."""

    def obstacle(self) -> str:
        """Why the iterations cannot be chained; empty if they can."""
        dots = [WarpGroupDotOp(self.nodes[number]) for number in self.dots]
        if self.loop.unsigned:
            return "the induction variable is unsigned"
        if any(dot.is_async for dot in dots):
            return "its dots are in flight over iterations"
        if any(dot.adds_partial_sums for dot in dots):
            return "a dot adds up partial sums of fp8 products (max_num_imprecise_acc)"
        if any(dot.a_in_registers for dot in dots):
            return "an operand is in registers"
        if any(LocalAllocOp.of(op) for op in self.nodes):
            return "the loop fills a buffer"
        if any(WarpGroupDotOp.of(nested) for op in self.nodes if op.regions for nested in op.walk()):
            return "a dot is in a branch or in a loop"
        if any(number in self.rest for number in self.dots):
            return "a dot needs the result of another one"
        for edge in self.edges:
            if edge.distance == 1 and edge.source in self.rest and edge.target not in self.rest:
                return "an iteration starts with what the one before it computes from its dots"
        shallow = next((name for name, depth in self.slots.items() if depth < 2), None)
        if shallow is not None:
            return f"{shallow} has one slot, and two iterations hold slots at a time"
        return ""

    def write(self, builder: Builder, induction: Value, values: ValueMap, length: int) -> list[Value]:
        """The body: front 0; front 1, rest 0; …; rest of the last one."""
        before: ValueMap = {}
        ties: list[int] = []  # the carried tiles that the rests of this chain have computed
        for number in range(length + 1):
            if number < length:
                self.begin(builder, induction, values, number)
                self._front(builder, values)
            if number:
                self._wait(builder, before, ties, len(self.dots) if number < length else 0)
                self._emit(builder, before, sorted(self.rest))
                ties = self._tiles()
                values.update(self.following(before))
            before, values = values, self.following(values)
        return [before[arg] for arg in self.loop.iter_args]

    def _front(self, builder: Builder, values: ValueMap) -> None:
        """What does not depend on dots: the dots first, with what they need."""
        front = [number for number in range(len(self.nodes)) if number not in self.rest]
        self._emit(builder, values, [number for number in front if number in self.first])
        self._emit(builder, values, [number for number in front if number not in self.first])
        if any(LocalLoadOp.matches(self.nodes[number]) for number in front):
            builder.create(FenceAsyncSharedOp.NAME, properties={"bCluster": bool_attr(False)})

    def _emit(self, builder: Builder, values: ValueMap, numbers: Sequence[int]) -> None:
        for number in numbers:
            copy = builder.insert(clone_op(self.nodes[number], values))
            if number in self.dots:
                copy.properties["isAsync"] = bool_attr(True)

    def _tiles(self) -> list[int]:
        """The carried tiles that the rest of an iteration computes, by their numbers."""
        return [
            index
            for index, source in enumerate(self.loop.yielded)
            if isinstance(parse_type(source.type), TensorType) and source.defining_op in self._rest_ops()
        ]

    def _rest_ops(self) -> list[Operation]:
        return [self.nodes[number] for number in self.rest]

    def _wait(self, builder: Builder, values: ValueMap, ties: Sequence[int], pendings: int) -> None:
        """Waits for the dots of an iteration, and takes the tiles along that the rest of the one before it computed."""
        keys = [self.nodes[number].result for number in self.dots] + [self.loop.iter_args[index] for index in ties]
        builder.loc = self.nodes[self.dots[-1]].loc
        waited = builder.create(
            WarpGroupDotWaitOp.NAME,
            [values[key] for key in keys],
            [key.type for key in keys],
            properties={"pendings": int_attr(pendings)},
            hints=[key.hint for key in keys],
        )
        values.update(zip(keys, waited.results, strict=True))


def _reached(nodes: Sequence[int], edges: Sequence[tuple[int, int]]) -> set[int]:
    """These nodes, and all that edges lead to from them."""
    work = Worklist(nodes)
    for node in work:
        work += [target for source, target in edges if source == node]
    return work.given


def _times(builder: Builder, step: Value, count: int) -> Value:
    """`count` steps of the induction variable."""
    known = constant_int(step)
    if count == 1:
        return step
    if known is not None:
        return builder.constant(known * count, step.type)
    return MulIOp.create(builder, step, builder.constant(count, step.type))
