"""Configurations compared one by one: races and results that are far off are seen, and arguments stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from triton.runtime.autotuner import Autotuner  # noqa: E402

from bench.corpus import configurations  # noqa: E402
from bench.corpus.configurations import (  # noqa: E402
    Compared,
    begin_comparing,
    compare,
    stop_comparing,
    tensors_of,
    watch_tuners,
)
from tawa.bridge.launch.forecasts import Forecasts  # noqa: E402


def run_of(target: Any, tawa: Callable[[int], float], stock: Callable[[int], float] = lambda time: 1.0) -> Any:
    """A kernel that adds to `target` what a function of the number of the run says, in one mode or the other."""
    times = {"stock": 0, "tawa": 0}

    def run(mode: str) -> None:
        target[3] += (stock if mode == "stock" else tawa)(times[mode])
        times[mode] += 1

    return run


@pytest.mark.parametrize(
    ("tawa", "stock", "wrong"),
    [
        (lambda time: 1.0, lambda time: 1.0, ""),
        (lambda time: 1.001, lambda time: 1.0, ""),
        (lambda time: 1.0 + (time == 2) * 1e-3, lambda time: 1.0, "moves from run to run"),
        (lambda time: 1.0 + 1e-3 * time, lambda time: 1.0 + 1e-3 * time, ""),  # stock moves as well: atomics
        (lambda time: 1.1, lambda time: 1.0, "is far from stock Triton's"),
        (lambda time: float("nan"), lambda time: 1.0, "is far from stock Triton's"),
        (lambda time: float("nan"), lambda time: float("nan"), ""),
    ],
)
def test_what_moves_or_is_far_off_is_wrong(tawa: Any, stock: Any, wrong: str) -> None:
    target = torch.ones(8)
    found = compare("gemm", "BLOCK: 64", run_of(target, tawa, stock), [target])
    assert found is not None and (wrong in found.wrong() if wrong else found.wrong() == "")
    assert target.tolist() == [1.0] * 8


def test_large_arguments_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurations, "MOST_BYTES", 31)
    target = torch.ones(8)
    assert compare("gemm", "", run_of(target, lambda time: 1.0), [target]) is None


def test_tensors_are_found_behind_descriptors_and_repeated_ones_left_out() -> None:
    class Descriptor:
        base = torch.ones(4)

    plain, repeated = torch.ones(3), torch.ones(1, 2).expand(5, 2)
    found = tensors_of({"a": plain, "b": Descriptor(), "c": repeated, "n": 7, "none": None, "empty": torch.ones(0)})
    assert [it.data_ptr() for it in found] == [plain.data_ptr(), Descriptor.base.data_ptr()]


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An autotuner of a function that multiplies under stock, and does not under Tawa with the second configuration."""
    mode = ["tawa"]
    monkeypatch.setattr(Autotuner, "_bench", Autotuner._bench)
    monkeypatch.setattr(Autotuner, "do_bench", lambda self, launch, quantiles: launch() or [1.0] * 3, raising=False)
    watch_tuners(lambda name: mode.__setitem__(0, name), lambda: mode[0])

    class Kernel:
        def __init__(self, applied: bool) -> None:
            self.metadata = type("Metadata", (), {"tawa": {"applied": applied}})

    class Function:
        __name__ = "scale"

        def run(self, x: Any, BLOCK: int, **options: Any) -> Kernel:
            x *= 2 if mode[0] == "stock" or BLOCK != 2 else 3
            return Kernel(mode[0] == "tawa" and BLOCK < 3)

    made = object.__new__(Autotuner)
    made.fn = made.base_fn = Function()
    made.pre_hook = made.post_hook = lambda *args, **kwargs: None
    yield made
    stop_comparing()
    assert mode == ["tawa"]


def test_meanwhile_every_launch_gets_the_kernel_that_was_compiled() -> None:
    usual: Any = Forecasts.choose
    begin_comparing()
    assert Forecasts.choose(SimpleNamespace(), (), ()) is None  # type: ignore[arg-type]
    stop_comparing()
    assert Forecasts.choose is usual


def test_each_configuration_that_is_specialised_is_compared(tuner: Any) -> None:
    import triton

    x = torch.ones(4)
    tuner.nargs = {"x": x}
    found = begin_comparing()
    for block in (1, 2, 3):
        tuner._bench(x, config=triton.Config({"BLOCK": block}))
    assert [(it.kernel, it.config.split(",")[0], bool(it.wrong())) for it in found] == [
        ("scale", "BLOCK: 1", False),
        ("scale", "BLOCK: 2", True),
    ]
    assert x.tolist() == [12.0] * 4  # once each, as if nothing had been compared
    assert isinstance(tuner.fn, type(tuner.base_fn)) and isinstance(found[0], Compared)
    stop_comparing()
    tuner._bench(x, config=triton.Config({"BLOCK": 2}))
    assert len(found) == 2
