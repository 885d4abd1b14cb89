"""Resolve groups: replaces the group index by a constant in each consumer; the producer fills the rings of all groups.

    warp.group producer {                        warp.group producer {
      put q[i] { load Q[m + group · 64] }          put q0[i] { load Q[m] }; put q1[i] { load Q[m + 64] }
      loop { put k[j] { load K[n] } } }            loop { put k[j] { load K[n] } } }
    warp.group consumer0 {                  →    warp.group consumer0 {
      get q[i] …; store O[m + group · 64] }        get q0[i] …; store O[m] }
    warp.group consumer1 { the same }            warp.group consumer1 { get q1[i] …; store O[m + 64] }

A ring whose tiles depend on the group index becomes one ring per group, with the counts of the original. All other
rings are shared: every group releases each slot. If only some tiles of a slot depend on the group index, a slot has
these tiles of all groups, and each group reads its own of them:

    put r[i] { load A[m + group · 64]; load B[n] }     →     put r[i] { load A[m]; load A[m + 64]; load B[n] }
    a, b = get r[i]                                    →     a, _, b = get r[i]   and   _, a, b = get r[i]

Whatever the producer computes from the group index, it computes once per group:

    g = group                                     m0 = row + 0; m1 = row + 64
    p = addptr(%a, row + g · 64)                  p0 = addptr(%a, m0); p1 = addptr(%a, m1)
    for … iter p { put q[i] { load p } }    →     for … iter p0, p1 { put q0[i] { load p0 }; put q1[i] { load p1 }
      yield addptr(p, 64)                           yield addptr(p0, 64), addptr(p1, 64) }

The values of group 0 keep their positions in loops and branches; those of the other groups are appended.

A tile that one group owns is put by that group alone; the others compute nothing for it. Each group leaves out what
then serves nothing.

A partition that issues the dots of all groups accesses, for each of them in turn, the rings that it shares with it:

    acquire s[i]; mma %q, %k; publish s[i]     →     acquire s0[i]; mma %q0, %k; publish s0[i]
                                                     acquire s1[i]; mma %q1, %k; publish s1[i]

Requires: `partition` with a Plan of several consumers, on a program whose rows are split (`split_rows`).
Ensures: no group index is left.
Declines if a trip count or a branch of the producer depends on the group index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawa.analysis.dims.dependents import dependent_values, divergent_control_flow
from tawa.analysis.rings.exchanges import BY_GROUP, STAGED_IN
from tawa.declines import GROUP_DEPENDENT
from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, LandedOp, PutOp
from tawa.dialects.control_flow import carry_all_through, loop_carried
from tawa.dialects.declare.declaration import is_terminator, op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tcgen05 import TMEMCopyOp
from tawa.dialects.ttg import MemDescSubsliceOp
from tawa.dialects.ttng import AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp, AsyncTMAStoreWaitOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Block, Builder, Module, Operation, Region, Value, ValueMap, clone_op, source_of
from tawa.ir.attributes import array_attr, bool_attr, int_attr, read_array, read_int, string_attr
from tawa.transforms.drop_dead import DropDead
from tawa.transforms.result import PassResult

_OF_A_GROUP = ("mma", "consumer", "correction")
"""The writers and readers of a ring that each group has: the mma partition accesses those of all groups."""
_REPEATED = "repeated"
"""On the creation of a ring while its gets are rewritten: which tiles of a slot are there once for each group."""
_STORES = op_names(AsyncTMACopyLocalToGlobalOp, AsyncTMAReduceOp)


@dataclass(frozen=True, slots=True)
class ResolveGroups:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Resolves the group index in the producers and consumers."""
        groups = find_groups(module)
        consumers, corrections = ([it for it in groups if it.role == role] for role in ("consumer", "correction"))
        if not any(GroupIndexOp.of(op) for op in module.walk()):
            return PassResult(changed=False)
        own = {
            op.result: [_own_ring(op.result, number) for number in range(len(consumers))]
            for op in list(module.walk())
            if (create := CreateOp.of(op))
            and create.writer != create.reader
            and create.writer in _OF_A_GROUP
            and create.reader in _OF_A_GROUP
        }
        for producer in groups:
            if producer.role == "producer":
                obstacle = _fill_all_groups(producer, consumers, own)
                if obstacle is not None:
                    op, part = obstacle
                    return PassResult(False, (GROUP_DEPENDENT.remark(source_of(module, op), part=part),))
        for group in groups:
            if group.role == "mma":
                obstacle = _issue_for_all_groups(group, own, len(consumers))
                if obstacle is not None:
                    op, part = obstacle
                    return PassResult(False, (GROUP_DEPENDENT.remark(source_of(module, op), part=part),))
            if group.role == "storer":
                obstacle = _store_for_all_groups(group, own, len(consumers))
                if obstacle is not None:
                    op, part = obstacle
                    return PassResult(False, (GROUP_DEPENDENT.remark(source_of(module, op), part=part),))
        for ring, copies in own.items():
            for use in list(ring.uses):
                number = max(_group_index(use.op, it) for it in (consumers, corrections))
                use.op.set_operand(use.index, copies[number])
                if GetOp.of(use.op) and copies[0] is copies[-1]:
                    _read_own(use.op, number, len(consumers))
            assert ring.defining_op is not None and copies[0].defining_op is not None
            copies[0].defining_op.properties.pop(_REPEATED, None)
            ring.defining_op.erase()
        left_out = [_set_index(group, number) for number, group in (*enumerate(consumers), *enumerate(corrections))]
        if any(left_out):
            DropDead().run(module)
        return PassResult(changed=True)


def _set_index(group: GroupOp, number: int) -> bool:
    """Replaces the group index in a consumer by a constant. Returns whether the consumer leaves something out."""
    for op in [op for op in group.op.walk() if GroupIndexOp.of(op)]:
        constant = Builder.before(op).constant(number)
        op.result.replace_all_uses_with(constant)
        op.erase()
    own: set[Value] = set()
    others: list[Operation] = []
    for op in group.op.walk():
        if BY_GROUP in op.attributes:
            steps = read_array(op.attributes.pop(BY_GROUP))
            at = zip(MemDescSubsliceOp(op).offsets, steps, strict=True)
            op.properties["offsets"] = array_attr([int(start) + number * int(step) for start, step in at])
        elif STAGED_IN in op.attributes:
            boxes = read_array(op.attributes[STAGED_IN])
            op.attributes[STAGED_IN] = array_attr(boxes[2 * number : 2 * number + 2])
        elif (put := PutOp.of(op)) and op.properties.pop("own", None):
            op.set_operand(PutOp.ring.index, _ring_of_group(put.ring, number))
            own.add(put.ring)
        elif (put := PutOp.of(op)) and (owner := op.properties.pop("owner", None)):
            if read_int(owner) == number:
                own.add(put.ring)
            else:
                others.append(op)
    for op in group.op.walk():
        if (get := GetOp.of(op)) and get.ring in own:
            op.properties["own"] = bool_attr(True)
    for op in others:
        op.erase()
    return bool(others)


def _ring_of_group(ring: Value, number: int) -> Value:
    """The ring of a group, given that of group 0."""
    create = CreateOp.of(ring.defining_op)
    assert create is not None and create.op.parent is not None
    name = f"{create.name.removesuffix('_0')}_{number}"
    return next(it.op.result for op in create.op.parent.ops if (it := CreateOp.of(op)) and it.name == name)


# -- the producer ------------------------------------------------------------------------------------------------------


def _fill_all_groups(
    producer: GroupOp, consumers: list[GroupOp], all_own: dict[Value, list[Value]]
) -> tuple[Operation, str] | None:
    """Splits rings whose puts depend on the group index, with one put per group; or returns the obstacle and why.

    all_own: gets the copies of each ring, by group.
    """
    dependent = dependent_values(producer.body, lambda op: GroupIndexOp.of(op) is not None)
    op = divergent_control_flow(producer.body, dependent)
    if op is not None:
        return op, "the producer"
    every = [op for op in producer.op.walk() if PutOp.of(op)]
    puts = [op for op in every if any(operand in dependent for nested in op.walk() for operand in nested.operands)]
    rings = list(dict.fromkeys(PutOp(put).ring for put in puts))
    shared = next((op for op in every if PutOp(op).ring in rings and op not in puts), None)
    if shared is not None:
        return shared, "a ring carries both tiles of one group and tiles that all groups share"
    own: dict[Value, list[Value]] = {}
    for ring in rings:
        repeated = [_repeated(put, dependent) for put in puts if PutOp(put).ring is ring]
        if all(all(it) for it in repeated):
            own[ring] = [_own_ring(ring, number) for number in range(len(consumers))]
        else:
            own[ring] = [_joint_ring(ring, repeated[0], len(consumers))] * len(consumers)
    _GroupCopies(dependent, own, len(consumers)).run(producer.body)
    all_own |= own
    return None


def _repeated(put: Operation, dependent: set[Value]) -> list[bool]:
    """Which tiles of a put depend on the group index."""
    return [_depends(tile, dependent) for tile in PutOp(put).body.terminator.operands]


def _depends(tile: Value, dependent: set[Value]) -> bool:
    """Whether a tile depends on the group index, or the load of it does."""
    load = tile.defining_op
    return tile in dependent or (load is not None and any(it in dependent for it in load.operands))


def _joint_ring(ring: Value, repeated: Sequence[bool], groups: int) -> Value:
    """A ring whose slots have the repeated tiles once for each group."""
    create = CreateOp.of(ring.defining_op)
    assert create is not None
    tiles = zip(create.type.payload, repeated, strict=True)
    payload = tuple(tile for tile, more in tiles for _ in range(groups if more else 1))
    builder = Builder.before(create.op)
    builder.loc = create.op.loc
    made = builder.create(
        CreateOp.NAME, (), (str(replace(create.type, payload=payload)),), properties=dict(create.op.properties),
        attributes=dict(create.op.attributes), hints=(ring.hint,),
    )  # fmt: skip
    made.properties[_REPEATED] = array_attr([int(it) for it in repeated])
    return made.result


def _read_own(get: Operation, number: int, groups: int) -> None:
    """Lets a get of one group take its own ones of the tiles that a slot has for each group."""
    ring = GetOp(get).ring
    assert ring.defining_op is not None
    repeated = read_array(ring.defining_op.properties[_REPEATED])
    payload = CreateOp(ring.defining_op).type.payload
    builder = Builder.before(get)
    builder.loc = get.loc
    made = builder.create(
        GetOp.NAME, get.operands, payload, properties=dict(get.properties), attributes=dict(get.attributes)
    )
    place = 0
    for result, more in zip(get.results, repeated, strict=True):
        own = made.results[place + (number if more else 0)]
        own.hint = result.hint
        result.replace_all_uses_with(own)
        place += groups if more else 1
    get.erase()


def _issue_for_all_groups(issuer: GroupOp, own: dict[Value, list[Value]], groups: int) -> tuple[Operation, str] | None:
    """Repeats what accesses the rings of one group for each group; or returns the obstacle and why."""
    dependent = dependent_values(issuer.body, lambda op: GroupIndexOp.of(op) is not None)
    op = divergent_control_flow(issuer.body, dependent)
    if op is not None:
        return op, "the dots"
    if dependent:
        return issuer.op, "the dots depend on the group index by more than their rings"
    _GroupTurns(own, groups).run(issuer.body)
    return None


def _store_for_all_groups(storer: GroupOp, own: dict[Value, list[Value]], groups: int) -> tuple[Operation, str] | None:
    """Stores what each group has staged; or returns the obstacle and where it is. own: gets the copies of each ring."""
    dependent = dependent_values(storer.body, lambda op: GroupIndexOp.of(op) is not None)
    op = divergent_control_flow(storer.body, dependent)
    if op is not None:
        return op, "the stores"
    rings = dict.fromkeys(get.ring for op in storer.op.walk() if (get := GetOp.of(op)))
    copies = {ring: [_own_ring(ring, number) for number in range(groups)] for ring in rings}
    _GroupCopies(dependent, copies, groups).run(storer.body)
    own |= copies
    return None


class _GroupTurns:
    """The rewrite of a partition that issues the dots of all groups. rings: with the copy for each group."""

    def __init__(self, rings: dict[Value, list[Value]], groups: int) -> None:
        self.maps: list[ValueMap] = [{ring: own[number] for ring, own in rings.items()} for number in range(groups)]
        self.dead: list[Operation] = []

    def run(self, block: Block) -> None:
        """Rewrites everything in `block`."""
        self._block(block)
        for op in reversed(self.dead):
            op.erase()

    def _block(self, block: Block) -> None:
        turn: list[Operation] = []
        for op in list(block.ops):
            if FirstOp.matches(op):
                continue  # all groups have one count
            if not op.regions and any(operand in self.maps[0] for operand in op.operands):
                turn.append(op)
                self.maps[0].update((result, result) for result in op.results)  # until it is cloned
            elif turn and not op.regions and (is_pure(op) or TMEMCopyOp.matches(op)) and not is_terminator(op.name):
                Builder.before(turn[0]).insert(op.detach())  # it depends on no group; scales stay before their dot
            else:
                self._repeat(turn)
                turn = []
                for region in op.regions:
                    for nested in region.blocks:
                        self._block(nested)
        self._repeat(turn)

    def _repeat(self, turn: list[Operation]) -> None:
        """Clones the operations of a turn once per group, group after group."""
        if turn:
            builder = Builder.before(turn[0])
            for values in self.maps:
                for op in turn:
                    builder.loc = op.loc
                    builder.insert(clone_op(op, values))
            self.dead += turn


def _own_ring(ring: Value, number: int) -> Value:
    create = CreateOp.of(ring.defining_op)
    assert create is not None
    copy = clone_op(create.op, {})
    copy.properties["name"] = string_attr(f"{create.name}_{number}")
    copy.result.hint = f"{ring.hint}_{number}"
    return Builder.before(create.op).insert(copy).result


def _group_index(op: Operation, consumers: list[GroupOp]) -> int:
    """The index of the consumer that contains `op`; 0 for the producer, whose counts are the same for all groups."""
    for number, consumer in enumerate(consumers):
        if consumer.op.is_ancestor_of(op):
            return number
    return 0


# -- copies for each group ---------------------------------------------------------------------------------------------


class _GroupCopies:
    """The rewrite of the producer, or of the warp that stores. rings: the rings to split, with the copy for each group.

    got, wait: of the store that is rewritten: its get, and the wait until its slot has been read.
    """

    def __init__(self, dependent: set[Value], rings: dict[Value, list[Value]], groups: int) -> None:
        self.dependent = dependent
        self.rings = rings
        self.maps: list[ValueMap] = [{ring: own[number] for ring, own in rings.items()} for number in range(groups)]
        self.dead: list[Operation] = []
        self.got: Operation | None = None
        self.wait: Operation | None = None

    def run(self, block: Block) -> None:
        """Rewrites everything in `block`."""
        self._block(block)
        for op in reversed(self.dead):
            if not any(result.uses for result in op.results):
                op.erase()

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            if GroupIndexOp.of(op):
                builder = Builder.before(op)
                for number, values in enumerate(self.maps):
                    values[op.result] = builder.constant(number)
                self.dead.append(op)
            elif access := PutOp.of(op) or LandedOp.of(op):
                if access.ring in self.rings and PutOp.of(op) and self._is_joint(access.ring):
                    self._join(PutOp(op))
                elif access.ring in self.rings:
                    self._copies(op)
                    op.erase()
            elif (get := GetOp.of(op)) and get.ring in self.rings:
                self.got = op
            elif op.name in _STORES and self.got is not None:
                self._copies(self.got, op)
                self.dead += (self.got, op)
            elif AsyncTMAStoreWaitOp.matches(op):
                self.wait = op
            elif ConsumedOp.matches(op) and self.wait is not None:
                self._copies(self.wait, op)
                self.dead += (self.wait, op)
            elif (ForOp.of(op) or IfOp.of(op)) and any(result in self.dependent for result in op.results):
                self._control(op)
            elif op.regions:
                for region in op.regions:
                    for nested in region.blocks:
                        self._block(nested)
            elif any(result in self.dependent for result in op.results):
                self._copies(op)
                self.dead.append(op)

    def _is_joint(self, ring: Value) -> bool:
        return self.rings[ring][0] is self.rings[ring][-1]

    def _join(self, put: PutOp) -> None:
        """Makes a put of the tiles of one group one of the tiles of all groups."""
        body, maps = Block(), [dict(values) for values in self.maps]
        inside = Builder.at_end(body, put.op.loc)
        for op in put.body.ops[:-1]:
            repeated = any(_depends(result, self.dependent) for result in op.results)
            for values in maps if repeated else maps[:1]:
                inside.insert(clone_op(op, values))
            for values in maps[1:] if not repeated else ():
                values.update((result, maps[0][result]) for result in op.results)
        tiles = [
            values[tile]
            for tile in put.body.terminator.operands
            for values in (maps if _depends(tile, self.dependent) else maps[:1])
        ]
        filled = Operation(FilledOp.NAME, tiles, loc=put.body.terminator.loc)
        body.append(filled)
        builder = Builder.before(put.op)
        builder.loc = put.op.loc
        operands = [self.maps[0].get(operand, operand) for operand in put.op.operands]
        builder.create(
            PutOp.NAME, operands, properties=dict(put.op.properties), attributes=dict(put.op.attributes),
            regions=[Region([body])],
        )  # fmt: skip
        put.op.erase()

    def _copies(self, *ops: Operation) -> None:
        """Clones operations once per group; a wait for stores lets those of the later groups go on."""
        builder = Builder.before(ops[-1])
        for group, values in enumerate(self.maps):
            for op in ops:
                builder.loc = op.loc
                copy = builder.insert(clone_op(op, values))
                if AsyncTMAStoreWaitOp.matches(copy):
                    copy.properties["pendings"] = int_attr(len(self.maps) - 1 - group)

    def _control(self, op: Operation) -> None:
        """Carries each dependent value once per group; the value of group 0 keeps its position."""
        found = [(result, loop_carried(result)) for result in op.results if result in self.dependent]
        added: list[Value] = []
        hints: list[str] = []
        for result, carried in found:
            self.maps[0][result] = result
            start = carried.init if carried else result
            added += [values.get(start, start) for values in self.maps[1:]]
            hints += [carried.argument.hint if carried else result.hint] * len(self.maps[1:])
            if carried:
                self.maps[0][carried.argument] = carried.argument
                op.set_operand(3 + carried.index, self.maps[0].get(start, start))

        def step(block: Block, inside: Sequence[Value]) -> list[Value]:
            self._record([carried.argument for _, carried in found if carried], inside)
            self._block(block)
            return self._yield_copies(block.terminator, [result.index for result, _ in found])

        self._record([result for result, _ in found], carry_all_through(op, added, step, hints))

    def _record(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        """Records the counterparts of `values` in every group but the first."""
        if values:
            places = [(value, own) for value in values for own in self.maps[1:]]
            for (value, own), other in zip(places, others, strict=True):
                own[value] = other

    def _yield_copies(self, terminator: Operation, indices: Sequence[int]) -> list[Value]:
        """Sets the operands of a terminator to the values of group 0; returns those of the other groups."""
        others: list[Value] = []
        for index in indices:
            value = terminator.operands[index]
            terminator.set_operand(index, self.maps[0].get(value, value))
            others += [values.get(value, value) for values in self.maps[1:]]
        return others
