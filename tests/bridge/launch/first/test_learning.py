"""Real launches decide between stock Triton's kernel and its other forms, and what they learned stays."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.bridge.launch import added_arguments, launcher
from tawa.bridge.launch.first.background import Task, submit
from tawa.bridge.launch.first.elsewhere import WorkerLost
from tawa.bridge.launch.first.learning import _MOST_IDLE, learning
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.first.tuners import measuring
from tawa.bridge.launch.launcher import Launcher
from tawa.plan import Plan
from tawa.runtime.tuning.store import user_store
from tawa.runtime.tuning.table import Entry
from tests.bridge import kernels
from tests.bridge.launch.first.conftest import GPU, MADE, FakeClock, function_of
from tests.bridge.launch.test_cost import DESCRIPTORS, described_product, tensor
from tests.bridge.launching import Launching, in_threads
from tests.cases.gemm.declined import single_dot
from tests.cases.small.row_kernels import decayed, scored, summed

pytestmark = pytest.mark.usefixtures("without_ptx")

STOCK, OWN = 1, 2
"""The functions of stock Triton's kernel and of the first specialised one, in the order in which they are loaded."""
FORMS = 3
"""Of the kernel with small tiles where a persistent one makes a difference: as written, persistent with one program for
each SM, and with several."""


def gemm() -> Any:
    return triton.jit(kernels.gemm_descriptors.fn)


def launcher_of(kernel: Any) -> Launcher:
    assert isinstance(kernel._run, Launcher)
    return kernel._run


def learned(function: Any) -> Any:
    """The kernel, after its launches have learned."""
    tawa.warmup(lambda: described_product(function))
    tawa.wait()  # until it is stored
    return described_product(function)


def launch_in(programs: int, function: Any) -> Any:
    """A launch of so many programs that a persistent form makes a difference."""
    return function[(programs,)](*DESCRIPTORS, 64, BM=64, BN=64, BK=64, num_warps=4)


def learned_in(programs: int, function: Any) -> None:
    tawa.warmup(lambda: launch_in(programs, function))
    tawa.wait()
    launch_in(programs, function)


def entries() -> tuple[Entry, ...]:
    tawa.wait()
    return user_store().all()


def last(gpu: Launching) -> int:
    return function_of(gpu.launched[-1])


@pytest.mark.contract
@pytest.mark.parametrize("faster", [True, False])
def test_the_faster_one_is_launched_in_the_end(faster: bool, gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.8 if faster else 1.05}
    learned(gemm())
    assert last(gpu) == (OWN if faster else STOCK)
    (entry,) = entries()
    assert entry.learned and entry.gpu == GPU and entry.shape_class == "K <= 64, 1 program"
    assert (entry.plan.form == "stock") is not faster
    times = {it.words: it.median_us for it in entry.times}
    assert (
        times["stock Triton"] == pytest.approx(1000.0) and pytest.approx(min(times.values())) == 800.0
    ) or not faster
    assert all("launches" in it.note for it in entry.times)


def test_no_launch_is_repeated_and_each_gets_one_kernel(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.9}
    function, count = gemm(), 0
    for _ in range(200):
        described_product(function)
        count += 1
        tawa.wait()
    assert len(gpu.launched) == count and last(gpu) == OWN


def test_a_clearly_slower_form_is_launched_three_times(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 3.0}
    learned(gemm())
    assert [function_of(it) for it in gpu.launched].count(OWN) == 3 and last(gpu) == STOCK


def test_times_that_arrive_late_are_read_late(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.8}, gemm()
    described_product(function)
    tawa.wait()
    clock.late = 1 << 30
    for _ in range(50):
        described_product(function)
        tawa.wait()
    assert [function_of(it) for it in gpu.launched].count(OWN) == 3, "until it is known whether it is clearly slower"
    clock.late = 0
    learned(function)
    assert last(gpu) == OWN and clock.marks == 0


def test_a_launch_that_the_gpu_waits_for_says_nothing(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, clock.idle, function = {STOCK: 1.0, OWN: 0.5}, True, gemm()
    described_product(function)
    tawa.wait()
    for _ in range(_MOST_IDLE + 10):
        described_product(function)
    assert {function_of(it) for it in gpu.launched} == {STOCK} and not entries()
    marks = clock.marks
    described_product(function)
    assert clock.marks == marks == 0, "it has given up"


@pytest.mark.contract
def test_a_form_that_rounds_otherwise_takes_no_part(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added_arguments, "other_rounding", lambda stock, form: "kernel.py:7")
    clock.times_ms = {STOCK: 1.0, OWN: 0.5, OWN + 1: 0.5}
    learned_in(512, gemm())
    assert {function_of(it) for it in gpu.launched} == {STOCK}
    (entry,) = entries()
    assert entry.plan.form == "stock"


@pytest.mark.contract
def test_a_capture_gets_the_champion_untimed(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, function, capturing = {STOCK: 1.0, OWN: 0.8}, gemm(), [False]
    made = described_product(function)
    tawa.wait()
    described_product(function)
    launcher = launcher_of(made)
    launcher.host = replace(launcher.host, capturing=lambda: capturing[0])
    tawa.wait()
    described_product(function)
    capturing[0], marks = True, clock.marks
    for _ in range(5):
        described_product(function)
        assert last(gpu) == STOCK and clock.marks == marks
    capturing[0] = False
    learned(function)
    assert last(gpu) == OWN


def test_the_next_process_begins_with_what_was_learned(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.8}
    learned(gemm())
    before = len(gpu.launched)
    made = described_product(gemm())
    assert not isinstance(made._run, StockFirst) and launcher_of(made).kernel.metadata.tawa["applied"]
    assert len(gpu.launched) == before + 1 and last(gpu) == 4, "the second process loads stock's, and its own"
    assert tawa.wait(0.0), "nothing is compiled"
    described_product(gemm())
    assert clock.marks == 0


@pytest.mark.contract
@pytest.mark.parametrize("winner", [OWN, OWN + 1])
def test_the_next_process_compiles_nothing_again(
    winner: int, gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.9, OWN + 1: 0.95, winner: 0.5}
    learned_in(512, gemm())
    assert last(gpu) == winner and not any(MADE) and len(MADE) == FORMS
    MADE.clear()
    function = gemm()
    for _ in range(2):
        launch_in(512, function)
        tawa.wait()
    assert all(MADE) and last(gpu) > STOCK + FORMS


@pytest.mark.contract
@pytest.mark.parametrize("winner", [OWN, OWN + 1])
def test_a_tuner_of_the_next_process_measures_what_was_learned(
    winner: int, gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.9, OWN + 1: 0.95, winner: 0.5}
    learned_in(512, gemm())
    before, function = len(gpu.launched), gemm()
    with measuring() as launches:
        for _ in range(3):
            launch_in(512, function)
    assert len({function_of(it) for it in gpu.launched[before:]}) == 1 and last(gpu) > OWN + 2
    assert not launches.undecided and tawa.wait(0.0)


def test_the_next_process_begins_with_another_form_that_was_learned(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.9, OWN + 1: 0.5}
    learned_in(512, gemm())
    assert last(gpu) == OWN + 1
    MADE.clear()
    launch_in(512, gemm())
    assert last(gpu) == STOCK + FORMS + OWN + 1 and all(MADE), (
        "it loads stock's, its own and the fastest, from the cache"
    )
    assert tawa.wait(0.0), "nothing is compiled"


def test_a_form_that_lost_is_not_tried_again(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 1.05, 3: 1.0}
    learned(gemm())
    made = described_product(function := gemm())
    tawa.wait()
    for _ in range(20):
        described_product(function)
    assert {function_of(it) for it in gpu.launched[-20:]} == {3} and clock.marks == 0
    assert launcher_of(made).choices is not None


def test_what_a_user_measured_outranks_what_was_learned(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.8}
    learned(gemm())
    (entry,) = entries()
    user_store().put([replace(entry, plan=Plan(form="stock"), words="stock Triton", learned=False, date="2000-01-01")])
    (kept,) = entries()
    assert not kept.learned and kept.plan.form == "stock"
    assert user_store().put([entry]) == 0, "a learned entry never takes the place of a measured one"
    described_product(gemm())
    assert last(gpu) == 3


def test_the_report_tells_what_is_being_learned(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.99}, gemm()
    described_product(function)
    tawa.wait()
    for _ in range(12):
        described_product(function)
        tawa.wait()
    told = str(tawa.report())
    assert "learning: K <= 64, 1 program: stock Triton" in told and "so far" in told


@pytest.mark.contract
def test_several_threads_learn_together(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.8}, gemm()
    described_product(function)
    tawa.wait()

    def launch() -> None:
        for _ in range(60):
            described_product(function)

    in_threads(4, launch)
    tawa.wait()
    learned(function)
    assert len(entries()) == 1


def test_a_launch_that_overlaps_the_next_one_is_not_timed(gpu: Launching, clock: FakeClock, installed: None) -> None:
    function = gemm()
    for _ in range(20):
        function[(1,)](*DESCRIPTORS, 64, BM=64, BN=64, BK=64, num_warps=4, launch_pdl=True)
        tawa.wait()
    assert clock.marks == 0 and not entries()


@pytest.mark.contract
def test_a_tuner_measures_one_kernel_and_starts_nothing(gpu: Launching, clock: FakeClock, installed: None) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.9}, gemm()
    described_product(function)
    tawa.wait()
    for _ in range(3):
        described_product(function)
        tawa.wait()
    before, marks = len(gpu.launched), clock.marks
    with measuring():
        for _ in range(50):
            described_product(function)
            launch_in(512, function)
    assert {function_of(it) for it in gpu.launched[before:]} == {STOCK}
    assert clock.marks == marks and tawa.wait(0.0)
    learned(function)
    assert last(gpu) == OWN


@pytest.mark.contract
def test_a_form_that_cannot_be_launched_is_no_error_of_a_launch(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.times_ms, function, launch = {STOCK: 1.0, OWN: 0.5}, gemm(), gpu.utils.launch

    def failing(*args: Any) -> None:
        if function_of(args) == OWN:
            raise RuntimeError("no resources")
        launch(*args)

    monkeypatch.setattr(gpu.utils, "launch", failing)
    monkeypatch.setattr(gpu, "launch", failing)
    tawa.warmup(lambda: described_product(function))
    assert last(gpu) == STOCK and clock.marks == 0
    (entry,) = entries()
    assert entry.plan.form == "stock"


def test_an_error_of_the_champion_is_one_of_the_launch(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.times_ms, function, launch, fails = {STOCK: 1.0, OWN: 0.9}, gemm(), gpu.utils.launch, [False]

    def failing(*args: Any) -> None:
        if fails[0]:
            raise RuntimeError("out of memory")
        launch(*args)

    monkeypatch.setattr(gpu.utils, "launch", failing)
    monkeypatch.setattr(gpu, "launch", failing)
    described_product(function)
    tawa.wait()
    for number in range(60):
        fails[0] = number % 7 == 3
        if fails[0]:
            with pytest.raises(RuntimeError, match="out of memory"):
                described_product(function)
        else:
            described_product(function)
        tawa.wait()
    fails[0] = False
    learned(function)
    assert len(entries()) == 1 and clock.marks == 0


def test_a_worker_that_was_lost_settles_nothing(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        raise WorkerLost("the worker ended with status -9")

    monkeypatch.setattr(added_arguments, "compiled_by_plan", lost)
    clock.times_ms = {STOCK: 1.0, OWN: 1.1}
    learned_in(512, gemm())
    assert last(gpu) == STOCK and not entries(), "the next process tries again"


@pytest.mark.parametrize("apart", ["launch_pdl", "no clock"])
def test_a_kernel_that_rounds_otherwise_is_never_launched(
    apart: str, gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added_arguments, "other_rounding", lambda stock, form: "kernel.py:7")
    more: dict[str, Any] = {"launch_pdl": True} if apart == "launch_pdl" else {}
    if not more:
        monkeypatch.setattr("tawa.bridge.launch.launcher.event_clock", lambda: None)
    function = gemm()
    for _ in range(6):
        function[(1,)](*DESCRIPTORS, 64, BM=64, BN=64, BK=64, num_warps=4, **more)
        tawa.wait()
    assert {function_of(it) for it in gpu.launched} == {STOCK}


@pytest.mark.contract
def test_a_warmup_waits_for_what_earlier_launches_wait_for(
    gpu: Launching, clock: FakeClock, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, rank = threading.Event(), launcher.rank

    def waiting(*args: Any) -> Any:
        assert opened.wait(60)
        return rank(*args)

    monkeypatch.setattr(launcher, "rank", waiting)
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.8}, gemm()
    described_product(function)
    tawa.wait()
    for _ in range(3):  # the first one submits the comparison, and the next ones find what it has chosen
        described_product(function)
    timer = threading.Timer(0.2, opened.set)
    timer.start()
    tawa.warmup(lambda: described_product(function))
    timer.join()
    assert len(entries()) == 1 and last(gpu) == OWN


def test_a_warmup_keeps_the_gpu_busy_before_launches_that_it_would_wait_for(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    """A wrapper in Python may synchronize before it launches a product."""
    clock.times_ms, clock.idle, function = {STOCK: 1.0, OWN: 0.9}, True, gemm()
    tawa.warmup(lambda: described_product(function))
    tawa.wait()
    assert len(entries()) == 1 and clock.marks == 0


@pytest.mark.parametrize("idle", [True, False])
def test_the_gpu_is_kept_busy_only_where_it_would_wait_in_a_warmup(
    idle: bool, gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms, clock.idle, function = {STOCK: 1.0, OWN: 0.9}, True, gemm()
    for _ in range(20):
        described_product(function)
        tawa.wait()
    assert not clock.occupied
    clock.idle = idle
    tawa.warmup(lambda: described_product(function))
    assert bool(clock.occupied) == idle


def test_a_launch_that_waits_for_nothing_hides_none_that_waits() -> None:
    first, second, ended = Task(lambda: None), Task(lambda: None), Task(lambda: None)
    ended.run()
    found = type(learning)()
    found.wait_for(None)
    assert found.awaited is None
    found.wait_for(ended)
    assert found.awaited is ended, "what has ended is loaded by the next launch"
    for task in (first, None, ended, second):
        found.wait_for(task)
        assert found.awaited is first


def test_a_benchmark_of_something_else_waits_for_nothing(gpu: Launching, clock: FakeClock, installed: None) -> None:
    hold = threading.Event()
    submit(hold.wait)
    assert tawa.warmup(lambda: None) == 1
    hold.set()


def test_a_kernel_whose_dots_are_in_no_loop_gets_its_persistent_form_by_measurement_only(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.8}, triton.jit(single_dot.fn)

    def launch() -> Any:
        return function[(64, 64)](*DESCRIPTORS, BM=64, BN=64, num_warps=4)

    tawa.warmup(launch)
    tawa.wait()
    launch()
    assert last(gpu) == OWN and "get: persistent" in " ".join(str(tawa.report()).split())


def rows_of_a_chunk(function: Any) -> Any:
    """A launch of one warp, of a kernel whose tiles are too narrow for partitions to pay."""
    a, k, g, out = map(tensor, (4096, 8192, 16384, 32768))
    a.dtype = g.dtype = out.dtype = tl.float32
    return function[(8,)](a, k, g, out, 2, 16, B=16, N=64, num_warps=1)


@pytest.mark.contract
@pytest.mark.parametrize("faster", [True, False])
def test_a_kernel_that_is_declined_is_tried_without_partitions(
    faster: bool, gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.7 if faster else 1.05}
    function = triton.jit(decayed.fn)
    tawa.warmup(lambda: rows_of_a_chunk(function))
    tawa.wait()
    made = rows_of_a_chunk(function)
    assert last(gpu) == (OWN if faster else STOCK)
    assert launcher_of(made).kernel.metadata.tawa["applied"]
    (entry,) = entries()
    assert entry.learned and entry.plan.form == ("unpartitioned" if faster else "stock")
    again = triton.jit(decayed.fn)
    rows_of_a_chunk(again)
    assert last(gpu) > OWN and tawa.wait(0.0 if faster else None), "the next process begins with what was learned"


def warps_of(gpu: Launching) -> int:
    """The warps of the last launch, by what the launcher in C gets."""
    return next(it for it in gpu.launched[-1] if isinstance(it, tuple))[0]


def test_other_numbers_of_warps_are_tried_where_no_sum_depends_on_them(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms = {STOCK: 1.0, OWN: 0.8, OWN + 1: 0.6, OWN + 2: 0.7}
    function = triton.jit(decayed.fn)
    tawa.warmup(lambda: rows_of_a_chunk(function))
    tawa.wait()
    rows_of_a_chunk(function)
    assert last(gpu) == OWN + 1 and warps_of(gpu) == 2
    (entry,) = entries()
    assert entry.plan.num_warps == 2 and "2 warps" in entry.words
    again = triton.jit(decayed.fn)
    rows_of_a_chunk(again)
    assert last(gpu) > OWN + 1 and warps_of(gpu) == 2, "the next process begins with what was learned"


def test_a_kernel_without_a_dot_is_tried_if_a_loop_makes_tiles_of_rows(
    gpu: Launching, clock: FakeClock, installed: None
) -> None:
    clock.times_ms, function = {STOCK: 1.0, OWN: 0.7}, triton.jit(scored.fn)
    q, k, g, out = map(tensor, (4096, 8192, 16384, 32768))
    q.dtype = g.dtype = out.dtype = tl.float32

    def launch() -> Any:
        return function[(8,)](q, k, g, out, 16, B=16, N=64, num_warps=2)

    tawa.warmup(launch)
    tawa.wait()
    launch()
    assert last(gpu) == OWN
    (entry,) = entries()
    assert entry.learned and entry.plan.form == "unpartitioned"


def test_nothing_is_compiled_for_other_kernels_without_a_dot(gpu: Launching, clock: FakeClock, installed: None) -> None:
    x, out = tensor(4096), tensor(8192)
    x.dtype = out.dtype = tl.float32
    made = triton.jit(summed.fn)[(8,)](x, out, 16, N=64, num_warps=2)
    assert not isinstance(made._run, StockFirst) and tawa.wait(0.0)
    assert not made.metadata.tawa["applied"] and "launch" not in made.metadata.tawa
