"""`promote_to_tma`: pointer loads that read a box become TMA loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tawa.analysis.tma.promotions import Make, find_promotions
from tawa.dialects import structure_rules
from tawa.ir import Builder, Module, StructureError, Value, clone_op, parse_module, print_module, verify_structure
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir.promote_to_tma import PromoteToTma, PromotionResult
from tests.analysis.tile_programs import TileProgram
from tests.support.filecheck import brief, check

ARGUMENTS = {"a": "!tt.ptr<f16>", "b": "!tt.ptr<f16>", "c": "!tt.ptr<f32>", "m": "i32", "k": "i32", "s": "i32"}


def gemm(transposed: bool = False, in_loop: bool = True, divisible: tuple[str, ...] = ("a", "b", "s", "k")) -> Module:
    """C = A · B for one tile: the pointers of A are loop-carried, those of B computed from the induction variable.

    transposed: B is transposed in memory.
    """
    p = TileProgram(divisible, **ARGUMENTS)
    a_at, b_rows = _operands(p, transposed)
    tile = "tensor<64x32xf32>"
    zeros = p.op("arith.constant", [], tile, value=f"dense<0.000000e+00> : {tile}")

    def body(args: list[Value]) -> list[Value]:
        k, pointers, total = args
        k.hint = "k0"
        a = p.load(pointers)
        offset = p.mul(k, p.args["k"]) if not transposed else k
        b = p.load(p.add(b_rows, p.splat(offset, 32, 32)))
        names = {"inputPrecision": "0 : i32", "maxNumImpreciseAcc": "0 : i32"}
        total = p.op("tt.dot", [a, b, total], tile, **names)
        return [p.add(pointers, p.splat(p.number(32), 64, 32)), total]

    if in_loop:
        loop = p.loop((p.number(0), p.args["k"], p.number(32)), [a_at, zeros], body)
        p.store(p.splat(p.args["c"], 64, 32), loop.results[1])
    else:
        p.store(p.splat(p.args["c"], 64, 32), body([p.number(0), a_at, zeros])[1])
    return p.finish()


def _operands(p: TileProgram, transposed: bool) -> tuple[Value, Value]:
    first = p.mul(p.pid(), p.number(64))
    rows = p.mul(p.expand(p.add(p.splat(first, 64), p.range(64)), 1), p.splat(p.args["s"], 64, 1))
    a_at = p.add(p.splat(p.args["a"], 64, 32), p.add(p.broadcast(rows, 64, 32), p.spread(p.range(32), 0, 64, 32)))
    axis = 0 if transposed else 1
    far = p.expand(p.range(32), axis)
    far = p.mul(far, p.splat(p.args["k"], *((1, 32) if transposed else (32, 1))))
    near = p.spread(p.range(32), 1 - axis, 32, 32)
    return a_at, p.add(p.splat(p.args["b"], 32, 32), p.add(p.broadcast(far, 32, 32), near))


def promoted(module: Module, make: Make = "host", nested: bool = True, persistent: bool = False) -> PromotionResult:
    """The result of the pass; checks the structure of the module and its round trip through text."""
    result = PromoteToTma(find_promotions(module, make, nested, persistent=persistent)).run(module)
    errors: list[StructureError] = verify_structure(module, structure_rules())
    assert [str(error) for error in errors] == []
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return result


def test_descriptors_are_added_behind_the_arguments() -> None:
    module = gemm()
    result = promoted(module)
    assert result.changed and result.promoted == 2
    check(
        print_module(module, locations=False),
        """
        CHECK: arg_attrs = [{{.*}}, {tawa.base = 0 : i32}, {}, {}, {}, {}, {tawa.base = 1 : i32}, {}, {}, {}, {}]
        CHECK-SAME: i32, i32, i32, !tt.tensordesc<tensor<64x32xf16>>, i32, i32, i64, i64,
        CHECK-SAME: !tt.tensordesc<tensor<32x32xf16>>, i32, i32, i64, i64) -> ()
        """,
    )
    check(
        brief(module),
        """
        CHECK: [[ROW:%at_\\d+|%\\d+]] = "arith.muli"({{.*}})
        CHECK: "scf.for"
        CHECK: "tt.descriptor_load"(%tawa_desc_0_0, [[ROW]], %k0_0) <{cache = 1 : i32, evict = 1 : i32}>
        CHECK: "tt.descriptor_load"(%tawa_desc_1_0, %k0_0,
        CHECK: "tt.dot"
        CHECK-NOT: tt.load
        """,
    )
    assert [(spec.base, spec.block, spec.argument) for spec in result.launch.descriptors] == [
        (0, (64, 32), 6),
        (1, (32, 32), 11),
    ]


def test_no_pointer_arithmetic_is_left() -> None:
    module = gemm()
    promoted(module)
    text = brief(module)
    assert text.count("tt.addptr") == 0
    check(text, 'CHECK: "scf.yield"(%{{\\w+}})\n')


def test_descriptors_are_made_before_the_loop() -> None:
    module = gemm()
    result = promoted(module, "kernel")
    assert result.promoted == 2 and not result.launch.descriptors
    check(
        print_module(module, locations=False),
        """
        CHECK: "tt.make_tensor_descriptor"(%b_0,{{.*}}padding = 1 : i32{{.*}} -> !tt.tensordesc<tensor<32x32xf16>>
        CHECK: [[A:%\\w+]] = "tt.addptr"(%a_0,
        CHECK: "tt.make_tensor_descriptor"([[A]],{{.*}}padding = 1 : i32{{.*}} -> !tt.tensordesc<tensor<64x32xf16>>
        CHECK: "scf.for"
        CHECK: "tt.descriptor_load"(%desc_
        """,
    )


def test_later_releases_spell_descriptors_without_the_tensor() -> None:
    makes: tuple[Make, ...] = ("host", "kernel")
    for make in makes:
        module = gemm()
        promoted(module, make, nested=False)
        text = print_module(module, locations=False)
        assert "!tt.tensordesc<64x32xf16>" in text and "tensordesc<tensor<" not in text
        assert '"tt.descriptor_load"' in text and "<{cache" not in text


def test_a_transposed_operand_is_loaded_in_memory_order_and_transposed() -> None:
    module = gemm(transposed=True)
    promoted(module)
    check(
        brief(module),
        """
        CHECK: [[B:%\\w+]] = "tt.descriptor_load"(%tawa_desc_1_0, {{.*}}, %k0_0)
        CHECK: [[T:%\\w+]] = "tt.trans"([[B]]) <{order = array<i32: 1, 0>}>
        CHECK: "tt.dot"({{.*}}, [[T]],
        """,
    )


def test_a_load_outside_of_loops_stays() -> None:
    module = gemm(in_loop=False)
    before = print_module(module)
    result = PromoteToTma(find_promotions(module)).run(module)
    assert not result.changed and result.remarks == ()
    assert print_module(module) == before


def test_a_load_that_is_not_promoted_has_a_remark_with_reason_and_cure() -> None:
    module = gemm(divisible=("a", "b", "k"))
    result = promoted(module, "kernel")
    assert result.promoted == 1
    stays = next(remark for remark in result.remarks if "stays" in remark.reason)
    assert stays.reason == "a load stays with pointers: its stride s is not known to be a multiple of 16 bytes"
    assert "multiple of 16" in stays.cure


def test_equal_tensors_share_a_descriptor() -> None:
    module = gemm()
    loop = next(op for op in module.walk() if op.name == "scf.for")
    dot = next(op for op in module.walk() if op.name == "tt.dot")
    first = next(op for op in loop.walk() if op.name == "tt.load")
    again = Builder.before(dot).insert(clone_op(first, {}))
    total = clone_op(dot, {})
    total.set_operand(0, again.result)
    Builder.before(dot).insert(total)
    dot.set_operand(2, total.result)
    result = promoted(module)
    assert result.promoted == 3
    assert len(result.launch.descriptors) == 2


# -- some of the promotable accesses ---------------------------------------------------------------------------------


def chosen(module: Module, loads: Sequence[int] | None = None, stores: Sequence[int] | None = None) -> PromotionResult:
    """The pass, for the loads and stores of these numbers."""
    promotions = find_promotions(module, persistent=True)
    some_loads = None if loads is None else frozenset(promotions.loads[at].op for at in loads)
    some_stores = None if stores is None else frozenset(promotions.stores[at].op for at in stores)
    result = PromoteToTma(promotions, some_loads, some_stores).run(module)
    assert verify_structure(module, structure_rules()) == []
    return result


def test_only_chosen_accesses_are_promoted() -> None:
    module = gemm()
    result = chosen(module, loads=[1])
    assert (result.changed, result.promoted, result.left) == (True, 1, 1)
    assert [(spec.base, spec.block) for spec in result.launch.descriptors] == [(1, (32, 32))]
    assert [brief(module).count(name) for name in ("tt.descriptor_load", "tt.load")] == [1, 1]
    assert [remark.reason for remark in result.remarks[:2]] == [
        "a load stays with pointers: the Plan says so",
        "a pointer load becomes a TMA load: boxes of 32x32",
    ]


def test_launch_conditions_are_those_of_the_chosen_accesses() -> None:
    whole, part = chosen(gemm(divisible=("a", "b"))), chosen(gemm(divisible=("a", "b")), loads=[1])
    assert any("s" in str(it) for it in whole.launch.conditions)
    assert part.launch.conditions and not any("s" in str(it) for it in part.launch.conditions)


def test_all_by_name_is_the_same_as_all() -> None:
    module, named = with_store(), with_store()
    assert chosen(module) == chosen(named, loads=[0, 1], stores=[0])
    assert print_module(module) == print_module(named)


def test_a_store_that_is_not_chosen_stays() -> None:
    module = with_store()
    result = chosen(module, stores=[])
    assert result.promoted == 2 and "tt.store" in brief(module) and "tt.descriptor_store" not in brief(module)
    assert result.remarks[-1].reason == "a store stays with pointers: the Plan says so"


def test_without_a_chosen_load_nothing_is_promoted() -> None:
    module = with_store()
    before = print_module(module)
    result = chosen(module, loads=[], stores=[0])
    assert not result.changed and result.launch == LaunchSpec() and print_module(module) == before
    assert {remark.reason for remark in result.remarks} == {"a load stays with pointers: the Plan says so"}


def test_an_access_that_cannot_be_promoted_keeps_its_reason() -> None:
    module = gemm(divisible=("a", "b", "k"))
    promotions = find_promotions(module, "kernel")
    result = PromoteToTma(promotions, frozenset(load.op for load in promotions.loads)).run(module)
    assert result.promoted == 1 and "its stride s is not known" in result.remarks[0].reason


# -- declined -------------------------------------------------------------------------------------------------------


def test_a_call_is_not_followed() -> None:
    module = gemm()
    function = module.body.ops[0]
    module.body.append(clone_op(function, {})).properties["sym_name"] = '"other"'
    result = PromoteToTma(find_promotions(module)).run(module)
    assert not result.changed
    assert "calls or jumps" in result.remarks[0].reason


def test_the_pass_gives_the_same_text_every_time() -> None:
    texts: set[str] = set()
    for _ in range(3):
        module = gemm()
        promoted(module, "kernel")
        texts.add(print_module(module))
    assert len(texts) == 1


@pytest.mark.parametrize("make", ["host", "kernel"])
def test_remarks_list_the_promoted_loads(make: Make) -> None:
    result = promoted(gemm(), make)
    assert [remark.reason for remark in result.remarks] == [
        "a pointer load becomes a TMA load: boxes of 64x32",
        "a pointer load becomes a TMA load: boxes of 32x32",
    ]


@pytest.mark.parametrize("of_descriptor", [True, False])
def test_a_field_of_a_users_descriptor_is_not_a_launch_argument(of_descriptor: bool) -> None:
    """A starts at a row number that only the kernel knows: it is a size of the user's descriptor."""
    kinds = {"d": "!tt.tensordesc<tensor<64x32xf16>>"} if of_descriptor else {}
    kinds |= {"rows": "i32", "columns": "i32", "far": "i64", "near": "i64"}
    p = TileProgram(("a", "b", "s", "k", "rows"), **kinds, **ARGUMENTS)
    p.args["a"], start = p.add(p.args["a"], p.mul(p.args["rows"], p.args["s"])), p.args["a"]
    a_at, b_rows = _operands(p, transposed=False)
    tile = "tensor<64x32xf32>"
    zeros = p.op("arith.constant", [], tile, value=f"dense<0.000000e+00> : {tile}")

    def body(args: list[Value]) -> list[Value]:
        dots = p.op("tt.dot", [p.load(args[1]), p.load(b_rows), args[2]], tile, inputPrecision="0 : i32",
                    maxNumImpreciseAcc="0 : i32")  # fmt: skip
        return [p.add(args[1], p.splat(p.number(32), 64, 32)), dots]

    loop = p.loop((p.number(0), p.args["k"], p.number(32)), [a_at, zeros], body)
    p.store(p.splat(p.args["c"], 64, 32), loop.results[1])
    module = p.finish()
    spec = promoted(module).launch
    first = next(descriptor for descriptor in spec.descriptors if descriptor.base == start.index)
    assert str(first.offset) == ("0" if of_descriptor else "(rows * s)")
    assert bool(p.args["rows"].uses) is of_descriptor  # the row to begin at is an index


def with_store(**changes: bool) -> Module:
    """`gemm` with a store of rows of C after its loop, at multiples of 16 bytes or not."""
    known = {"aligned": True, "masked": True, "wrapped": False, "read": False, "again": False, "barrier": False,
             **changes}  # fmt: skip
    p = TileProgram(("a", "b", "s", "k", *(["c", "n"] if known["aligned"] else [])), **ARGUMENTS, n="i32")
    a_at, b_rows = _operands(p, transposed=False)
    tile = "tensor<64x32xf32>"
    zeros = p.op("arith.constant", [], tile, value=f"dense<0.000000e+00> : {tile}")

    def body(args: list[Value]) -> list[Value]:
        k, pointers, total = args
        a = p.load(pointers)
        b = p.load(p.add(b_rows, p.splat(p.mul(k, p.args["k"]), 32, 32)))
        total = p.op("tt.dot", [a, b, total], tile, inputPrecision="0 : i32", maxNumImpreciseAcc="0 : i32")
        return [p.add(pointers, p.splat(p.number(32), 64, 32)), total]

    loop = p.loop((p.number(0), p.args["k"], p.number(32)), [a_at, zeros], body)
    rows = p.add(p.splat(p.mul(p.pid(), p.number(64)), 64), p.range(64))
    if known["wrapped"]:
        rows = p.binary("remsi", rows, p.splat(p.args["m"], 64))
    rows = p.expand(rows, 1)
    at = p.add(p.broadcast(p.mul(rows, p.splat(p.args["n"], 64, 1)), 64, 32), p.spread(p.range(32), 0, 64, 32))
    inside = p.op("arith.cmpi", [rows, p.splat(p.args["m"], 64, 1)], "tensor<64x1xi1>", predicate="2 : i64")
    mask = [p.broadcast(inside, 64, 32)] if known["masked"] else []
    pointers, total = p.add(p.splat(p.args["c"], 64, 32), at), loop.results[1]
    p.store(pointers, total, *mask)
    if known["barrier"]:
        p.effect("gpu.barrier", [])
    if known["read"]:
        p.load(pointers)
    if known["again"]:
        p.store(pointers, p.add(total, total), *mask)
    return p.finish()


def stored(persistent: bool = True, **changes: bool) -> tuple[Module, PromotionResult]:
    """`with_store` after the pass."""
    module = with_store(**changes)
    return module, promoted(module, persistent=persistent)


def test_a_store_becomes_a_tma_store_if_another_tile_follows() -> None:
    module, result = stored()
    check(brief(module), r'CHECK: "tt.descriptor_store"(%tawa_desc_2_0, %{{\w+}}, %{{\w+}}, %{{\w+}})')
    descriptor = result.launch.descriptors[2]
    assert (descriptor.base, descriptor.block, [str(it) for it in descriptor.shape]) == (2, (64, 32), ["m", "32"])
    assert any(remark.reason == "a pointer store becomes a TMA store: boxes of 64x32" for remark in result.remarks)


def test_without_a_mask_all_rows_are_stored() -> None:
    _, result = stored(masked=False)
    assert str(result.launch.descriptors[2].shape[0]) == str(0x7FFF0000)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"persistent": False}, ""),
        ({"aligned": False}, "its rows are not known to begin at multiples of 16 bytes"),
        ({"wrapped": True}, "its index wraps around or is clamped"),
        ({"read": True}, "the kernel reads or writes that tensor elsewhere, too"),
        ({"again": True}, "the kernel reads or writes that tensor elsewhere, too"),
        ({"barrier": True}, "tl.debug_barrier may tell others that it is done"),
    ],
)
def test_other_stores_stay(changes: dict[str, bool], reason: str) -> None:
    module, result = stored(**changes)
    assert "tt.store" in brief(module) and len(result.launch.descriptors) == 2
    assert not reason or any(f"a store stays with pointers: {reason}" in remark.reason for remark in result.remarks)


def queries(aligned: bool = True, persistent: bool = True, make: Make = "host") -> tuple[Module, PromotionResult]:
    """A loop whose dots read a tile that is loaded before it, with rows at multiples of 16 bytes or not."""
    p = TileProgram(("a", "b", "k", *(["s"] if aligned else [])), **ARGUMENTS)
    rows = p.expand(p.add(p.splat(p.mul(p.pid(), p.number(64)), 64), p.range(64)), 1)
    at = p.add(p.broadcast(p.mul(rows, p.splat(p.args["s"], 64, 1)), 64, 32), p.spread(p.range(32), 0, 64, 32))
    inside = p.op("arith.cmpi", [rows, p.splat(p.args["m"], 64, 1)], "tensor<64x1xi1>", predicate="2 : i64")
    pointers = p.add(p.splat(p.args["a"], 64, 32), at)
    q = p.load(pointers, p.broadcast(inside, 64, 32), p.zeros(pointers))
    _, b_rows = _operands(p, transposed=False)
    tile = "tensor<64x32xf32>"
    zeros = p.op("arith.constant", [], tile, value=f"dense<0.000000e+00> : {tile}")

    def body(args: list[Value]) -> list[Value]:
        b = p.load(p.add(b_rows, p.splat(p.mul(args[0], p.args["k"]), 32, 32)))
        return [p.op("tt.dot", [q, b, args[1]], tile, inputPrecision="0 : i32", maxNumImpreciseAcc="0 : i32")]

    loop = p.loop((p.number(0), p.args["k"], p.number(32)), [zeros], body)
    p.effect("tt.store", [p.add(p.splat(p.args["c"], 64, 32), at), loop.results[0]])
    module = p.finish()
    return module, promoted(module, make, persistent=persistent)


def test_an_invariant_tile_is_loaded_by_tma_if_another_tile_follows() -> None:
    module, result = queries()
    assert "tt.load" not in brief(module) and result.promoted == 2
    blocks = {descriptor.base: descriptor.block for descriptor in result.launch.descriptors}
    assert blocks[0] == (64, 32)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"persistent": False}, ""),
        ({"make": "kernel"}, ""),
        ({"aligned": False}, "its rows are not known to begin at multiples of 16 bytes"),
    ],
)
def test_other_invariant_tiles_stay(changes: dict[str, Any], reason: str) -> None:
    module, result = queries(**changes)
    assert "tt.load" in brief(module) and result.promoted == 1
    assert not reason or any(f"a load stays with pointers: {reason}" in remark.reason for remark in result.remarks)
