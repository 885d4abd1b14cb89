"""Edits of a program: finds operations by partition, computes numbers in front of them, guards, moves and adds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.ir import Block, Builder, Module, Operation, Region, Value, clone_op

WAIT, ARRIVE, EXPECT, INIT = "ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier"
COPY, STORE = "ttng.async_tma_copy_global_to_local", "ttng.async_tma_copy_local_to_global"
DOT, DOT_WAIT, STORE_WAIT = "ttng.warp_group_dot", "ttng.warp_group_dot_wait", "ttng.async_tma_store_wait"
FENCE, LOCAL_STORE, LOCAL_LOAD = "ttng.fence_async_shared", "ttg.local_store", "ttg.local_load"
COPIES, COPIES_ARRIVE = "ttg.async_copy_global_to_local", "ttng.async_copy_mbarrier_arrive"
SELECT, XOR, REMAINDER, QUOTIENT, ADD = "arith.select", "arith.xori", "arith.remsi", "arith.divsi", "arith.addi"
FOR, WHILE, IF, FORK, INDEX = "scf.for", "scf.while", "scf.if", "ttg.warp_specialize", "ttg.memdesc_index"
ALLOC, DEALLOC, LOAD = "ttg.local_alloc", "ttg.local_dealloc", "tt.load"

Condition = Callable[["At"], Value]
"""Computes an i1 in front of an operation."""

_COMPARISONS = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_FLOAT_COMPARISONS = {"==": 1, ">": 2, ">=": 3, "<": 4, "<=": 5}
_OPERATIONS = {
    "+": "addi", "-": "subi", "*": "muli", "//": "divsi", "%": "remsi", "&": "andi", "|": "ori", "^": "xori",
    "min": "minsi", "max": "maxsi",
}  # fmt: skip


class Program:
    """A program that is edited. Partition -1 is what comes before the fork, 0 the default one, then the others."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.function = next(op for op in module.walk() if op.name == "tt.func" and op.regions)
        self.fork = next(op for op in module.walk() if op.name == FORK)
        self.holder = self.fork.regions[1].block.ops[0]
        regions = [self.fork.regions[0], *self.holder.regions]
        self.partitions: list[Block] = [region.block for region in regions]

    def all(self, name: str, part: int) -> list[Operation]:
        """The operations of a name in a partition, in textual order."""
        if part < 0:
            block = self.function.regions[0].block
            before = block.ops[: block.index_of(self.fork)]
            return [op for top in before for op in top.walk() if op.name == name]
        return [op for top in self.partitions[part].ops for op in top.walk() if op.name == name]

    def find(self, name: str, part: int, number: int = 0) -> At:
        """The place of one of them."""
        return At(self, self.all(name, part)[number], part)

    def argument(self, name: str, part: int) -> Value:
        """An argument of the kernel in a partition; of arguments with one name, the last one."""
        block = self.function.regions[0].block
        value = [it for it in block.args if it.hint == name][-1]
        return self.shared(value, part)

    def shared(self, value: Value, part: int) -> Value:
        """A value from before the fork in a partition."""
        if part <= 0:
            return value
        owner = self.fork if self.fork.operands else self.holder
        if value not in owner.operands:
            owner.add_operand(value)
            for region in self.holder.regions:
                region.block.add_arg(value.type, value.hint)
        return self.partitions[part].args[owner.operands.index(value)]


class At:
    """A place in front of an operation, where numbers are computed."""

    def __init__(self, program: Program, op: Operation, part: int) -> None:
        self.program, self.op, self.part = program, op, part
        self.builder = Builder.before(op)

    # -- numbers ----------------------------------------------------------------------------------------------------

    def number(self, value: int, type: str = "i32") -> Value:
        """A constant."""
        return self.builder.constant(value, type)

    def make(self, symbol: str, a: Value | int, b: Value | int) -> Value:
        """A result of arithmetic; a number has the type of the other operand."""
        type = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else "i32"
        operands = [self.number(it, type) if isinstance(it, int) else it for it in (a, b)]
        name = f"arith.{_OPERATIONS[symbol]}"
        wraps = {"overflowFlags": "#arith.overflow<none>"} if symbol in "+-*" else {}
        return self.builder.create(name, operands, (type,), properties=wraps).result

    def compare(self, a: Value, symbol: str, b: Value | int) -> Value:
        """An i1."""
        other = self.number(b, a.type) if isinstance(b, int) else b
        predicate = {"predicate": f"{_COMPARISONS[symbol]} : i64"}
        return self.builder.create("arith.cmpi", (a, other), ("i1",), properties=predicate).result

    def compare_float(self, a: Value, symbol: str, b: Value | float) -> Value:
        """An i1; false for NaN."""
        if isinstance(b, float):
            b = self.builder.create("arith.constant", (), (a.type,), properties={"value": f"{b:e} : {a.type}"}).result
        more = {"predicate": f"{_FLOAT_COMPARISONS[symbol]} : i64", "fastmath": "#arith.fastmath<none>"}
        return self.builder.create("arith.cmpf", (a, b), ("i1",), properties=more).result

    def cast(self, value: Value, kind: str, type: str) -> Value:
        """``extui``, ``extsi`` or ``trunci``."""
        more = {"overflowFlags": "#arith.overflow<none>"} if kind == "trunci" else {}
        return self.builder.create(f"arith.{kind}", (value,), (type,), properties=more).result

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        """``a`` if the condition holds, else ``b``."""
        return self.builder.create("arith.select", (condition, a, b), (a.type,)).result

    def negate(self, condition: Value) -> Value:
        """The other truth value."""
        return self.make("^", condition, 1)

    def argument(self, name: str) -> Value:
        """An argument of the kernel."""
        return self.program.argument(name, self.part)

    def program_id(self, axis: int = 0) -> Value:
        """The number of the program."""
        return self.builder.create("tt.get_program_id", (), ("i32",), properties={"axis": f"{axis} : i32"}).result

    def loaded(self, pointer: str, offset: int = 0) -> Value:
        """An int32 from memory."""
        address = self.argument(pointer)
        if offset:
            address = self.builder.create("tt.addptr", (address, self.number(offset)), (address.type,)).result
        more = {
            "boundaryCheck": "array<i32>", "cache": "1 : i32", "evict": "1 : i32", "isVolatile": "false",
            "operandSegmentSizes": "array<i32: 1, 0, 0>",
        }  # fmt: skip
        type = address.type.removeprefix("!tt.ptr<").removesuffix(">")
        found = self.builder.create("tt.load", (address,), (type,), properties=more).result
        return self.cast(found, "trunci", "i32") if type == "i64" else found

    # -- loops ------------------------------------------------------------------------------------------------------

    def loops(self) -> list[Operation]:
        """The loops with a counter around the place, innermost first, up to the partition."""
        inside = list(self.op.ancestors())
        stop = inside.index(self.program.fork) if self.program.fork in inside else len(inside)
        return [it for it in inside[:stop] if it.name == FOR]

    def trip(self, outer: int = 0) -> Value:
        """The number of the iteration of the innermost loop, from 0; of the `outer`-th one around it."""
        loop = self.loops()[outer]
        low, _, step = loop.operands[:3]
        return self.make("//", self.make("-", loop.regions[0].block.args[0], low), step)

    def trips(self, outer: int = 0) -> Value:
        """How many iterations that loop has."""
        low, high, step = self.loops()[outer].operands[:3]
        return self.make("//", self.make("+", self.make("-", high, low), self.make("-", step, 1)), step)

    def is_last(self, outer: int = 0) -> Value:
        """Whether it is in its last iteration."""
        return self.compare(self.trip(outer), "==", self.make("-", self.trips(outer), 1))

    def carried(self, first: int, change: Callable[[At, Value], Value], type: str = "i32") -> Value:
        """A number that all loops around the place carry, and that changes behind each iteration of the innermost.

        Returns it as it is in this iteration.
        """
        loops = self.loops()
        value = At(self.program, loops[-1], self.part).number(first, type)
        for loop in reversed(loops):
            loop.add_operand(value)
            value = loop.regions[0].block.add_arg(type, "count")
        here, end = value, loops[0].regions[0].block.ops[-1]
        made = change(At(self.program, end, self.part), here)
        for loop in loops:
            loop.regions[0].block.ops[-1].add_operand(made)
            loop.results.append(Value(type, loop, len(loop.results), "count"))
            made = loop.results[-1]
        return here

    # -- changes ----------------------------------------------------------------------------------------------------

    def guard(self, condition: Value) -> None:
        """The operation happens only if the condition holds."""
        name, place = self.op.name, {ARRIVE: 1, EXPECT: 1, WAIT: 2}.get(self.op.name)
        if name == COPY:
            place = len(self.op.operands) - 1
        if place is None:
            self.wrap(condition)
        elif place < len(self.op.operands):
            self.op.set_operand(place, self.make("&", self.op.operands[place], condition))
        else:
            self.op.add_operand(condition)
            if name == WAIT:
                self.op.properties["operandSegmentSizes"] = "array<i32: 1, 1, 1, 0>"

    def wrap(self, condition: Value, ops: Sequence[Operation] = ()) -> None:
        """Puts operations without results that others use into a branch."""
        moved = list(ops) or [self.op]
        inner = Block()
        self.builder.create("scf.if", (condition,), (), regions=(Region([inner]), Region()))
        for op in moved:
            inner.append(op.detach())
        Builder.at_end(inner).create("scf.yield")

    def drop(self) -> None:
        """Takes the operation away; a value that it hands on is used instead of its result."""
        for result, operand in zip(self.op.results, self.op.operands, strict=False):
            result.replace_all_uses_with(operand)
        self.op.erase()

    def copy(self, condition: Value | None = None) -> Operation:
        """A second operation in front of it, guarded."""
        second = self.builder.insert(clone_op(self.op, {}))
        if condition is not None:
            At(self.program, second, self.part).guard(condition)
        return second

    def move(self, before: At) -> None:
        """Moves the operation, and what it alone uses, in front of another."""
        block, target = self.op.parent, before.op
        assert block is not None
        for value in list(self.op.operands):
            made = value.defining_op
            if made is not None and made.parent is block and [*made.results[0].users] == [self.op]:
                At(self.program, made, self.part).move(before)
        target.parent.insert(target.parent.index_of(target), self.op.detach())  # type: ignore[union-attr]

    def operand(self, index: int, change: Callable[[At, Value], Value]) -> None:
        """Replaces an operand by what is computed from it."""
        self.op.set_operand(index, change(self, self.op.operands[index]))

    def slot(self, index: int, change: Callable[[At, Value], Value]) -> None:
        """Replaces the slot of an operand by what is computed from its number."""
        view = self.op.operands[index].defining_op
        while view is not None and view.name != INDEX:
            view = view.operands[0].defining_op
        assert view is not None
        number = change(self, view.operands[1])
        other = self.builder.create(INDEX, (view.operands[0], number), (view.result.type,)).result
        if view.result is self.op.operands[index]:
            self.op.set_operand(index, other)
        else:
            copies = clone_op(self.op.operands[index].defining_op, {view.result: other})  # type: ignore[arg-type]
            self.op.set_operand(index, self.builder.insert(copies).result)

    def integer(self, name: str, change: Callable[[int], int]) -> None:
        """Changes an integer property."""
        text = self.op.properties[name]
        value, _, type = text.partition(" : ")
        self.op.properties[name] = f"{change(int(value))} : {type}"
