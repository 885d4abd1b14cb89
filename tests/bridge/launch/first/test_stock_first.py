"""Launches get stock Triton's kernel until the specialised one is made in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton

import tawa
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.first import stock_first
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.first.tuners import measuring
from tawa.bridge.launch.launcher import Launcher
from tawa.plan import Plan
from tests.bridge import kernels
from tests.bridge.launch.test_cost import described_product, tensor
from tests.bridge.launching import Launching, in_threads


def gemm() -> Any:
    return triton.jit(kernels.gemm_descriptors.fn)


def applied(kernel: Any) -> bool:
    return kernel.metadata.tawa["applied"]


def first_of(kernel: Any) -> StockFirst:
    """The launcher of a kernel whose specialised one is not there yet."""
    assert isinstance(kernel._run, StockFirst)
    return kernel._run


def ready_of(kernel: Any) -> Any:
    """The kernel that has taken over the launches of stock Triton's."""
    assert isinstance(kernel._run, Launcher)
    return kernel._run.kernel


def test_the_first_launches_get_stock_and_later_ones_another_launcher(
    gpu: Launching, installed: None, gate: threading.Event
) -> None:
    function = gemm()
    made = described_product(function)
    assert not applied(made) and "start='stock'" in made.metadata.tawa["reason"]
    assert described_product(function) is made and len(gpu.launched) == 2
    assert first_of(made).ready is None and not first_of(made).settled
    gate.set()
    assert tawa.wait(60)
    assert described_product(function) is made and len(gpu.launched) == 3
    assert applied(ready_of(made)) and made.asm["cubin"] != ready_of(made).asm["cubin"]


def test_a_decorated_kernel_is_there_at_the_first_launch_unless_it_asks_for_stock(
    gpu: Launching, all_pay: None, installed: None
) -> None:
    assert applied(described_product(tawa.jit(gemm())))
    function = tawa.jit(gemm(), start="stock")
    made = [described_product(function) for _ in range(2)]
    assert made[0] is made[1] and not applied(made[0])
    assert tawa.wait(60)
    assert described_product(function) is described_product(function) is made[0]
    assert applied(ready_of(made[0])) and len(gpu.launched) == 5


def test_threads_that_launch_meanwhile_get_a_kernel_each_time(gpu: Launching, installed: None) -> None:
    function = gemm()
    made = described_product(function)

    def launch() -> None:
        while isinstance(made._run, StockFirst):
            described_product(function)

    in_threads(3, launch)
    assert applied(ready_of(made))


def test_what_is_asked_for_is_there_at_the_first_launch(gpu: Launching, installed: None) -> None:
    for options in ({"enable_warp_specialization": True}, {"only_if_faster": False}, {"start": "ready"}):
        with tawa.scope(**options):
            assert applied(described_product(gemm())), options
    with tawa.scope(aref_depth=2):
        assert applied(described_product(gemm()))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table knows the kernel; the keys that it was asked about."""
    keys: list[str] = []

    def entries(key: str, gpu: str) -> dict[str, Any]:
        keys.append(key)
        entry = SimpleNamespace(plan=Plan(form="persistent"), sizes=((3, "K"),), learned=False, words="persistent")
        return {"K <= 64, 1 program": entry}

    monkeypatch.setattr("tawa.runtime.tuning.choices.gpu_name", lambda: "a card")
    monkeypatch.setattr("tawa.runtime.tuning.choices.known_entries", entries)
    return keys


def test_a_kernel_that_was_tuned_is_there_at_the_first_launch(
    gpu: Launching, installed: None, known: list[str]
) -> None:
    made = described_product(gemm())
    assert applied(ready_of(made)) and len(gpu.launched) == 1
    assert len(set(known)) == 1, "both kernels have the key of the table"


def test_a_kernel_without_a_dot_is_stock_tritons_and_nothing_is_made(gpu: Launching, installed: None) -> None:
    made = triton.jit(kernels.store_number.fn)[(1,)](tensor(4096), 3)
    assert "nothing to feed" in made.metadata.tawa["reason"] and not isinstance(made._run, StockFirst)


def test_without_a_background_the_first_launch_waits(
    gpu: Launching, all_pay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWA_BACKGROUND", "off")
    for options in ({}, {"start": "stock"}):
        with tawa.scope(**options):
            assert applied(described_product(gemm()))


@pytest.mark.parametrize("fails", ["compile", "load"])
def test_what_cannot_be_made_or_loaded_leaves_stock(
    fails: str, gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fails == "compile":
        monkeypatch.setattr(added_arguments, "learning_kernel", lambda *_: 1 / 0)
    made = described_product(function := gemm())
    first = first_of(made)
    tawa.wait()
    if fails == "load":
        monkeypatch.setattr(gpu.utils, "load_binary", lambda *_: 1 / 0)
    for _ in range(2):
        assert described_product(function) is made
    assert first.settled and first.ready is None and len(gpu.launched) == 3
    assert made._run is first.inner, "it costs nothing any more"


def test_stock_that_fails_is_no_reason_to_fail(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise RuntimeError("stock Triton cannot compile it")

    monkeypatch.setattr("tawa.bridge.driver.stock_overflow.refuse_overflow", refused)
    assert applied(described_product(gemm()))
    with measuring(), pytest.raises(RuntimeError, match="cannot compile"):
        described_product(gemm())  # a tuner leaves this configuration out


def test_launches_of_a_tuner_start_nothing(gpu: Launching, installed: None, gate: threading.Event) -> None:
    made = described_product(function := gemm())
    first = first_of(made)
    first.task = None
    with measuring():
        described_product(function)
        assert first.task is None
    described_product(function)
    assert first.task is not None


def test_nothing_is_loaded_while_launches_are_captured(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = described_product(function := gemm())
    capturing = [True]
    tawa.wait()
    made.tawa_host = added_arguments.replace(made.tawa_host, capturing=lambda: capturing[0])
    described_product(function)
    assert first_of(made).ready is None
    capturing[0] = False
    described_product(function)
    assert applied(ready_of(made))


def test_a_benchmark_of_a_person_measures_what_launches_get_in_the_end(gpu: Launching, installed: None) -> None:
    measured: list[bool] = []
    bench = stock_first.wrap_do_bench(lambda fn: measured.append(fn()))
    function = gemm()
    with measuring():
        bench(lambda: isinstance(described_product(function)._run, Launcher))
    assert measured == [False]
    bench(lambda: isinstance(described_product(function)._run, Launcher))
    assert measured == [False, True]


def test_a_child_process_makes_what_its_parent_had_not(gpu: Launching, installed: None, tmp_path: Path) -> None:
    assert _forked(tmp_path, gemm()) == "stock, then specialised"


def _forked(folder: Path, function: Any) -> str:
    """What a child gets that was forked after the first launch, before the specialised kernel was there."""
    import os

    hold = threading.Event()
    stock_first.submit(hold.wait)  # one thread: nothing is made behind it
    made, told = described_product(function), folder / "told"
    child = os.fork()
    if child == 0:
        described_product(function)
        before = "stock" if isinstance(made._run, StockFirst) else "specialised"
        tawa.wait(60)
        described_product(function)
        after = "specialised" if isinstance(made._run, Launcher) else "stock"
        told.write_text(f"{before}, then {after}")
        os._exit(0)
    os.waitpid(child, 0)
    hold.set()
    return told.read_text()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tawa.bridge.launch.first import background

    monkeypatch.setattr(background, "_POOL", [background.Pool(1)])
    yield
    background.wait(60)
