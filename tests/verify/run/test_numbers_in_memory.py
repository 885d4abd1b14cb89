"""Numbers that cross between partitions in shared memory: a load takes the number of the store that it reads."""

from __future__ import annotations

from tawa.ir import Module, ValueMap, clone_op, parse_module
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Proved
from tests.verify.test_crossed_numbers import BY_TILE


def waiting_twice(module: Module) -> None:
    """The consumer waits for a number and loads it, and then does the same again: the slot holds no other one yet."""
    (load,) = [op for op in module.walk() if op.name == "ttg.local_load" and "xi32" in op.results[0].type]
    block = load.parent
    assert block is not None
    first = next(op for op in load.results[0].users if op.name == "tt.unsplat")
    wait = next(op for op in reversed(block.ops[: block.index_of(load)]) if op.name == "ttng.wait_barrier")
    mapping: ValueMap = {}
    copies = [clone_op(op, mapping) for op in (wait, load, first)]
    first.results[0].replace_all_uses_with(copies[-1].results[0])
    for place, copy in enumerate(copies):
        block.insert(block.index_of(first) + 1 + place, copy)


def test_a_second_load_from_a_slot_that_was_not_stored_to_again_takes_the_same_number() -> None:
    module = parse_module(BY_TILE.barrier)
    waiting_twice(module)
    assert isinstance(check_barriers(module, effort="fast"), Proved)
