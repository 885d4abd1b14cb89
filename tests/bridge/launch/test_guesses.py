"""Sizes that a compile guesses decide nothing for all launches; an explanation of a launch asks its launcher."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import triton.language as tl

import tawa
from tawa.bridge.launch.launcher import Launcher
from tawa.plan import Plan
from tests.bridge.kernels import gemm_descriptors, gemm_groups, gemm_square
from tests.bridge.launching import Launching
from tests.cases.pointers.gemm import gemm_masked

pytestmark = pytest.mark.usefixtures("without_ptx")

BLOCKS = {"BM": 128, "BN": 128, "BK": 64}
TILES = "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,128]>, c=tensordesc<fp16[128,128]>, tiles_ptr=*i32:16"
KERNELS: dict[str, tuple[Any, str, dict[str, int]]] = {
    "tiles are a product of arguments": (gemm_square, "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, T=i32",
                                         {"T": 32}),
    "tiles are counted in memory": (gemm_groups, f"{TILES}, G=i32, T=i32", {"G": 8, "T": 8}),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_guess_of_the_sizes_speaks_against_is_decided_by_each_launch(name: str) -> None:
    kernel, types, sizes = KERNELS[name]
    every = tawa.explain(kernel, types, BLOCKS)
    assert (every.decision, every.applied) == ("depends", False)
    assert "with guessed sizes (arguments of " in every.reason and ", 132 programs" in every.reason
    assert ("32 iterations where memory decides" in every.reason) == (kernel is gemm_groups)
    one = tawa.explain(kernel, types, BLOCKS, arguments=sizes, grid=(132,))
    assert (one.decision, one.applied) == ("specialised", True), one.reason
    assert one.reason.startswith("one producer feeds") and one.plan is not None and one.rings
    assert one.resolved is not None and "arguments of" not in one.resolved["found"]


def test_a_launch_that_gains_nothing_is_declined_with_its_own_times() -> None:
    kernel, types, _ = KERNELS["tiles are a product of arguments"]
    one = tawa.explain(kernel, types, BLOCKS, arguments={"T": 4}, grid=(132,))
    assert (one.decision, one.applied) == ("declined", False)
    assert one.reason.startswith("this launch is left to stock Triton's kernel: ") and "guessed" not in one.reason


def tensor(address: int) -> Any:
    return SimpleNamespace(data_ptr=partial(int, address), dtype=tl.float16)


@pytest.mark.parametrize(("sizes", "programs"), [((8192, 8192, 512), 2048), ((8192, 8192, 8192), 2048), ((64,) * 3, 1)])
def test_an_explanation_shows_the_plan_and_the_registers_of_the_kernel_that_the_launch_gets(
    gpu: Launching, sizes: tuple[int, int, int], programs: int
) -> None:
    """A launch may get another form than the one that was compiled first, or stock Triton's kernel."""
    m, n, k = sizes
    tensors = [tensor(1 << at) for at in (30, 31, 32)]
    options = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8, "num_warps": 8}
    names = [it for it in gemm_masked.arg_names if it not in options]
    arguments = dict(zip(names, (*tensors, m, n, k, k, 1, n, 1, n, 1), strict=True))
    compiled = tawa.jit(gemm_masked)[(programs,)](**arguments, **options)
    launcher = compiled.run
    assert isinstance(launcher, Launcher)
    (launched,) = launcher.known.values()
    record = getattr(launched.compiled.metadata, "tawa", None)
    seen = tawa.explain(compiled, arguments=arguments, grid=(programs,))
    assert seen.applied == (record is not None)
    assert (seen.plan.to_dict() if seen.plan is not None else None) == (record["plan"] if record is not None else None)
    assert seen.mode == "automatic" and seen.shared_bytes == launched.compiled.metadata.shared
    if k == 512:
        assert seen.plan is not None and seen.plan.form == "persistent"
        assert Plan.of(compiled.metadata.tawa["plan"]).form == "as_written", "the form that was compiled first"


@pytest.mark.parametrize(
    "plan", [{"form": "persistent", "tiles": "dynamic"}, {"split_k": 2}], ids=["counter", "shares"]
)
def test_a_launch_that_needs_memory_of_the_launcher_is_explained_without_a_gpu(plan: dict[str, Any]) -> None:
    types = (
        "a_desc=tensordesc<fp16[128,64]>, b_desc=tensordesc<fp16[64,128]>, c_desc=tensordesc<fp16[128,128]>, K=i32:16"
    )
    seen = tawa.explain(gemm_descriptors, types, BLOCKS, plan=plan, arguments={"K": 4096}, grid=(256,))
    assert (seen.decision, seen.applied) == ("specialised", True), seen.reason
