"""Split sums: kernels whose sums over the iterations of a loop can be computed in shares, each by another program.

    %acc = for %k in range(0, %K, 64), iter_args(%acc = 0, %a = %a_ptr) {
      %a', %b = load …
      yield dot(%a', %b, %acc), addptr(%a, 64)
    }
    store f(%acc)

A share begins in the middle of the loop, so everything that the loop carries besides the sums must be affine in the
iteration: `%a` is `%a_ptr + 64 · iteration`. A sum starts at zero, and an iteration adds to it what does not depend on
it. What is behind the loop depends on the loop by its sums alone, so whoever has the sums of all shares can do it.

Programs that share a tile communicate, while the kernel's own programs must not: then each would wait, or count, twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.declines import SPLIT_K
from tawa.dialects.arith import AddFOp, AddIOp, is_zero
from tawa.dialects.control_flow import structured_kernel
from tawa.dialects.effects import effects_of, is_bound_to_its_program, is_plain_load
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import DOTS, AddPtrOp, DescriptorLoadOp, DotOp, FuncOp, LoadOp
from tawa.ir import Block, Module, Operation, TensorType, Value, parse_type, source_of
from tawa.remarks import Remark
from tawa.symbolic.words import word_of

_STEPS = (AddIOp.NAME, AddPtrOp.NAME)


@dataclass(frozen=True, slots=True)
class SplitSums:
    """loop: whose iterations are shared. sums: the numbers of the carried values that are sums.

    steps: what each iteration adds to the other carried values, by their numbers.
    """

    loop: ForOp
    sums: tuple[int, ...]
    steps: dict[int, Value]

    @property
    def tiles(self) -> tuple[TensorType, ...]:
        """The types of the sums."""
        kinds = (parse_type(self.loop.iter_args[number].type) for number in self.sums)
        return tuple(kind for kind in kinds if isinstance(kind, TensorType))

    @property
    def bytes(self) -> int:
        """Bytes of the sums of one program."""
        return sum(tile.bytes for tile in self.tiles)


def find_split_sums(module: Module) -> SplitSums | Remark:
    """The loop of a kernel that programs can share; a `declined` remark if there is none. module: TTIR."""
    function = structured_kernel(module)
    if function is None:
        return _declined(module, None, "only one function without branches between blocks can be shared by programs")
    for op in function.op.walk():
        if is_bound_to_its_program(op):
            return _declined(module, op, f"{word_of(op)} would be executed by every program that shares a tile")
    dots = [op for op in function.op.walk() if op.name in DOTS]
    loops = list(dict.fromkeys(_outermost(dot) for dot in dots))
    loop = ForOp.of(loops[0]) if len(loops) == 1 else None
    if loop is None or loop.op.parent is not function.body:
        return _declined(module, dots[0] if dots else None, "not all dots are in one loop outside of all branches")
    return _refusal(module, function, loop) or _found(module, loop)


def _outermost(dot: Operation) -> Operation | None:
    return next(reversed(list(enclosing_loops(dot))), None)


def _refusal(module: Module, function: FuncOp, loop: ForOp) -> Remark | None:
    """Why a part of the iterations cannot be executed by itself."""
    if loop.unsigned or loop.induction.type not in ("i32", "i64"):
        return _declined(module, loop.op, "its iterations are counted without a sign")
    before = function.body.ops[: function.body.index_of(loop.op)]
    for op in [nested for it in (*before, loop.op) for nested in it.walk()]:
        if not op.regions and effects_of(op) and not is_plain_load(op) and not DescriptorLoadOp.matches(op):
            return _declined(
                module, op, f"{word_of(op)} in the loop or before it would be executed by several programs"
            )
        if LoadOp.matches(op) and not is_plain_load(op):
            return _declined(module, op, "a volatile load would be executed by several programs")
    return None


def _found(module: Module, loop: ForOp) -> SplitSums | Remark:
    sums: list[int] = []
    steps: dict[int, Value] = {}
    for number, (arg, yielded) in enumerate(zip(loop.iter_args, loop.yielded, strict=True)):
        if _is_sum(loop, number):
            sums.append(number)
            continue
        step = _step(arg, yielded, loop.body)
        if step is None:
            reason = f"the loop carries {arg.hint or 'a value'}, which is neither a sum of float32 from zero nor affine"
            return _declined(module, loop.op, reason)
        if loop.op.results[number].uses:
            return _declined(module, loop.op, f"{arg.hint or 'a carried value'} is used behind the loop")
        steps[number] = step
    if not sums:
        return _declined(module, loop.op, "the loop has no sum of float32 that starts at zero")
    return SplitSums(loop, tuple(sums), steps)


def _is_sum(loop: ForOp, number: int) -> bool:
    """Whether a carried value is a tile of float32 that starts at zero, and to which each iteration only adds."""
    kind = parse_type(loop.iter_args[number].type)
    if not isinstance(kind, TensorType) or kind.element != "f32" or len(kind.shape) != 2:
        return False
    return is_zero(loop.inits[number]) and _adds(loop.yielded[number], loop.iter_args[number], loop.body)


def _adds(value: Value, arg: Value, body: Block) -> bool:
    """Whether `value` is the carried value plus terms without it: nothing else uses the sums in between."""
    while len(value.uses) == 1:
        if value is arg:
            return True
        op = value.defining_op
        if op is None or op.parent is not body:
            return False
        of = next((it for it in _summed(op) if _leads_to(it, arg, body)), None)
        if of is None:
            return False
        value = of
    return False


def _summed(op: Operation) -> Iterator[Value]:
    """The operands that an operation adds to something else."""
    dot = DotOp.of(op)
    if dot is not None:
        yield dot.op.operands[2]
    elif op.name in DOTS:
        yield from (it for it in op.operands if it.type == op.result.type)
    elif AddFOp.matches(op):
        yield from op.operands


def _leads_to(value: Value, arg: Value, body: Block) -> bool:
    """Whether additions lead from a value back to `arg`."""
    if value is arg:
        return True
    op = value.defining_op
    return op is not None and op.parent is body and any(_leads_to(it, arg, body) for it in _summed(op))


def _step(arg: Value, yielded: Value, body: Block) -> Value | None:
    """What each iteration adds to a carried value; None if that is not one number, or one tile, for all iterations."""
    op = yielded.defining_op
    if op is None or op.parent is not body or op.name not in _STEPS:
        return None
    first, second = op.operands
    if second is arg and AddIOp.matches(op):
        first, second = second, first
    made = second.defining_op
    invariant = second.owner is not body if made is None else made.parent is not body
    return second if first is arg and invariant else None


def _declined(module: Module, op: Operation | None, reason: str) -> Remark:
    return SPLIT_K.remark(source_of(module, op) if op else None, why=reason)
