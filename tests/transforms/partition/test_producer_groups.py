"""`resolve_groups`: whatever the producer computes from the group index, it computes and carries once per group."""

from __future__ import annotations

from tawa.dialects.aref import LandedOp, PutOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import GroupIndexOp
from tawa.ir import Module, parse_module
from tawa.plan import PlanOptions
from tawa.transforms.partition.resolve_groups import dependent_values, divergent_control_flow
from tests.cases.pointers.cases import find
from tests.cases.programs.ttgir import for_loop, kernel, op, ops_named, parse
from tests.cases.small.pointer_kernels import made, ttgir
from tests.matrix.compiling import specialised_levels

GROUP = op(
    "tt.elementwise_inline_asm",
    "%two",
    "i32",
    "%g",
    "i32",
    properties='asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true',
)
TWO = op("arith.constant", "", "", "%two", "i32", properties="value = 2 : i32")


def hints(module: Module) -> list[str]:
    function = next(it for it in module.body.ops if it.name == "tt.func")
    return sorted({value.hint for value in dependent_values(function.regions[0].block)})


def add(left: str, right: str, result: str) -> str:
    return op("arith.addi", f"%{left}, %{right}", "i32, i32", f"%{result}", "i32")


def test_a_carried_value_depends_on_the_group_if_its_initial_or_yielded_value_does() -> None:
    loop = for_loop(
        "\n".join((add("at", "one", "next"), add("free", "one", "more"))),
        carried={"at": ("g", "next", "i32"), "free": ("n", "more", "i32")},
        results="%end:2",
    )
    assert hints(parse(kernel(f"{TWO}\n{GROUP}\n{loop}"))) == ["at", "end", "g", "next"]


def test_a_trip_count_that_depends_on_the_group_is_an_obstacle() -> None:
    body = f"{TWO}\n{GROUP}\n{for_loop(add('at', 'one', 'next'), carried={'at': ('n', 'next', 'i32')}, results='%end')}"
    for text, found in ((body, False), (body.replace('"scf.for"(%zero, %n,', '"scf.for"(%zero, %g,'), True)):
        block = next(it for it in parse(kernel(text)).body.ops if it.name == "tt.func").regions[0].block
        assert (divergent_control_flow(block, dependent_values(block)) is not None) == found


def test_a_loop_of_the_producer_carries_the_addresses_of_each_group() -> None:
    assert any(GroupIndexOp.of(it) for it in parse_module(ttgir("wrapped_groups")).walk())
    module = parse_module(made("wrapped_groups").aref)
    assert not any(GroupIndexOp.of(it) for it in module.walk())
    producer = next(it for it in ops_named(module, "warp.group") if "producer" in it.properties["role"])
    loop = next(view for it in producer.walk() if (view := ForOp.of(it)))
    pointers = [arg.type for arg in loop.iter_args if "!tt.ptr" in arg.type]
    assert len([text for text in pointers if text.startswith("tensor<64x32x")]) == 2  # A, for two groups of 64 rows
    assert len([it for it in producer.walk() if PutOp.of(it)]) == 3  # A of each group; B, which both read


def test_the_copies_of_every_group_have_landed_before_a_descriptor_is_redefined() -> None:
    options = PlanOptions(enable_warp_specialization=True, num_consumer_groups=2, aref_depth=2)
    module = parse_module(specialised_levels(find("grouped_tma"), options).asm["aref"])
    producer = next(it for it in ops_named(module, "warp.group") if "producer" in it.properties["role"])
    waits = [view for it in producer.walk() if (view := LandedOp.of(it))]
    assert {wait.ring for wait in waits} == {put.ring for it in producer.walk() if (put := PutOp.of(it))}
    assert len(waits) == 3  # for A of each group, and for B, which both read
