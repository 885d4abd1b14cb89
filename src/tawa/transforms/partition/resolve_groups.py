"""Resolve groups: each consumer group gets its number, and the producer serves all of them.

    warp.group producer {                        warp.group producer {
      put q[i] { load Q[m + group · 64] }          put q0[i] { load Q[m] }; put q1[i] { load Q[m + 64] }
      loop { put k[j] { load K[n] } } }            loop { put k[j] { load K[n] } } }
    warp.group consumer0 {                  →    warp.group consumer0 {
      get q[i] …; store O[m + group · 64] }        get q0[i] …; store O[m] }
    warp.group consumer1 { the same }            warp.group consumer1 { get q1[i] …; store O[m + 64] }

A ring whose tile depends on the number of the group becomes one ring a group, with the counts of the one it was. All
other rings are shared: each slot is released by every group.

Requires: `partition` with a Plan of several consumers, on a program whose rows are split (`split_rows`).
Ensures: no number of a group is left.
Declines when the trip count of a loop of the producer, or a branch, depends on the number of the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.dialects.aref import CreateOp, PutOp
from tawa.dialects.tt import GroupIndexOp
from tawa.dialects.warp import GroupOp, find_groups
from tawa.ir import Builder, Module, Operation, Value, clone_op, source_of
from tawa.ir.attributes import string_attr
from tawa.remarks import Remark
from tawa.transforms.partition.serve_groups import GroupServer, dependent_values, obstacle
from tawa.transforms.result import PassResult

_CURE = "num_consumer_groups=1 keeps the tile together"


@dataclass(frozen=True, slots=True)
class ResolveGroups:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Puts the numbers in."""
        groups = find_groups(module)
        consumers = [group for group in groups if group.role == "consumer"]
        if not any(GroupIndexOp.of(op) for op in module.walk()):
            return PassResult(changed=False)
        for producer in groups:
            if producer.role == "producer":
                obstacle = _serve(producer, consumers)
                if obstacle is not None:
                    op, reason = obstacle
                    return PassResult(False, (Remark("declined", reason, source_of(module, op), _CURE),))
        for number, consumer in enumerate(consumers):
            _number(consumer, number)
        return PassResult(changed=True)


def _number(group: GroupOp, number: int) -> None:
    """Replaces the marker in a group by a constant."""
    for op in [op for op in group.op.walk() if GroupIndexOp.of(op)]:
        constant = Builder.before(op).constant(number)
        op.result.replace_all_uses_with(constant)
        op.erase()


# -- the producer ------------------------------------------------------------------------------------------------------


def _serve(producer: GroupOp, consumers: list[GroupOp]) -> tuple[Operation, str] | None:
    """Makes a ring for each group of those whose puts depend on its number, and a put into each; or says why not."""
    dependent = dependent_values(producer.body)
    op = obstacle(producer.body, dependent)
    if op is not None:
        return op, "the control flow of the producer depends on the number of the group"
    every = [op for op in producer.op.walk() if PutOp.of(op)]
    puts = [op for op in every if any(operand in dependent for nested in op.walk() for operand in nested.operands)]
    rings = list(dict.fromkeys(PutOp(put).ring for put in puts))
    mixed = next((op for op in every if PutOp(op).ring in rings and op not in puts), None)
    if mixed is not None:
        return mixed, "a ring carries tiles of one group and tiles of all"
    own = {ring: [_own_ring(ring, number) for number in range(len(consumers))] for ring in rings}
    GroupServer(dependent, own, len(consumers)).run(producer.body)
    for ring, copies in own.items():
        for use in list(ring.uses):
            use.op.set_operand(use.index, copies[_group_number(use.op, consumers)])
        assert ring.defining_op is not None
        ring.defining_op.erase()
    return None


def _own_ring(ring: Value, number: int) -> Value:
    create = CreateOp.of(ring.defining_op)
    assert create is not None
    copy = clone_op(create.op, {})
    copy.properties["name"] = string_attr(f"{create.name}_{number}")
    copy.result.hint = f"{ring.hint}_{number}"
    return Builder.before(create.op).insert(copy).result


def _group_number(op: Operation, consumers: list[GroupOp]) -> int:
    """Which consumer an operation stands in; 0 for the producer, whose counts are those of every group."""
    for number, consumer in enumerate(consumers):
        if consumer.op.is_ancestor_of(op):
            return number
    return 0
