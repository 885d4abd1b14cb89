"""Operations, values and their uses; the builder, clones and replacement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.ir import (
    Block,
    Builder,
    Module,
    Operation,
    Region,
    Value,
    ValueMap,
    clone_op,
    clone_region,
    parse_module,
    print_module,
    print_op,
    replace_op,
)
from tests.ir.modules import modules, same, uses_agree
from tests.support.sample import examples


def values(count: int) -> list[Value]:
    return Operation("test.values", (), ["i32"] * count).results


# -- uses --------------------------------------------------------------------------------------------------------------


@given(modules(), st.integers(0, 2**32), st.integers(1, 30))
@settings(max_examples=examples(50))
def test_uses_stay_in_step_with_operands_through_any_edits(module: Module, seed: int, count: int) -> None:
    import random

    rng = random.Random(seed)
    ops = list(module.walk())
    pool = [value for op in ops for value in op.results] or values(1)
    holder = Operation("test.pool", pool) if pool[0].owner not in ops else None
    for _ in range(count):
        op = rng.choice(ops)
        match rng.randint(0, 3):
            case 0 if op.operands:
                op.set_operand(rng.randrange(len(op.operands)), rng.choice(pool))
            case 1:
                op.add_operand(rng.choice(pool))
            case 2:
                op.set_operands([rng.choice(pool) for _ in range(rng.randint(0, 4))])
            case _:
                rng.choice(pool).replace_all_uses_with(rng.choice(pool))
    if holder is not None:
        holder.erase()
        module.body.insert(0, pool[0].owner)  # type: ignore[arg-type]
    assert uses_agree(module)


def test_an_operand_used_twice_lists_two_uses_and_one_user() -> None:
    (value,) = values(1)
    op = Operation("test.use", (value, value))
    assert [use.index for use in value.uses] == [0, 1]
    assert value.users == [op]


def test_users_come_in_the_order_in_which_they_were_linked() -> None:
    (value,) = values(1)
    users = [Operation(f"test.use{number}", (value,)) for number in range(5)]
    assert value.users == users


def test_replacing_a_value_by_itself_changes_nothing() -> None:
    (value,) = values(1)
    op = Operation("test.use", (value,))
    value.replace_all_uses_with(value)
    assert op.operands == [value] and len(value.uses) == 1


# -- removal -----------------------------------------------------------------------------------------------------------


def test_an_erased_operation_uses_nothing() -> None:
    one, two = values(2)
    inner = Operation("test.inner", (two,))
    block = Block()
    block.append(inner)
    outer = Operation("test.outer", (one,), regions=[Region([block])])
    outer.erase()
    assert not one.uses and not two.uses


def test_an_operation_whose_result_is_used_is_not_erased_and_stays_whole() -> None:
    (value,) = values(1)
    block = Block()
    op = block.append(Operation("test.op", (value,), ["i32"]))
    user = block.append(Operation("test.user", op.results))
    with pytest.raises(ValueError, match=r"cannot erase test.op: result 0 is used by test.user"):
        op.erase()
    assert op.operands == [value] and len(value.uses) == 1 and block.ops == [op, user]


def test_a_detached_operation_keeps_its_operands() -> None:
    (value,) = values(1)
    block = Block()
    op = block.append(Operation("test.op", (value,)))
    assert op.detach() is op
    assert op.parent is None and block.ops == [] and value.users == [op]


# -- place -------------------------------------------------------------------------------------------------------------


def nest() -> tuple[Operation, Operation, Operation]:
    inner = Operation("test.inner")
    middle_block, outer_block = Block(), Block()
    middle_block.append(inner)
    middle = Operation("test.middle", regions=[Region([middle_block])])
    outer_block.append(middle)
    return Operation("test.outer", regions=[Region([outer_block])]), middle, inner


def test_ancestors_come_innermost_first() -> None:
    outer, middle, inner = nest()
    assert list(inner.ancestors()) == [middle, outer]
    assert outer.is_ancestor_of(inner) and not inner.is_ancestor_of(outer) and not outer.is_ancestor_of(outer)


def test_a_walk_is_in_textual_order_and_allows_changes_behind_it() -> None:
    outer, middle, inner = nest()
    assert list(outer.walk()) == [outer, middle, inner]
    seen: list[str] = []
    for op in outer.walk():
        seen.append(op.name)
        if op is inner:
            op.erase()
    assert seen == ["test.outer", "test.middle", "test.inner"]


def test_the_only_result_is_refused_where_there_are_several() -> None:
    with pytest.raises(ValueError, match=r"test.op has 2 results, not one"):
        _ = Operation("test.op", (), ["i32", "i32"]).result


def test_the_only_block_is_refused_where_there_are_several() -> None:
    with pytest.raises(ValueError, match="2 blocks, not one"):
        _ = Region([Block(), Block()]).block


# -- building ----------------------------------------------------------------------------------------------------------


def names(block: Block) -> list[str]:
    return [op.name for op in block.ops]


def test_a_builder_inserts_before_behind_at_the_start_and_at_the_end() -> None:
    block = Block()
    anchor = block.append(Operation("test.anchor", loc="#loc7"))
    Builder.before(anchor).create("test.before")
    after = Builder.after(anchor)
    after.create("test.after1")
    after.create("test.after2")
    Builder.at_start(block).create("test.start")
    Builder.at_end(block).create("test.end")
    assert names(block) == ["test.start", "test.before", "test.anchor", "test.after1", "test.after2", "test.end"]


def test_new_operations_take_the_location_of_the_operation_they_serve() -> None:
    block = Block()
    anchor = block.append(Operation("test.anchor", loc="#loc7"))
    assert Builder.before(anchor).create("test.op").loc == "#loc7"
    assert Builder.after(anchor).create("test.op").loc == "#loc7"


@pytest.mark.parametrize(("value", "type", "text"), [(3, "i32", "3 : i32"), (1, "i1", "true"), (0, "i1", "false")])
def test_a_constant_is_spelt_as_mlir_does(value: int, type: str, text: str) -> None:
    made = Builder.at_end(Block()).constant(value, type)
    assert made.type == type and made.defining_op is not None
    assert made.defining_op.properties == {"value": text}


# -- copies ------------------------------------------------------------------------------------------------------------


@given(modules())
@settings(max_examples=examples(40))
def test_a_clone_is_the_same_program_and_shares_nothing(module: Module) -> None:
    copy = clone_op(module.op, {})
    assert same(module.op, copy)
    assert print_op(copy) == print_op(module.op)
    ours, theirs = set(module.walk()), set(copy.walk())
    assert not ours & theirs
    for op in theirs:
        for value in op.operands:
            owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op
            assert owner in theirs
        op.properties["touched"] = ""
    assert all("touched" not in op.properties for op in ours)
    assert uses_agree(module)


def test_a_clone_reads_its_operands_through_the_map_and_adds_its_results() -> None:
    one, two = values(2)
    op = Operation("test.op", (one,), ["i32"])
    mapping: ValueMap = {one: two}
    copy = clone_op(op, mapping)
    assert copy.operands == [two] and mapping[op.result] is copy.result and copy.parent is None


def test_branches_of_a_cloned_region_stay_in_the_copy() -> None:
    first, second = Block(), Block()
    first.append(Operation("cf.br", successors=[second]))
    second.append(Operation("cf.br", successors=[second]))
    copy = clone_region(Region([first, second]), {})
    assert copy.blocks[0].terminator.successors == [copy.blocks[1]]
    assert copy.blocks[1].terminator.successors == [copy.blocks[1]]


def test_a_replaced_operation_hands_its_users_over_and_is_gone() -> None:
    (value,) = values(1)
    block = Block()
    op = block.append(Operation("test.op", (), ["i32"]))
    user = block.append(Operation("test.user", op.results))
    replace_op(op, [value])
    assert user.operands == [value] and block.ops == [user]


def test_printing_is_deterministic() -> None:
    text = '"builtin.module"() ({\n%a = "test.op"() : () -> i32\n"test.use"(%a) : (i32) -> ()\n}) : () -> ()\n'
    assert print_module(parse_module(text)) == print_module(parse_module(text))
