"""A whole process, or a block, under Tawa."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import triton
import triton.compiler.compiler
import triton.runtime.autotuner
import triton.runtime.jit
from triton import knobs

import tawa
from tests.bridge import fakes, kernels

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


@pytest.fixture(autouse=True)
def uninstalled() -> Iterator[None]:
    yield
    tawa.uninstall()


@pytest.fixture
def launch(pipeline_is: Any, driver: None) -> Any:
    """Compiles one plain `triton.jit` kernel; returns its D, or None for stock."""
    pipeline_is(fakes.untouched)
    kernel = triton.jit(kernels.gemm_pointers.fn)

    def call() -> int | None:
        compiled = kernel.warmup(*[kernels.half_tensor() for _ in range(3)], 64, grid=(1,), **BLOCKS)
        record = getattr(compiled.metadata, "tawa", None)
        return None if record is None else record["plan"]["rings"][0]["depth"]

    return call


@pytest.mark.contract
@pytest.mark.usefixtures("all_pay")
def test_installed_every_kernel_is_under_tawa_and_afterwards_none(launch: Any) -> None:
    assert launch() is None
    tawa.install()
    assert launch() == 2
    tawa.install(aref_depth=3)
    assert launch() == 3
    tawa.uninstall()
    assert launch() is None


def test_other_threads_see_the_installation_but_not_the_scope(launch: Any) -> None:
    tawa.install(aref_depth=3)
    with tawa.scope(aref_depth=4), ThreadPoolExecutor(1) as pool:
        assert launch() == 4
        assert pool.submit(launch).result() == 3


def test_scopes_nest_and_inherit(launch: Any) -> None:
    with tawa.scope(aref_depth=4):
        with tawa.scope(mma_depth=1):
            assert launch() == 4
        with tawa.scope(enable_warp_specialization=False):
            assert launch() is None
        assert launch() == 4
    assert launch() is None


def test_a_scope_ends_with_an_exception(launch: Any) -> None:
    with pytest.raises(ZeroDivisionError), tawa.scope():
        _ = 1 / 0
    assert launch() is None


def test_a_scope_gives_defaults_to_a_kernel_under_tawa_jit(launch: Any) -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    tensors = [kernels.half_tensor() for _ in range(3)]
    with tawa.scope(aref_depth=4):
        assert kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS).metadata.tawa["options"]["aref_depth"] == 4
        inner = kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS, aref_depth=3)
        assert inner.metadata.tawa["options"]["aref_depth"] == 3
    with tawa.scope(enable_warp_specialization=False):
        assert "aref" not in kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS).asm


def slots() -> list[Any]:
    return [
        triton.compiler.compiler.get_cache_key,
        triton.runtime.jit.get_cache_key,
        triton.runtime.jit.compute_cache_key,
        triton.AsyncCompileMode.submit,
        triton.runtime.autotuner.get_cache_invalidating_env_vars,
        triton.runtime.jit.JITFunction._do_compile,
        triton.compiler.compiler.CompiledKernel.__init__,
        knobs.runtime.add_stages_inspection_hook,
        "add_stages_inspection_hook" in vars(knobs.runtime),
    ]


def test_uninstalling_restores_everything_even_after_many_installs() -> None:
    before = slots()
    tawa.install()
    tawa.install(aref_depth=2)
    assert slots()[0] is not before[0]
    tawa.uninstall()
    tawa.uninstall()
    assert all(now is then for now, then in zip(slots(), before, strict=True))


def test_uninstalling_inside_a_scope_leaves_the_scope_working(launch: Any) -> None:
    tawa.install()
    with tawa.scope(aref_depth=3):
        tawa.uninstall()
        assert launch() == 3
    assert launch() is None


def test_off_in_the_environment_makes_an_installation_idle(launch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_ENABLE", "off")
    tawa.install(enable_warp_specialization=True)
    assert launch() is None


@pytest.mark.parametrize("options", [{"aref_depht": 1}, {"aref_depth": 0}])
def test_a_bad_option_installs_nothing(options: dict[str, Any]) -> None:
    before = slots()
    with pytest.raises(tawa.PlanError):
        tawa.install(**options)
    with pytest.raises(tawa.PlanError), tawa.scope(**options):
        pass
    assert all(now is then for now, then in zip(slots(), before, strict=True))
