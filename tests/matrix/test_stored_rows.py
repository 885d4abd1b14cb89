"""Rows that end within 16 bytes: TMA would change what lies behind them, so they are stored through pointers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases.small import promoted_kernels as kernels
from tests.matrix.promoting import Launch, addresses, promoted, run
from tests.support.sample import simulated_once

pytestmark = pytest.mark.usefixtures("without_ptx")

PITCH, BEHIND = 192, 7
SIZES = {"M": 100, "K": 64, "stride_am": 64, "stride_bk": PITCH, "stride_cm": PITCH}
BLOCKS = {"BM": 64, "BN": 64, "BK": 32, "PROGRAMS": 2}


def product(columns: int, dtype: Any) -> Launch:
    """A product of 100 rows and so many columns, which are the first of 192; the others are 7."""
    lot = np.random.default_rng(0)
    a, b = (lot.integers(-2, 3, shape).astype(np.float16) for shape in ((100, 64), (64, PITCH)))
    c = np.full((100, PITCH), BEHIND, dtype)
    arguments = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "N": columns, **SIZES}
    return Launch(kernels.persistent_gemm, arguments, BLOCKS, (2,))


def changed_behind(found: dict[str, Any], columns: int) -> list[int]:
    """The columns behind the product in which anything changed."""
    return sorted({columns + int(it) for it in np.nonzero(found["c_ptr"][:, columns:] != BEHIND)[1]})


@simulated_once
@pytest.mark.parametrize(
    ("dtype", "columns", "behind"),
    [(np.float16, 136, 0), (np.float16, 132, 4), (np.float16, 135, 1), (np.float32, 132, 0), (np.float32, 133, 3)],
)
def test_launches_are_refused_whose_stores_would_change_what_is_behind(dtype: Any, columns: int, behind: int) -> None:
    launch = product(columns, dtype)
    found = promoted(launch)
    spec, module = found.result.launch, found.ttgir()
    before = run(launch, found.made.whole(), LaunchSpec())
    after = run(launch, module, spec)
    assert changed_behind(before, columns) == []
    assert changed_behind(after, columns) == [columns + at for at in range(behind)]
    assert (before["c_ptr"][:, :columns] == after["c_ptr"][:, :columns]).all()
    broken = spec.all_broken(addresses(module, launch.arguments))
    assert [it.only_for for it in broken] == ["stores"] * bool(behind)


def test_rows_of_a_constant_length_are_judged_before_the_launch() -> None:
    for columns, stored in ((132, False), (136, True)):
        launch = product(columns, np.float16)
        sizes = {name: value for name, value in launch.arguments.items() if name != "N"}
        found = promoted(replace(launch, arguments=sizes, constants={**launch.constants, "N": columns}))
        assert ("tt.descriptor_store" in found.ttir) == stored, found.reasons()
        assert not [it for it in found.result.launch.conditions if it.only_for]
        assert stored or f"its rows end after {2 * columns} bytes" in found.reasons()


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint8", "int32", "float8_e4m3fn"])
@pytest.mark.parametrize("form", ["as_written", "persistent"])
def test_nothing_behind_the_rows_changes_on_a_gpu(form: str, dtype: str) -> None:
    """In rows of every length up to 16 elements behind a tile, which Tawa stores by TMA where they are whole."""
    import torch

    import tawa
    from tawa.plan import Plan

    element = getattr(torch, dtype)
    lot = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randint(-1, 2, it, device="cuda", generator=lot).half() for it in ((300, 64), (64, 256)))
    a, b = (a.abs(), b.abs()) if dtype == "uint8" else (a, b)
    wanted = (a.float() @ b.float()).to(element)
    source = kernels.persistent_gemm if form == "as_written" else kernels.masked_gemm
    kernel = tawa.jit(source, enable_warp_specialization=True, **({"persistent": True} if form == "persistent" else {}))
    ways: set[tuple[bool, bool]] = set()
    for columns in range(128, 145):
        c = torch.full((300, 256), BEHIND, device="cuda").to(element)
        made = _multiplied(kernel, a, b, c, columns, form)
        torch.cuda.synchronize()
        bits, behind = c.view(torch.uint8), columns * element.itemsize
        assert torch.equal(bits[:, behind:], torch.full_like(c, BEHIND).view(torch.uint8)[:, behind:]), columns
        assert torch.equal(bits[:, :behind], wanted.view(torch.uint8)[:, :behind]), columns
        by_tma = bool(Plan.of(made.metadata.tawa["plan"]).stores)
        ways.add((by_tma, any(plan.stores for plan in made.run.by_plan)))
    assert (True, False) in ways and len(ways) == 2


def _multiplied(kernel: Any, a: Any, b: Any, c: Any, columns: int, form: str) -> Any:
    sizes = {"M": 300, "N": columns, "K": 64}
    if form == "as_written":
        strides = (a.stride(0), b.stride(0), c.stride(0))
        return kernel[(4,)](a, b, c, *sizes.values(), *strides, BM=64, BN=64, BK=32, PROGRAMS=4, num_warps=4)
    strides = (*a.stride(), *b.stride(), *c.stride())
    return kernel[(5, 3)](a, b, c, *sizes.values(), *strides, BM=64, BN=64, BK=32, MASK=True, MOVE=False, num_warps=4)
