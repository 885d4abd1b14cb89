"""Launches get stock Triton's kernel until the specialised one is made in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.testing

import tawa
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.first import background, stock_first
from tawa.bridge.launch.first.stock_first import StockFirst, tuning
from tawa.bridge.launch.launcher import Launcher
from tawa.machine.coefficients import ErrorInfo
from tawa.plan import Plan
from tawa.plan.cost.prediction import Expectation
from tawa.plan.forecast import Forecast, Forecaster
from tawa.plan.option_conflicts import STOCK
from tests.bridge import kernels
from tests.bridge.launch.test_cost import described_product
from tests.bridge.launching import Launching

pytestmark = pytest.mark.usefixtures("threads_parse")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def threads_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests parse in one thread at a time (`tests.support.parsing`)."""
    monkeypatch.setattr("tawa.runtime.requests.parser_fails_in_threads", lambda: False)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The compile in the background begins when this is set."""
    opened, compile_it = threading.Event(), added_arguments.compiled_at_once

    def waiting(*args: Any) -> Any:
        assert opened.wait(60)
        return compile_it(*args)

    monkeypatch.setattr(added_arguments, "compiled_at_once", waiting)
    yield opened
    opened.set()
    tawa.wait()


@pytest.fixture
def installed(all_pay: None) -> Iterator[None]:
    tawa.install(start="stock")
    yield
    tawa.wait()
    tawa.uninstall()


def gemm() -> Any:
    return triton.jit(kernels.gemm_descriptors.fn)


def applied(kernel: Any) -> bool:
    return kernel.metadata.tawa["applied"]


def launcher_of(kernel: Any) -> StockFirst:
    assert isinstance(kernel._run, StockFirst)
    return kernel._run


def test_the_first_launches_get_stock_and_later_ones_the_specialised_kernel(
    gpu: Launching, installed: None, gate: threading.Event
) -> None:
    function = gemm()
    made = described_product(function)
    assert not applied(made) and "start='stock'" in made.metadata.tawa["reason"]
    assert described_product(function) is made and len(gpu.launched) == 2
    assert launcher_of(made).ready is None and not launcher_of(made).settled
    gate.set()
    assert tawa.wait(60)
    assert described_product(function) is made and len(gpu.launched) == 3
    ready = launcher_of(made).ready
    assert applied(ready) and launcher_of(made).settled
    assert made.asm["cubin"] != ready.asm["cubin"]


def test_a_decorated_kernel_may_ask_for_it(gpu: Launching, all_pay: None) -> None:
    function = tawa.jit(gemm(), start="stock")
    made = [described_product(function) for _ in range(2)]
    assert made[0] is made[1] and not applied(made[0])
    assert tawa.wait(60)
    assert described_product(function) is described_product(function) is made[0]
    assert applied(launcher_of(made[0]).ready) and len(gpu.launched) == 4


def test_threads_that_launch_meanwhile_get_a_kernel_each_time(gpu: Launching, installed: None) -> None:
    function = gemm()
    made, failed = described_product(function), list[BaseException]()

    def launch() -> None:
        try:
            while launcher_of(made).ready is None:
                described_product(function)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and launcher_of(made).ready is not None


def test_it_is_the_kernel_that_a_launch_would_have_waited_for(gpu: Launching, installed: None) -> None:
    made = described_product(function := gemm())
    tawa.wait()
    described_product(function)
    with tawa.scope(start="ready"):
        waited = described_product(gemm())
    assert applied(waited) and waited.hash == launcher_of(made).ready.hash


def test_what_is_asked_for_is_there_at_the_first_launch(gpu: Launching, installed: None) -> None:
    for options in ({"enable_warp_specialization": True}, {"only_if_faster": False}, {"aref_depth": 2}):
        with tawa.scope(**options):
            assert applied(described_product(gemm())), options
    assert applied(described_product(tawa.jit(gemm(), start="ready")))


def test_a_kernel_that_a_table_knows_is_there_at_the_first_launch(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tawa.runtime.tuning.choices.gpu_name", lambda: "a card")
    keys: list[str] = []

    def known(key: str, gpu: str) -> dict[str, Any]:
        keys.append(key)
        return {"K <= 4096, 1 program": SimpleNamespace(plan=Plan(form="persistent"))}

    monkeypatch.setattr("tawa.runtime.tuning.choices.known_entries", known)
    made = described_product(gemm())
    assert applied(launcher_of(made).ready) and len(gpu.launched) == 1
    assert len(set(keys)) == 1, "both kernels have the key of the table"


def test_a_kernel_without_a_dot_is_stock_tritons_and_nothing_is_made(gpu: Launching, installed: None) -> None:
    made = triton.jit(kernels.store_number.fn)[(1,)](_tensor(), 3)
    assert "nothing to feed" in made.metadata.tawa["reason"] and not isinstance(made._run, StockFirst)


def _tensor() -> Any:
    from tests.bridge.launch.test_cost import tensor

    return tensor(4096)


def test_without_a_background_the_first_launch_waits(
    gpu: Launching, all_pay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWA_BACKGROUND", "off")
    with tawa.scope(start="stock"):
        assert applied(described_product(gemm()))


def test_a_python_whose_parser_fails_in_threads_waits(
    gpu: Launching, all_pay: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tawa.runtime.requests.parser_fails_in_threads", lambda: True)
    with tawa.scope(start="stock"):
        assert applied(described_product(gemm()))


@pytest.mark.parametrize("fails", ["compile", "load"])
def test_what_cannot_be_made_or_loaded_leaves_stock(
    fails: str, gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fails == "compile":
        monkeypatch.setattr(added_arguments, "compiled_at_once", lambda *_: 1 / 0)
    made = described_product(function := gemm())
    tawa.wait()
    if fails == "load":
        monkeypatch.setattr(gpu.utils, "load_binary", lambda *_: 1 / 0)
    for _ in range(2):
        assert described_product(function) is made
    assert launcher_of(made).settled and launcher_of(made).ready is None and len(gpu.launched) == 3


def test_stock_that_fails_is_no_reason_to_fail(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise RuntimeError("stock Triton cannot compile it")

    monkeypatch.setattr("tawa.bridge.driver.compilation.refuse_overflow", refused)
    assert applied(described_product(gemm()))


def test_launches_of_a_tuner_start_nothing(gpu: Launching, installed: None, gate: threading.Event) -> None:
    made = described_product(function := gemm())
    launcher = launcher_of(made)
    launcher.task = None
    with tuning():
        described_product(function)
        assert launcher.task is None
    described_product(function)
    assert launcher.task is not None


def another_form(forecaster: Forecaster, launch: Any, made: Any, only: Any = None) -> Forecast:
    """Another form of the kernel is predicted to be the fastest, where it may be chosen."""
    form = forecaster.forms[0]
    plan = form if made.get(form, form) is not None and (only is None or form in only) else None
    return Forecast(plan, "", Expectation(2.0, 1.0, ErrorInfo(0.0, 0), ""))


@pytest.mark.parametrize("possible", [True, False])
def test_another_form_is_made_in_the_background_as_well(
    possible: bool, gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers, compile_it = list[int](), added_arguments.compiled_by_plan

    def compiled(*args: Any) -> Any:
        compilers.append(threading.get_ident())
        return compile_it(*args) if possible else 1 / 0

    monkeypatch.setattr(added_arguments, "compiled_by_plan", compiled)
    monkeypatch.setattr(Forecaster, "choose", another_form)
    made = described_product(function := gemm())
    tawa.wait()
    described_product(function)
    launcher = launcher_of(made).ready._run
    assert isinstance(launcher, Launcher) and not launcher.by_plan and len(launcher.tasks) == 1
    tawa.wait()
    described_product(function)
    ((plan, kernel),) = launcher.by_plan.items()
    assert isinstance(kernel, str) is not possible and plan in launcher.tasks
    assert [it.compiled for it in launcher.known.values()] == [kernel if possible else launcher.kernel]
    assert len(gpu.launched) == 3 and compilers and threading.get_ident() not in compilers


def test_stock_that_was_first_is_not_compiled_again(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_pays(forecaster: Forecaster, *_: Any) -> Forecast:
        return Forecast(STOCK, "stock Triton", Expectation(1.0, 2.0, ErrorInfo(0.0, 0), ""))

    monkeypatch.setattr(added_arguments, "compiled_by_stock", lambda *_: 1 / 0)
    monkeypatch.setattr(Forecaster, "choose", none_pays)
    made = described_product(function := gemm())
    tawa.wait()
    for _ in range(2):
        described_product(function)
    launcher = launcher_of(made).ready._run
    assert isinstance(launcher, Launcher) and launcher.stock.compiled is made
    assert [it.compiled.compiled for it in launcher.known.values()] == [made] and len(gpu.launched) == 3
    assert launcher.forecasts is not None and launcher.forecasts.facts is not None, "ptxas told them the first time"


def test_nothing_is_loaded_while_launches_are_captured(
    gpu: Launching, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = described_product(function := gemm())
    launcher, capturing = launcher_of(made), [True]
    tawa.wait()
    monkeypatch.setattr(launcher, "host", added_arguments.replace(launcher.host, capturing=lambda: capturing[0]))
    described_product(function)
    assert launcher.ready is None
    capturing[0] = False
    described_product(function)
    assert launcher.ready is not None


def test_a_benchmark_of_a_person_measures_what_launches_get_in_the_end(gpu: Launching, installed: None) -> None:
    measured: list[bool] = []
    bench = stock_first.wrap_do_bench(lambda fn: measured.append(fn()))
    function = gemm()
    bench(lambda: launcher_of(described_product(function)).ready is not None)
    assert measured == [True]
    with tuning():
        other = gemm()
        bench(lambda: launcher_of(described_product(other)).ready is not None)
    assert measured == [True, False]


# -- the worker --------------------------------------------------------------------------------------------------------


def test_work_is_done_in_order_and_an_error_harms_no_other() -> None:
    worker, found = background.Worker(), list[int]()
    works: list[Callable[[], Any]] = [lambda: found.append(1), lambda: 1 / 0, lambda: found.append(3)]
    tasks = [worker.submit(work) for work in works]
    assert worker.wait(10) and found == [1, 3] and all(task.done for task in tasks)
    assert worker.submit(lambda: 7).ended.wait(10) and worker.wait(10)


def test_waiting_ends_with_its_time() -> None:
    worker, gate = background.Worker(), threading.Event()
    worker.submit(gate.wait)
    worker.submit(gate.wait)
    assert not worker.wait(0.05)
    gate.set()
    assert worker.wait(10)


def ended(program: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_process_that_ends_waits_for_the_work_in_progress_only() -> None:
    text = ended(
        """
        import time
        from tawa.bridge.launch.first.background import submit
        for number in range(50):
            submit(lambda number=number: (time.sleep(0.3), print(number)))
        time.sleep(0.1)
        """
    )
    assert text.split() == ["0"]


def test_an_exception_ends_a_process_as_ever() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        ended(
            """
            import time
            from tawa.bridge.launch.first.background import submit
            submit(lambda: time.sleep(0.2))
            1 / 0
            """
        )


def test_a_child_starts_the_work_again_that_its_parent_had_not_ended() -> None:
    text = ended(
        """
        import os, threading
        from tawa.bridge.launch.first.background import submit, wait
        gate = threading.Event()
        task, done = submit(gate.wait), submit
        child = os.fork()
        if child == 0:
            again = submit(lambda: 5)
            print(task.lost, wait(10), again.result, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        gate.set()
        print(wait(10), task.lost)
        """
    )
    assert text.splitlines() == ["True True 5", "True False"]
