"""Names by role, for values that have none from the user: slots and parities of rings, and carried variables.

    iter_args(%arg50 = %c0, %arg51 = %c0, …)   slot, parity; k_slot, k_parity where a function uses several rings

Triton gives all results of a loop or branch the name of one of its variables. Here each has the name of what it
carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tawa.dialects import arith, scf, ttg, ttng
from tawa.dialects.declare.declaration import op_names
from tawa.emit.rings.recognised import Advance, Member, Ring, bare, begins_another, carried, opposite, root_of
from tawa.emit.values.expressions import CASTS
from tawa.ir import Block, Operation, Value

CONVERTING = CASTS | op_names(ttg.ConvertLayoutOp)


def roles_of(
    block: Block, members: Mapping[Value, Member], slots: Mapping[Value, Member], steps: Iterable[Advance]
) -> Mapping[Value, str]:
    """Values of a function and their names.

    members: parts of rings; slots: parts of one slot that it gets. steps: of its places.
    """
    return _Roles(list(operations_of(block)), members, slots, steps).names


def operations_of(block: Block) -> Iterator[Operation]:
    """The operations of a function, without those of the partitions that it starts."""
    for op in block.ops:
        yield op
        if not ttg.WarpSpecializeOp.matches(op):
            for region in op.regions:
                for inner in region.blocks:
                    yield from operations_of(inner)


class _Roles:
    def __init__(
        self,
        ops: list[Operation],
        members: Mapping[Value, Member],
        slots: Mapping[Value, Member],
        steps: Iterable[Advance],
    ) -> None:
        self.ops = ops
        self.loops = [op for op in ops if scf.ForOp.matches(op)]
        self.flows = list(self._flows())
        self.names: dict[Value, str] = {}
        self.converted: list[Value] = []
        self._name_places(members, slots, steps)
        self._name_lags()
        self._name_operands()
        self._name_variables()
        self._name_bounds()
        self._name_coordinates()

    def _flows(self) -> Iterator[tuple[Value, Value]]:
        """Edges from values to the loop-carried arguments and results that they become."""
        for op in reversed(self.ops):  # inner ones first
            if scf.ForOp.matches(op):
                for argument, init, yielded, result in carried(op):
                    yield from ((yielded, argument), (init, argument), (argument, result))
            if scf.WhileOp.matches(op):
                loop = scf.WhileOp(op)
                passed = loop.before.terminator.operands[1:]
                yield from zip(loop.after.terminator.operands, loop.before.args, strict=True)
                yield from zip(loop.inits, loop.before.args, strict=True)
                yield from zip(passed, loop.after.args, strict=True)
                yield from zip(passed, op.results, strict=True)
            if scf.IfOp.matches(op):
                for branch in scf.IfOp(op).branches:
                    yield from zip(branch.terminator.operands, op.results, strict=True)

    # -- rings ---------------------------------------------------------------------------------------------------

    def _name_places(
        self, members: Mapping[Value, Member], slots: Mapping[Value, Member], steps: Iterable[Advance]
    ) -> None:
        places = dict(_places(self.ops, members, slots))
        for step in steps:
            if step.slot in places:
                places.setdefault(step.parity, (places[step.slot][0], "parity"))
        for _ in range(3):
            for source, target in self.flows:
                for one, other in ((source, target), (target, source)):
                    if one in places and not _constant(other):
                        places.setdefault(other, places[one])
        several = len({ring for ring, _ in places.values()}) > 1
        self.names = {it: f"{ring.stem}_{role}" if several else role for it, (ring, role) in places.items()}

    def _name_lags(self) -> None:
        """Variables that lag one iteration behind, and flags that are false only in the first one."""
        for op in self.loops:
            block = scf.ForOp(op).body
            for argument, _, yielded, result in carried(op):
                if argument in self.names and yielded in block.args and yielded in self.names:
                    self.names[argument] = self.names[result] = f"last_{self.names[yielded].removeprefix('last_')}"
                elif argument.type == "i1" and _constant(yielded):
                    self.names[argument] = self.names[result] = "started"

    def _name_operands(self) -> None:
        """An operand that is converted for a dot keeps its own name, not the name of the accumulator."""
        for op in self.ops:
            if ttng.WarpGroupDotOp.matches(op):
                others, chain, seen = {"", op.result.hint}, list(op.operands[:2]), set[Value]()
                while chain:
                    value = chain.pop()
                    made = value.defining_op
                    if value.hint not in others or value in seen:
                        continue
                    seen.add(value)
                    if made is None:
                        chain += [source for source, target in self.flows if target is value]
                    elif made.name in CONVERTING:
                        chain.append(made.operands[0])
                        self.converted.append(value)
                        if name := self._converted(made.operands[0], others):
                            self.names[value] = name

    def _converted(self, value: Value, others: set[str]) -> str:
        """The name of a value, or of what it was converted from."""
        made = value.defining_op
        while value.hint in others and made is not None and made.name in CONVERTING:
            value, made = made.operands[0], made.operands[0].defining_op
        return value.hint if value.hint not in others else ""

    # -- variables -----------------------------------------------------------------------------------------------

    def _name_variables(self) -> None:
        """Spreads the user's names along loops and branches, also to the initial constants."""
        for _ in range(3):
            for source, target in self.flows:
                if target not in self.names and (name := self._known(source)):
                    self.names[target] = name
        ends: dict[Value, set[str]] = {}
        for source, target in self.flows:
            if target in self.names and source.defining_op is not None and not self._known(source):
                ends.setdefault(source, set()).add(self.names[target])
        for value, found in ends.items():
            if len(found) == 1 and not begins_another(value, name := found.pop()):
                self.names[value] = name

        for value in self.converted:
            if value.defining_op is not None and (name := self._known(value.defining_op.operands[0])):
                self.names.setdefault(value, name)

    def _known(self, value: Value) -> str:
        made = value.defining_op
        joined = made is not None and (scf.ForOp.matches(made) or scf.IfOp.matches(made) or scf.WhileOp.matches(made))
        return self.names.get(value) or ("" if joined else value.hint)

    def _name_bounds(self) -> None:
        for op in self.loops:
            loop = scf.ForOp(op)
            hints = {"", *(it.hint for it in op.results)}
            for value, name in ((loop.lower, "start"), (loop.upper, "stop")):
                if value.hint in hints and not _constant(value):
                    self.names.setdefault(value, name)

    def _name_coordinates(self) -> None:
        """Names of coordinates: those of a load in `acc = tl.dot(load(…))` are named `acc`, too, which misleads."""
        tiles = _names_of_tiles(self.ops[0]) if self.ops else set[str]()
        for op in self.ops:
            copy = ttng.AsyncTMACopyGlobalToLocalOp.of(op) or ttng.AsyncTMACopyLocalToGlobalOp.of(op)
            if copy is not None:
                stem = bare(root_of(copy.descriptor).hint)
                for at, value in enumerate(copy.indices):
                    if value.hint in {"", stem, *tiles} and not _constant(value):
                        self.names.setdefault(value, f"{stem}_{at}")


def _names_of_tiles(op: Operation) -> set[str]:
    """The names of all tiles in the program of an operation."""
    outer = op
    while outer.parent_op is not None:
        outer = outer.parent_op
    return {it.hint for inner in outer.walk() for it in inner.results if it.type.startswith("tensor<")}


def _places(
    ops: list[Operation], members: Mapping[Value, Member], slots: Mapping[Value, Member]
) -> Iterator[tuple[Value, tuple[Ring, str]]]:
    for op in ops:
        if ttg.MemDescIndexOp.matches(op) and op.operands[0] in members and not _constant(op.operands[1]):
            yield op.operands[1], (members[op.operands[0]].ring, "slot")
        if ttng.WaitBarrierOp.matches(op):
            view = ttng.WaitBarrierOp(op)
            made = view.barrier.defining_op
            member = members.get(made.operands[0]) if made is not None and ttg.MemDescIndexOp.matches(made) else None
            member = member or slots.get(view.barrier)
            parity = (opposite(view.parity) or view.parity) if member is not None else None
            if member is not None and parity is not None and not _constant(parity):
                yield parity, (member.ring, "parity")


def _constant(value: Value) -> bool:
    return value.defining_op is not None and arith.ConstantOp.matches(value.defining_op)
