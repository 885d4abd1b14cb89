"""Loops and branches.

A variable that a loop carries is one name, assigned where its next value is made, or at the end of the body; results of
a branch are assigned in both.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tawa.dialects import scf
from tawa.dialects.declare.declaration import by_name
from tawa.emit.body import INDENT, Body, Target, Writer
from tawa.emit.python.text import within
from tawa.emit.rings.recognised import carried
from tawa.emit.values.bounds import only_bounds_loops
from tawa.emit.values.objects import literal, may_look_unchanged, own_object
from tawa.ir import Block, Operation, Value


def _for(body: Body, op: Operation) -> None:
    loop = scf.ForOp(op)
    body.comment(op)
    bounds = _bounds(body, loop)
    variables = list(carried(op))
    texts = [_begin(body, init, yielded, argument) for argument, init, yielded, _ in variables]
    for _, init, _, _ in variables:
        body.uses(init)
    names: list[str] = []
    for argument, _, _, result in variables:
        target = body.targets.get(result)
        names.append(target.name if target is not None and body.free(target) else _variable(body, argument, names))
        body.names.give(argument, names[-1], loop.body)
    body.assign(list(zip(names, texts, strict=True)))
    index = body.names.fresh(_user_induction(body, op))
    body.names.give(loop.induction, index)
    counted = any(only_bounds_loops(it) for it in loop.bounds)
    start, stop, step = bounds
    if counted:
        body.put(f"{index} = {start if literal(start) is not None else own_object(start, loop.lower)}")
    body.put(f"while {index} < {stop}:" if counted else f"for {index} in range({', '.join(bounds)}):")
    _indented(body, loop.body, [Target(name, it[0]) for name, it in zip(names, variables, strict=True)])
    if counted:
        body.put(f"{INDENT}{index} = {index} + {within(step, '+', False)}")
    for bound in loop.bounds:
        body.uses(bound)
    for (_, _, _, result), name in zip(variables, names, strict=True):
        body.names.give(result, name, body.current)


def _bounds(body: Body, loop: scf.ForOp) -> list[str]:
    """The bounds and the step; of literals only, the first one says the type."""
    texts = [body.of(it) for it in loop.bounds]
    if all(literal(it) is not None for it in texts):
        texts[0] = body.assigned(loop.lower)
    return texts


def _variable(body: Body, argument: Value, others: Sequence[str]) -> str:
    """The name of a carried variable: the one of its initial value, if nothing else needs that.

    others: names of other variables of the loop, which it cannot have even where nothing in the body reads them.
    """
    wish, holders = body.wish(argument), body.names.holders
    taken = [holders[name] for name in others if name in holders]
    free = body.names.again(wish, lambda it: it not in taken and body.dead(it, argument))
    return free or body.names.fresh(wish)


def _indented(body: Body, block: Block, targets: Sequence[Target]) -> bool:
    """Writes an indented block; returns whether it is not empty."""
    body.depth += 1
    before = len(body.lines)
    body.block(block, targets)
    if not (some := len(body.lines) > before):
        body.put("pass")
    body.depth -= 1
    return some


def _begin(body: Body, init: Value, yielded: Value, argument: Value) -> str:
    """The initial value of a carried variable, as an object of its own where the front end needs that."""
    if may_look_unchanged(init, yielded, argument):
        return own_object(body.assigned(init), init)
    return body.assigned(init)


def _while(body: Body, op: Operation) -> None:
    """A condition of pure operations is written in the head.

    Another one is written twice: before the loop, and at its end. What it hands on unchanged is one variable.
    """
    loop = scf.WhileOp(op)
    before, after = loop.before, loop.after
    body.comment(op)
    texts = _beginnings(body, loop)
    for init in loop.inits:
        body.uses(init)
    names: list[str] = []
    for argument in before.args:
        names.append(_variable(body, argument, names))
        body.names.give(argument, names[-1], body.current)
    body.assign(list(zip(names, texts, strict=True)))
    passed = before.terminator.operands[1:]
    same = [it in before.args and passed.count(it) == 1 for it in passed]
    handed_on: list[str] = []
    for argument, value, whole in zip(after.args, passed, same, strict=True):
        handed_on.append(body.of(value) if whole else body.names.fresh(body.wish(argument)))
    others = [Target(name) for name, whole in zip(handed_on, same, strict=True) if not whole]
    values = [0, *(index for index, whole in enumerate(same, 1) if not whole)]
    with written_twice(body):
        written = len(body.lines)
        condition = body.of(body.block(before)[0])
        if again := len(body.lines) > written or not all(same):
            del body.lines[written:]
            condition = body.names.fresh("go")
            body.block(before, [Target(condition), *others], values)
    for argument, name in zip(after.args, handed_on, strict=True):
        body.names.give(argument, name, after)
    body.put(f"while {condition}:")
    holders = {name: argument for argument, name in zip(after.args, handed_on, strict=True)}
    targets = [Target(name, holders.get(name)) for name in names]
    some = _indented(body, after, targets)
    if again:
        if not some:
            del body.lines[-1]
        body.depth += 1
        with written_twice(body):
            body.block(before, [Target(condition), *others], values)
        body.depth -= 1
    for result, name in zip(op.results, handed_on, strict=True):
        body.names.give(result, name)


def _beginnings(body: Body, loop: scf.WhileOp) -> list[str]:
    variables = zip(loop.inits, loop.after.terminator.operands, loop.before.args, strict=True)
    return [_begin(body, *it) for it in variables]


@contextmanager
def written_twice(body: Body) -> Generator[None]:
    """While it lasts, operations may be written more than once: uses are not counted, and names are not reused."""
    outer, body.twice = body.twice, True
    yield
    body.twice = outer


def _user_induction(body: Body, op: Operation) -> str:
    """The name of the loop's variable in the user's line."""
    found = body.statement_of(op)
    words = found.text.split() if found else []
    name = words[1] if len(words) > 2 and words[0] == "for" and words[2] == "in" else "i"
    return name if name.strip("_") else "i"


def _if(body: Body, op: Operation) -> None:
    body.comment(op)
    branches = [region.block if region.blocks else None for region in op.regions]
    condition = body.of(op.operands[0])
    body.uses(op.operands[0])
    body.put(f"if {condition}:")
    names: list[str] = []
    holders: list[Value | None] = []
    for result in op.results:
        target = body.targets.get(result)
        holder = _kept(body, op, result)
        if target is not None and body.free(target):
            names.append(target.name)
            holders.append(None)
        elif holder is not None and body.of(holder) not in names:
            names.append(body.of(holder))
            holders.append(holder)
        else:
            names.append(body.names.fresh(body.wish(result)))
            holders.append(None)
    for number, block in enumerate(branches):
        if block is None or (number and not names and len(block.ops) <= 1):
            continue
        others = [it for it in branches[number + 1 :] if it is not None]
        targets = [
            Target(name, holder, sum(_uses_in(holder, it) for it in others) if holder is not None else 0)
            for name, holder in zip(names, holders, strict=True)
        ]
        if number:
            body.put("else:")
        if not _indented(body, block, targets) and number:
            del body.lines[-2:]
    for result, name in zip(op.results, names, strict=True):
        body.names.give(result, name, body.current)


def _kept(body: Body, op: Operation, result: Value) -> Value | None:
    """A value that one branch passes through and that is dead after the `if`; the result reuses its name."""
    for region in op.regions:
        value = region.block.terminator.operands[result.index]
        holder = body.names.holders.get(body.names.sources.get(value, ""))
        if holder is None or holder.value is not value or holder.block is not body.current or body.twice:
            continue
        if re.sub(r"_\d+$", "", body.of(value)) != re.sub(r"_\d+$", "", body.wish(result)):
            continue
        if body.count(value) == sum(_uses_in(value, it.block) for it in op.regions):
            return value
    return None


def _uses_in(value: Value, block: Block) -> int:
    return sum(use.op.within(block) is not None for use in value.uses)


WRITERS: dict[str, Writer] = by_name({scf.ForOp: _for, scf.IfOp: _if, scf.WhileOp: _while})
