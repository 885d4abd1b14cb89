"""Mutations of programs: single changes of one operation of the protocol, at either level.

A kind of mutant is a name, the operations it applies to and a change (`Kind`); `mutations_aref` and `mutations_barrier`
have the tables. `sites` lists where the kinds of a table apply, `break_at` makes the mutant of one site, and `mutants`
makes all of them. A change returns None if it does not apply.

    drop, double            remove the operation, or duplicate it
    earlier, later          swap it with its neighbour in the protocol
    to_start, to_end        move it to the start or end of its block
    before_loop, after_loop move it out of its loop, with the numbers of the first iteration, or of the loop's results
    nudge                   swap it with a pure operation: always equivalent
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tawa.dialects.declare.declaration import effects_by_name, is_terminator
from tawa.ir import Block, Module, Operation, Value, ValueMap, clone_op, copy_module, parse_module, source_of
from tawa.ir.attributes import int_attr, read_int
from tests.support.sample import sample

WAIT, ARRIVE, EXPECT, INIT = "ttng.wait_barrier", "ttng.arrive_barrier", "ttng.barrier_expect", "ttng.init_barrier"
COPY, STORE = "ttng.async_tma_copy_global_to_local", "ttng.async_tma_copy_local_to_global"
FENCE, STORE_WAIT, LOCAL_STORE = "ttng.fence_async_shared", "ttng.async_tma_store_wait", "ttg.local_store"
DOT, DOT_WAIT = "ttng.warp_group_dot", "ttng.warp_group_dot_wait"
MMA, COMMIT, TMEM_LOAD, TMEM_STORE = "ttng.tc_gen5_mma", "ttng.tc_gen5_commit", "ttng.tmem_load", "ttng.tmem_store"
SCALED_MMA, TMEM_COPY = "ttng.tc_gen5_mma_scaled", "ttng.tmem_copy"
PUT, GET, CONSUMED = "aref.put", "aref.get", "aref.consumed"
PROTOCOL = frozenset(
    {WAIT, ARRIVE, EXPECT, INIT, COPY, STORE, FENCE, STORE_WAIT, LOCAL_STORE, DOT, DOT_WAIT, PUT, GET, CONSUMED}
    | {MMA, COMMIT, TMEM_LOAD, TMEM_STORE, SCALED_MMA, TMEM_COPY}
)
"""The operations of the protocol. Moving one over anything else is not a mutation."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The change made. `passed`: the protocol operations that it was moved over, including whole loops and ifs."""

    passed: tuple[Operation, ...] = ()


Change = Callable[[Operation], Edit | None]
"""Changes the program at an operation; returns None if the change does not apply."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break a program. `targets`: names of operations; empty for a change of the whole module."""

    name: str
    targets: tuple[str, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Site:
    """One change to make: at the `number`-th operation named `target`."""

    kind: Kind
    target: str
    number: int

    def find(self, module: Module) -> Operation:
        """The operation in an unchanged module."""
        if not self.target:
            return module.op
        return [op for op in module.walk() if op.name == self.target][self.number]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken program: `text` changed at `site`; `line` is the source line of the changed operation."""

    text: str
    site: Site
    line: int | None
    module: Module
    edit: Edit

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return self.site.kind.name

    @property
    def target(self) -> str:
        """The name of the changed operation, without its dialect."""
        return self.site.target.partition(".")[2]

    def original(self) -> Operation:
        """The operation in the original program."""
        return self.site.find(parsed(self.text))

    def __str__(self) -> str:
        where = f" #{self.site.number}" if self.target else ""
        return f"{self.kind} {self.target}{where}" + (f" (line {self.line})" if self.line else "")


@functools.lru_cache(4)
def parsed(text: str) -> Module:
    """A program. Nobody may change it."""
    return parse_module(text)


@functools.lru_cache(16)
def sites(text: str, kinds: tuple[Kind, ...]) -> tuple[Site, ...]:
    """The sites of each kind, in the order of the table and of the program."""
    module = parsed(text)
    count: dict[str, int] = {"": 1}
    for op in module.walk():
        count[op.name] = count.get(op.name, 0) + 1
    return tuple(
        Site(kind, target, number)
        for kind in kinds
        for target in kind.targets or ("",)
        for number in range(count.get(target, 0))
    )


def break_at(text: str, site: Site) -> Mutant | None:
    """The mutant of one site; None if the kind does not apply there."""
    module = copy_module(parsed(text))
    op = site.find(module)
    place = source_of(module, op)
    edit = site.kind.change(op)
    return None if edit is None else Mutant(text, site, place.line if place else None, module, edit)


def all_mutants(text: str, kinds: tuple[Kind, ...], step: int = 1) -> Iterator[Mutant]:
    """Every mutant of a program; of every `step`-th site for a change (`tests.support.sample`)."""
    for site in sample(sites(text, kinds), step) if step > 1 else sites(text, kinds):
        mutant = break_at(text, site)
        if mutant is not None:
            yield mutant


# -- places ------------------------------------------------------------------------------------------------------------


def place(op: Operation) -> tuple[Block, int]:
    """The block of an operation and its index there."""
    assert op.parent is not None
    return op.parent, op.parent.index_of(op)


def is_pure(op: Operation) -> bool:
    """Whether an operation is pure."""
    return not (effects_by_name(op.name) or is_terminator(op.name) or op.regions or op.name in PROTOCOL)


def is_protocol(op: Operation) -> bool:
    """Whether an operation, or one nested in it, is part of the protocol."""
    return any(it.name in PROTOCOL for it in op.walk())


def _needs(op: Operation) -> list[Value]:
    """The values from outside that an operation and its regions use."""
    made = {result for it in op.walk() if it is not op for result in it.results}
    made |= {arg for it in op.walk() for region in it.regions for block in region.blocks for arg in block.args}
    return [value for it in op.walk() for value in it.operands if value not in made]


def bring(op: Operation, block: Block, anchor: Operation, mapping: ValueMap) -> bool:
    """Copies what `op` needs to just before `anchor`; returns False if that is more than scalars.

    mapping: what stands for a value at the new place; it learns the copies.
    """
    chain = _chain(block)
    missing: list[Operation] = []

    def visit(value: Value) -> bool:
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        made = value.defining_op
        if value in mapping or made in missing or (home in chain and home is not block):
            return True
        if home is block and (made is None or block.index_of(made) < block.index_of(anchor)):
            return True
        if made is None or not is_pure(made) or not all(map(visit, made.operands)):
            return False
        missing.append(made)
        return True

    if not all(map(visit, _needs(op))):
        return False
    for made in missing:
        block.insert(block.index_of(anchor), clone_op(made, mapping))
    return True


def _chain(block: Block) -> list[Block]:
    """The block and those around it."""
    found = [block]
    while (outer := found[-1].parent_op) is not None and outer.parent is not None:
        found.append(outer.parent)
    return found


def _first_use(op: Operation, block: Block) -> int:
    """The index of the first operation of `block` that uses a result."""
    users = [use.op for result in op.results for use in result.uses]
    return min((block.index_of(_within(user, block)) for user in users), default=len(block.ops))


def _within(op: Operation, block: Block) -> Operation:
    """The operation of `block` that is `op` or contains it."""
    return op if op.parent is block else next(outer for outer in op.ancestors() if outer.parent is block)


def move(op: Operation, to: int) -> Edit | None:
    """Moves an operation before the one with index `to` of its block."""
    block, at = place(op)
    passed = block.ops[to:at] if to < at else block.ops[at + 1 : to]
    if to > at and _first_use(op, block) < to:
        return None
    anchor = block.ops[to]
    mapping: ValueMap = {}
    if to < at and not bring(op, block, anchor, mapping):
        return None
    if mapping:
        copy = clone_op(op, mapping)
        for old, new in zip(op.results, copy.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
        op = copy
    else:
        op.detach()
    block.insert(block.index_of(anchor), op)
    return Edit(tuple(it for it in passed if is_protocol(it)))


# -- changes -----------------------------------------------------------------------------------------------------------


def drop(op: Operation) -> Edit | None:
    """Removes the operation. The results of a wait for wgmmas are replaced by its operands."""
    for operand, result in zip(op.operands, op.results, strict=False):
        result.replace_all_uses_with(operand)
    op.erase()
    return Edit()


def double(op: Operation) -> Edit | None:
    """Duplicates the operation; later uses refer to the copy."""
    block, at = place(op)
    twin = block.insert(at + 1, clone_op(op, {}))
    if op.name == DOT_WAIT:
        for index, result in enumerate(op.results):
            result.replace_all_uses_with(twin.results[index])
            twin.set_operand(index, result)
    return Edit()


def later(op: Operation) -> Edit | None:
    """Moves it after the next operation of the protocol in its block."""
    block, at = place(op)
    following = next((it for it in block.ops[at + 1 :] if is_protocol(it)), None)
    return None if following is None else move(op, block.index_of(following) + 1)


def earlier(op: Operation) -> Edit | None:
    """Moves it before the previous operation of the protocol in its block."""
    block, at = place(op)
    previous = next((it for it in reversed(block.ops[:at]) if is_protocol(it)), None)
    return None if previous is None else move(op, block.index_of(previous))


def to_start(op: Operation) -> Edit | None:
    """Moves it to the start of its block, over at least two protocol operations (over one it is `earlier`)."""
    block, at = place(op)
    return move(op, 0) if sum(map(is_protocol, block.ops[:at])) > 1 else None


def to_end(op: Operation) -> Edit | None:
    """Moves it to the end of its block, over at least two protocol operations (over one it is `later`)."""
    block, at = place(op)
    return move(op, len(block.ops) - 1) if sum(map(is_protocol, block.ops[at + 1 :])) > 1 else None


def nudge(op: Operation) -> Edit | None:
    """Moves it after the pure operation that follows it, or before the one that precedes it."""
    block, at = place(op)
    if is_pure(block.ops[at + 1]):
        return move(op, at + 2)
    return move(op, at - 1) if at and is_pure(block.ops[at - 1]) else None


def before_the_wait(op: Operation) -> Edit | None:
    """Moves it before the wait for wgmmas that precedes it in its block."""
    block, at = place(op)
    waits = [it for it in block.ops[:at] if it.name == DOT_WAIT]
    return move(op, block.index_of(waits[-1])) if waits else None


def before_loop(op: Operation) -> Edit | None:
    """Moves it before its loop, with the numbers of the first iteration."""
    return _out_of_loop(op, behind=False)


def after_loop(op: Operation) -> Edit | None:
    """Moves it after its loop, with the results of the loop."""
    return None if any(result.uses for result in op.results) else _out_of_loop(op, behind=True)


def _out_of_loop(op: Operation, behind: bool) -> Edit | None:
    block, _ = place(op)
    loop = block.parent_op
    if loop is None or loop.name != "scf.for":
        return None
    outer, at = place(loop)
    carried = loop.results if behind else loop.operands[3:]
    mapping: ValueMap = {block.args[0]: loop.operands[0]}
    mapping.update(zip(block.args[1:], carried, strict=True))
    anchor = outer.ops[at + 1] if behind else loop
    if not bring(op, outer, anchor, mapping):
        return None
    copy = outer.insert(outer.index_of(anchor), clone_op(op, mapping))
    for old, new in zip(op.results, copy.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return Edit(tuple(it for it in block.ops if is_protocol(it)))


def add(key: str, amount: int, least: int = 0) -> Change:
    """Adds to an integer property; the result is at least `least`."""

    def change(op: Operation) -> Edit | None:
        new = read_int(op.properties[key]) + amount
        if new < least:
            return None
        op.properties[key] = int_attr(new)
        return Edit()

    return change
