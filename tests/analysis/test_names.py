"""Names of loads, stores and loops, by which a Plan has its entries."""

from __future__ import annotations

from tawa.analysis.names import LOADS, STORES, argument_of, drop_names, loop_number, name_module, name_of, name_text
from tawa.dialects.parameters import STAYS
from tawa.ir import Module, print_module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import kernel, load, op, ops_named, parse, scalar_load


def named(text: str, *, persistent: bool = False) -> Module:
    module = parse(text)
    name_module(module, persistent=persistent)
    return module


def loads(module: Module) -> list[str]:
    return [name_text(name_of(op)) for op in module.walk() if op.name in LOADS]


def test_a_load_is_named_by_its_argument_its_innermost_loop_and_its_number_there() -> None:
    outside = load("first", "a_desc", "%zero, %zero")
    module = named(kernel(f"{outside}\n{programs.gemm_loop()}\n{programs.gemm_loop('more', '_2')}\n{programs.store()}"))
    assert loads(module) == ["a_desc, outside of loops"] + [
        f"{it}, loop {at}" for at in (0, 1) for it in ("a_desc", "b_desc")
    ]
    assert [name_of(op) for op in module.walk() if op.name in STORES] == [("c_desc", None, 0)]


def test_the_second_load_of_an_argument_in_a_loop_has_another_number() -> None:
    body = f"{load('a', 'a_desc')}\n{load('more', 'a_desc')}"
    module = named(kernel(programs.for_loop(body)))
    assert loads(module) == ["a_desc, loop 0", "a_desc, loop 0, number 1"]


def test_a_loop_that_makes_the_kernel_persistent_has_no_number() -> None:
    for persistent, numbers in ((False, [0, 1]), (True, [None, 0])):
        module = named(programs.persistent_gemm(), persistent=persistent)
        assert [loop_number(it) for it in ops_named(module, "scf.for")] == numbers
        assert loads(module) == [f"{it}, loop {numbers[1]}" for it in ("a_desc", "b_desc")]


def test_a_copy_of_a_loop_that_stays_has_no_names() -> None:
    text = kernel(programs.for_loop(scalar_load("it", "lock")), arguments=programs.LOCK)
    module = parse(text)
    ops_named(module, "tt.load")[0].attributes[STAYS] = "unit"
    name_module(module)
    assert "tawa.name" not in print_module(module) and "tawa.loop" not in print_module(module)
    assert "tawa.loop" in print_module(named(text))


def test_names_are_gone_again() -> None:
    module = parse(programs.persistent_gemm())
    before = print_module(module)
    name_module(module)
    assert print_module(module) != before
    drop_names(module)
    assert print_module(module) == before


def test_an_address_of_one_of_two_arguments_has_both_names_and_an_unknown_one_none() -> None:
    either = op("arith.select", "%flag, %out, %other", "i1, !tt.ptr<f16>, !tt.ptr<f16>", "%at", "!tt.ptr<f16>")
    made = op("mystery.pointer", "%out", "!tt.ptr<f16>", "%lost", "!tt.ptr<f16>")
    module = parse(kernel(f"{either}\n{made}", arguments={"other": "!tt.ptr<f16>"}))
    (select,), (lost,) = ops_named(module, "arith.select"), ops_named(module, "mystery.pointer")
    assert argument_of(module, select.result).split("|") == ["other", "out"]
    assert argument_of(module, lost.result) == "?"


BLOCKED = "#ttg.blocked<{sizePerThread = [1, %d], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"


def by_pointers(name: str, layout: str, offset: int = 0, line: int = 3) -> str:
    """A load of a tile at `ptr` plus an offset, in a layout."""
    numbers, tile, loaded = (f"tensor<16x16x{it}, {layout}>" for it in ("i32", "!tt.ptr<f16>", "f16"))
    value = f"value = dense<{offset}> : {numbers}"
    properties = (
        "boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, "
        "operandSegmentSizes = array<i32: 1, 0, 0>"
    )
    return "\n".join([
        op("arith.constant", "", "", f"%{name}_offset", numbers, properties=value, line=line),
        op("tt.splat", "%ptr", "!tt.ptr<f16>", f"%{name}_base", tile, line=line),
        op("tt.addptr", f"%{name}_base, %{name}_offset", f"{tile}, {numbers}", f"%{name}_at", tile, line=line),
        op("tt.load", f"%{name}_at", tile, f"%{name}", loaded, properties=properties, line=line),
    ])  # fmt: skip


def test_a_load_that_triton_repeats_for_another_layout_has_the_name_of_the_first() -> None:
    wide, narrow = BLOCKED % 8, BLOCKED % 1

    def numbers(*bodies: str) -> list[int]:
        module = parse(kernel("\n".join(bodies), arguments={"ptr": "!tt.ptr<f16>"}))
        name_module(module)
        return [name_of(it)[2] for it in ops_named(module, "tt.load")]

    first, behind = by_pointers("a", wide), by_pointers("c", wide, line=9)
    assert numbers(first, by_pointers("b", narrow), behind) == [0, 0, 1]
    assert numbers(first, by_pointers("b", narrow, offset=16), behind) == [0, 1, 2]  # another address
    assert numbers(first, by_pointers("b", narrow, line=4), behind) == [0, 1, 2]  # another line
    assert numbers(first, by_pointers("b", wide), behind) == [0, 1, 2]  # the kernel loads it twice
