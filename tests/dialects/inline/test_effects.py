"""The table of PTX instructions: what each does, and that anything else may do anything."""

from __future__ import annotations

import pytest

from tawa.dialects.inline.effects import NamedBarrier, ProxyFence, Unlisted, acts, effects_of, moved_operands, ties_of
from tawa.ir import Operation, parse_module


def assembly(text: str, *, constraints: str = "=r,r", pure: str = "false", type: str = "i32") -> Operation:
    properties = f'<{{asm_string = "{text}", constraints = "{constraints}", packed_element = 1 : i32, pure = {pure}}}>'
    module = parse_module(
        f'"builtin.module"() ({{\n"tt.func"() <{{sym_name = "kernel"}}> ({{\n^bb0(%n: {type}):\n'
        f'%made = "tt.elementwise_inline_asm"(%n) {properties} : ({type}) -> {type}\n'
        '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )
    return next(op for op in module.walk() if op.name == "tt.elementwise_inline_asm")


BARRIERS = {
    "bar.sync 8, 256;": NamedBarrier(8, 256, waits=True),
    "bar.cta.sync 0x8, 0x100;": NamedBarrier(8, 256, waits=True),
    "barrier.sync 8;": NamedBarrier(8, None, waits=True),
    "barrier.cta.sync.aligned 8, 64;": NamedBarrier(8, 64, waits=True),
    "bar.arrive 9, 64;": NamedBarrier(9, 64, waits=False),
    "barrier.cta.arrive.aligned 9, 64;": NamedBarrier(9, 64, waits=False),
    "bar.red.popc.u32 $0, 8, 256, p;": NamedBarrier(8, 256, waits=True),
    "barrier.cta.red.and.pred q, 8, !p;": NamedBarrier(8, None, waits=True),
}


@pytest.mark.parametrize("text", BARRIERS)
def test_named_barriers(text: str) -> None:
    assert effects_of(assembly(text)) == (BARRIERS[text],)


def test_the_number_and_the_threads_may_be_operands() -> None:
    op = assembly("bar.sync $1, $1;")
    assert effects_of(op) == (NamedBarrier(op.operands[0], op.operands[0], waits=True),)


HARMLESS = (
    "membar.cta; fence.acq_rel.gpu; fence.sc.cta; fence.mbarrier_init.release.cluster;",
    "prefetch.global.L2 [$1]; prefetchu.L1 [$1]; prefetch.tensormap [$1];",
    "griddepcontrol.launch_dependents; griddepcontrol.wait;",
    "setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 24;",
    "nanosleep.u32 20; mov.u32 $0, %clock;",
    "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff; bar.warp.sync -1;",
    "match.any.sync.b32 $0, $1, 0xffffffff; redux.sync.add.s32 $0, $1, 0xffffffff;",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_instructions_without_effect_on_the_protocol(text: str) -> None:
    op = assembly(text)
    assert effects_of(op) == ()
    assert not acts(op)


TIES = {
    "griddepcontrol.launch_dependents;": {"hint"},
    "prefetch.global.L2 [$1]; nanosleep.u32 20;": {"hint"},
    "mov.u32 $0, $1;": set[str](),
    "mov.u32 $0, %clock;": {"any"},
    "membar.cta;": {"any"},
    "fence.acq_rel.gpu; prefetch.global.L2 [$1];": {"any", "hint"},
    "setmaxnreg.dec.sync.aligned.u32 24;": {"any"},
    "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;": {"any"},
    "bar.sync 8, 256;": {"any"},
    "ld.shared.b32 $0, [$1];": {"any"},
}


@pytest.mark.parametrize("text", TIES)
def test_what_ties_assembly_to_its_place_is_in_the_same_table(text: str) -> None:
    assert ties_of(assembly(text)) == TIES[text]
    assert ties_of(assembly(text, pure="true")) == set()


def test_a_wait_for_grids_that_computes_something_is_tied_to_its_place() -> None:
    alone = Operation("tt.elementwise_inline_asm", properties={"asm_string": '"griddepcontrol.wait; // dummy $0"'})
    assert ties_of(alone) == {"grids"}
    assert ties_of(assembly("griddepcontrol.wait; mov.u32 $0, $1;")) == {"any"}
    alone.properties["asm_string"] = '"@p griddepcontrol.wait;"'
    assert ties_of(alone) == {"any"}


def test_effects_keep_their_order() -> None:
    first, second = effects_of(assembly("fence.proxy.async; bar.arrive 9, 64; mov.u32 $0, $1;"))  # type: ignore[misc]
    assert isinstance(first, ProxyFence)
    assert isinstance(second, NamedBarrier)


UNLISTED = {
    "ld.shared.b32 $0, [$1];": "ld.shared.b32 is not known",
    "mov.b32 $0, [$1];": "mov.b32 is not known",
    "atom.add.global.u32 $0, [$1], 1;": "atom.add.global.u32 is not known",
    "wgmma.wait_group.sync.aligned 0;": "is not known",
    "barrier.cluster.arrive;": "in this form",
    "fence.proxy.tensormap::generic.acquire.gpu [$1], 128;": "is not known",
    "@p bar.sync 8, 256;": "has a guard",
    "@p fence.proxy.async;": "has a guard",
    "bar.sync t, 256;": "must be integers or operands",
    "bar.sync $0, 256;": "must be integers or operands",
    "bar.sync 16, 256;": "0 … 15",
    "bar.arrive 8;": "in this form",
    "setmaxnreg.dec.sync.aligned.u32 20;": "multiple of 8 between 24 and 256",
    "setmaxnreg.inc.sync.aligned.u32 264;": "multiple of 8 between 24 and 256",
    "setmaxnreg.inc.sync.aligned.u32 30;": "multiple of 8 between 24 and 256",
    "bar.warp.sync;": "may not be executed by whole warps",
    "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffff;": "lanes other than all 32",
    "again: bra again;": "not a plain list of instructions",
}


@pytest.mark.parametrize("text", UNLISTED)
def test_anything_else_may_do_anything_and_is_named(text: str) -> None:
    found = effects_of(assembly(text))
    assert isinstance(found, Unlisted), found
    assert UNLISTED[text] in found.reason, found


@pytest.mark.parametrize("text", ["bar.sync 8, 256;", "fence.proxy.async;"])
def test_an_effect_must_happen_once_and_here(text: str) -> None:
    assert "declared pure" in getattr(effects_of(assembly(text, pure="true")), "reason", "")
    tile = "tensor<128xi32, #blocked>"
    assert "applied to a tile" in getattr(effects_of(assembly(text, type=tile)), "reason", "")


def test_assembly_inside_of_a_reduction_is_executed_for_each_element() -> None:
    properties = '<{asm_string = "bar.sync 8, 256;", constraints = "=r,r", packed_element = 1 : i32, pure = false}>'
    tile = "tensor<128xi32, #blocked>"
    module = parse_module(
        f'"builtin.module"() ({{\n"tt.func"() <{{sym_name = "kernel"}}> ({{\n^bb0(%n: {tile}):\n'
        '%sum = "tt.reduce"(%n) <{axis = 0 : i32}> ({\n^bb1(%a: i32, %b: i32):\n'
        f'%made = "tt.elementwise_inline_asm"(%a) {properties} : (i32) -> i32\n'
        f'"tt.reduce.return"(%made) : (i32) -> ()\n}}) : ({tile}) -> i32\n'
        '"tt.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n'
    )
    (found,) = [effects_of(op) for op in module.walk() if op.name == "tt.elementwise_inline_asm"]
    assert isinstance(found, Unlisted)
    assert "part of an operation on tiles" in found.reason


def test_a_result_may_be_a_copy_of_an_operand() -> None:
    assert moved_operands(assembly("bar.sync 8, 256; mov.u32 $0, $1;")) == [0]
    for text in ("mov.u32 $0, 3;", "@p mov.u32 $0, $1;", "mov.u32 $0, $1; add.u32 $0, $0, 1;", "add.u32 $0, $1, 1;"):
        assert moved_operands(assembly(text)) == [None], text
