"""`tawa.jit`: the same kernel, launched in the same way, with Tawa's options."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.runtime.jit import JITFunction

import tawa
from tawa.errors import PlanError
from tawa.plan import PlanOptions
from tawa.runtime.jit import TawaFunction
from tests.bridge import fakes, kernels

BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
PLAN = fakes.plan_of(depth=6)


def warmup(kernel: Any, **options: Any) -> Any:
    tensors = [kernels.half_tensor() for _ in range(3)]
    return kernel.warmup(*tensors, 64, grid=(1,), **BLOCKS, **options)


def depth_of(compiled: Any) -> int:
    return compiled.metadata.tawa["plan"]["rings"][0]["depth"]


@pytest.fixture
def gemm(pipeline_is: Any, driver: None) -> Any:
    pipeline_is(fakes.untouched)
    return tawa.jit(kernels.gemm_pointers)


def test_a_jitted_kernel_stays_one(gemm: Any) -> None:
    assert isinstance(gemm, JITFunction)
    assert gemm.fn is kernels.gemm_pointers.fn
    assert gemm.cache_key == kernels.gemm_pointers.cache_key
    assert gemm.__name__ == "gemm_pointers"
    assert callable(gemm[(1,)])


@pytest.mark.contract
def test_without_options_a_launch_is_automatic(gemm: Any) -> None:
    assert warmup(gemm).metadata.tawa["mode"] == "automatic"


def test_options_of_the_launch_are_taken_and_do_not_reach_triton(gemm: Any) -> None:
    compiled = warmup(gemm, aref_depth=3, mma_depth=1, num_consumer_groups=1, enable_warp_specialization=True)
    assert compiled.metadata.tawa["mode"] == "pinned"
    assert compiled.metadata.tawa["options"] == {
        "enable_warp_specialization": True, "aref_depth": 3, "mma_depth": 1, "num_consumer_groups": 1,
        "ping_pong": None, "pointer_loads": None, "persistent": None, "mode": None, "only_if_faster": None,
        "precision": None, "compile_budget_s": None, "start": None,
    }  # fmt: skip


@pytest.mark.parametrize("options", [{"num_buffers_warp_spec": 4}, {"aref_depth": 4}])
def test_both_names_of_the_depth_mean_the_same(gemm: Any, options: dict[str, Any]) -> None:
    assert depth_of(warmup(gemm, **options)) == 4


@pytest.mark.parametrize("plan", [PLAN, PLAN.to_json(), PLAN.to_dict(), {"rings": [{"name": "r0", "depth": 6}]}])
def test_a_plan_is_pinned_as_a_value_or_as_text(gemm: Any, plan: Any) -> None:
    compiled = warmup(gemm, plan=plan)
    assert depth_of(compiled) == 6
    assert compiled.metadata.tawa["mode"] == "pinned"
    assert warmup(gemm, plan=plan) is compiled


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_plan_comes_from_a_file_that_is_read_once(gemm: Any, tmp_path: Path, as_path: Any) -> None:
    file = tmp_path / "plan.json"
    file.write_text(PLAN.to_json())
    decorated = tawa.jit(kernels.gemm_pointers, plan=as_path(file))
    compiled = warmup(gemm, plan=as_path(file))
    file.unlink()
    assert warmup(gemm, plan=as_path(file)) is compiled
    assert depth_of(compiled) == depth_of(warmup(decorated)) == 6


def test_a_plan_of_the_form_stock_compiles_stock(gemm: Any) -> None:
    stock = warmup(kernels.gemm_pointers)
    compiled = warmup(gemm, plan={"form": "stock"})
    assert "aref" not in compiled.asm and compiled.hash == stock.hash
    assert "form='stock'" in tawa.explain(compiled).reason
    assert depth_of(warmup(tawa.jit(kernels.gemm_pointers, plan={"form": "stock"}), plan=PLAN)) == 6


def test_the_user_the_planner_and_feedback_are_in_the_record(gemm: Any) -> None:
    taken = {it.field: it for it in tawa.explain(warmup(gemm, aref_depth=3)).decisions}
    assert (taken["rings.r0"].by, taken["rings.r0"].reason) == ("user", "aref_depth=3")
    assert taken["form"].by == "planner"


def test_the_decorators_options_are_defaults_that_a_launch_overrides(gemm: Any) -> None:
    deep = tawa.jit(kernels.gemm_pointers, aref_depth=5)
    assert depth_of(warmup(deep)) == 5
    assert depth_of(warmup(deep, aref_depth=3)) == 3
    assert depth_of(warmup(tawa.jit(deep, mma_depth=1))) == 5
    assert depth_of(warmup(tawa.jit(deep, num_buffers_warp_spec=4))) == 4


@pytest.mark.parametrize("before", [True, False])
def test_a_users_hook_sees_what_the_user_passes(pipeline_is: Any, driver: None, before: bool) -> None:
    pipeline_is(fakes.untouched)
    seen: list[set[str]] = []
    note = lambda *args, **kwargs: seen.append(set(kwargs))  # noqa: E731
    stock = triton.jit(kernels.gemm_pointers.fn)
    kernel = None if before else tawa.jit(stock)
    for it in (stock, kernel):
        if it is not None:
            it.add_pre_run_hook(note)
    for it in (stock, kernel or tawa.jit(stock)):
        warmup(it)
    assert seen[0] == seen[1]


def test_each_set_of_options_is_compiled_once(gemm: Any) -> None:
    first = [warmup(gemm, **options) for options in ({}, {"aref_depth": 3}, {"enable_warp_specialization": False})]
    again = [warmup(gemm, **options) for options in ({}, {"aref_depth": 3}, {"enable_warp_specialization": False})]
    assert len(set(map(id, first))) == 3
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_false_compiles_stock(gemm: Any) -> None:
    stock = warmup(kernels.gemm_pointers)
    compiled = warmup(gemm, enable_warp_specialization=False)
    assert "aref" not in compiled.asm
    assert compiled.hash == stock.hash


def test_off_in_the_environment_compiles_stock(gemm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_ENABLE", "off")
    assert "aref" not in warmup(gemm, enable_warp_specialization=True).asm


@pytest.mark.contract
def test_nothing_of_triton_is_changed_after_a_launch(gemm: Any) -> None:
    before = triton.compiler.compiler.get_cache_key
    warmup(gemm)
    assert triton.compiler.compiler.get_cache_key is before
    assert knobs.runtime.add_stages_inspection_hook is None


@tawa.jit
def plain(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


@tawa.jit(aref_depth=2, do_not_specialize=["n"])
def with_options(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK) * n, 0.0)


@tawa.jit
@triton.jit(noinline=True, do_not_specialize=["n"])
def through_triton(x_ptr, n):
    tl.store(x_ptr, n)


def test_a_plain_function_becomes_a_kernel() -> None:
    assert isinstance(plain, TawaFunction)
    assert isinstance(with_options, TawaFunction)
    assert with_options.tawa_defaults.options == PlanOptions(aref_depth=2)
    assert with_options.do_not_specialize == ["n"]


def test_what_triton_was_told_is_kept() -> None:
    assert through_triton.noinline is True
    assert through_triton.do_not_specialize == ["n"]


@triton.jit
def helper_stock(x):
    return x + 1


helper = tawa.jit(helper_stock)


@tawa.jit
def calls_a_helper(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))


def test_a_kernel_may_call_one_that_is_under_tawa(driver: None) -> None:
    compiled = calls_a_helper.warmup(kernels.half_tensor(), grid=(1,))
    assert "no tl.dot" in compiled.metadata.tawa["reason"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"aref_depht": 3}, "did you mean 'aref_depth'"),
        ({"enable_warp_specialisation": True}, "did you mean 'enable_warp_specialization'"),
        ({"aref_depth": 0}, "aref_depth=0: at least 1"),
        ({"mma_depth": -1}, "mma_depth=-1: at least 0"),
        ({"aref_depth": 1, "mma_depth": 1}, "D >= P"),
        ({"aref_depth": [3]}, "a whole number is needed"),
        ({"plan": 3}, "plan=3: a Plan, a dict, JSON text or a path is needed, not int"),
        ({"plan": "{"}, "not a Plan"),
        ({"plan": {"colour": 1}}, "not a Plan: it has no 'colour'"),
        ({"plan": "nowhere.json"}, "plan='nowhere.json': no such file"),
        ({"plan": {"form": "stock", "groups": 1}}, "form='stock' in a Plan with groups"),
        ({"plan": {"form": "stock"}, "enable_warp_specialization": True}, "cure: give one"),
    ],
)
def test_a_bad_option_of_a_launch_is_named(gemm: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tawa.PlanError, match=message):
        warmup(gemm, **options)


def test_a_keyword_unlike_ours_is_tritons_own_error(gemm: Any) -> None:
    with pytest.raises(KeyError, match="colour"):
        warmup(gemm, colour=3)


@pytest.mark.parametrize("options", [{"aref_depth": 0}, {"aref_depht": 1}])
def test_a_bad_option_of_the_decorator_is_found_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(tawa.PlanError):
        tawa.jit(kernels.gemm_pointers, **options)


def test_something_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a kernel"):
        tawa.jit(3)


def test_without_a_gpu_a_launch_says_so_and_names_the_way_out() -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    with pytest.raises(tawa.DeviceError, match=r"gemm_pointers: launched where(.|\n)*tawa compile"):
        kernel[(1,)](*[kernels.half_tensor() for _ in range(3)], 64, **BLOCKS)


def test_without_a_gpu_a_misspelt_option_is_still_the_first_thing_said() -> None:
    with pytest.raises(tawa.PlanError, match="aref_depth"):
        warmup(tawa.jit(kernels.gemm_pointers), aref_dept=3)


def test_a_parameter_with_the_name_of_an_option_belongs_to_the_kernel(driver: None) -> None:
    @tawa.jit
    def kernel(x_ptr, plan: tl.constexpr):
        tl.store(x_ptr, plan)

    compiled = kernel.warmup(kernels.half_tensor(), plan=3, grid=(1,))
    assert compiled.src.constants == {(1,): 3}


INTERPRETED = """
import triton, triton.language as tl, tawa
@tawa.jit(aref_depth=2)
@triton.jit
def kernel(x, n: tl.constexpr):
    tl.static_assert(n == 3)
kernel[(1,)](4, n=3, mma_depth=1)
try:
    kernel[(1,)](4, n=3, aref_depth=0)
except tawa.PlanError as error:
    print("refused", error)
"""


@pytest.mark.contract
def test_under_the_interpreter_options_are_checked_and_dropped(tmp_path: Path) -> None:
    script = tmp_path / "interpreted.py"
    script.write_text(INTERPRETED)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert "refused aref_depth=0" in done.stdout


@pytest.mark.contract
def test_asynchronous_compiles_follow_the_launch(gemm: Any) -> None:
    with ThreadPoolExecutor(2) as pool, triton.AsyncCompileMode(pool):
        three, stock = warmup(gemm, aref_depth=3), warmup(gemm, enable_warp_specialization=False)
        assert depth_of(three.result()) == 3
        assert "aref" not in stock.result().asm


@pytest.mark.parametrize(
    "contradiction", [{"aref_depth": 7}, {"mma_depth": 2}, {"enable_warp_specialization": False}], ids=str
)
def test_an_option_that_contradicts_the_plan_beside_it_is_refused(gemm: Any, contradiction: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="cure: give one"):
        warmup(gemm, plan=PLAN, **contradiction)


def test_a_bad_value_is_refused_also_behind_a_good_one_that_is_equal(gemm: Any) -> None:
    warmup(gemm, aref_depth=1)
    with pytest.raises(PlanError, match="aref_depth=True"):
        warmup(gemm, aref_depth=True)
