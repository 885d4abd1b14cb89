"""Kernels with added descriptors: when arguments are added, what a launch passes, when the stock kernel is launched."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.analysis.launch_values import LEAST_CYCLES, Argument, Condition, DescriptorSpec, LaunchSpec, Number, multiply
from tawa.bridge import added_arguments, record
from tawa.bridge.added_arguments import launch_is_ours, launch_spec, launched_by_us, wrap_do_compile
from tawa.bridge.attach import attached
from tawa.bridge.compile import compile_kernel
from tawa.bridge.request import Request, activate
from tawa.bridge.signature import parse_signature
from tawa.plan import PlanOptions

WANTED = Request(PlanOptions(enable_warp_specialization=True))
TEXT = "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32, N=i32, K=i32, sam=i32:16, sbk=i32:16, scm=i32:16"


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sbk, scm, B: tl.constexpr):
    rows, columns, ks = tl.arange(0, B), tl.arange(0, B), tl.arange(0, B)
    rows, columns = tl.program_id(0) * B + rows, tl.program_id(1) * B + columns
    a_ptrs = a_ptr + rows[:, None] * sam + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * sbk + columns[None, :]
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += B
        b_ptrs += B * sbk
    at = c_ptr + rows[:, None] * scm + columns[None, :]
    tl.store(at, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def in_place(a_ptr, b_ptr, K, sam, sbk, TO_A: tl.constexpr, B: tl.constexpr):
    """Writes into the tensor that it reads, or beside it."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + rows[:, None] * sam + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * sbk + rows[None, :])
        acc = tl.dot(a, b, acc)
        tl.store((a_ptr if TO_A else b_ptr) + rows[:, None] * sam + ks[None, :], acc.to(tl.float16))


def compiled(ours: bool, kernel: Any = matmul, text: str = TEXT, request: Request = WANTED, **constants: Any) -> Any:
    signature = parse_signature(text, {"B": 64, **constants}, kernel.arg_names)
    with attached(), launched_by_us(ours):
        return compile_kernel(kernel, signature, request, num_warps=4, num_stages=3)


def test_descriptors_are_added_for_a_launch_of_our_own_only() -> None:
    ours, other = compiled(True), compiled(False)
    spec = launch_spec(ours)
    assert [descriptor.block for descriptor in spec.descriptors] == [(64, 64), (64, 64)]
    assert len(ours.metadata.tensordesc_meta) == 2
    assert ours.metadata.global_scratch_size == 0
    assert not launch_spec(other).descriptors
    assert not other.metadata.tensordesc_meta
    assert ours.asm["ptx"].count(".param .align 64 .b8") == 2
    assert other.asm["ptx"].count(".param .align 64 .b8") == 0


@pytest.mark.parametrize("to_a", [True, False])
def test_the_memory_of_an_added_descriptor_is_that_of_its_base(to_a: bool) -> None:
    text = "a_ptr=*fp16:16, b_ptr=*fp16:16, K=i32:16, sam=i32:16, sbk=i32:16"
    request = Request(PlanOptions(only_if_faster=False))
    found = compiled(True, in_place, text, request, TO_A=to_a).metadata.tawa
    assert not found["applied"]
    name = "a_ptr" if to_a else "b_ptr"
    assert f"tt.store writes through argument '{name}', which the load at" in found["reason"]


def test_only_a_jit_function_that_launches_adds_arguments() -> None:
    seen: list[bool] = []

    def original(self: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(launch_is_ours())

    wrapped = wrap_do_compile(original)
    wrapped(None, "key", warmup=False)
    wrapped(None, "key", True)
    wrapped(None, "key", False)
    assert seen == [True, False, True]
    assert not launch_is_ours()


SPEC = LaunchSpec(
    (DescriptorSpec(0, Number(8), (Argument(1), Argument(2)), (Argument(2), Number(1)), (64, 32), "f16", 2, 3),),
    (Condition(Argument(2), "rows are whole", least=1, multiple=8),),
)


class Kernel(SimpleNamespace):
    """As much of a compiled kernel as a launch looks at."""

    def __init__(self) -> None:
        types = {"x": "*fp16", "M": "i32", "FLAG": "constexpr", "pair": ("i32", "constexpr")}
        metadata = SimpleNamespace(global_scratch_size=0)
        super().__init__(name="kernel", src=SimpleNamespace(signature=types), metadata=metadata)


def launched(*args: Any, kernel: Kernel | None = None) -> list[Any]:
    made: list[Any] = []
    launch = added_arguments._Launch(kernel or Kernel(), lambda *all_of: made.extend(all_of[9:]), SPEC)
    launch.stock = SimpleNamespace(
        run=lambda *all_of: made.append(("stock", all_of[9:])), function=1, packed_metadata=None
    )
    launch(1, 1, 1, 0, 7, None, None, None, None, *args)
    return made


TENSOR = SimpleNamespace(data_ptr=lambda: 4096)


def test_a_launch_passes_the_descriptor_behind_the_arguments() -> None:
    made = launched(TENSOR, 100, True, (48, None))
    assert made[:4] == [TENSOR, 100, True, (48, None)]
    (descriptor,) = made[4:]
    assert descriptor.base.data_ptr() == 4096 + 16
    assert (descriptor.shape, descriptor.strides, descriptor.padding) == ([100, 48], [48, 1], "zero")


def test_a_launch_that_breaks_a_condition_takes_the_stock_kernel() -> None:
    assert launched(TENSOR, 100, True, (44, None)) == [("stock", (TENSOR, 100, True, (44, None)))]


@pytest.mark.parametrize(
    ("grid", "rows", "stock"), [((4, 1, 1), 8, True), ((4, 2, 1), 8, False), ((1, 1, 1), 16, False)]
)
def test_a_launch_that_is_over_soon_takes_the_stock_kernel(grid: tuple[int, ...], rows: int, stock: bool) -> None:
    """Four SMs; each program takes a sixteenth of what is enough for every row."""
    made: list[str] = []
    spec = replace(SPEC, conditions=(), work=multiply(Argument(2), Number(LEAST_CYCLES // 16)))
    launch = added_arguments._Launch(Kernel(), lambda *all_of: made.append("tawa"), spec, processors=4)
    launch.stock = SimpleNamespace(run=lambda *all_of: made.append("stock"), function=1, packed_metadata=None)
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (rows, None))
    assert made == 2 * ["stock" if stock else "tawa"]


def test_other_arguments_get_other_descriptors() -> None:
    made: list[Any] = []
    launch = added_arguments._Launch(Kernel(), lambda *all_of: made.append(all_of[-1].shape), SPEC)
    for size in (100, 104, 100):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, size, True, (48, None))
    assert made == [[100, 48], [104, 48], [100, 48]]
    assert len(launch.known) == 2


def test_the_launcher_is_made_for_the_extended_signature() -> None:
    source = added_arguments._Extended(SimpleNamespace(signature={"x": "*fp16"}, constants={}), SPEC.descriptors)
    assert source.signature == {"x": "*fp16", "tawa_desc_0": "tensordesc<fp16[64,32]>"}
    assert source.constants == {}


def test_the_key_on_disk_tells_both_forms_apart() -> None:
    with attached(), activate(WANTED):
        from triton.compiler import compiler

        source = SimpleNamespace(hash=lambda: "source")
        backend = SimpleNamespace(hash=lambda: "backend")
        options = SimpleNamespace(hash=lambda: "options")
        keys = []
        for ours in (True, False):
            with launched_by_us(ours):
                keys.append(compiler.get_cache_key(source, backend, options, {}))
    assert keys[0] != keys[1]


def test_what_json_made_of_options_is_undone() -> None:
    assert added_arguments._tuples([["a", "b"], 3, None]) == (("a", "b"), 3, None)
    assert record.KEY == "tawa"
