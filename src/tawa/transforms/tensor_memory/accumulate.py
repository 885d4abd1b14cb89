"""Accumulate: gives every dot its tensor memory, and the one thread that issues it.

    for k iter_args(%acc = zeros):                  %d = tmem_alloc
      %acc = warp_group_dot %a, %b, %acc     →      for k iter_args(%use = false):
      yield %acc                                      tc_gen5_mma %a, %b, %d, %use, true;   yield true
    use %acc                                        %acc = if any trip { tmem_load %d } else { zeros };  use %acc

A dot *accumulates in place* if its accumulator is carried by loops and used by nothing else: then the tile leaves
tensor memory behind the loops. Any other accumulator is stored before its dot, unless it is zero, and every use of the
result, also in a later iteration, loads it where it is first needed:

    for k iter_args(%o = init):                     tmem_store init, %d
      %s = mulf %o, %f                       →      for k:
      %o = warp_group_dot %p, %v, %s                  %o = tmem_load %d; %s = mulf %o, %f; tmem_store %s, %d
                                                      tc_gen5_mma %p, %v, %d, true, true

Scales lie in shared memory. The dot's thread copies them to tensor memory, each time right before the dot:

    %r = warp_group_dot %a, %b, %acc, %s, %t   →   tmem_copy %s, %x; tmem_copy %t, %y
                                                   tc_gen5_mma_scaled %a, %b, %d, %x, %y, %use, true

Scales that are still a tile are stored to %x by the threads that have them.

A left operand that the threads compute from results goes through tensor memory, too.

The program keeps its sequential meaning; nothing is asynchronous yet (`hand_over`).

Requires: `read_dots`. Ensures: dots are tcgen05's, and each accesses whole buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.layout.left_operands import left_in_tensor_memory
from tawa.analysis.rings.channels import ancestor_in
from tawa.declines import TENSOR_MEMORY
from tawa.dialects.arith import CmpIOp, Predicate, constant_int, is_zero
from tawa.dialects.control_flow import carry_through
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.tcgen05 import (
    ACCUMULATOR,
    CORRECTED,
    SCALED,
    SCALES,
    UNSIGNED,
    TCGen5MMAOp,
    TCGen5MMAScaledOp,
    TMEMAllocOp,
    TMEMCopyOp,
    TMEMLoadOp,
    TMEMStoreOp,
)
from tawa.dialects.tt import FuncOp
from tawa.dialects.ttg import LocalAllocOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import (
    Block,
    Builder,
    MemDescType,
    Module,
    Operation,
    Region,
    TensorType,
    Use,
    Value,
    memdesc_type,
    parse_type,
    source_of,
)
from tawa.ir.attributes import read_string
from tawa.transforms.result import PassResult
from tawa.transforms.tensor_memory.buffers import ROWS_OF_A

_SEGMENTS = "array<i32: 1, 1, 1, 0, 1, 1, 0, 0>"
_SCALED_SEGMENTS = "array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 0, 0>"


@dataclass(frozen=True, slots=True)
class Accumulate:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every dot of the module."""
        dots = [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op)) and ACCUMULATOR in op.attributes]
        if not dots:
            return PassResult(changed=False)
        function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
        work = _Work(function)
        for dot in dots:
            reason = work.rewrite(dot)
            if reason:
                return PassResult(True, (TENSOR_MEMORY.remark(source_of(module, dot.op), why=reason),))
        return PassResult(changed=True)


class _Work:
    """One walk over the dots, in textual order."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.left = left_in_tensor_memory(function.op)

    def rewrite(self, dot: WarpGroupDotOp) -> str:
        """Rewrites one dot; returns the reason that this is not possible, if any."""
        op, block = dot.op, dot.op.parent
        assert block is not None
        start = Builder.at_start(self.function.body, op.loc)
        type = read_string(op.attributes[ACCUMULATOR])
        made = start.create(TMEMAllocOp.NAME, (), (type,), hints=(op.result.hint,))
        made.attributes |= {name: op.attributes[name] for name in op.attributes if name == CORRECTED}
        buffer = made.results[0]
        a = self._left(dot)
        if isinstance(a, str):
            return a
        carries = _in_place(dot)
        builder = Builder.before(op)
        yes = builder.constant(1, "i1")
        if not carries:
            use_d = builder.constant(int(not is_zero(dot.accumulator)), "i1")
            if not is_zero(dot.accumulator):
                builder.create(TMEMStoreOp.NAME, (buffer, dot.accumulator, yes))
        else:
            use_d = _flag(dot, carries)
        if SCALED["a_type"] in op.attributes:
            scales = [self._copied(it, Builder.before(op)) for it in op.operands[-2:]]
            kinds = {name: op.attributes[kind] for name, kind in SCALED.items()}
            name, properties = TCGen5MMAScaledOp.NAME, {**kinds, "operandSegmentSizes": _SCALED_SEGMENTS}
        else:
            unsigned = {"is_unsigned": ""} if UNSIGNED in op.attributes else {}
            scales, name, properties = [], TCGen5MMAOp.NAME, {**unsigned, "operandSegmentSizes": _SEGMENTS}
        issued = Builder.before(op).create(name, (a, dot.b, buffer, *scales, use_d, yes), properties=properties)
        reason = _leave(carries, buffer) if carries else self._load_results(op.result, buffer, issued)
        if reason:
            return reason
        op.erase()
        return ""

    def _left(self, dot: WarpGroupDotOp) -> Value | str:
        """Operand A: a slot or a tile in shared memory as it is; a tile of results goes to tensor memory."""
        if not all(operand.type.startswith("!ttg.memdesc") for operand in (dot.a, dot.b)):
            return "an operand of the dot is in registers"
        alloc = LocalAllocOp.of(dot.a.defining_op)
        if alloc is None or alloc.op not in self.left or alloc.source is None:
            return dot.a
        tile, at = alloc.source, Builder.before(alloc.op)
        view = self._own(alloc.op, memdesc_type(alloc.op.result.type), tile.hint)
        at.create(TMEMStoreOp.NAME, (view, tile, at.constant(1, "i1")))
        alloc.op.result.replace_all_uses_with(view)
        alloc.op.erase()
        return dot.a

    def _own(self, at: Operation, kind: MemDescType, hint: str) -> Value:
        encoding = ROWS_OF_A.format(*kind.shape)
        type = f"!ttg.memdesc<{kind.shape[0]}x{kind.shape[1]}x{kind.element}, {encoding}, #ttng.tensor_memory, mutable>"
        start = Builder.at_start(self.function.body, at.loc)
        return start.create(TMEMAllocOp.NAME, (), (type,), hints=(hint,)).results[0]

    def _copied(self, scales: Value, at: Builder) -> Value:
        """Scales in tensor memory: the dot's thread copies them right before the dot, or the threads store a tile."""
        kind = parse_type(scales.type)
        assert isinstance(kind, TensorType | MemDescType)
        type = MemDescType(kind.shape, kind.element, f"{SCALES}<>", "#ttng.tensor_memory", mutable=True)
        start = Builder.at_start(self.function.body, at.loc)
        copy = start.create(TMEMAllocOp.NAME, (), (str(type),), hints=(scales.hint,)).results[0]
        if isinstance(kind, MemDescType):
            at.create(TMEMCopyOp.NAME, (scales, copy))
        else:
            at.create(TMEMStoreOp.NAME, (copy, scales, at.constant(1, "i1")))
        return copy

    def _load_results(self, result: Value, buffer: Value, issued: Operation) -> str:
        """Loads the result where it is needed, in this iteration and in later ones."""
        for value in _carried_on(result):
            block, uses = _home(value), [use for use in value.uses if not _carries(use)]
            carried = len(uses) < len(value.uses)
            if uses:
                place = min((ancestor_in(block, use.op) for use in uses), key=block.index_of)
                inside = place if place.parent is issued.parent else None
                if inside is not None and value.defining_op is None and block.index_of(inside) > block.index_of(issued):
                    return "an earlier result of the dot is used behind the dot"
                load = Builder.before(place).create(TMEMLoadOp.NAME, (buffer,), (value.type,), hints=(value.hint,))
                for use in uses:
                    use.op.set_operand(use.index, load.results[0])
            if carried:
                _stop_carrying(value, buffer)
        return ""


def _home(value: Value) -> Block:
    """The block in which a value is defined."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    assert block is not None
    return block


def _in_place(dot: WarpGroupDotOp) -> list[tuple[ForOp, int]]:
    """The loops that carry the accumulator for this dot alone, innermost first, each with its place there."""
    found: list[tuple[ForOp, int]] = []
    value, result = dot.accumulator, dot.op.result
    while isinstance(value.owner, Block) and (loop := ForOp.of(value.owner.parent_op)) and value in loop.iter_args:
        place = loop.iter_args.index(value)
        ends = [use for use in result.uses if use.op is loop.body.terminator]
        if len(value.uses) != 1 or len(result.uses) != 1 or len(ends) != 1 or ends[0].index != place:
            break
        found.append((loop, place))
        value, result = loop.inits[place], loop.op.results[place]
    return found


def _flag(dot: WarpGroupDotOp, carries: list[tuple[ForOp, int]]) -> Value:
    """Whether the accumulator is added: not in the first iteration of all loops, if it is zero at first."""
    outermost, place = carries[-1]
    init = outermost.inits[place]
    before = Builder.before(outermost.op)
    if not is_zero(init):
        return Builder.before(dot.op).constant(1, "i1")
    order = [loop.op for loop, _ in reversed(carries)]
    found: list[Value] = []

    def inside(depth: int, start: Value) -> Value:
        if depth == len(order):
            found.append(start)
            return Builder.before(dot.op).constant(1, "i1")
        return carry_through(order[depth], start, lambda _, value: inside(depth + 1, value), "use")

    inside(0, before.constant(0, "i1"))
    return found[0]


def _leave(carries: list[tuple[ForOp, int]], buffer: Value) -> str:
    """The tile leaves tensor memory behind the loops; zero again if there was no trip."""
    outermost, place = carries[-1]
    init, result = outermost.inits[place], outermost.op.results[place]
    start = Builder.before(outermost.op)
    if not is_zero(init):
        start.create(TMEMStoreOp.NAME, (buffer, init, start.constant(1, "i1")))
    for loop, at in carries:
        loop.body.terminator.set_operand(at, loop.iter_args[at])
    if not result.uses:
        return ""
    block = _home(result)
    builder = Builder.before(min((ancestor_in(block, use.op) for use in result.uses), key=block.index_of))
    builder.loc = outermost.op.loc
    uses = list(result.uses)
    tile = _if_any(builder, carries, init, buffer, result)
    for use in uses:
        use.op.set_operand(use.index, tile)
    return ""


def _if_any(builder: Builder, carries: list[tuple[ForOp, int]], init: Value, buffer: Value, result: Value) -> Value:
    """The tile in tensor memory if there was a trip, else its initial value, which is zero."""
    condition: Value | None = None
    for loop, _ in carries if is_zero(init) else ():
        low, high = (constant_int(it) for it in (loop.lower, loop.upper))
        if low is not None and high is not None and low < high:
            continue
        if condition is not None:
            return _load(builder, result, buffer)
        condition = _less(carries[-1][0].op, loop.lower, loop.upper)
    if condition is None:
        return _load(builder, result, buffer)
    return _load_if(builder, condition, (result, buffer, init))


def _load_if(builder: Builder, condition: Value, *accumulators: tuple[Value, Value, Value]) -> Value:
    """Loads tiles if a condition holds, else takes others; one branch for all accumulators of a loop.

    accumulators: of each the value whose type and name the tile has, the buffer, and the other tile. Returns the last.
    """
    block, anchor = builder.block, builder.anchor
    known = next((op for op in block.ops if IfOp.matches(op) and op.operands[0] is condition), None)
    if known is not None:
        yields = [region.blocks[0].terminator.operands for region in known.regions]
        loads = [TMEMLoadOp(op).buffer for value in yields[0] if (op := value.defining_op)]
        accumulators = (*zip(known.results, loads, yields[1], strict=True), *accumulators)
        if anchor is None or block.index_of(known) < block.index_of(anchor):
            builder = Builder.before(known)
    then, other = Block(), Block()
    inner = Builder.at_end(then, builder.loc)
    inner.create(YieldOp.NAME, [_load(inner, result, buffer) for result, buffer, _ in accumulators])
    Builder.at_end(other, builder.loc).create(YieldOp.NAME, [init for _, _, init in accumulators])
    branch = builder.create(
        IfOp.NAME,
        (condition,),
        [result.type for result, _, _ in accumulators],
        regions=[Region([then]), Region([other])],
        hints=[result.hint for result, _, _ in accumulators],
    )
    if known is not None:
        for result, tile in zip(known.results, branch.results, strict=False):
            result.replace_all_uses_with(tile)
        known.erase()
    return branch.results[-1]


def _less(loop: Operation, low: Value, high: Value) -> Value:
    """A comparison of two numbers behind a loop; the accumulators of one loop have one condition."""
    block = loop.parent
    assert block is not None
    for op in block.ops[block.index_of(loop) + 1 :]:
        found = CmpIOp.of(op)
        if found is None:
            break
        if (found.predicate, found.lhs, found.rhs) == (Predicate.SLT, low, high):
            return op.result
    return CmpIOp.create(Builder.after(loop), Predicate.SLT, low, high)


def _load(builder: Builder, like: Value, buffer: Value) -> Value:
    return builder.create(TMEMLoadOp.NAME, (buffer,), (like.type,), hints=(like.hint,)).results[0]


def _carries(use: Use) -> bool:
    """Whether a use only hands a value on to the next iteration of its loop, or out of it."""
    return YieldOp.matches(use.op) and ForOp.of(use.op.parent.parent_op if use.op.parent else None) is not None


def _carried_on(result: Value) -> list[Value]:
    """A value and all that it becomes through the back edges and ends of loops."""
    found = [result]
    for value in found:
        for use in value.uses:
            if _carries(use):
                assert use.op.parent is not None and use.op.parent.parent_op is not None
                loop = ForOp(use.op.parent.parent_op)
                found += [it for it in (loop.iter_args[use.index], loop.op.results[use.index]) if it not in found]
    return found


def _stop_carrying(value: Value, buffer: Value) -> None:
    """Memory carries the tile in place of the loop: it is stored once, ahead of the loop."""
    for use in [use for use in value.uses if _carries(use)]:
        assert use.op.parent is not None and use.op.parent.parent_op is not None
        loop = ForOp(use.op.parent.parent_op)
        argument = loop.iter_args[use.index]
        if use.value is argument:
            continue
        before = Builder.before(loop.op)
        before.create(TMEMStoreOp.NAME, (buffer, loop.inits[use.index], before.constant(1, "i1")))
        use.op.set_operand(use.index, argument)
