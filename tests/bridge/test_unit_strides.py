"""Strides that Triton leaves open though they are 1: which parameters may be so, and what a launch then asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.added_arguments import launch_spec
from tawa.bridge.launch.first.compiles import launched_by_us, may_be_one, wrap_do_compile
from tawa.bridge.triton.artifacts.cache import wrap_submit
from tawa.bridge.triton.signature import parse_signature
from tawa.plan import PlanOptions

pytestmark = pytest.mark.usefixtures("without_ptx")

TEXT = (
    "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, K=i32:16, sam=i32:16, sak=i32, sbk=i32:16, sbn=i32, scm=i32:16, "
    "scn=i32"
)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, sam, sak, sbk, sbn, scm, scn, B: tl.constexpr):
    rows, columns, ks = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)
    a_ptrs = a_ptr + rows[:, None] * sam + ks[None, :] * sak
    b_ptrs = b_ptr + ks[:, None] * sbk + columns[None, :] * sbn
    acc = tl.zeros((B, B), dtype=tl.float32)
    for _ in range(0, K, B):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += B * sak
        b_ptrs += B * sbk
    tl.store(c_ptr + rows[:, None] * scm + columns[None, :] * scn, acc.to(tl.float16))


def matmul(a_ptr, b_ptr, c_ptr, K, sam, sak, sbk, sbn, scm, scn, B: tl.constexpr):
    product(a_ptr, b_ptr, c_ptr, K, sam, sak, sbk, sbn, scm, scn, B)


@triton.jit
def annotated(a_ptr, b_ptr, c_ptr, K: int, sam: int, sak: int, sbk: int, sbn: int, scm: int, scn: int, B: tl.constexpr):
    product(a_ptr, b_ptr, c_ptr, K, sam, sak, sbk, sbn, scm, scn, B)


told = triton.jit(matmul)
kept_apart = triton.jit(matmul, do_not_specialize=["sak", "sbn", "scn"])


def compiled(kernel: Any, options: PlanOptions = PlanOptions(), launched: bool = True) -> Any:
    signature = parse_signature(TEXT, {"B": 64}, kernel.arg_names)
    with attached(), launched_by_us(launched, kernel):
        return compile_kernel(kernel, signature, Request(options), num_warps=4, num_stages=3)


@pytest.mark.parametrize("kernel", [kept_apart, annotated], ids=["kept apart", "annotated"])
def test_a_launch_is_asked_whether_strides_are_one(kernel: Any) -> None:
    """In automatic mode, and however small the tile: the stock kernel copies each element by itself."""
    found = compiled(kernel)
    assert found.metadata.tawa["applied"], found.metadata.tawa["reason"]
    spec = launch_spec(found)
    assert [str(it) for it in spec.conditions][:3] == ["sak == 1", "sbn == 1", "scn == 1"]
    assert len(spec.descriptors) == 2
    arguments = [1 << 20, 1 << 21, 1 << 22, 64, 64, 1, 128, 1, 128, 1]
    assert spec.broken(arguments) is None
    for at in (5, 7, 9):
        other = [*arguments[:at], 2, *arguments[at + 1 :]]
        assert str(spec.broken(other)).endswith(" == 1")


def test_a_stride_that_triton_tells_is_known_not_to_be_one() -> None:
    """Where it is 1, the signature says so; this one does not."""
    found = compiled(told, PlanOptions(only_if_faster=False))
    assert not launch_spec(found).descriptors
    assert any("no dimension of the tile is contiguous in memory" in str(it) for it in found.metadata.tawa["remarks"])


def test_nothing_is_taken_to_be_one_where_nobody_asks_the_launch() -> None:
    found = compiled(annotated, PlanOptions(only_if_faster=False), launched=False)
    assert not launch_spec(found).conditions


def test_a_jit_function_says_which_parameters_triton_leaves_open() -> None:
    seen: list[frozenset[str]] = []

    def original(self: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(may_be_one())

    compile_it = wrap_do_compile(original)
    for kernel in (told, kept_apart, annotated):
        compile_it(kernel, "key", warmup=False)
    compile_it(annotated, "key", warmup=True)
    assert seen == [
        frozenset(),
        frozenset({"sak", "sbn", "scn"}),
        frozenset({"K", "sam", "sak", "sbk", "sbn", "scm", "scn"}),
        frozenset(),
    ]
    assert may_be_one() == frozenset()


def test_a_compile_in_another_thread_knows_of_the_launch() -> None:
    def original(mode: Any, key: str, compile_it: Callable[[], Any]) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(compile_it()))
        thread.start()
        thread.join()
        return found[0]

    submit = wrap_submit(original, nullcontext)
    with launched_by_us(function=kept_apart):
        assert submit(None, "key", may_be_one) == {"sak", "sbn", "scn"}
    assert submit(None, "key", may_be_one) == frozenset()
