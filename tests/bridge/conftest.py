"""Fixtures: a cache of its own for every test, fake pipelines, and a driver that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from tawa.bridge.driver import attach
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.driver import _Driver
from tawa.bridge.driver.request import PROCESS
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.flow import Outcome
from tawa.machine.machines import SM_90
from tawa.plan import Plan
from tawa.plan.cost.programs import Program
from tawa.plan.search import prediction
from tawa.runtime.history.recording import RECORDER
from tests.bridge import kernels
from tests.bridge.launching import Launching, launching

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Triton's cache on disk, empty, and no settings from outside."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TAWA_REPRODUCER_DIR", str(tmp_path / "reproducers"))
    for name in ("TAWA_ENABLE", "TAWA_AREF_DEPTH", "TAWA_MMA_DEPTH", "TAWA_LOG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "triton"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No test may leave Tawa attached, and none sees the compiles that earlier ones recorded."""
    RECORDER.forget()
    yield
    left = attach.ATTACHMENT.count
    PROCESS.replace(None)
    while attach.ATTACHMENT.count:
        attach.ATTACHMENT.detach()
    assert left == 0, "the test left Tawa attached to Triton"


@pytest.fixture
def all_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predicts that each form takes a quarter of its time, so that every kernel is specialised."""
    usual = prediction.predict

    def predict(workload: Any, launch: Any, program: Program, *rest: Any) -> float:
        return usual(workload, launch, program, *rest) / (4 if program.specialised else 1)

    monkeypatch.setattr(prediction, "predict", predict)


@pytest.fixture
def pipeline_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """``pipeline_is(fake)`` puts a fake in the place of the lists for TTGIR: one of `tests.bridge.fakes`."""

    def put(fake: Any) -> None:
        def through(driver: _Driver, form: Any, plan: Plan) -> Outcome:
            return fake(form.text, driver.request.options, plan)

        monkeypatch.setattr(_Driver, "_through", through)

    return put


@pytest.fixture
def gemm_signature() -> Signature:
    """The signature of `kernels.gemm_descriptors`, 64 x 64 x 64."""
    tile = "tensordesc<fp16[64,64]>"
    text = f"a_desc={tile}, b_desc={tile}, c_desc={tile}, K=i32:16"
    return parse_signature(text, BLOCKS, kernels.gemm_descriptors.arg_names)


@pytest.fixture
def driver() -> Iterator[None]:
    """A driver for `warmup` on a machine without a GPU: it knows its target, and can launch nothing."""
    from triton.runtime import driver as slot

    class HopperOnPaper:
        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return 0

        def get_current_target(self) -> Any:
            return gpu_target(SM_90)

    before = slot._active
    slot.set_active(HopperOnPaper())
    yield
    slot._active = before


@pytest.fixture
def stock(gemm_signature: Signature) -> Any:
    """The GEMM as stock Triton compiles it."""
    return compile_kernel(kernels.gemm_descriptors, gemm_signature, None)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launching]:
    """A driver that launches nothing, below Triton's own launcher."""
    with launching(monkeypatch) as driver:
        yield driver
