"""Launches like earlier ones: when Triton is not asked again, and when it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.runtime.jit import JITFunction

import tawa
from tawa.plan import Plan
from tests.bridge import fakes, kernels
from tests.bridge.launching import Launching

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("without_ptx")]

SCALE = tl.constexpr(3)
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


def tensor(address: int = 4096) -> Any:
    return SimpleNamespace(data_ptr=partial(int, address), dtype=tl.float32)


@pytest.fixture
def kernel(gpu: Launching) -> Any:
    return tawa.jit(triton.jit(kernels.store_number.fn))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions for which Triton's `run` was called."""
    found: list[str] = []
    original: Any = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(self.__name__)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(JITFunction, "run", run)
    return found


def test_a_launch_like_an_earlier_one_does_not_ask_triton(gpu: Launching, kernel: Any, asked: list[str]) -> None:
    made = [kernel[(4,)](tensor(at), n) for at, n in ((4096, 3), (8192, 3), (4096, 5))]
    assert len(asked) == 1 and len(gpu.launched) == 3
    assert all(it is made[0] is kernel.last_kernel for it in made)


def test_another_type_or_alignment_asks_triton(kernel: Any, asked: list[str]) -> None:
    made = [
        kernel[(4,)](*arguments) for arguments in ((tensor(), 3), (tensor(8), 3), (tensor(), 1), (tensor(), 1 << 40))
    ]
    assert len(set(map(id, made))) == len(asked) == 4


@pytest.mark.parametrize(
    ("grid", "wanted"), [((5,), (5, 1, 1)), ((5, 2), (5, 2, 1)), (lambda about: (about["n"], 1, 7), (3, 1, 7))]
)
def test_the_grid_may_have_one_to_three_axes_or_be_a_function(
    gpu: Launching, kernel: Any, grid: Any, wanted: tuple[int, ...]
) -> None:
    for _ in range(2):
        kernel[grid](tensor(), 3)
    assert [it[:3] for it in gpu.launched] == 2 * [wanted]


def test_each_set_of_options_has_its_own_kernel(pipeline_is: Any, gpu: Launching) -> None:
    pipeline_is(fakes.untouched)
    gemm = tawa.jit(triton.jit(kernels.gemm_pointers.fn))

    def depth(**options: Any) -> int:
        compiled = gemm[(1,)](*map(tensor, (4096, 8192, 16384)), 64, **BLOCKS, **options)
        return compiled.metadata.tawa["plan"]["rings"][0]["depth"]

    plan: dict[str, Any] = {"rings": [{"name": "r0", "depth": 5}]}
    for _ in range(2):
        assert [depth(aref_depth=1), depth(), depth(plan=plan)] == [1, 2, 5]
        assert depth(plan=Plan.of(fakes.plan_of(6).to_json())) == 6  # another Plan each time, though an equal one
        with tawa.scope(aref_depth=4):
            assert [depth(), depth(aref_depth=1)] == [4, 1]
    plan["rings"][0]["depth"] = 7
    assert depth(plan=plan) == 7
    with pytest.raises(tawa.PlanError, match="aref_depth=True"):
        depth(aref_depth=True)  # equal to 1, which is known


def test_a_changed_global_is_an_error_of_tritons(gpu: Launching, monkeypatch: pytest.MonkeyPatch) -> None:
    @tawa.jit
    @triton.jit
    def scaled(out, n):
        tl.store(out, n * SCALE)

    for _ in range(2):
        scaled[(1,)](tensor(), 3)
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(4))
    with pytest.raises(RuntimeError, match="SCALE has changed"):
        scaled[(1,)](tensor(), 3)


def test_a_kernel_that_triton_forgot_is_asked_for(kernel: Any, asked: list[str]) -> None:
    first = kernel[(4,)](tensor(), 3)
    kernel.device_caches[0][0].clear()
    second = kernel[(4,)](tensor(), 3)
    kernel.device_caches.clear()
    third = kernel[(4,)](tensor(), 3)
    assert len({id(first), id(second), id(third)}) == len(asked) == 3


def test_a_setting_of_tritons_that_changes_asks_triton(kernel: Any, asked: list[str]) -> None:
    kernel[(4,)](tensor(), 3)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        kernel[(4,)](tensor(), 3)
    kernel[(4,)](tensor(), 3)
    assert len(asked) == 2


def test_hooks_of_a_launch_are_handed_on_when_there_are_any(gpu: Launching, kernel: Any) -> None:
    hooks: Any = knobs.runtime.launch_enter_hook
    note = lambda about: None  # noqa: E731
    handed = lambda: [hooks in launched for launched in gpu.launched]  # noqa: E731
    for wanted in ([True], [True, False]):  # Triton's own `run` hands the empty chain on
        kernel[(4,)](tensor(), 3)
        assert handed() == wanted
    hooks.add(note)
    try:
        kernel[(4,)](tensor(), 3)
        launched = gpu.launched[-1]
        about = next(it for it in launched if type(it).__name__ == "LazyDict")
        assert handed()[-1] and about.get()["name"] == "store_number"
    finally:
        hooks.remove(note)


def test_a_hook_before_each_run_sees_every_launch(kernel: Any) -> None:
    seen: list[int] = []
    kernel[(4,)](tensor(), 3)
    kernel.add_pre_run_hook(lambda out, n, **_: seen.append(n))
    for n in (3, 5):
        kernel[(4,)](tensor(), n)
    assert seen == [3, 5]


CHANGES: dict[str, Callable[[Any], None]] = {
    "a hook": lambda kernel: kernel.add_pre_run_hook(lambda *_, **__: None),
    "no such kernel": lambda kernel: kernel.device_caches.clear(),
    "another setting": lambda kernel: setattr(kernel, "debug", True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_prepared_launch_is_made_while_all_is_as_it_was(gpu: Launching, kernel: Any, change: Any) -> None:
    assert kernel.prepared((tensor(), 3), {}, [None]) is None
    kernel[(4,)](tensor(), 3)
    prepared = kernel.prepared((tensor(), 3), {}, [None])
    assert prepared((6,), (tensor(1 << 20),))
    assert gpu.launched[-1][:3] == (6, 1, 1) and "3" in str(gpu.launched[-1][-2:])
    with tawa.scope():
        assert not prepared((6,), (tensor(),))
    change(kernel)
    assert not prepared((6,), (tensor(),))
    assert len(gpu.launched) == 2


def test_a_prepared_launch_passes_addresses_and_hands_tensors_to_hooks(gpu: Launching, kernel: Any) -> None:
    kernel[(4,)](tensor(), 3)
    prepared, other = kernel.prepared((tensor(), 3), {}, [None]), tensor(1 << 20)
    hooks: Any = knobs.runtime.launch_enter_hook
    note = lambda about: None  # noqa: E731

    def passed() -> tuple[Any, ...]:
        assert prepared((6,), (other,))
        launched = gpu.launched[-1]
        return launched[-1] if isinstance(launched[-1], tuple) else launched  # since Triton 3.7

    assert 1 << 20 in passed() and other not in passed()
    hooks.add(note)
    try:
        assert other in passed()
    finally:
        hooks.remove(note)
