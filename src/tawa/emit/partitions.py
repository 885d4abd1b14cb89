"""The partitions of a kernel as functions. Partitions that differ only in arguments and constants share one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tawa.dialects import ttg
from tawa.dialects.arith import ConstantOp
from tawa.dialects.tcgen05 import TMEMAllocOp
from tawa.emit.alike import Alike, compare, parameters_of
from tawa.emit.body import INDENT, Body, File
from tawa.emit.errors import cannot_say
from tawa.emit.python.names import Names
from tawa.emit.python.text import wrapped
from tawa.emit.rings.recognised import Member, Ring, advances_of, stem_of
from tawa.emit.rings.roles import operations_of, roles_of
from tawa.ir import Block, Operation, Value
from tawa.ir.rewriter import clone_op
from tawa.ir.types import TensorDescType, memdesc_type, parse_type


@dataclass(eq=False)
class Part:
    """A partition. captures: values of the kernel, by what they are inside. returned: what its function returns."""

    name: str
    block: Block
    captures: Mapping[Value, Value]
    returned: Sequence[Value] = ()
    function: str = ""
    arguments: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a partition. inside: the value that it stands for; ring: whether it passes the whole ring."""

    inside: Value
    ring: bool


class Partitions:
    """Writes the partitions of one file. taken, variables: names that functions and variables must not have."""

    def __init__(self, file: File, names: Sequence[str], taken: set[str], variables: set[str]) -> None:
        self.file = file
        self.wishes = list(names)
        self.taken = taken
        self.variables = variables

    def write(self, outer: Body, op: Operation) -> None:
        """Writes the functions of the partitions, and the statement that starts them."""
        view = ttg.WarpSpecializeOp(op)
        used = [it for it in op.results if it.uses]
        returned = [view.default.terminator.operands[it.index] for it in used]
        parts = [Part(self.wish(0), view.default, {it: it for it in _free(view.default, returned)}, returned)]
        parts += [
            Part(self.wish(number), block, dict(zip(block.args, view.captures, strict=True)))
            for number, block in enumerate(view.partitions, 1)
        ]
        for written, others in self.classes(outer, parts):
            self.function(outer, written, others)
        calls = [wrapped(f"({it.function}, (", it.arguments, ")),", outer.depth + 2) for it in parts]
        results = [outer.take(it, value.hint) for it, value in zip(used, returned, strict=True)]
        registers = op.attributes.get("requestedRegisters") or op.properties.get("requestedRegisters", "")
        asked = [int(it) for it in registers.removeprefix("array<i32:").removesuffix(">").split(",") if it.strip()]
        lead = f"({results[0]},) = " if len(results) == 1 else f"{', '.join(results)} = " if results else ""
        indent = INDENT * (outer.depth + 1)
        outer.put(
            f"{lead}gl.warp_specialize(\n{indent}[\n{''.join(calls)}{indent}],\n"
            f"{indent}{list(view.num_warps)},\n{indent}{asked},\n{INDENT * outer.depth})"
        )

    def wish(self, number: int) -> str:
        """The name of a partition."""
        return self.wishes[number] if number < len(self.wishes) else f"partition_{number}"

    # -- partitions that do the same -----------------------------------------------------------------------------

    def classes(self, outer: Body, parts: Sequence[Part]) -> Iterator[tuple[Part, list[tuple[Part, Alike]]]]:
        """The partitions that get a function, each with the partitions that share it."""
        rest = list(parts)
        while rest:
            best: tuple[Part, list[tuple[Part, Alike]]] = (rest[0], [])
            for written in rest:
                others = [(it, found) for it in rest if it is not written and (found := _alike(outer, written, it))]
                if len(others) > len(best[1]):
                    best = (written, others)
            if best[0] is not rest[0] and all(it is not rest[0] for it, _ in best[1]):
                best = (rest[0], [])
            yield best
            rest = [it for it in rest if it is not best[0] and all(it is not other for other, _ in best[1])]

    # -- functions -----------------------------------------------------------------------------------------------

    def body(self, names: Names, block: Block) -> Body:
        """A writer for a function with this block."""
        body = Body(self.file, names)
        body.current = block
        ops = [op for op in operations_of(block) if not ttg.WarpSpecializeOp.matches(op)]
        blocks = [block, *(some for op in ops for region in op.regions for some in region.blocks)]
        for step in (found for some in blocks for found in advances_of(some)):
            body.advances.update(dict.fromkeys(step.ops, step))
        return body

    def prepare(self, body: Body, block: Block, members: Mapping[Value, Member]) -> None:
        """Names the parts of rings in a function, and the values with a role."""
        body.members.update(members)
        for value, member in members.items():
            body.names.sources[value] = member.of(body.ring(member.ring))
        slots = {it: member for it, (member, _) in body.slots.items()}
        body.wishing(roles_of(block, members, slots, body.advances.values()).items())
        body.wishing(_buffers(block))

    def function(self, outer: Body, part: Part, others: Sequence[tuple[Part, Alike]]) -> None:
        """Writes the function of a partition, and the arguments with which it and the others call it."""
        names = Names({*self.taken, *self.variables})
        body = self.body(names, part.block)
        parameters: list[str] = []
        sources: list[Parameter] = []
        rest: list[Value] = []
        members: dict[Value, Member] = {}
        used = {place[0].ring for it, outside in part.captures.items() if it.uses and (place := _place(outer, outside))}
        stems = [it.stem for it in used]
        for inside, outside in part.captures.items():
            place = _place(outer, outside)
            if not inside.uses:
                continue
            if place is None:
                rest.append(inside)
                continue
            member, slot = place
            if member.ring not in body.ring_names:
                parameters.append(
                    names.fresh(
                        f"{member.ring.stem}_ring" if stems.count(member.ring.stem) == 1 else outer.ring(member.ring)
                    )
                )
                body.ring_names[member.ring] = parameters[-1]
                sources.append(Parameter(inside, True))
            if slot:
                body.slots[inside] = (member, slot)
                names.sources[inside] = f"{member.of(body.ring(member.ring))}.index({slot})"
            else:
                members[inside] = member
        self.prepare(body, part.block, members)
        for inside in rest:
            source = outer.of(part.captures[inside])
            if _literal(source) and all(outer.of(_outside(it, alike, inside)) == source for it, alike in others):
                names.sources[inside] = source
                continue
            if ".shape[" in source or ".strides[" in source:
                raise cannot_say(f"the use of {source} in a partition")
            wish = source if source.isidentifier() else body.wishes.get(inside) or inside.hint or "x"
            parameters.append(names.fresh(wish))
            sources.append(Parameter(inside, False))
            names.give(inside, parameters[-1], None if _descriptor(inside) else part.block)
            body.left[inside] = sum(use.op.within(part.block) is not None for use in inside.uses)
        arguments = [[_argument(outer, part.captures[it.inside], it) for it in sources]]
        arguments += [[_argument(outer, _outside(it, alike, by.inside), by) for by in sources] for it, alike in others]
        for values, places in parameters_of(part.block, [alike for _, alike in others]).items():
            name = names.fresh("offset")
            parameters.append(f"{name}: gl.constexpr")
            for called, value in zip(arguments, values, strict=True):
                called.append(value)
            for op, index in places:
                body.literals[_own_constant(op, index)] = name
        values = body.block(part.block)
        if returned := [body.of(values[values.index(it)]) for it in part.returned]:
            body.put(f"return ({returned[0]},)" if len(returned) == 1 else f"return {', '.join(returned)}")
        if not body.lines:
            body.put("pass")
        wish = re.sub(r"\d+$", "", part.name) if others else part.name
        function = Names({*self.taken, *outer.names.used}).fresh(wish)
        self.taken.add(function)
        outer.names.used.add(function)
        for it, called in zip((part, *(other for other, _ in others)), arguments, strict=True):
            it.function, it.arguments = function, called
        self.file.functions.append(["@gluon.jit", head(function, parameters), *body.lines])


def head(name: str, parameters: Sequence[str]) -> str:
    """The first lines of a function."""
    return wrapped(f"def {name}(", parameters, "):", 0).rstrip("\n")


def _alike(outer: Body, written: Part, other: Part) -> Alike | None:
    """How `other` differs from the written partition; None if it needs a function of its own."""
    if written.returned or other.returned:
        return None
    found = compare(written.block, other.block)
    if found is None:
        return None
    rings: dict[Ring, Ring] = {}
    for inside, outside in written.captures.items():
        if not inside.uses:
            continue
        if inside not in found.values:
            return None
        one, two = _place(outer, outside), _place(outer, _outside(other, found, inside))
        if (one is None) is not (two is None):
            return None
        if one is not None and two is not None:
            (first, slot), (second, same) = one, two
            if (first.role, first.index, slot) != (second.role, second.index, same):
                return None
            if rings.setdefault(first.ring, second.ring) is not second.ring:
                return None
    return found


def _place(outer: Body, outside: Value) -> tuple[Member, str] | None:
    """The ring member behind a captured value, and the slot number if it is a view of one slot."""
    member, slot = outer.members.get(outside), outer.slot_of(outside)
    if member is not None:
        return member, ""
    return (slot[0], slot[1]) if slot is not None and slot[1].isdigit() else None


def _outside(part: Part, alike: Alike, inside: Value) -> Value:
    """The captured value that corresponds to `inside` of the written partition."""
    found = alike.values[inside]
    return part.captures.get(found, found)


def _argument(outer: Body, outside: Value, parameter: Parameter) -> str:
    place = _place(outer, outside) if parameter.ring else None
    return outer.ring(place[0].ring) if place is not None else outer.of(outside)


def _own_constant(op: Operation, index: int) -> Operation:
    """Clones the constant behind an operand, so that this use can become a parameter."""
    made = op.operands[index].defining_op
    assert made is not None and op.parent is not None and ConstantOp.matches(made)
    copy = op.parent.insert(op.parent.index_of(op), clone_op(made, {}))
    op.set_operand(index, copy.result)
    return copy


def _free(block: Block, returned: Sequence[Value]) -> list[Value]:
    """The values from outside that a block uses or returns, in the order of their first use."""
    inside: set[Value] = set(block.args)
    found: dict[Value, None] = {}

    def visit(some: Block) -> None:
        inside.update(some.args)
        for op in some.ops:
            used = op.operands if op is not block.terminator else returned
            found.update(dict.fromkeys(it for it in used if it not in inside))
            inside.update(op.results)
            for region in op.regions:
                for nested in region.blocks:
                    visit(nested)

    visit(block)
    return list(found)


def _literal(source: str) -> bool:
    return source in ("True", "False") or source.lstrip("(-").rstrip(")").replace(".", "").replace("e-", "").isdigit()


def _descriptor(value: Value) -> bool:
    return isinstance(parse_type(value.type), TensorDescType)


def _buffers(block: Block) -> Iterator[tuple[Value, str]]:
    """Names of buffers and barriers that are in no ring."""
    for op in operations_of(block):
        if alloc := ttg.LocalAllocOp.of(op):
            yield op.result, _buffer_name(op, alloc.source)
        if made := TMEMAllocOp.of(op):
            yield made.buffer, _buffer_name(op, made.source)


def _buffer_name(op: Operation, source: Value | None) -> str:
    type = memdesc_type(op.results[0].type)
    if type.element == "i64" and type.shape[-1:] == (1,):
        return f"{op.result.hint}_full" if op.result.hint else "barrier"
    stem = (source.hint if source is not None else "") or stem_of(op)
    return f"{stem}_tile" if stem else "tile"
