"""Kernels with added descriptors: when arguments are added, what a launch passes, when the stock kernel is launched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.added_arguments import Extended, launch_spec
from tawa.bridge.launch.first.compiles import launch_is_ours, launched_by_us, wrap_do_compile
from tawa.bridge.report import record
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import parse_signature
from tawa.machine.coefficients import ErrorInfo
from tawa.machine.machines import SM_90
from tawa.plan import Plan, PlanOptions
from tawa.plan.search.prediction import Expectation
from tawa.plan.search.search import Forecast, Search
from tawa.plan.search.space import only_measured
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir.make_persistent import MakePersistent, PersistentResult
from tests.bridge.launch.test_launcher import SPEC, memory
from tests.cases.pointers.cases import find
from tests.matrix.compiling import compile_case

WANTED = Request(PlanOptions(enable_warp_specialization=True))
STOCK = Request(PlanOptions(enable_warp_specialization=False))
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


def test_a_promoted_kernel_that_makes_its_descriptors_itself_is_launched_by_us_all_the_same() -> None:
    """For the scratch memory that they take."""
    with launched_by_us():
        kernel = compile_case(find("grouped"), PlanOptions(only_if_faster=False))
    assert kernel.metadata.global_scratch_size and launch_spec(kernel) == LaunchSpec()
    assert kernel.has_own_launch


@pytest.mark.parametrize("to_a", [True, False])
def test_the_memory_of_an_added_descriptor_is_that_of_its_base(to_a: bool) -> None:
    text = "a_ptr=*fp16:16, b_ptr=*fp16:16, K=i32:16, sam=i32:16, sbk=i32:16"
    request = Request(PlanOptions(only_if_faster=False))
    found = compiled(True, in_place, text, request, TO_A=to_a).metadata.tawa
    assert not found["applied"]
    name = "a_ptr" if to_a else "b_ptr"
    assert f"tl.store writes through argument '{name}', which the load at" in found["reason"]


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


@pytest.mark.contract
@pytest.mark.parametrize("count", [0, 1])
def test_the_launcher_of_triton_is_made_for_descriptors_that_are_encoded(count: int) -> None:
    source = Extended(
        SimpleNamespace(signature={"x": "*fp16"}, constants={}), replace(SPEC, descriptors=SPEC.descriptors[:count])
    )
    added = ["nvTmaDesc", "i32", "i32", "i64", "i64"]
    assert list(source.signature.values()) == ["*fp16", *added[: 5 * count]]
    assert source.constants == {}


class OnPaper:
    """A driver whose launcher notes what it is made for, and what it gets; descriptors are what they are made of."""

    def __init__(self) -> None:
        self.signature: tuple[Any, ...] = ()
        self.descriptors = -1
        self.launched: list[tuple[Any, ...]] = []
        self.grids: list[tuple[Any, ...]] = []
        fill = lambda *about: ("map", *about)  # noqa: E731
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            load_binary=lambda *args: ("module", "function", 32, 0, 1024),
            fill_tma_descriptor=fill,
            fill_tma_descriptor_tiled=fill,
        )

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        self.signature = tuple(source.signature.values())
        self.descriptors = len(metadata.tensordesc_meta or ())

        def launch(*args: Any) -> None:
            self.grids.append(args[:3])
            self.launched.append(args[9:])

        return launch

    def get_current_device(self) -> int:
        return 0

    def get_current_target(self) -> Any:
        return gpu_target(SM_90)


@pytest.mark.contract
def test_triton_launches_what_is_encoded_already(driver: None) -> None:
    """Its launcher is made for a kernel without descriptors of the user's; Triton's own function encodes them, once."""
    from triton.runtime import driver as slot

    kernel, paper = compiled(True), OnPaper()
    own, about = tuple(kernel.src.signature.values()), kernel.metadata.tensordesc_meta
    slot.set_active(paper)
    a, b, c = (SimpleNamespace(data_ptr=lambda at=at: at) for at in (4096, 8192, 16384))
    arguments = (a, b, c, 100, 64, 80, 96, 64, 64, 64)
    for _ in range(2):
        kernel.run(132, 1, 1, 0, kernel.function, None, None, None, None, *arguments)
    assert (paper.signature, paper.descriptors) == (own + 2 * ("nvTmaDesc", "i32", "i32", "i64", "i64"), 0)
    assert tuple(kernel.src.signature.values()) == own and kernel.metadata.tensordesc_meta == about
    assert paper.launched[0] == paper.launched[1]
    assert paper.launched[0][:10] == arguments
    (a_map, *a_sizes), (b_map, *b_sizes) = paper.launched[0][10:15], paper.launched[0][15:]
    assert (a_map[:2], a_sizes) == (("map", 4096), [100, 80, 96, 1])
    assert (b_map[:2], b_sizes) == (("map", 8192), [80, 64, 64, 1])
    assert paper.launched[0][10] is paper.launched[1][10]
    kernel.module = None  # there is nothing to unload


@pytest.mark.contract
@pytest.mark.parametrize("installed", [True, False])
def test_what_is_only_compiled_is_no_kernel_of_a_launch(driver: None, installed: bool) -> None:
    """Nor the reverse: whoever takes the cubin of a `warmup` passes no added arguments."""
    from triton.runtime import driver as slot

    import tawa

    paper = OnPaper()
    paper.get_current_stream = lambda device: 0
    slot.set_active(paper)
    tensors = [SimpleNamespace(data_ptr=lambda at=at: at, dtype=tl.float16) for at in (4096, 8192, 16384)]
    arguments = {"grid": (2, 2), "B": 64, "num_warps": 4}
    options = {"enable_warp_specialization": True}
    kernel = triton.jit(matmul.fn) if installed else tawa.jit(matmul.fn, **options)
    with tawa.scope(**options) if installed else nullcontext():
        only = [kernel.warmup(*tensors, *6 * [128], **arguments)]
        launched = kernel[arguments["grid"]](*tensors, *6 * [128], B=64, num_warps=4)
        only.append(kernel.warmup(*tensors, *6 * [128], **arguments))
    assert only[0] is only[1] is not launched
    assert launch_spec(launched).descriptors and not launch_spec(only[0]).descriptors
    launched.module = None


def test_a_wrapper_around_ours_may_run_it_twice() -> None:
    kernel = compiled(True)
    kind = type(kernel)
    kernel.__init__(kernel.src, kernel.metadata_group, kernel.hash)
    assert type(kernel) is kind and kernel.has_own_launch


@pytest.mark.contract
def test_kernels_of_both_kinds_are_compiled_kernels_of_triton() -> None:
    ours, other = compiled(True), compiled(True, request=STOCK)
    assert all(isinstance(kernel, triton.compiler.CompiledKernel) for kernel in (ours, other))
    assert (ours.has_own_launch, other.has_own_launch) == (True, False)


def test_inductor_does_not_launch_the_cubin_of_a_kernel_with_added_arguments() -> None:
    """It notes the file in `_cubin_path`, and reads NotImplementedError as "not with a launcher of my own"."""
    ours, other = compiled(True), compiled(True, request=STOCK)
    assert not hasattr(other, "_cubin_path")
    for kernel in (ours, other):
        kernel._cubin_path = "kernel.cubin"
    assert other._cubin_path == "kernel.cubin"
    with pytest.raises(NotImplementedError):
        _ = ours._cubin_path


@pytest.mark.contract
@pytest.mark.parametrize("slow", ["launcher_cls", "load_binary"])
def test_first_launches_of_two_threads_wait_for_each_other(driver: None, slow: str) -> None:
    from triton.runtime import driver as slot

    kernel, paper = compiled(True), OnPaper()
    place = paper if slow == "launcher_cls" else paper.utils
    at_once = getattr(place, slow)

    def slowly(*args: Any) -> Any:
        time.sleep(0.1)
        made = at_once(*args)
        time.sleep(0.1)
        return made

    setattr(place, slow, slowly)
    slot.set_active(paper)
    own, about = tuple(kernel.src.signature.values()), kernel.metadata.tensordesc_meta
    tensors = (memory(at) for at in (4096, 8192, 16384))
    arguments = (*tensors, 100, 64, 80, 96, 64, 64, 64)

    def launch(delay: float) -> None:
        time.sleep(delay)
        kernel.run(132, 1, 1, 0, kernel.function, None, None, None, None, *arguments)

    threads = [threading.Thread(target=launch, args=(delay,)) for delay in (0.0, 0.05, 0.15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(launched) for launched in paper.launched] == 3 * [20]
    assert (tuple(kernel.src.signature.values()), kernel.metadata.tensordesc_meta) == (own, about)
    kernel.module = None


def other_form(search: Search, launch: Any, made: Mapping[Plan, Any], *more: object) -> Forecast:
    """Another form of the kernel is predicted to be the fastest, unless it cannot be made."""
    form = next(it for it in search.forms if not only_measured(it))
    plan = None if isinstance(made.get(form), str) else form
    return Forecast(plan, "", Expectation(2.0, 1.0, ErrorInfo(0.0, 0), ""))


@pytest.mark.parametrize("possible", [True, False, None])
def test_a_persistent_form_is_compiled_for_the_launch_that_needs_it(
    driver: None, monkeypatch: pytest.MonkeyPatch, possible: bool | None
) -> None:
    """Long after the compile, when Tawa may be detached; where it cannot be made, the kernel is launched as it was.

    possible: None: the compile breaks down.
    """
    from triton.runtime import driver as slot

    if possible is None:
        monkeypatch.setattr("tawa.bridge.launch.added_arguments._compiled_again", lambda kernel: 1 / 0)
    monkeypatch.setattr(Search, "choose", other_form)
    kernel, paper = compiled(True), OnPaper()
    if possible is False:
        refused = PersistentResult(False, (Remark("declined", "for this test"),))
        monkeypatch.setattr(MakePersistent, "run", lambda *_: refused)
    slot.set_active(paper)
    a, b, c = (SimpleNamespace(data_ptr=lambda at=at: at) for at in (4096, 8192, 16384))
    arguments = (a, b, c, 100, 64, 80, 96, 64, 64, 64)
    for _ in range(2):
        kernel.run(20, 10, 1, 0, kernel.function, None, None, None, None, *arguments)
    added = 3 if possible else 2  # the store goes by TMA, too, where another tile follows
    sizes = ("i32", "i32") if possible else ()
    assert paper.signature[9:] == ("constexpr", *added * ("nvTmaDesc", "i32", "i32", "i64", "i64"), *sizes)
    assert [launched[10 + 5 * added :] for launched in paper.launched] == 2 * [(20, 10) if possible else ()]
    assert paper.grids == 2 * [(132, 1, 1) if possible else (20, 10, 1)]
    others = [SimpleNamespace(data_ptr=lambda at=at: at) for at in (1 << 16, 1 << 17, 1 << 18)]
    for number, other in enumerate(others):  # each tensor elsewhere: nothing may be left of the launches before
        changed = (*arguments[:number], other, *arguments[number + 1 :])
        kernel.run(20, 10, 1, 0, kernel.function, None, None, None, None, *changed)
        maps = [paper.launched[-1][10 + 5 * at][1] for at in range(added)]
        assert maps == [it.data_ptr() for it in changed[:added]]
    kernel.module = None
    for made in kernel.run.by_plan.values():
        if not isinstance(made, str):
            made.module = None


def test_a_persistent_kernel_is_for_launches_of_our_own() -> None:
    asked = Request(PlanOptions(persistent=True))
    ours, other = compiled(True, request=asked), compiled(False, request=asked)
    assert launch_spec(ours).axes == 2
    assert not other.metadata.tawa["applied"]
    assert "no launcher passes the size of the grid to a kernel of this form" in other.metadata.tawa["reason"]


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
