"""``tl.range(..., warp_specialize=True)``: a request to Tawa that Triton's passes never see."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.bridge.driver.annotations import STOCK_WITHOUT, take_annotations
from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.plan import PlanOptions
from tests.bridge import kernels
from tests.support.fronts import front

BLOCKS = {"BM": 128, "BN": 256, "BK": 64}
NOTE = "tl.range(warp_specialize=True) is taken as only_if_faster=False"
WITHOUT = "; stock Triton compiles the kernel without it"


@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ASKED: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=ASKED):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def pointers(
    a_ptr, b_ptr, c_ptr, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ASKED: tl.constexpr
):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K // BK, warp_specialize=ASKED):
        at = k * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * sa + at[None, :])
        b = tl.load(b_ptr + at[:, None] * sb + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * sc + columns[None, :], acc.to(tl.float16))


@triton.jit
def nest(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUTER: tl.constexpr, ASKED: tl.constexpr
):
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True, warp_specialize=OUTER):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in tl.range(0, K, BK, num_stages=2, warp_specialize=ASKED):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        for k in tl.range(0, K, BK, disallow_acc_multi_buffer=True, warp_specialize=ASKED):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def stored_between(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ASKED: tl.constexpr):
    """It stores what a later trip loads."""
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=ASKED):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
        a.store([0, k], tl.zeros((BM, BK), dtype=tl.float16))
    c.store([0, 0], acc.to(tl.float16))


def signature_of(kernel: Any, asked: bool = True, BN: int = 256, **more: Any) -> Signature:
    descriptors = f"a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,{BN}]>, c=tensordesc<fp16[128,{BN}]>, K=i32:16"
    text = {
        "pointers": "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, K=i32:16, sa=i32:16, sb=i32:16, sc=i32:16",
        "nest": descriptors + ", M=i32:16, N=i32:16",
    }.get(kernel.__name__, descriptors)
    return parse_signature(text, {**BLOCKS, "BN": BN, "ASKED": asked, **more}, kernel.arg_names)


def made(kernel: Any, request: Request | None = None, num_warps: int = 4, asked: bool = True, **more: Any) -> Any:
    """Compiled as for a launch."""
    with launched_by_us(function=kernel):
        return compile_kernel(kernel, signature_of(kernel, asked, **more), request or Request(), num_warps=num_warps)


def notes(compiled: Any) -> list[str]:
    return [it["reason"] for it in compiled.metadata.tawa["remarks"] if "warp_specialize" in it["reason"]]


PINNED = Request(PlanOptions(enable_warp_specialization=True))


@pytest.mark.contract
@pytest.mark.parametrize("request_", [Request(), PINNED], ids=["automatic", "pinned"])
def test_a_kernel_at_whose_annotation_triton_aborts_is_specialised(request_: Request) -> None:
    """A tile of 128 x 256 over four warps: its spills are compared with those of the stock kernel."""
    record = made(gemm, request_).metadata.tawa
    assert record["applied"]
    assert record["mode"] == ("pinned" if request_ is PINNED else "automatic")


def test_the_annotation_means_wherever_legal_and_the_record_says_so_with_the_line() -> None:
    plain, compiled = made(gemm, asked=False), made(gemm)
    assert not plain.metadata.tawa["applied"] and notes(plain) == []
    assert compiled.metadata.tawa["applied"] and notes(compiled) == [NOTE]
    assert compiled.metadata.tawa["options"]["only_if_faster"] is False
    line = gemm.starting_line_number + 4
    assert f"{NOTE} ({__file__}:{line})" in tawa.explain(compiled).remarks


def test_what_the_launch_says_goes_before_the_annotation() -> None:
    compiled = made(gemm, Request(PlanOptions(only_if_faster=True)))
    assert not compiled.metadata.tawa["applied"]
    assert notes(compiled) == ["tl.range(warp_specialize=True) gives way to only_if_faster=True" + WITHOUT]


@pytest.mark.parametrize(("outer", "inner"), [(True, False), (False, True), (True, True)])
def test_the_annotation_may_stand_on_any_loop_and_on_several(outer: bool, inner: bool) -> None:
    compiled = made(nest, num_warps=8, asked=inner, OUTER=outer, BN=128)
    assert compiled.metadata.tawa["applied"] and notes(compiled) == [NOTE]
    assert "tt.warp_specialize" in compiled.asm["ttir"]
    assert not any("tt.warp_specialize" in compiled.asm[level] for level in ("aref", "barrier", "ttgir"))


def test_other_annotations_of_the_loops_stay() -> None:
    kernel = front(nest, signature_of(nest, OUTER=True, BN=128))
    taken = take_annotations(kernel.ttir, kernel.context)
    assert taken is not None and taken.asked and "tt.warp_specialize" not in taken.ttir
    for name in ("tt.flatten", "tt.num_stages", "tt.disallow_acc_multi_buffer"):
        assert taken.ttir.count(name) == kernel.ttir.count(name) == 1


def test_a_kernel_without_the_annotation_is_not_even_parsed() -> None:
    kernel = front(gemm, signature_of(gemm, asked=False))
    assert take_annotations(kernel.ttir, None) is None


@pytest.mark.parametrize("options", [{"persistent": True}, {"pointer_loads": "tma"}, {"pointer_loads": "cp.async"}])
def test_it_goes_with_a_persistent_form_and_with_loads_through_pointers(options: dict[str, Any]) -> None:
    compiled = made(pointers, Request(PlanOptions(**options)), num_warps=8, BN=128)
    assert compiled.metadata.tawa["applied"] and notes(compiled) == [NOTE]


def test_the_number_of_groups_applies_as_elsewhere() -> None:
    compiled = made(gemm, Request(tawa.PlanOptions(num_consumer_groups=2)))
    assert compiled.metadata.tawa["applied"]
    roles = [part["role"] for part in compiled.metadata.tawa["plan"]["partitions"]]
    assert roles == ["producer", "consumer", "consumer"]


def test_a_configuration_of_the_autotuner_applies_as_elsewhere(driver: None) -> None:
    blocks = {"BM": 128, "BN": 128, "BK": 64, "ASKED": True}
    configs = [tawa.Config(blocks, num_warps=8, num_consumer_groups=groups, aref_depth=2) for groups in (1, 2)]
    tuned = triton.autotune(configs=configs, key=["K"])(tawa.jit(pointers))
    made = tuned.warmup(*[kernels.half_tensor() for _ in range(3)], 256, 256, 256, 256, grid=(1,))
    plans = [it.metadata.tawa["plan"] for it in made]
    assert [sum(part["role"] == "consumer" for part in plan["partitions"]) for plan in plans] == [1, 2]
    assert [notes(it) for it in made] == [[NOTE], [NOTE]]


@pytest.mark.parametrize("kernel", [gemm, stored_between])
def test_a_declined_kernel_is_what_stock_triton_makes_of_the_kernel_without_the_annotation(kernel: Any) -> None:
    request = Request(PlanOptions(only_if_faster=True)) if kernel is gemm else Request()
    stock, compiled = compile_kernel(kernel, signature_of(kernel, asked=False), None), made(kernel, request)
    assert not compiled.metadata.tawa["applied"]
    assert notes(compiled)[0].endswith(WITHOUT)
    assert compiled.asm["ptx"] == stock.asm["ptx"] and compiled.asm["cubin"] == stock.asm["cubin"]


def test_a_compile_that_cannot_be_specialised_at_all_drops_the_annotation_too() -> None:
    """Such as one whose ttgir stage another hook has wrapped."""
    from triton import knobs

    def replacing(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "", "0"
        original = stages["ttgir"]
        stages["ttgir"] = lambda mod, metadata: original(mod, metadata)
        return None

    slots: Any = knobs.runtime
    slots.add_stages_inspection_hook = replacing
    try:
        compiled = made(gemm)
    finally:
        vars(slots).pop("add_stages_inspection_hook", None)
    assert "another stage hook" in compiled.metadata.tawa["reason"]
    assert notes(compiled) == [NOTE + WITHOUT]


def test_the_kernel_beside_a_specialised_one_is_stock_tritons_without_the_annotation() -> None:
    """Which launches get that are better off with it, `mode="measure"`, and the simulator's timelines."""
    stock = compile_kernel(gemm, signature_of(gemm, asked=False), None)
    beside = compile_kernel(gemm, signature_of(gemm), STOCK_WITHOUT)
    assert not beside.metadata.tawa["applied"]
    assert beside.asm["cubin"] == stock.asm["cubin"]


def test_a_launch_that_falls_back_gets_the_stock_kernel_without_the_annotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tawa.bridge.launch import added_arguments

    compiled = made(gemm, Request(PlanOptions(mode="measure")))
    assert notes(compiled) == ["tl.range(warp_specialize=True) gives way to mode=measure"]
    assert compiled.metadata.tawa["applied"]
    monkeypatch.setattr(added_arguments, "_loaded", lambda kernel: kernel)
    stock = added_arguments._stock(compiled, attached)  # pyright: ignore[reportPrivateUsage]
    assert stock.asm["cubin"] == compile_kernel(gemm, signature_of(gemm, asked=False), None).asm["cubin"]


def test_where_stock_triton_is_asked_for_the_annotation_is_left_to_it() -> None:
    compiled = made(gemm, Request(PlanOptions(enable_warp_specialization=False)), num_warps=8)
    assert "aref" not in compiled.asm and "tt.warp_specialize" in compiled.asm["ttgir"]


def test_a_kernel_that_triton_cannot_compile_is_specialised_although_it_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to leave it to. No times are predicted here: those of this kernel speak for stock Triton."""
    from tawa.bridge.driver import driver, stock_run

    def fails(self: Any) -> int:
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(stock_run.StockRun, "_run", fails)
    monkeypatch.setattr(driver.Space, "of", lambda *_: None)
    record = made(gemm, asked=False).metadata.tawa
    assert record["applied"]
    assert any("bytes of registers spill" in it["reason"] for it in record["remarks"])
