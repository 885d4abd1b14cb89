"""Loops and branches.

A variable that a loop carries is one name, assigned at the end of the body; results of a branch are assigned in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects import scf
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import Body, Writer
from tawa.emit.errors import cannot_say
from tawa.ir import Operation, Value
from tawa.ir.locations import source_of
from tawa.ir.types import ScalarType, parse_type


def _for(body: Body, op: Operation) -> None:
    lower, upper, step, *inits = op.operands
    block = op.regions[0].block
    induction, *carried = block.args
    body.comment(op)
    names: list[str] = []
    for argument, result, init in zip(carried, op.results, inits, strict=True):
        wish = result.hint or init.hint or "x"
        name = body.names.name(argument, wish)
        names.append(name)
        body.put(f"{name} = {_own(body, op, init, block.terminator.operands[argument.index - 1])}")
    index = body.names.name(induction, _user_induction(body, op))
    body.put(f"for {index} in range({body.of(lower)}, {body.of(upper)}, {body.of(step)}):")
    body.depth += 1
    before = len(body.lines)
    _hand_on(body, names, body.block(block))
    if len(body.lines) == before:
        body.put("pass")
    body.depth -= 1
    body.place = None
    for result, name in zip(op.results, names, strict=True):
        body.names.sources[result] = name


def _own(body: Body, op: Operation, init: Value, handed_on: Value) -> str:
    """The initial value of a carried variable, as an object of its own.

    Triton's front end does not see that `a = b` changes `a` in a loop if both were the same object before it.
    """
    text = body.of(init)
    shared = sum(it is init for it in op.operands[3:]) > 1 and handed_on.owner is op.regions[0].block
    if not shared or _plain(text):
        return text
    if _number_type(init).startswith("i") and _number_type(init) != "i1":
        return f"{text} + 0"
    raise cannot_say(
        "two variables of a loop that begin with one value and are exchanged", source_of(body.file.module, op)
    )


def _number_type(value: Value) -> str:
    """The type of a number; empty for everything else."""
    type = parse_type(value.type)
    return type.name if isinstance(type, ScalarType) else ""


def _plain(text: str) -> bool:
    return text in ("True", "False") or text.lstrip("(-").rstrip(")").isdigit()


def _while(body: Body, op: Operation) -> None:
    """If the part before the condition is more than the condition, it is written before the loop and at its end."""
    before, after = (region.block for region in op.regions)
    body.comment(op)
    for argument, init in zip(before.args, op.operands, strict=True):
        body.put(f"{body.names.name(argument, init.hint or argument.hint)} = {_changed(body, init)}")
    carried = [body.of(it) for it in before.args]
    written = len(body.lines)
    holds, *values = (body.of(it) for it in body.block(before))
    if len(body.lines) == written and all(it.isidentifier() for it in values):
        for argument, result, text in zip(after.args, op.results, values, strict=True):
            body.names.sources[argument] = body.names.sources[result] = text
        body.put(f"while {holds}:")
        body.depth += 1
        _hand_on(body, carried, body.block(after))
        body.depth -= 1
        body.place = None
        return
    del body.lines[written:]
    go = body.names.fresh("go")
    handed_on = [body.names.name(it) for it in after.args]
    for result, name in zip(op.results, handed_on, strict=True):
        body.names.sources[result] = name

    def condition() -> None:
        holds, *values = body.block(before)
        _hand_on(body, [go, *handed_on], [holds, *values])

    condition()
    body.put(f"while {go}:")
    body.depth += 1
    _hand_on(body, carried, body.block(after))
    condition()
    body.depth -= 1
    body.place = None


def _changed(body: Body, init: Value) -> str:
    """The initial value of a variable, as an object of its own (see `_own`)."""
    text = body.of(init)
    number = _number_type(init)
    return f"{text} + 0" if number.startswith("i") and number != "i1" and not _plain(text) else text


def _user_induction(body: Body, op: Operation) -> str:
    """The name of the loop's variable in the user's line."""
    found = source_of(body.file.module, op)
    text = body.file.source_line(found.file, found.line) if found else ""
    words = text.split()
    return words[1] if len(words) > 2 and words[0] == "for" and words[2] == "in" else "i"


def _hand_on(body: Body, names: Sequence[str], values: Sequence[Value]) -> None:
    pairs = [(name, body.of(value)) for name, value in zip(names, values, strict=True)]
    pairs = [(name, value) for name, value in pairs if name != value]
    targets = {name for name, _ in pairs}
    if any(value in targets for _, value in pairs):
        body.put(f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}")
        return
    for name, value in pairs:
        body.put(f"{name} = {value}")


def _if(body: Body, op: Operation) -> None:
    body.comment(op)
    names = [body.names.name(it) for it in op.results]
    body.put(f"if {body.of(op.operands[0])}:")
    for number, region in enumerate(op.regions):
        if not region.blocks:
            continue
        if number and not names and len(region.block.ops) <= 1:
            continue
        if number:
            body.put("else:")
        body.depth += 1
        before = len(body.lines)
        _hand_on(body, names, body.block(region.block))
        if len(body.lines) == before:
            body.put("pass")
        body.depth -= 1
    body.place = None


WRITERS: dict[str, Writer] = by_name({scf.ForOp: _for, scf.IfOp: _if, scf.WhileOp: _while})

__all__ = ["WRITERS"]
