"""One function of TTGIR as the body of a Gluon function, operation by operation.

    %s = ttg.memdesc_index %full[%slot]                      k_tile, = k_ring.get(slot, parity)
    ttng.wait_barrier %s, %parity

A value that is used once is written where it is used, if that changes neither the order of effects nor the user's
variables. Every other value has the name of the user's variable. The lines of the user's kernel stand as comments above
what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tawa.dialects import arith, scf, tt, ttg
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.emit.errors import cannot_say
from tawa.emit.extras import Extras
from tawa.emit.python.names import Holder, Names
from tawa.emit.python.statements import Sources, Statement
from tawa.emit.python.text import INDENT, WIDTH, closed, cut, mentions, wrapped_call
from tawa.emit.rings.recognised import Advance, Member, Ring, begins_another, opposite
from tawa.emit.values.constants import literal_of
from tawa.emit.values.objects import assigned, object_of
from tawa.emit.values.pure import PURE
from tawa.emit.values.repeated import only_repeats
from tawa.ir import Block, Module, Operation, Value
from tawa.ir.locations import frames_of, source_of
from tawa.ir.types import MemDescType, TensorType, is_scalar, parse_type

LONGEST = 72
"""Characters of an expression that is written where it is used."""
DEFAULTS = by_name({tt.GetProgramIdOp: "pid", tt.GetNumProgramsOp: "programs", tt.MakeRangeOp: "range"})
"""Default names for values without a user's variable."""
TERMINATORS = op_names(scf.ConditionOp, scf.YieldOp, ttg.WarpYieldOp, ttg.WarpReturnOp, tt.ReturnOp)
CARRYING = op_names(scf.ForOp, scf.WhileOp) | TERMINATORS


@dataclass
class File:
    """What the functions of one file share.

    library: the folder of Triton, whose lines are no lines of the user. scratch: whether the kernel makes descriptors,
    in scratch memory. writers: of the operations that are statements. expressions: of the pure ones. rings: the parts
    of the rings, by allocation. methods: of `Ring`, that are used.
    """

    module: Module
    layout_of: Callable[[str], str]
    library: str = ""
    sources: Sources = field(default_factory=Sources)
    functions: list[list[str]] = field(default_factory=list[list[str]])
    scratch: bool = False
    extras: Extras = field(default_factory=Extras)
    writers: Mapping[str, Writer] = field(default_factory=dict[str, "Writer"])
    expressions: Mapping[str, Expression] = field(default_factory=dict[str, "Expression"])
    methods: set[str] = field(default_factory=set[str])


@dataclass(frozen=True, slots=True)
class Target:
    """A variable to which a block assigns a value at its end, or where the value is made.

    holder: who has the name until then. still: how many uses of it are outside of the block.
    """

    name: str
    holder: Value | None = None
    still: int = 0


class Body:
    """Writes the operations of a block, and of the blocks in it.

    wishes: names by role. advances: steps of places, by each of their operations.
    members: parts of rings, by value; slots: parts of one slot. allocations: those that a ring consists of. literals:
    constants that are parameters. written: operations that are part of the call of another one. later: what is written
    in place of an operation. twice: whether the operations are written more than once.
    """

    def __init__(self, file: File, names: Names) -> None:
        self.file = file
        self.names = names
        self.lines: list[str] = []
        self.depth = 1
        self.wishes: dict[Value, str] = {}
        self.advances: dict[Operation, Advance] = {}
        self.members: dict[Value, Member] = {}
        self.slots: dict[Value, tuple[Member, str]] = {}
        self.ring_names: dict[Ring, str] = {}
        self.allocations: dict[Operation, Ring] = {}
        self.literals: dict[Operation, str] = {}
        self.left: dict[Value, int] = {}
        self.held: dict[Value, list[Value]] = {}
        self.current = Block()
        self.targets: dict[Value, Target] = {}
        self.written: set[Operation] = set()
        self.deferred: list[Advance] = []
        self.later: dict[Operation, Callable[[], None]] = {}
        self.said: set[int] = set()
        self.remarked: set[int] = set()
        self.twice = False

    # -- text ----------------------------------------------------------------------------------------------------

    def put(self, text: str) -> None:
        """One line of code, or a call in several lines if it is too long."""
        line = f"{INDENT * self.depth}{text}"
        self.lines += [line] if len(line) <= WIDTH or "\n" in text else wrapped_call(text, self.depth).split("\n")

    def of(self, value: Value, atomic: bool = False) -> str:
        """The expression of a value; atomic: in parentheses if it is more than a name or a call."""
        text = self.names[value]
        return f"({text})" if atomic and not closed(text) else text

    def assigned(self, value: Value) -> str:
        """The expression of a value, as what is assigned to a variable."""
        text = self.of(value)
        if self.parameter(value):
            return text if value.type == "i32" else object_of(text, value.type)
        return assigned(text, value.type)

    def parameter(self, value: Value) -> bool:
        """Whether a value is a constant that is a parameter."""
        return value.defining_op is not None and value.defining_op in self.literals

    def layout(self, type: TensorType | MemDescType) -> str:
        """The name of the layout of a tile."""
        return self.file.layout_of(type.encoding)

    def statement_of(self, op: Operation) -> Statement | None:
        """The user's statement that an operation comes from: the innermost one outside of Triton, without returns."""
        found: Statement | None = None
        for place in frames_of(self.file.module, op):
            if self.file.library and place.file.startswith(self.file.library):
                continue
            found = self.file.sources.statement(place.file, place.line) or found
            if found is not None and not found.text.startswith("return"):
                break
        return found

    def comment(self, op: Operation) -> None:
        """The line of the user's kernel, if this is the first operation of it in this block."""
        found = self.statement_of(op)
        if found is None or id(found) in self.said:  # two lines may have the same text
            return
        self.said.add(id(found))
        if id(found) not in self.remarked:
            self.remarked.add(id(found))
            for line in found.comments:
                self.put(cut(line, WIDTH - len(INDENT) * self.depth))
        self.put(cut(f"# {found.text}", WIDTH - len(INDENT) * self.depth))

    # -- blocks --------------------------------------------------------------------------------------------------

    def block(
        self, block: Block, targets: Sequence[Target] = (), numbers: Sequence[int] | None = None
    ) -> Sequence[Value]:
        """Writes the operations of a block and, if there are targets, hands on what it yields; else returns that.

        numbers: of the values that are handed on; None for all.
        """
        before = (self.current, self.targets, self.said, self.deferred)
        last = block.ops[-1] if block.ops and block.ops[-1].name in TERMINATORS else None
        values: Sequence[Value] = last.operands if last is not None else ()
        values = values if numbers is None else [values[it] for it in numbers]
        self.current, self.said, self.deferred = block, set(), []
        self.targets = dict(reversed(list(zip(values, targets, strict=False))))
        for op in block.ops:
            if op is not last:
                self.operation(op)
        if targets:
            self.hand_on(targets, values)
        self.current, self.targets, self.said, self.deferred = before
        return values

    def hand_on(self, targets: Sequence[Target], values: Sequence[Value]) -> None:
        """Assigns the yielded values to their variables, and writes the ring steps that were deferred to the end."""
        rest = list(zip(targets, values, strict=True))
        moved = {value for it in self.deferred for value in (it.next_slot, it.next_parity)}
        starts = [self.of(value) for it in self.deferred for value in (it.slot, it.parity)]
        for pair in list(rest):
            target, value = pair
            others = starts + [self.of(it) for _, it in rest if it is not value and it not in moved]
            if value in moved or self.of(value) == target.name or not self.free(target):
                continue
            if not any(mentions(text, target.name) for text in others):
                self.put(f"{target.name} = {self.assigned(value)}")
                self.uses(value)
                rest.remove(pair)
        for it in self.deferred:
            self.move(it)
        self.assign([(target.name, self.assigned(value)) for target, value in rest])
        for _, value in rest:
            self.uses(value)

    def assign(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Assigns expressions to variables, all at once where one reads what another changes."""
        pairs = [(name, text) for name, text in pairs if name != text]
        if any(mentions(text, name) for at, (name, _) in enumerate(pairs) for _, text in pairs[at + 1 :]):
            self.put(f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}")
            return
        for name, text in pairs:
            self.put(f"{name} = {text}")

    def operation(self, op: Operation) -> None:
        """Writes one operation, or remembers its expression."""
        if (late := self.later.pop(op, None)) is not None:
            late()
            return
        if op in self.written:
            return
        if (step := self.advances.get(op)) is not None:
            self.step(step, op)
            return
        written = self.file.writers.get(op.name)
        if written is not None:
            written(self, op)
            return
        expression = self.file.expressions.get(op.name)
        if expression is None:
            raise cannot_say(op.name, source_of(self.file.module, op))
        self.keep(op, expression(self, op))

    def step(self, step: Advance, op: Operation) -> None:
        """Writes a ring step in place of its last operation, or at the end of the block if only the yield uses it."""
        if op is not step.ops[-1]:
            return
        users = {use.op for value in (step.next_slot, step.next_parity) for use in value.uses}
        if self.targets and users <= {self.current.ops[-1]}:
            self.deferred.append(step)
        else:
            self.move(step)

    def move(self, step: Advance) -> None:
        """Writes the step of a place."""
        self.file.methods.add("advance")
        text = f"advance({self.of(step.slot)}, {self.of(step.parity)}, {step.slots})"
        self.uses(step.slot)
        self.uses(step.parity)
        names = [self.take(it) for it in (step.next_slot, step.next_parity)]
        self.put(f"{', '.join(names)} = {text}")

    # -- values --------------------------------------------------------------------------------------------------

    def keep(self, op: Operation, text: str) -> None:
        """Gives the result of a pure operation a name, or leaves its expression to its only user."""
        if not op.result.uses:
            self.release(op)
        elif only_repeats(op):
            self.hold(op, self.literal(op) if arith.ConstantOp.matches(op) else self.smaller(op))
        elif self.small(op) or self.inlined(op, text):
            self.hold(op, text)
        else:
            self.results(op, text)

    def literal(self, op: Operation) -> str:
        """The number of a constant, or the parameter that it is."""
        return self.literals.get(op) or literal_of(op)

    def smaller(self, op: Operation) -> str:
        """The operand of a splat or broadcast, in the result's layout: Triton 3.9 broadcasts across equal layouts."""
        text = self.of(op.operands[0])
        source, result = parse_type(op.operands[0].type), parse_type(op.result.type)
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            return text
        layouts = [self.file.layout_of(it) for it in (source.encoding, result.encoding)]
        return text if layouts[0] == layouts[1] else f"gl.convert_layout({text}, {layouts[1]}, assert_trivial=True)"

    def small(self, op: Operation) -> bool:
        """Whether an expression is repeated at every use instead of being assigned: a number, or a slot of a ring."""
        if arith.ConstantOp.matches(op):
            return is_scalar(op.result.type)
        if opposite(op.result) is not None:
            return True
        return ttg.MemDescIndexOp.matches(op) and op.operands[0] in self.members

    def inlined(self, op: Operation, text: str) -> bool:
        """Whether an expression is inlined into its only user."""
        result = op.result
        if len(result.uses) != 1 or len(text) > LONGEST:
            return False
        user = result.uses[0].op
        condition = scf.ConditionOp.matches(user) and result.uses[0].index == 0
        if user.parent is not op.parent or (user.name in CARRYING and not condition):
            return False
        if op.name in ttg.VIEWS:
            return True
        if result.type == "i1":
            return True
        mine, theirs = self.wish(result), self.wish(user.results[0]) if len(user.results) == 1 else ""
        if result.hint and mine != theirs and user not in self.advances:
            return False
        return is_scalar(result.type) or not self.effects_between(op, user)

    def effects_between(self, op: Operation, user: Operation) -> bool:
        """Whether anything but pure operations stands between two operations of a block."""
        ops = self.current.ops
        return any(it.name not in PURE for it in ops[ops.index(op) + 1 : ops.index(user)])

    def hold(self, op: Operation, text: str) -> None:
        """Defers an expression to its users; the variables in it stay live until then."""
        self.names.sources[op.result] = text
        self.held[op.result] = list(op.operands)

    def release(self, op: Operation) -> None:
        """Marks the operands of an operation as used."""
        for operand in op.operands:
            self.uses(operand)

    def uses(self, value: Value) -> None:
        """Marks one use as written. The last use of a deferred expression also uses its operands."""
        if self.twice:
            return
        self.left[value] = self.count(value) - 1
        if not self.left[value]:
            for inner in self.held.get(value, ()):
                self.uses(inner)

    def results(self, op: Operation, text: str, wishes: Sequence[str] = ()) -> None:
        """`name = text`; wishes: names for the results."""
        self.comment(op)
        self.release(op)
        wanted = wishes or [""] * len(op.results)
        names = [self.take(it, wish) for it, wish in zip(op.results, wanted, strict=True)]
        self.put(f"{', '.join(names)} = {text}")

    def take(self, value: Value, wish: str = "") -> str:
        """Names a value after the loop or branch variable that it becomes, or after `wish`."""
        target = self.targets.get(value)
        if target is not None and self.free(target):
            self.names.give(value, target.name, self.current)
            return target.name
        wanted = wish or self.wish(value)
        name = self.names.again(wanted, lambda it: self.dead(it, value)) or self.names.fresh(wanted)
        self.names.give(value, name, self.current)
        return name

    def free(self, target: Target) -> bool:
        """Whether a variable may be overwritten now: its old value is dead in this block."""
        now = self.names.holders.get(target.name)
        if now is not None and now.value is not target.holder and self.count(now.value) > 0:
            return False
        return target.holder is None or (not self.twice and self.count(target.holder) <= target.still)

    def count(self, value: Value) -> int:
        """How many uses of a value are still to be written."""
        return self.left.get(value, len(value.uses))

    def dead(self, holder: Holder, value: Value) -> bool:
        """Whether `value` may reuse a name: assigned in this block, of the same type, and with a dead old value."""
        if self.twice or self.count(holder.value) > 0 or holder.value.type != value.type:
            return False
        block: Block | None = holder.block
        while block is not None and block is not self.current:
            block = block.parent_op.parent if block.parent_op is not None else None
        return block is not None

    def wish(self, value: Value) -> str:
        """The preferred name: the role of the value, the user's variable, or the target of its statement."""
        if value in self.wishes:
            return self.wishes[value]
        op = value.defining_op
        if op is not None and arith.ConstantOp.matches(op) and (not value.hint or begins_another(value, value.hint)):
            return {"0.0": "zeros", "0": "zeros", "1.0": "ones", "1": "ones"}.get(self.literal(op), "filled")
        if value.hint and (op is None or op.name not in ttg.VIEWS):
            return value.hint
        found = self.statement_of(op) if op is not None else None
        if op is None or found is None or any(self.statement_of(use.op) is found for use in value.uses):
            return DEFAULTS.get(op.name, "x") if op is not None else "x"
        return found.target or DEFAULTS.get(op.name, "x")

    def wishing(self, wishes: Iterable[tuple[Value, str]]) -> None:
        """Adds names for values that have none yet."""
        for value, wish in wishes:
            self.wishes.setdefault(value, wish)

    # -- rings ---------------------------------------------------------------------------------------------------

    def slot_of(self, value: Value) -> tuple[Member, str, Value | None] | None:
        """For a view of one slot of a ring: the member, the slot as an expression, and its index value."""
        if value in self.slots:
            member, slot = self.slots[value]
            return member, slot, None
        op = value.defining_op
        if op is None or not ttg.MemDescIndexOp.matches(op) or op.operands[0] not in self.members:
            return None
        return self.members[op.operands[0]], self.of(op.operands[1]), op.operands[1]

    def ring(self, ring: Ring) -> str:
        """The name of a ring here."""
        return self.ring_names[ring]


def statement(text: Callable[[Body, Operation], str]) -> Writer:
    """A writer of one line without results."""

    def write(body: Body, op: Operation) -> None:
        body.comment(op)
        body.put(text(body, op))
        body.release(op)

    return write


Writer = Callable[[Body, Operation], None]
"""Writes one operation."""
Expression = Callable[[Body, Operation], str]
"""The expression of a pure operation."""


def type_of(value: Value) -> TensorType:
    """The type of a tile."""
    type = parse_type(value.type)
    assert isinstance(type, TensorType)
    return type


__all__ = ["INDENT", "Body", "Expression", "File", "Target", "Writer", "statement", "type_of"]
