"""Classes of equivalent mutants, each with its reason and a structural check of the mutant.

`reason_of` returns the class of a mutant, or None. A class is decided by the change and its place in the original
program, never by a verdict of `tawa.verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tawa.ir import Block, Module, Operation, Value, parse_module, print_module
from tawa.ir.attributes import read_int
from tests.verify.mutations_edits import (
    ARRIVE,
    COMMIT,
    CONSUMED,
    COPY,
    DOT,
    DOT_WAIT,
    EXPECT,
    FENCE,
    GET,
    INIT,
    MMA,
    PROTOCOL,
    PUT,
    SCALED_MMA,
    STORE,
    STORE_WAIT,
    TMEM_COPY,
    TMEM_STORE,
    WAIT,
    Mutant,
    is_protocol,
    place,
)

_OF_COMMITS = tuple(f"commit {it}" for it in ("earlier", "later", "to the start", "to the end"))
_OF_TENSORS = tuple(f"tensor access {it}" for it in ("earlier", "later", "to the start"))
MOVES = (
    *("nudge", "earlier", "later", "to the start", "to the end", "before the wgmma is done"),
    *_OF_COMMITS, *_OF_TENSORS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """A class of equivalent mutants: its name, why they are equivalent, and the predicate.

    needs: which runs of the simulator the reason rests on; "none" where the structure of the program is enough, "one"
    run for each trip count where only a hang could come of it, "many" where no structure could be checked.
    """

    name: str
    text: str
    holds: Callable[[Mutant], bool]
    needs: Literal["none", "one", "many"] = "none"


def reason_of(mutant: Mutant) -> Reason | None:
    """The class of a mutant."""
    return next((reason for reason in REASONS if reason.holds(mutant)), None)


# -- moves -------------------------------------------------------------------------------------------------------------

FIRST = (WAIT, GET)
"""Moving a wait earlier adds ordering, and removes none."""
LAST = (PUT, CONSUMED, COPY, EXPECT, ARRIVE, COMMIT)
"""Moving a fill or release later adds ordering, and removes none."""
UNORDERED = (
    ((EXPECT,), (COPY,)),  # a phase does not complete before the expect has arrived: bytes may come first
    ((COPY,), (EXPECT, COPY)),
    ((ARRIVE, CONSUMED), (ARRIVE, CONSUMED)),  # slots may be released in any order
    ((GET,), (DOT,)),  # it remains before the wgmma that reads its views
    ((STORE_WAIT,), (ARRIVE, CONSUMED, WAIT, GET, DOT, DOT_WAIT)),  # waits for stores only, and is moved over none
    ((DOT_WAIT,), (WAIT, GET, PUT, EXPECT, COPY)),  # waits for wgmmas only, and is moved over no wgmma and no release
)
"""Pairs of operations that commute."""


def _identical(mutant: Mutant) -> bool:
    return print_module(parse_module(mutant.text), locations=False) == print_module(mutant.module, locations=False)


def _passed(mutant: Mutant) -> list[Operation]:
    """The protocol operations that were moved over, with those nested in them."""
    return [it for op in mutant.edit.passed for it in op.walk() if it.name in PROTOCOL]


def _same_parity(mutant: Mutant) -> bool:
    """The parity is computed from two constants, and is what it was."""
    if not mutant.kind.startswith("parity always "):
        return False
    made = mutant.original().operands[1].defining_op
    given = [it.defining_op for it in made.operands] if made is not None and made.name == "arith.xori" else []
    values = [read_int(it.properties["value"]) for it in given if it is not None and it.name == "arith.constant"]
    return len(values) == 2 and values[0] ^ values[1] == int(mutant.kind.rpartition(" ")[2])


def _only_pure(mutant: Mutant) -> bool:
    return mutant.kind == "nudge" and not mutant.edit.passed


def _unordered(mutant: Mutant) -> bool:
    if mutant.kind not in MOVES or not mutant.edit.passed:
        return False
    allowed = {name for moved, over in UNORDERED if mutant.site.target in moved for name in over}
    return all(it.name in allowed for it in _passed(mutant))


def _tracks_the_same(mutant: Mutant) -> bool:
    """A commit that is moved over no dot, or changes places with one that is behind the same dot."""
    if mutant.site.target != COMMIT:
        return False
    if mutant.kind == "exchange the barriers of two commits":
        block, at = place(mutant.original())
        behind = [it.name for it in block.ops[at + 1 :]]
        return not {MMA, SCALED_MMA, TMEM_COPY} & set(behind[: behind.index(COMMIT)])
    moved = mutant.kind in _OF_COMMITS and bool(mutant.edit.passed)
    return moved and not any(it.name in (MMA, SCALED_MMA, TMEM_COPY) for op in mutant.edit.passed for it in op.walk())


def _orders_more(mutant: Mutant) -> bool:
    """A wait moved up or a release moved down, or the converse; the order on each ring is unchanged."""
    if mutant.kind not in MOVES or not mutant.edit.passed or mutant.site.target not in (*FIRST, *LAST):
        return False
    moved, behind = mutant.site.target, mutant.kind in ("later", "to the end")
    row = _row(_barrier(mutant.original()))
    for it in _passed(mutant):
        if any({moved} <= set(left) and it.name in right for left, right in UNORDERED):
            continue
        if it.name in ROWED and _row(_barrier(it)).hint == row.hint:
            return False
        if moved not in (LAST if behind else FIRST) and it.name not in (FIRST if behind else LAST):
            return False
    return True


def _store_wait_behind_its_store(mutant: Mutant) -> bool:
    """Moved over local store, fence and TMA store to the end of the loop body: nothing writes the buffer in between."""
    if mutant.site.target != STORE_WAIT or mutant.kind != "to the end":
        return False
    return _passed(mutant)[-1].name == STORE and _in_loop(mutant.original())


def _nothing_stored_yet(mutant: Mutant) -> bool:
    op = mutant.original()
    if op.name != STORE_WAIT or _in_loop(op):
        return False
    before: list[str] = []
    for it in _partition(op):
        if it is op:
            break
        before.append(it.name)
    return STORE not in before


# -- waits and releases ------------------------------------------------------------------------------------------------


def _idempotent(mutant: Mutant) -> bool:
    return mutant.kind == "double" and mutant.site.target in (WAIT, FENCE, STORE_WAIT, DOT_WAIT)


def _waits_for_more(mutant: Mutant) -> bool:
    return mutant.kind == "none pending"


def _in_loop(op: Operation) -> bool:
    return any(outer.name in ("scf.for", "scf.while") for outer in op.ancestors())


ROWED = (WAIT, ARRIVE, EXPECT, COPY, PUT, GET, CONSUMED, COMMIT)


def _barrier(op: Operation) -> Value:
    """The barrier or ring that an operation works on."""
    if op.name != COPY:
        return op.operands[0]
    return next(operand for operand in op.operands if "xi64" in operand.type)


def _row(value: Value) -> Value:
    """The allocation or ring that a value is a view of, traced through captures of partitions."""
    while True:
        if isinstance(value.owner, Block):
            holder = value.owner.parent_op
            if holder is None or holder.name != "ttg.warp_specialize.partitions" or holder.parent_op is None:
                return value
            value = holder.parent_op.operands[value.index]
        elif value.owner.name == "ttg.memdesc_index":
            value = value.owner.operands[0]
        else:
            return value


_RELEASES = (ARRIVE, COMMIT)


def _is_last_release(op: Operation) -> bool:
    """An arrival without a wait: neither it nor a later one of its partition on its ring is in a loop."""
    if op.name not in _RELEASES or _in_loop(op):
        return False
    arrivals = [it for it in _partition(op) if it.name in _RELEASES]
    mine = [it for it in arrivals if _row(it.operands[0]) is _row(op.operands[0])]
    return not any(_in_loop(it) for it in mine[mine.index(op) :])


def _partition(op: Operation) -> list[Operation]:
    """All operations of the partition (or kernel) that contains an operation."""
    block = op.parent
    assert block is not None
    while (outer := block.parent_op) is not None and not outer.name.startswith(("ttg.warp_specialize", "tt.func")):
        assert outer.parent is not None
        block = outer.parent
    return [it for top in block.ops for it in top.walk()]


def _release_for_nobody(mutant: Mutant) -> bool:
    if mutant.site.target in _RELEASES:
        return mutant.kind != "arrives twice at once" and _is_last_release(mutant.original())
    if mutant.site.target == DOT_WAIT and mutant.kind in ("later", "to the end"):
        return all(it.name == ARRIVE and _is_last_release(it) for it in mutant.edit.passed)
    return False


def _last_loop(mutant: Mutant) -> bool:
    """A release in the last loop of its partition with releases on its ring."""
    op = mutant.original()
    if op.name != ARRIVE or mutant.kind not in ("drop", "negate predicate") or not _in_loop(op):
        return False
    loop = next(outer for outer in op.ancestors() if outer.name in ("scf.for", "scf.while"))
    arrivals = [it for it in _partition(op) if it.name == ARRIVE and _row(it.operands[0]) is _row(op.operands[0])]
    return all(not _in_loop(it) or loop.is_ancestor_of(it) for it in arrivals[arrivals.index(op) :])


def _never_used(mutant: Mutant) -> bool:
    """A barrier of a ring that is initialised but not used."""
    op = mutant.original()
    if op.name != INIT:
        return False
    return not any(it.name in ROWED and _row(_barrier(it)) is _row(op.operands[0]) for it in _module(op).walk())


def _idle(op: Operation) -> bool:
    """Whether all releases of an operation's row are last ones: its only wait, for an empty slot, passes at once."""
    row = _row(_barrier(op))
    users = [it for it in _module(op).walk() if it.name in ROWED and _row(_barrier(it)) is row]
    releases = [it for it in users if it.name in _RELEASES]
    waits = [it for it in users if it.name == WAIT]
    return bool(releases) and all(map(_is_last_release, releases)) and len(waits) == 1 and not _in_loop(waits[0])


def _waited_for_once(mutant: Mutant) -> bool:
    """The barrier of an empty slot that is filled once, or the wait for it, or a fill that is moved before that."""
    op = mutant.original()
    if op.name == INIT:
        return mutant.kind == "count of arrivals + 1" and _idle(op)
    if op.name == WAIT:
        return mutant.kind in ("parity always 1", "drop", "negate predicate", *MOVES) and _idle(op)
    waits = [it for it in _passed(mutant) if it.name != EXPECT]
    return op.name == COPY and bool(waits) and all(it.name == WAIT and _idle(it) for it in waits)


def _module(op: Operation) -> Operation:
    return [op, *op.ancestors()][-1]


def _covered(mutant: Mutant) -> bool:
    """A wait for a slot whose readers are known to be done because of another wait of the same block.

    Both rows are released side by side, behind the same wait for wgmmas; the mutant leaves the other row alone.
    """
    op = mutant.original()
    waits = [op] if op.name in (WAIT, ARRIVE) else []
    if op.name in (EXPECT, DOT_WAIT):
        waits = [it for it in mutant.edit.passed if it.name == (WAIT if op.name == EXPECT else ARRIVE)]
    if not waits or mutant.kind not in (*MOVES, "drop", "negate predicate", "before the loop", "behind the loop"):
        return False
    if op.name == ARRIVE and mutant.kind in ("drop", "negate predicate", "before the loop", "behind the loop"):
        return False
    original = parse_module(mutant.text)
    return all(_has_cover(original, _row(it.operands[0]).hint) for it in waits)


def _has_cover(module: Module, row: str) -> bool:
    """Whether another ring is always waited for before this one, and released together with it."""
    ops = [op for op in module.walk() if op.name in (WAIT, ARRIVE)]
    rows = {op: _row(op.operands[0]).hint for op in ops}
    mine = [op for op in ops if rows[op] == row]
    if not any(op.name == WAIT for op in mine) or not any(op.name == ARRIVE for op in mine):
        return False
    others = dict.fromkeys(name for name in rows.values() if name != row)
    return any(all(_beside(op, other, rows) for op in mine) for other in others)


def _beside(op: Operation, other: str, rows: Mapping[Operation, str]) -> bool:
    block, at = place(op)
    for index, it in enumerate(block.ops):
        if it.name != op.name or rows[it] != other:
            continue
        between = [between.name for between in block.ops[min(at, index) : max(at, index)] if is_protocol(between)]
        if (index < at) if op.name == WAIT else set(between) <= {ARRIVE}:
            return True
    return False


_FILLS = (COPY, MMA, SCALED_MMA, TMEM_COPY, TMEM_STORE)


def _token(mutant: Mutant) -> bool:
    """Barriers without a buffer, for which no partition waits that fills buffers."""
    op = mutant.original()
    changed = [op] if op.name in (WAIT, ARRIVE) else [it for it in mutant.edit.passed if it.name == ARRIVE]
    if not changed or (
        op.name not in (WAIT, ARRIVE) and (op.name != DOT_WAIT or len(changed) < len(mutant.edit.passed))
    ):
        return False
    original = parse_module(mutant.text)
    busy: set[str] = set()
    for it in original.walk():
        if it.name in _FILLS:
            filler = [other for other in _partition(it) if other.name in (WAIT, ARRIVE, EXPECT, COPY)]
            busy |= {_row(_barrier(other)).hint for other in filler}
    return all(_row(it.operands[0]).hint not in busy for it in changed)


def _other_wait(mutant: Mutant) -> bool:
    """A wait for wgmmas is removed, weaker, or after a release; another one is in the same loop nest."""
    if mutant.kind not in (*MOVES, "drop", "one more pending"):
        return False
    if mutant.site.target != DOT_WAIT and not any(it.name == DOT_WAIT for it in mutant.edit.passed):
        return False
    op = mutant.original()
    nest = [it for it in op.ancestors() if it.name in ("scf.for", "scf.while")]
    near = list(nest[-1].walk()) if nest else _partition(op)
    return sum(it.name == DOT_WAIT for it in near) > (1 if nest else 2)


def _always_first(mutant: Mutant) -> bool:
    """A put before the partitions into a ring of one slot: there is at most one, and its count is 0."""
    op = mutant.original()
    fresh = op.name == PUT and op.properties.get("fresh") == "true"
    return mutant.kind == "always count 0" and fresh and op.operands[0].type.startswith("!aref.ring<1 ")


def _implied(mutant: Mutant) -> bool:
    """Several readers or several rings: the ordering of one wait may be implied by the others."""
    early_releases = ("before the dot", "release before the access", "next slot")
    kinds = (*MOVES, *early_releases, "drop", "negate predicate", "before the loop", "behind the loop")
    if mutant.kind not in kinds:
        return False
    released = mutant.site.target in (ARRIVE, COMMIT, CONSUMED) and mutant.kind in (*MOVES, *early_releases)
    accessed = mutant.kind in _OF_TENSORS
    early = mutant.site.target == EXPECT and mutant.kind in MOVES
    if mutant.site.target not in (WAIT, DOT_WAIT) and not released and not early and not accessed:
        return False
    return len({_row(_barrier(op)) for op in parse_module(mutant.text).walk() if op.name in (WAIT, GET)}) > 2


def _not_in_first_trip(mutant: Mutant) -> bool:
    """The first slot of a release whose predicate is initially false."""
    op = mutant.original()
    if mutant.kind != "first slot is the second" or op.name != ARRIVE or len(op.operands) < 2:
        return False
    predicate = op.operands[1]
    if isinstance(predicate.owner, Block):
        loop = predicate.owner.parent_op
        assert loop is not None
        predicate = loop.operands[predicate.index + 2]
    elif predicate.owner.name == "scf.for":
        predicate = predicate.owner.operands[predicate.index + 3]
    made = predicate.defining_op
    return made is not None and made.properties.get("value") == "false"


# -- the aref level ----------------------------------------------------------------------------------------------------


def _already_empty(mutant: Mutant) -> bool:
    if mutant.kind == "waits for an empty slot":
        return True
    op = mutant.original()
    if mutant.kind != "does not wait" or _in_loop(op):
        return False
    return [it for it in _module(op).walk() if it.name == PUT and it.operands[0] is op.operands[0]] == [op]


def _deep_enough(mutant: Mutant) -> bool:
    if mutant.kind == "D + 1":
        return True
    if mutant.kind not in ("D - 1", "D = 1"):
        return False
    rings = [op for op in mutant.module.walk() if op.name == "aref.create"]
    made = next((op for op in rings if "number" not in op.properties.get("fill", "")), None)
    flights = [read_int(op.properties["pendings"]) for op in mutant.module.walk() if op.name == DOT_WAIT]
    if made is None:  # lowered: the arrays of barriers have length D
        rows = [op for op in mutant.module.walk() if op.name == "ttg.local_alloc" and "xi64" in op.result.type]
        rows = [op for op in rows if not op.result.hint.startswith("number")]
        return int(rows[0].result.type.split("<")[1].split("x")[0]) >= max(flights, default=0) + 1
    return int(made.result.type[11:].split()[0]) >= max(flights, default=0) + 1


def _each_releases(mutant: Mutant) -> bool:
    return mutant.kind == "second reader"


REASONS: tuple[Reason, ...] = (
    Reason("identical", "the program is the same, printed", _identical),
    Reason("same parity", "the parity is the same, computed from constants", _same_parity),
    Reason("pure", "only a pure operation was passed", _only_pure),
    Reason("unordered", "it changes places with what it is not ordered with (see UNORDERED)", _unordered),
    Reason(
        "orders more",
        "a wait comes earlier or a release later, and each row keeps its order: only a hang could come of it, and one "
        "run for each trip count decides that (Kahn); none hangs",
        _orders_more,
        needs="one",
    ),
    Reason("idempotent", "the second wait or fence has nothing left to wait for", _idempotent),
    Reason("patient", "it waits for more than it needs, and what it waits for ends by itself", _waits_for_more),
    Reason("store wait", "it waits for its store at once instead of before the next", _store_wait_behind_its_store),
    Reason("no store yet", "no store comes before it", _nothing_stored_yet),
    Reason("token", "the token orders tensor cores for speed: no memory is filled or given back by it", _token),
    Reason("covered", "another wait of the same block already says that the slot's readers are done", _covered),
    Reason(
        "last release", "behind the last loop: nobody waits for that phase, or fills that slot", _release_for_nobody
    ),
    Reason("never used", "nothing waits for the barrier or arrives on it", _never_used),
    Reason("not in the first trip", "the first slot goes with a predicate that is false", _not_in_first_trip),
    Reason("same dots", "the commit tracks the same dots: only a hang could come of it", _tracks_the_same, needs="one"),
    Reason(
        "filled once", "the slot is filled once: it is empty then, and nobody waits for its release", _waited_for_once
    ),
    Reason("empty slot", "the slot that the put waits for is empty: nobody has filled it before", _already_empty),
    Reason("deep enough", "D is P + 1 or more: how far the writer runs ahead changes, no more", _deep_enough),
    Reason("each releases", "a slot comes back when all readers have released it", _each_releases),
    Reason("always first", "the put happens once at most, so that its count is 0 anyway", _always_first),
    Reason(
        "last loop",
        "the last loop has no more trips than there are slots, none of which is filled again; many random runs speak "
        "for it",
        _last_loop,
        needs="many",
    ),
    Reason(
        "other wait",
        "another wait for wgmmas stands between the wgmmas and the release; many random runs speak for it",
        _other_wait,
        needs="many",
    ),
    Reason(
        "implied",
        "what it orders is ordered through other rows as well; nothing but many random runs speaks for it",
        _implied,
        needs="many",
    ),
)
