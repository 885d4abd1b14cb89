"""Operations of tensor memory and tcgen05: operands, effects and spaces, in the forms of Triton 3.6 to 3.9."""

from __future__ import annotations

from tawa.dialects.effects import effects_of
from tawa.dialects.tcgen05 import TCGen5CommitOp, TCGen5MMAOp, TMEMStoreOp, TMEMSubsliceOp, dot_of
from tawa.ir import Module, Operation
from tests.cases.programs.ttgir import ops_named
from tests.sim import one_dot as one


def only(module: Module, name: str) -> Operation:
    (found,) = ops_named(module, name)
    return found


def built(*lines: str, **types: str) -> Module:
    alloc = f'%d = "ttng.tmem_alloc"() : () -> {one.tensor(one.M, one.N, "f32")}'
    return one.program(alloc, *lines, one.load(), **types)  # type: ignore[arg-type]


def kinds(a: str) -> tuple[str, str, str]:
    return a, one.buffer(one.K, one.N, "f16"), one.tensor(one.M, one.N, "f32")


def test_a_dot_names_its_operands_and_its_commits() -> None:
    mma = one.mma("%a_tile", "%b_tile", kinds(one.buffer(one.M, one.K, "f16")), commits=[("%done", "%yes")])
    op = only(built(mma), TCGen5MMAOp.NAME)
    view = dot_of(op)
    assert view is not None and not view.waits and not view.two_ctas and view.scales == ()
    assert [it.hint for it in (view.a, view.b, view.d, view.use_d, view.predicate)] == [
        "a_tile", "b_tile", "d", "no", "yes",
    ]  # fmt: skip
    assert [(barrier.hint, predicate.hint) for barrier, predicate in view.commits] == [("done", "yes")]
    effects = [(it.kind, it.space) for it in effects_of(op)]
    assert effects == [
        ("read", "shared"),
        ("read", "shared"),
        ("read", "tensor"),
        ("write", "tensor"),
        ("order", "none"),
    ]


def test_operand_a_may_lie_in_tensor_memory() -> None:
    operand = one.tensor(one.M, one.K, "f16")
    module = built(f'%s = "ttng.tmem_alloc"() : () -> {operand}', one.mma("%s", "%b_tile", kinds(operand)))
    effects = [(it.kind, it.space) for it in effects_of(only(module, TCGen5MMAOp.NAME))]
    assert effects == [("read", "tensor"), ("read", "shared"), ("read", "tensor"), ("write", "tensor")]


def test_a_slice_has_its_place_in_each_form() -> None:
    whole, part = one.tensor(one.M, one.N, "f32"), one.tensor(one.M, 16, "f32")
    module = built(
        f'%x = "ttng.tmem_subslice"(%d) <{{N = 16 : i32}}> : ({whole}) -> {part}',
        f'%y = "ttng.tmem_subslice"(%d) <{{dim = 0 : i32, offset = 64 : i32}}> : ({whole}) -> {part}',
    )
    views = [TMEMSubsliceOp(it) for it in ops_named(module, TMEMSubsliceOp.NAME)]
    assert [(it.start, it.dim) for it in views] == [(16, 1), (64, 0)]


def test_a_commit_may_have_a_predicate_and_buffers_of_other_ctas() -> None:
    segments = "<{operandSegmentSizes = array<i32: 1, 1, 1>}> "
    kind = one.buffer(one.M, one.K, "f16")
    module = built(
        one.COMMIT,
        f'"ttng.tc_gen5_commit"(%done, %n) : ({one.BARRIER}, i1) -> ()',
        f'"ttng.tc_gen5_commit"(%done, %n, %a_tile) {segments}: ({one.BARRIER}, i1, {kind}) -> ()',
    )
    views = [TCGen5CommitOp(it) for it in ops_named(module, TCGen5CommitOp.NAME)]
    assert [it.predicate and it.predicate.hint for it in views] == [None, "n", "n"]
    assert [[it.hint for it in view.descriptors] for view in views] == [[], [], ["a_tile"]]


def test_a_store_may_have_a_token() -> None:
    memory, tile = one.tensor(one.M, one.N, "f32"), one.tile(one.M, one.N, "f32")
    token = "!ttg.async.token"
    text = f'%u = "ttng.tmem_store"(%d, %token, %given, %yes) : ({memory}, {token}, {tile}, i1) -> {token}'
    module = built(f'%token = "ub.poison"() : () -> {token}', text)
    view = TMEMStoreOp(only(module, TMEMStoreOp.NAME))
    assert (view.buffer.hint, view.source.hint, view.predicate.hint) == ("d", "given", "yes")
