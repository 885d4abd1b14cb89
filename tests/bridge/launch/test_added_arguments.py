"""Kernels with added descriptors: when arguments are added, what a launch passes, when the stock kernel is launched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel, hopper_target
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.added_arguments import (
    Extended,
    launch_is_ours,
    launch_spec,
    launched_by_us,
    wrap_do_compile,
    wrap_kernel_init,
)
from tawa.bridge.launch.launcher import Launcher, _all_different, _key_of
from tawa.bridge.report import record
from tawa.bridge.triton.signature import parse_signature
from tawa.machine.hopper import LEAST_CYCLES
from tawa.plan import PlanOptions
from tawa.remarks import Remark
from tawa.symbolic.host.expr import Apply, Argument, Condition, Number, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec
from tawa.transforms.ttir.make_persistent import MakePersistent, PersistentResult
from tests.cases.pointers.cases import find
from tests.matrix.compiling import compile_case

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


def test_a_raised_kernel_that_makes_its_descriptors_itself_is_launched_by_us_all_the_same() -> None:
    """For the scratch memory that they take."""
    with launched_by_us():
        kernel = compile_case(find("grouped"), PlanOptions(only_if_faster=False))
    assert kernel.metadata.global_scratch_size and launch_spec(kernel) == LaunchSpec()
    assert type(kernel).__name__ == "KernelWithArguments"


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
        source = SimpleNamespace(signature=types)
        super().__init__(name="kernel", hash="hash", src=source, metadata=metadata, function=7, packed_metadata=None)


def launcher(
    ours: Callable[..., None], stock: Callable[..., None] | None = None, spec: LaunchSpec = SPEC, **more: Any
) -> Launcher:
    """A launcher whose descriptors stay as they are. ours, stock: what is called with all arguments of a launch."""
    kernel = SimpleNamespace(run=stock, function=1, packed_metadata=None)
    return Launcher(Kernel(), ours, spec, lambda number, descriptor: [descriptor, number], lambda: kernel, **more)


def launched(*args: Any) -> list[Any]:
    made: list[Any] = []
    launch = launcher(lambda *all_of: made.extend(all_of[9:]), lambda *all_of: made.append(("stock", all_of[9:])))
    launch(1, 1, 1, 0, 7, None, None, None, None, *args)
    return made


TENSOR = SimpleNamespace(data_ptr=lambda: 4096)


def test_a_launch_passes_the_descriptor_behind_the_arguments() -> None:
    made = launched(TENSOR, 100, True, (48, None))
    assert made[:4] == [TENSOR, 100, True, (48, None)]
    descriptor, number = made[4:]
    assert number == 0
    assert descriptor.base.data_ptr() == 4096 + 16
    assert (descriptor.shape, descriptor.strides, descriptor.padding) == ([100, 48], [48, 1], "zero")


def test_a_launch_that_breaks_a_condition_takes_the_stock_kernel() -> None:
    assert launched(TENSOR, 100, True, (44, None)) == [("stock", (TENSOR, 100, True, (44, None)))]


def test_a_launch_whose_tensor_begins_nowhere_takes_the_stock_kernel() -> None:
    """As a kernel has that computes a place under a condition only: pointer + M // G, if G > 0."""
    made: list[str] = []
    divided = replace(SPEC.descriptors[0], offset=Apply("divide", (Argument(1), Argument(2))))
    spec = LaunchSpec((divided,), ())
    for groups in (0, 4):
        launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec)
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (groups, None))
    assert made == ["stock", "tawa"]


def memory(address: int) -> SimpleNamespace:
    return SimpleNamespace(data_ptr=lambda: address)


def view(of: int, at: int) -> SimpleNamespace:
    return SimpleNamespace(data_ptr=lambda: at, untyped_storage=lambda: memory(of))


ONE, OTHER = 1 << 40, 1 << 41


@pytest.mark.parametrize(
    ("arguments", "different"),
    [
        ((memory(ONE), memory(OTHER), 7, 7, None), True),
        ((memory(ONE), 3.0, memory(ONE)), False),
        ((memory(ONE), (7, (memory(ONE),))), False),
        ((view(ONE, ONE), view(ONE, ONE + 4096)), False),  # they may overlap
        ((view(ONE, ONE), view(OTHER, OTHER)), True),
        ((SimpleNamespace(base=view(ONE, ONE)), view(ONE, ONE)), False),  # a descriptor's tensor
        ((SimpleNamespace(base=view(ONE, ONE)), SimpleNamespace(base=view(OTHER, OTHER))), True),
        ((ONE, ONE), False),
    ],
)
def test_a_tensor_that_is_passed_twice_is_seen(arguments: tuple[Any, ...], different: bool) -> None:
    assert _all_different(arguments) is different


@pytest.mark.parametrize(
    ("grid", "rows", "stock"), [((4, 1, 1), 8, True), ((4, 2, 1), 8, False), ((1, 1, 1), 16, False)]
)
def test_a_launch_that_is_over_soon_takes_the_stock_kernel(grid: tuple[int, ...], rows: int, stock: bool) -> None:
    """Four SMs; each program takes a sixteenth of what is enough for every row."""
    made: list[str] = []
    spec = replace(
        SPEC, conditions=(), work=multiply(Argument(2), Number(LEAST_CYCLES // 16)), least_cycles=LEAST_CYCLES
    )
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4)
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (rows, None))
    assert made == 2 * ["stock" if stock else "tawa"]


@pytest.mark.parametrize(("programs", "stock"), [(4, False), (5, True)])
def test_a_kernel_that_pays_alone_is_stock_where_programs_share_an_sm(programs: int, stock: bool) -> None:
    made: list[str] = []
    spec = replace(SPEC, alone=True)
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4)
    launch(programs, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["stock" if stock else "tawa"]
    assert LaunchSpec.from_json(spec.to_json()) == spec


GRIDS = [((4, 1, 1), "single"), ((5, 1, 1), "persistent"), ((5, 2, 1), "single"), ((5, 1, 2), "single")]


@pytest.mark.parametrize(("grid", "wanted"), GRIDS)
def test_more_programs_than_sms_take_the_persistent_form(grid: tuple[int, int, int], wanted: str) -> None:
    """Four SMs. Not where the grid has an axis of which that form knows nothing."""
    made: list[Any] = []
    compiles: list[str] = []

    def compile_persistent() -> Any:
        compiles.append("once")
        run = launcher(
            lambda *all_of: made.append(("persistent", all_of[-1])), spec=replace(SPEC, axes=1), processors=4
        )
        return SimpleNamespace(run=run)

    spec = replace(SPEC, offered=1)
    launch = launcher(lambda *all_of: made.append(("single", all_of[:3])), spec=spec, processors=4,
                      compile_persistent=compile_persistent)  # fmt: skip
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == 2 * [(wanted, 5 if wanted == "persistent" else grid)]
    assert compiles == (["once"] if wanted == "persistent" else [])
    assert LaunchSpec.from_json(spec.to_json()) == spec


def test_a_persistent_form_is_not_compiled_while_launches_are_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    run = launcher(lambda *_: made.append("persistent"), spec=replace(SPEC, axes=1), processors=4)
    launch = launcher(lambda *_: made.append("single"), spec=replace(SPEC, offered=1), processors=4,
                      compile_persistent=lambda: SimpleNamespace(run=run))  # fmt: skip
    for captured in (True, True, False, True):
        monkeypatch.setattr("tawa.bridge.launch.launcher._capturing", lambda captured=captured: captured)
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single", "persistent", "persistent"]


def test_a_launch_that_is_captured_takes_the_stock_kernel_only_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    spec = replace(SPEC, conditions=(), work=Number(1), least_cycles=LEAST_CYCLES)
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4)
    for captured in (True, False, True):
        monkeypatch.setattr("tawa.bridge.launch.launcher._capturing", lambda captured=captured: captured)
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["tawa", "stock", "stock"]


def test_without_a_persistent_form_a_launch_is_as_it_was() -> None:
    made: list[Any] = []
    launch = launcher(lambda *_: made.append("single"), spec=replace(SPEC, offered=1), processors=4)
    for _ in range(2):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single"]


@pytest.mark.parametrize(
    ("grid", "programs"), [((3, 4, 1), 5), ((3, 1, 1), 3), ((3, 4, 2), None), ((1 << 20, 1 << 11, 1), None)]
)
def test_a_persistent_kernel_gets_the_size_of_its_grid(grid: tuple[int, int, int], programs: int | None) -> None:
    """Five SMs. The stock kernel where the grid has another axis, or more tiles than can be counted."""
    made: list[Any] = []
    spec = replace(SPEC, axes=2)
    launch = launcher(lambda *all_of: made.append((all_of[:3], all_of[-2:])), lambda *all_of: made.append(all_of[:3]),
                      spec, processors=5)  # fmt: skip
    launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == [grid if programs is None else ((programs, 1, 1), grid[:2])]
    assert LaunchSpec.from_json(spec.to_json()) == spec


def test_other_arguments_get_other_descriptors() -> None:
    made: list[Any] = []
    launch = launcher(lambda *all_of: made.append(all_of[-2].shape))
    for size in (100, 104, 100):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, size, True, (48, None))
    assert made == [[100, 48], [104, 48], [100, 48]]
    assert len(launch.known) == 2


def test_only_arguments_that_matter_are_compared() -> None:
    """M does not decide what is launched here, nor does an address in place of a tensor."""
    made: list[Any] = []
    spec = LaunchSpec((), (Condition(Argument(2), "rows are whole", multiple=8),))
    launch = launcher(lambda *all_of: made.append(all_of[9:]), spec=spec)
    for tensor, size in ((TENSOR, 100), (TENSOR, 104), (4096, 100)):
        launch(1, 1, 1, 0, 7, None, None, None, None, tensor, size, True, (48, None))
    assert made == [(TENSOR, 100, True, (48, None)), (TENSOR, 104, True, (48, None)), (4096, 100, True, (48, None))]
    assert len(launch.known) == 1


def test_pointers_are_told_apart_by_address() -> None:
    types = ("*fp16", "constexpr", "i32", "tensordesc<fp16[64,32]>", "*fp16")
    key_of = _key_of(types, frozenset({0, 1, 7}))
    arguments = (TENSOR, 1, 100, object(), SimpleNamespace(data_ptr=lambda: 8192))
    assert key_of(arguments) == key_of((4096, 2, 100, object(), 8192)) == [4096, 8192, 100]


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
        return hopper_target()


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
    wrap_kernel_init(lambda self: None, attached)(kernel)
    assert type(kernel) is kind


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
    alone = Request(PlanOptions(enable_warp_specialization=True, aref_depth=8))  # so that no other CTA fits beside it
    kernel, paper = compiled(True, request=alone), OnPaper()
    assert launch_spec(kernel).offered == 2 and not launch_spec(compiled(True)).offered
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
    if kernel.run.persistent is not None:
        kernel.run.persistent.module = None


def test_a_persistent_kernel_is_for_launches_of_our_own() -> None:
    asked = Request(PlanOptions(persistent=True))
    ours, other = compiled(True, request=asked), compiled(False, request=asked)
    assert launch_spec(ours).axes == 2 and not launch_spec(ours).offered
    assert not other.metadata.tawa["applied"]
    assert "nobody would tell a persistent kernel the size of its grid" in other.metadata.tawa["reason"]
    never = compiled(True, request=Request(PlanOptions(only_if_faster=False, persistent=False)))
    assert launch_spec(never).descriptors and not launch_spec(never).offered


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
