"""What operations do to the world, class by class; an unknown operation may do anything."""

from __future__ import annotations

import pytest

from tawa.dialects import Effect, OpView, declared_ops, is_opaque
from tawa.dialects.effects import (
    effects_of,
    gives_order,
    happens_once,
    has_side_effect,
    is_pure,
    orders_programs,
    waits_for_grids,
)
from tawa.ir import Block, Operation, Region

READ, WRITE = Effect("read", "global", "pointers"), Effect("write", "global", "pointers")
DESCRIPTOR_READ, DESCRIPTOR_WRITE = Effect("read", "global", "descriptor"), Effect("write", "global", "descriptor")
ORDER = Effect("order")
ANY = Effect("any")


def op(name: str, *nested: str, **properties: str) -> Operation:
    block = Block()
    for inner in nested:
        block.append(Operation(inner))
    return Operation(name, properties=properties, regions=[Region([block])] if nested else [])


@pytest.mark.parametrize(
    "name",
    [
        "arith.addi",
        "arith.constant",
        "arith.select",
        "math.exp2",
        "ub.poison",
        "tt.addptr",
        "tt.get_program_id",
        "tt.make_range",
        "tt.make_tensor_descriptor",
        "tt.dot",
        "ttg.convert_layout",
        "ttg.memdesc_trans",
        "ttng.warp_group_dot",
        "aref.first",
        "aref.advance",
    ],
)
def test_arithmetic_views_and_dots_are_pure(name: str) -> None:
    assert effects_of(op(name)) == () and is_pure(op(name)) and not has_side_effect(op(name))


@pytest.mark.parametrize("name", ["tt.load", "tt.descriptor_load", "tt.descriptor_gather"])
def test_loads_read_global_memory_through_their_first_operand(name: str) -> None:
    assert effects_of(op(name)) == (READ if name == "tt.load" else DESCRIPTOR_READ,)
    assert not is_pure(op(name)) and not has_side_effect(op(name))


@pytest.mark.parametrize("name", ["tt.store", "tt.descriptor_store", "tt.descriptor_scatter"])
def test_stores_write_global_memory_through_their_first_operand(name: str) -> None:
    assert effects_of(op(name)) == (WRITE if name == "tt.store" else DESCRIPTOR_WRITE,) and has_side_effect(op(name))


@pytest.mark.parametrize("name", ["tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce"])
def test_atomics_read_and_write(name: str) -> None:
    expected = (DESCRIPTOR_READ, DESCRIPTOR_WRITE) if name == "tt.descriptor_reduce" else (READ, WRITE)
    assert effects_of(op(name)) == expected and has_side_effect(op(name))


@pytest.mark.parametrize("name", ["tt.print", "tt.assert", "llvm.intr.assume", "ttng.wait_barrier", "aref.get"])
def test_what_is_seen_in_order_must_happen(name: str) -> None:
    assert effects_of(op(name)) == (ORDER,) and has_side_effect(op(name))


@pytest.mark.parametrize("name", ["gpu.barrier", "ttg.barrier"])
def test_barriers_synchronise_all_warps(name: str) -> None:
    assert effects_of(op(name)) == (Effect("barrier"),) and has_side_effect(op(name))


@pytest.mark.parametrize("name", ["ttg.local_alloc", "aref.create"])
def test_an_allocation_is_neither_pure_nor_a_root(name: str) -> None:
    assert effects_of(op(name)) == (Effect("allocate", "shared"),)
    assert not is_pure(op(name)) and not has_side_effect(op(name))


def test_shared_memory_is_read_and_written_through_the_buffer() -> None:
    assert effects_of(op("ttg.local_load")) == (Effect("read", "shared", "buffer"),)
    assert effects_of(op("ttg.local_store")) == (Effect("write", "shared", "buffer"),)


def test_a_tma_copy_reads_one_space_and_writes_the_other() -> None:
    kinds = [(it.kind, it.space) for it in effects_of(op("ttng.async_tma_copy_global_to_local"))]
    assert kinds == [("read", "global"), ("write", "shared")]
    kinds = [(it.kind, it.space) for it in effects_of(op("ttng.async_tma_copy_local_to_global"))]
    assert kinds == [("write", "global"), ("read", "shared")]


@pytest.mark.parametrize("name", ["tt.call", "llvm.inline_asm", "made.up", "ttng.clc_try_cancel_sync"])
def test_an_unknown_operation_may_do_anything(name: str) -> None:
    assert is_opaque(name)
    assert effects_of(op(name)) == (ANY,) and has_side_effect(op(name))


def test_an_unknown_operation_with_a_region_may_do_anything() -> None:
    assert ANY in effects_of(op("made.up", "arith.addi"))


@pytest.mark.parametrize("name", ["scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan", "tt.map_elementwise"])
def test_a_region_has_the_effects_of_what_is_inside(name: str) -> None:
    assert effects_of(op(name, "arith.addi")) == ()
    assert effects_of(op(name, "arith.addi", "tt.store")) == (WRITE,)
    assert effects_of(op(name, "made.up")) == (ANY,)


@pytest.mark.parametrize("name", ["tt.elementwise_inline_asm", "tt.extern_elementwise"])
def test_inline_code_is_pure_only_where_it_says_so(name: str) -> None:
    assert effects_of(op(name, pure="true")) == ()
    assert effects_of(op(name, pure="false")) == (ANY,)
    assert effects_of(op(name)) == (ANY,)


def test_a_hint_and_a_wait_for_grids_are_kept_and_may_be_repeated_but_order_nothing() -> None:
    for text in ("griddepcontrol.wait;", "griddepcontrol.launch_dependents;"):
        made = op("tt.elementwise_inline_asm", asm_string=f'"{text}"')
        assert has_side_effect(made) and not happens_once(made) and not gives_order(made) and not is_pure(made)
        assert waits_for_grids(made) is ("wait" in text)
    assert effects_of(op("tt.grid_dependency_wait")) == (Effect("grids"),)
    assert effects_of(op("tt.grid_dependency_launch_dependents")) == (Effect("hint"),)


def test_a_volatile_load_keeps_its_order() -> None:
    assert effects_of(op("tt.load", isVolatile="true")) == (READ, ORDER)
    assert effects_of(op("tt.load", isVolatile="false")) == (READ,)
    assert effects_of(op("tt.load", isVolatile="false", cache="7 : i32")) == (READ, ORDER)  # .cv
    assert effects_of(op("tt.load", isVolatile="false", cache="2 : i32")) == (READ,)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"tt.load is declared twice"):
        type("AnotherLoadOp", (OpView,), {"NAME": "tt.load"})


def test_only_functions_modules_and_partitions_are_isolated() -> None:
    isolated = {it.NAME for it in declared_ops() if it.ISOLATED}
    assert isolated == {"builtin.module", "tt.func", "ttg.warp_specialize.partitions"}


def test_a_barrier_orders_threads_and_an_atomic_programs() -> None:
    assert gives_order(op("gpu.barrier")) and not orders_programs(op("gpu.barrier"))
    assert orders_programs(op("tt.atomic_rmw", sem="1 : i32"))
    place = op("tt.elementwise_inline_asm", pure="true", asm_string='"mov.u32 $0, %ctaid.x;"')
    assert orders_programs(place)
    assert orders_programs(op("tt.elementwise_inline_asm", asm_string='"bar.sync 1;"'))
