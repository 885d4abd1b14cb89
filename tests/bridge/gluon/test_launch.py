"""`launch` of an emitted file: what the driver gets is what it gets from `tawa.jit` for the same call."""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("triton.experimental.gluon")

import tawa
from tawa.bridge.gluon.emit import emit_gluon, load_emitted
from tawa.bridge.launch import launcher
from tawa.plan import LoopPlan, Plan
from tests.bridge.launching import Launching
from tests.cases import case as kinds
from tests.cases.attention.builders import forward_case
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.cases import find as find_pointers
from tests.support.sample import sample

pytestmark = pytest.mark.usefixtures("without_ptx")

FORMS: dict[str, tuple[Specimen, dict[str, Any]]] = {
    "descriptors of pointers": (find_pointers("tutorial_fp16_nn"), {}),
    "an offset": (find_pointers("shifted_base_16"), {}),
    "sizes without a bound": (find_pointers("batched_nn"), {}),
    "descriptors of the user's": (find_gemm("tile_8warps_nn"), {}),
    "persistent programs": (find_gemm("tile_fp16_nn"), {"plan": Plan(form="persistent")}),
    "a counter of tiles": (find_gemm("tile_fp16_nn"), {"plan": Plan(form="persistent", tiles="dynamic")}),
    "programs that share a tile": (find_gemm("tile_fp16_nn"), {"plan": Plan(split_k=2), "precision": "relaxed"}),
    "programs that share a CTA": (
        forward_case("small", dtype="bf16", causal=True, tile=(64, 128, 4), dim=64, SQ=192, SK=256),
        {"plan": Plan(groups=2, split="programs", loops=(LoopPlan(kept=()),))},
    ),
}
COUNTER, WORKSPACE, SEMAPHORES = 1 << 40, 1 << 41, 1 << 42


class Element:
    """As much of a PyTorch type as a launch looks at."""

    def __init__(self, name: str) -> None:
        self.name, self.is_floating_point = name, "fp" in name or "bf" in name
        self.itemsize = {"fp16": 2, "bf16": 2, "fp32": 4, "i32": 4, "i64": 8}.get(name, 1)

    def __str__(self) -> str:
        return self.name


@functools.cache
def element_of(name: str) -> Element:
    """One object for each type, as in PyTorch: Triton remembers types by their addresses."""
    return Element(name)


def tensor(address: int, element: str) -> Any:
    return SimpleNamespace(data_ptr=lambda: address, dtype=element_of(element), device="cuda:0")


def arguments_of(case: Specimen) -> dict[str, Any]:
    """The arguments of a launch; tensors are addresses, 1 MiB from each other."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    found: dict[str, Any] = {}
    for number, (name, argument) in enumerate(case.arguments.items(), start=1):
        match argument:
            case kinds.Pointer(it):
                found[name] = tensor(number << 20, case.tensors[it].dtype)
            case kinds.Descriptor(it, block, _, _):
                shape = case.shape(it)
                strides = [1]
                for size in reversed(shape[1:]):
                    strides.insert(0, strides[0] * size)
                base = tensor(number << 20, case.tensors[it].dtype)
                found[name] = TensorDescriptor(base, list(shape), strides, [case.size(dim) for dim in block])
            case kinds.Number(value):
                found[name] = value if isinstance(value, float) else case.size(value)
            case kinds.One():
                found[name] = 1
            case kinds.Absent():
                found[name] = None
    return {**found, **case.constexprs}


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In place of PyTorch: memory for what the kernel needs, and an H100."""
    properties = SimpleNamespace(multi_processor_count=132)
    made = SimpleNamespace(
        float32="float32", int32="int32", cuda=SimpleNamespace(get_device_properties=lambda device: properties),
        sizes={},
    )  # fmt: skip

    def allocate(kind: str, size: int, dtype: str, device: str) -> Any:
        address = {"zeros1": COUNTER, "empty": WORKSPACE}.get(f"{kind}{size}" if size == 1 else kind, SEMAPHORES)
        made.sizes[address] = (size, dtype, device)
        return tensor(address, "i32" if dtype == "int32" else "fp32")

    made.zeros, made.empty = functools.partial(allocate, "zeros"), functools.partial(allocate, "empty")
    made.seen = patch.dict(sys.modules, torch=made)  # by the emitted file; Tawa would look for a GPU in it
    monkeypatch.setattr(launcher, "process_counters", lambda: SimpleNamespace(address=lambda stream: COUNTER))
    workspaces = SimpleNamespace(addresses=lambda stream, bytes, tiles: (WORKSPACE, SEMAPHORES))
    monkeypatch.setattr(launcher, "process_workspaces", lambda: workspaces)
    return made


def plain(value: Any) -> Any:
    return value.data_ptr() if hasattr(value, "data_ptr") else value


def driver_got(gpu: Launching) -> tuple[Any, list[Any]]:
    """The grid of the only launch, and all numbers, addresses and encoded descriptors that it passed."""
    (call,) = gpu.launched
    gpu.launched.clear()
    behind = list(call[-1]) if isinstance(call[-1], tuple | list) and len(call[-1]) > 8 else list(call[9:])
    return call[:3], [it for it in map(plain, behind) if isinstance(it, int | float | tuple)]


def is_part(part: list[Any], whole: list[Any]) -> bool:
    """Whether the elements of `part` are in `whole`, in this order."""
    left = iter(whole)
    return all(any(it == other for other in left) for it in part)


@pytest.mark.parametrize("name", sample(FORMS, 4))
def test_a_launch_passes_what_tawa_passes(name: str, gpu: Launching, torch: Any) -> None:
    case, options = FORMS[name]
    given, grid = arguments_of(case), case.launch_grid()
    compiled = tawa.jit(case.kernel)[grid](**given, **case.options(), **{"only_if_faster": False, **options})
    wanted_grid, wanted = driver_got(gpu)
    file = load_emitted(emit_gluon(compiled))
    with torch.seen:
        file["launch"](lambda meta: case.launch_grid() if meta["BM"] else (), **given, fallback=None)
    found_grid, found = driver_got(gpu)
    assert found_grid == wanted_grid
    assert [it for it in found if isinstance(it, tuple)] == [it for it in wanted if isinstance(it, tuple)]
    assert is_part(found, wanted)


def test_the_memory_of_a_launch_is_as_large_as_that_of_tawa(gpu: Launching, torch: Any) -> None:
    case, options = FORMS["programs that share a tile"]
    given, (tiles,) = arguments_of(case), case.launch_grid()
    compiled = tawa.jit(case.kernel)[(tiles,)](**given, **case.options(), only_if_faster=False, **options)
    shared = compiled.run.spec.shared
    file = load_emitted(emit_gluon(compiled))
    with torch.seen:
        file["launch"]((tiles,), **given)
    assert torch.sizes[WORKSPACE] == (shared.workspace_bytes((tiles,)) // 4, "float32", "cuda:0")
    assert torch.sizes[SEMAPHORES] == (tiles, "int32", "cuda:0")


UNFIT = {
    "rows that TMA does not read": ({"stride_am": 0}, "TMA limits strides: stride_am >= 1"),
    "rows that are not aligned": ({"stride_am": 337}, "stride_am is not divisible by 16"),
    "no rows": ({"M": 0}, "TMA limits sizes: 1 <= M"),
    "another tile": ({"BM": 64}, "BM is 64, and the kernel was made for 128"),
    "columns that are not next to each other": ({"stride_ak": 2}, "stride_ak is 2, and the kernel was made for 1"),
    "other elements": ({"a_ptr": tensor(1 << 20, "bf16")}, "a_ptr has elements of bf16"),
    "a size of 64 bits": ({"M": 1 << 31}, "M is 2147483648, and the kernel was made for numbers of 32 bits"),
}


@pytest.fixture(scope="module")
def file() -> dict[str, Any]:
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tests.cases.compiled import compile_case

    case = find_pointers("tutorial_fp16_nn")
    with launched_by_us():
        return load_emitted(emit_gluon(compile_case(case, only_if_faster=False)))


@pytest.mark.parametrize("name", UNFIT)
def test_a_launch_that_the_kernel_was_not_made_for_gets_the_fallback(name: str, file: dict[str, Any]) -> None:
    changed, reason = UNFIT[name]
    given = {**arguments_of(find_pointers("tutorial_fp16_nn")), **changed}
    with pytest.raises(ValueError, match=reason):
        file["launch"]((20,), **given)
    launched: list[Any] = []
    original = {(20,): lambda *args, **kwargs: launched.append((args, kwargs))}
    file["launch"]((20,), **given, num_warps=4, fallback=original)
    assert launched == [((), {**given, "num_warps": 4})]


def test_a_size_of_1_is_no_constant_of_the_emitted_kernel(gpu: Launching) -> None:
    """Triton makes a constant of it otherwise, which has no methods of numbers."""
    case = find_pointers("tutorial_fp16_nn")
    given, grid = arguments_of(case), case.launch_grid()
    compiled = tawa.jit(case.kernel)[grid](**given, **case.options(), only_if_faster=False)
    file = load_emitted(emit_gluon(compiled))
    gpu.launched.clear()
    file["launch"](grid, **{**given, "M": 1})
    assert 1 in driver_got(gpu)[1]


def test_a_grid_that_a_persistent_form_does_not_cover_gets_the_fallback(gpu: Launching) -> None:
    case, options = FORMS["persistent programs"]
    given, grid = arguments_of(case), case.launch_grid()
    compiled = tawa.jit(case.kernel)[grid](**given, **case.options(), only_if_faster=False, **options)
    with pytest.raises(ValueError, match="the grid has more sizes than the persistent kernel takes"):
        load_emitted(emit_gluon(compiled))["launch"]((4, 2), **given)
