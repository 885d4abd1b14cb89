"""From a launch to an entry: noted, compiled anew by its Plans, and timed by the simulator's clock."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.signature import parse_signature
from tawa.outside import read
from tawa.plan.option_conflicts import STOCK
from tawa.runtime.tuning import collect, worker
from tawa.runtime.tuning.collect import Collector, NotTunable, job_of, left_out
from tawa.runtime.tuning.jobs import load_jobs
from tawa.runtime.tuning.simulated import GPU
from tawa.runtime.tuning.table import Entry
from tawa.runtime.tuning.worker import Task, plan_id, run_task
from tests.bridge.kernels import gemm_descriptors

BOX = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={BOX}, b_desc={BOX}, c_desc={BOX}, K=i32:16"


class Storage(SimpleNamespace):
    def data_ptr(self) -> int:
        return self.place

    def nbytes(self) -> int:
        return self.bytes


class Half:
    """As much of a tensor of PyTorch as is noted: 64-row views of one storage."""

    dtype, shape = "torch.float16", (64, 128)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def untyped_storage(self) -> Storage:
        return Storage(place=1 << 40, bytes=3 * 64 * 128 * 2)

    def data_ptr(self) -> int:
        return (1 << 40) + 2 * self.offset

    def element_size(self) -> int:
        return 2

    def stride(self) -> tuple[int, int]:
        return (128, 1)


def described(offset: int) -> Any:
    return SimpleNamespace(base=Half(offset), shape=[64, 128], strides=[128, 1], block_shape=[64, 64])


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(collect, "multiprocessors", lambda: 132)
    monkeypatch.setattr(collect, "_keeps_contents", lambda tensor: False)
    blocks = {"BM": 64, "BN": 64, "BK": 64}
    with launched_by_us():
        return compile_kernel(gemm_descriptors, parse_signature(TEXT, blocks, gemm_descriptors.arg_names), Request())


def test_a_launch_is_noted_once_for_each_class_and_tuned_anywhere(kernel: Any, tmp_path: Path) -> None:
    noted = Collector(kernel, tmp_path)
    values: list[Any] = [0] * 15
    for k in (64, 128, 100, 128):
        args = [*(described(64 * 128 * at) for at in range(3)), k, 64, 64, 64]
        assert noted.measure([*values, k], (1, 2, 1), args, lambda plan: "") is None
    (path, job), (_, other) = sorted(load_jobs(tmp_path), key=lambda it: len(it[1].shape_class))[::-1]
    assert {job.shape_class, other.shape_class} == {"K <= 64, 2 programs", "K <= 128, 2 programs"}
    assert len(job.storages) == 1 and job.grid == (1, 2, 1)

    said: list[Any] = []
    answer = run_task(Task(str(path), 1.0, simulated=True, skip=(plan_id(STOCK),)), said.append)
    entry = read(Entry, answer["entry"])
    assert (entry.kernel, entry.gpu, entry.key) == ("gemm_descriptors", GPU, job.key)
    assert entry.shape_class == job.shape_class
    (automatic,) = [it for it in entry.times if it.words.endswith("(automatic)")]
    (stock,) = [it for it in entry.times if it.plan.get("form") == "stock"]
    assert automatic.median_us and stock.note == "left out: it hung or crashed before"
    assert [it["trying"] for it in said][:2] == ["automatic mode", automatic.words]
    assert str(Path(__file__).parents[2]) not in str(answer)  # tables are shipped


def test_a_launch_that_no_other_process_can_repeat_is_left_out_with_its_reason(kernel: Any, tmp_path: Path) -> None:
    address = SimpleNamespace(base=1 << 40, shape=[64, 64], strides=[64, 1], block_shape=[64, 64])
    args = [address, address, address, 64, 64, 64, 64]
    with pytest.raises(NotTunable, match="passed as an address"):
        job_of(kernel, "K <= 64, 1 program", (1,), args)
    Collector(kernel, tmp_path).measure([0] * 15 + [64], (1,), args, lambda plan: "")
    (reason,) = left_out(tmp_path)
    assert reason["kernel"] == "gemm_descriptors" and "cure: pass tensors" in reason["reason"]


def test_a_kernel_that_only_stock_triton_can_compile_is_said_to_be(
    kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [*(described(64 * 128 * at) for at in range(3)), 64, 64, 64, 64]
    path = job_of(kernel, "K <= 64, 1 program", (1, 1), args).save(tmp_path)
    declined = {"applied": False, "reason": "it stores\n  where it loads"}
    monkeypatch.setattr(worker, "_simulated", lambda job: (declined, None))
    answer = run_task(Task(str(path), 1.0, simulated=True), lambda line: None)
    assert answer == {"only_stock": "it stores where it loads"}
