"""A kernel as Inductor writes it, through PyTorch's own code up to the cubin. Runs where PyTorch is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tawa

pytest.importorskip("torch")

SOURCE = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

HOPPER = DeviceProperties(
    type="cuda", index=0, multi_processor_count=132, cc=90, major=9, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, warp_size=32,
)
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
ALIGNED = {(number,): [["tt.divisibility", 16]] for number in range(6)}
GRID = ["_grid_0", "_grid_1", "_grid_2"]


@triton_heuristics.template(
    num_stages=4,
    num_warps=8,
    triton_meta={"signature": TYPES, "device": HOPPER, "constants": {}, "configs": [ALIGNED]},
    inductor_meta={"kernel_name": "product", "backend_hash": "x", "grid_type": "FixedGrid", "fixed_grid": GRID,
                   "extra_launcher_args": GRID, "store_cubin": STORE_CUBIN},
)
@triton.jit
def product(a, b, c, M, N, K):
    BM: tl.constexpr = 128
    BN: tl.constexpr = 256
    BK: tl.constexpr = 64
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))
"""


@pytest.fixture
def compile_async(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Compiles the source as a template of max-autotune is compiled where workers are on; gives its compile results."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.fspath(tmp_path / "inductor"))
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import LambdaFuture, PyCodeCache
    from torch._inductor.runtime import triton_helpers

    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
    monkeypatch.setattr(AsyncCompile, "use_process_pool", classmethod(lambda cls: True))

    def compile_it(store_cubin: bool = False, config: dict[str, Any] | None = None) -> Any:
        source = SOURCE.replace("STORE_CUBIN", str(store_cubin))
        if config is not None:  # a kernel of the user's, with an autotuner
            template = "triton_heuristics.template(\n    num_stages=4,\n    num_warps=8,"
            tuner = f"triton_heuristics.user_autotune(filename=__file__, custom_kernel=True, configs=[{config}],"
            source = source.replace(template, tuner)
        made = AsyncCompile().triton("product", source)
        assert isinstance(made, LambdaFuture)
        assert made.future is not None
        made.future.result()
        return PyCodeCache.load(source).product.compile_results[0]

    with config.patch(compile_threads=2):
        yield compile_it
    tawa.uninstall()


def test_a_template_has_descriptors_made_by_its_launcher(compile_async: Any) -> None:
    tawa.install()
    made = compile_async()
    record = made.kernel.metadata.tawa
    assert record["applied"]
    assert len(record["launch"]["descriptors"]) == 2
    assert made.kernel.metadata.global_scratch_size == 0
    assert type(made).__name__ == "TritonCompileResult", "Inductor's own launcher would not make them"


def test_a_template_whose_cubin_is_stored_makes_its_descriptors_itself(compile_async: Any) -> None:
    tawa.install(only_if_faster=False)
    made = compile_async(store_cubin=True)
    record = made.kernel.metadata.tawa
    assert record["applied"]
    assert not record["launch"]["descriptors"] and not record["launch"]["conditions"]
    assert made.kernel.metadata.global_scratch_size > 0


def test_a_users_configuration_with_options_of_tawa_is_obeyed(compile_async: Any) -> None:
    tawa.install(mma_depth=0)
    config = {**tawa.Config({}, aref_depth=2).kwargs, "num_warps": 8, "num_stages": 4}
    assert config["aref_depth"] == 2
    made = compile_async(config=config)
    record = made.kernel.metadata.tawa
    assert {ring["depth"] for ring in record["plan"]["rings"]} == {2}
    assert {loop["mma_depth"] for loop in record["plan"]["loops"]} == {0}
    assert made.config.kwargs["aref_depth"] == 2, "Inductor remembers the best configuration by all of it"
    assert "aref_depth" not in made.compile_meta["constants"]


def test_inductors_launcher_refuses_kernels_with_added_arguments(compile_async: Any) -> None:
    static = pytest.importorskip("torch._inductor.runtime.static_triton_launcher")
    tawa.install()
    kernel = compile_async().kernel
    kernel._cubin_path = "kernel.cubin"
    with pytest.raises(NotImplementedError, match="at each launch"):
        static.StaticallyLaunchedCudaKernel(kernel)
