"""Tuners time stock Triton's configurations; the twins of the fastest few take part in later tunings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from triton import knobs

import tawa
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.first.background import Pool
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.first.tuners import Measurement, Tuning, measuring, wrap_bench
from tests.bridge import kernels
from tests.bridge.launch.first.conftest import MADE, FakeClock, function_of
from tests.bridge.launch.test_cost import DESCRIPTORS
from tests.bridge.launching import Launching

pytestmark = pytest.mark.usefixtures("without_ptx")

FIRST, SECOND, FAR = 1, 2, 3
"""The functions of the first process: stock Triton's kernels of three configurations, in the order of their list."""
AGAIN, AGAIN_TWIN, AGAIN_SECOND, SECOND_TWIN, AGAIN_FAR = 4, 5, 6, 7, 8
"""Those of the next process, whose tuner comes upon two twins."""
AS_BEFORE = {AGAIN: 1.0, AGAIN_TWIN: 1.05, AGAIN_SECOND: 1.1, AGAIN_FAR: 2.0}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tawa.bridge.launch.first import background

    monkeypatch.setattr(background, "_POOL", [Pool(1)])
    yield
    background.wait(60)


def tuned(clock: FakeClock, **options: Any) -> Any:
    """A kernel under Triton's tuner, as a process has it that has not launched it yet."""

    def bench(call: Callable[[], None], quantiles: Any) -> list[float]:
        call()
        begin = clock.now_ms
        call()
        return [clock.now_ms - begin] * 3

    configs = [triton.Config({}, num_warps=4, num_stages=stages) for stages in (2, 3, 4)]
    function = triton.jit(kernels.gemm_descriptors.fn)
    return triton.autotune(options.pop("configs", configs), ["K"], do_bench=bench, **options)(function)


def launch(function: Any, k: int = 64) -> Any:
    return function[(1,)](*DESCRIPTORS, k, BM=64, BN=64, BK=64)


@pytest.fixture
def cold(gpu: Launching, clock: FakeClock, installed: None) -> Any:
    """The kernel after its tuner has chosen the first configuration; the second is near, the third is not."""
    clock.times_ms = {FIRST: 1.0, SECOND: 1.1, FAR: 2.0}
    function = tuned(clock)
    launch(function)
    assert {function_of(it) for it in gpu.launched} == {FIRST, SECOND, FAR}, "stock's configurations"
    assert function.best_config.num_stages == 2
    tawa.wait()
    return function


def functions(gpu: Launching, since: int = 0) -> list[int]:
    return [function_of(it) for it in gpu.launched[since:]]


@pytest.mark.contract
def test_the_twins_of_the_fastest_few_are_made_after_the_tuning(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    assert MADE == [False, False]
    clock.times_ms[4] = 0.9
    tawa.warmup(lambda: launch(cold))
    launch(cold)
    assert set(functions(gpu, 7)) == {FIRST, 4}, "no launch is moved to another configuration"
    assert functions(gpu)[-1] == 4


def made_by(function: Any) -> list[Any]:
    return list(function.fn.device_caches[0][0].values())


@pytest.mark.contract
def test_a_twin_is_one_more_candidate_of_the_next_process(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    clock.times_ms |= {**AS_BEFORE, SECOND_TWIN: 0.8}
    function, before = tuned(clock), len(gpu.launched)
    launch(function)
    every = (AGAIN, AGAIN_TWIN, AGAIN_SECOND, SECOND_TWIN, AGAIN_FAR)
    assert functions(gpu, before) == [*(it for it in every for _ in range(2)), SECOND_TWIN]
    assert function.best_config.num_stages == 3
    tawa.wait()
    tawa.warmup(lambda: launch(function))
    assert set(functions(gpu, before + 11)) == {AGAIN_SECOND, SECOND_TWIN}, "launches decide in the end"
    assert functions(gpu)[-1] == SECOND_TWIN


def test_launches_learn_that_the_tuner_was_wrong(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    clock.times_ms |= {**AS_BEFORE, SECOND_TWIN: 0.8}
    launch(function := tuned(clock))
    clock.times_ms |= {SECOND_TWIN: 1.2}
    tawa.wait()
    tawa.warmup(lambda: launch(function))
    tawa.wait()
    launch(function)
    assert functions(gpu)[-1] == AGAIN_SECOND


def test_a_twin_that_is_not_faster_changes_nothing(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    clock.times_ms |= {**AS_BEFORE, AGAIN_TWIN: 0.99, SECOND_TWIN: 1.09}
    launch(function := tuned(clock))
    assert function.best_config.num_stages == 2 and functions(gpu)[-1] == AGAIN


@pytest.mark.contract
def test_hooks_of_a_tuner_run_before_each_launch(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    seen: list[int] = []
    configs = [
        triton.Config({}, num_warps=4, num_stages=stages, pre_hook=lambda about: seen.append(len(gpu.launched)))
        for stages in (2, 3, 4)
    ]
    before = len(gpu.launched)
    launch(tuned(clock, configs=configs))
    assert seen == list(range(before, len(gpu.launched))) and len(seen) == 11


@pytest.mark.contract
def test_a_twin_that_cannot_be_launched_is_left_out(
    gpu: Launching, cold: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = gpu.utils.launch

    def failing(*args: Any) -> None:
        if function_of(args) in (AGAIN_TWIN, SECOND_TWIN):
            raise RuntimeError("no resources")
        inner(*args)

    monkeypatch.setattr(gpu.utils, "launch", failing)
    monkeypatch.setattr(gpu, "launch", failing)
    clock.times_ms |= AS_BEFORE
    launch(function := tuned(clock))
    assert function.best_config.num_stages == 2 and functions(gpu)[-1] == AGAIN


@pytest.mark.contract
def test_the_kernel_of_a_measurement_does_not_change_within_it(gpu: Launching, cold: Any, clock: FakeClock) -> None:
    second = made_by(cold)[1]
    first = second._run
    assert isinstance(first, StockFirst) and first.task is not None and first.task.done
    task, first.task = first.task, None
    first.at_once, before = None, len(gpu.launched)
    about = (1, 1, 1, 0, SECOND, second.packed_metadata, None, None, None, *DESCRIPTORS, 64)
    with measuring() as launches:
        first(*about)
        first.task = task
        first(*about)
    assert functions(gpu, before) == [SECOND, SECOND] and not launches.undecided and not first.settled


def stored(folder: Path) -> list[Path]:
    return list(folder.rglob("*.autotune.json"))


def test_a_stored_choice_is_dropped_when_there_are_twins_that_it_did_not_know(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    folder = Path(knobs.cache.dir)
    clock.times_ms = {FIRST: 1.0, SECOND: 1.1, FAR: 2.0}
    launch(tuned(clock, cache_results=True))
    tawa.wait()
    assert not stored(folder)
    clock.times_ms |= {**AS_BEFORE, SECOND_TWIN: 0.8}
    launch(function := tuned(clock, cache_results=True))
    tawa.wait()
    assert function.best_config.num_stages == 3 and len(stored(folder)) == 1
    before = len(gpu.launched)
    launch(tuned(clock, cache_results=True))
    assert len(gpu.launched) == before + 1, "what is stored now knows the twins"


def test_without_new_twins_a_stored_choice_stays(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added_arguments, "other_rounding", lambda stock, form: "kernel.py:7")
    launch(tuned(clock, cache_results=True))
    tawa.wait()
    assert len(stored(Path(knobs.cache.dir))) == 1


class Kernel:
    """A kernel whose twin can be made."""

    def __init__(self) -> None:
        self.then: Callable[[bool], None] | None = None

    def begin(self, then: Callable[[bool], None]) -> bool:
        self.then = then
        return True


def test_a_bounded_number_of_twins_is_made_of_those_that_are_near() -> None:
    whole, every = Tuning(), [Kernel() for _ in range(5)]
    for number, kernel in enumerate(every):
        whole.add([kernel], 1.0 + 0.01 * number)
    whole.end()
    assert [it.then is not None for it in every] == [True] * 3 + [False] * 2
    near, far, whole = Kernel(), Kernel(), Tuning()
    whole.add([near], 1.0)
    whole.add([far], 1.26)
    whole.add([], 1.1)
    whole.end(fastest=0.99)
    assert near.then is not None and far.then is None
    none, whole = Kernel(), Tuning()
    whole.add([none], 1.0)
    whole.end(fastest=0.5)
    assert none.then is None, "something else is much faster"


@pytest.mark.parametrize("late", [False, True])
def test_what_is_stored_is_dropped_once_after_the_last_twin(late: bool) -> None:
    whole, kernels_, dropped = Tuning(), [Kernel(), Kernel()], list[str]()
    for it in kernels_:
        whole.add([it], 1.0)
    if not late:
        whole.is_stored(lambda: dropped.append("choice"))
    whole.end()
    for made, it in zip((True, False), kernels_, strict=True):
        assert it.then is not None and not dropped
        it.then(made)
    if late:
        whole.is_stored(lambda: dropped.append("choice"))
    assert dropped == ["choice"]


@pytest.mark.contract
@pytest.mark.parametrize("result", [1.0, [1.0, 1.0], (1.0, "a file"), None, math.inf])
def test_the_result_of_a_measurement_is_passed_on_whatever_it_is(result: Any) -> None:
    assert wrap_bench(lambda owner: result)(object()) is result


def test_a_twin_must_be_measured_to_be_clearly_faster() -> None:
    said: list[bool] = []
    for twin in (0.99, 0.9):
        launches = Measurement()
        launches.undecided["class"] = said.append
        launches.again(lambda twin=twin: twin, 1.0)
    assert said == [False, True]
