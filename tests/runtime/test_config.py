"""`tawa.Config` under Triton's autotuner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import triton

import tawa
from tests.bridge import fakes, kernels

BLOCKS = {"BM": 64, "BN": 64}
CONFIGS = [
    tawa.Config({"BK": 64}, num_warps=4, num_stages=2, num_consumer_groups=1, num_buffers_warp_spec=3),
    tawa.Config({"BK": 32}, num_warps=8, aref_depth=2, mma_depth=1),
]


def tuner_of(kernel: Any, configs: list[Any] = CONFIGS, **options: Any) -> Any:
    return triton.autotune(configs=configs, key=["K"], **options)(kernel)


def tensors() -> list[Any]:
    return [kernels.half_tensor() for _ in range(3)]


def depths(compiled: list[Any]) -> list[int]:
    return [kernel.metadata.tawa["plan"]["rings"][0]["depth"] for kernel in compiled]


def test_each_configuration_is_compiled_with_its_options(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.untouched)
    compiled = tuner_of(tawa.jit(kernels.gemm_pointers)).warmup(*tensors(), 64, **BLOCKS, grid=(1,))
    assert depths(compiled) == [3, 2]
    assert [kernel.metadata.tawa["options"]["mma_depth"] for kernel in compiled] == [None, 1]


def test_tawa_jit_may_stand_above_the_autotuner(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.untouched)
    stock = tuner_of(kernels.gemm_pointers)
    ours = tawa.jit(stock)
    assert depths(ours.warmup(*tensors(), 64, **BLOCKS, grid=(1,))) == [3, 2]
    assert stock.fn is kernels.gemm_pointers


def test_heuristics_pass_the_options_on(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.untouched)
    kernel = triton.heuristics({"BK": lambda _: 64})(tawa.jit(kernels.gemm_pointers))
    compiled = kernel.warmup(*tensors(), 64, **BLOCKS, grid=(1,), aref_depth=4)
    assert depths([compiled]) == [4]


def test_the_tuners_choice_survives_its_cache_on_disk(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.untouched)
    timings = {3: 1.0, 2: 2.0}
    benched: list[int] = []

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        benched.append(depths([function.last_kernel])[0])
        return [timings[benched[-1]]] * 3

    for expected_benches in ([3, 2], [3, 2]):  # the second tuner finds the first one's results
        function = tawa.jit(kernels.gemm_pointers)
        tuner = tuner_of(function, do_bench=bench, cache_results=True)
        tuner.run(*tensors(), 64, **BLOCKS, grid=(1,), warmup=True)
        assert benched == expected_benches
        assert depths([function.last_kernel]) == [3]


def test_a_choice_for_one_request_is_not_taken_for_another(pipeline_is: Any, driver: None) -> None:
    """Stock Triton's kernel is one of them: its best configuration need not be the best of a specialised kernel."""
    pipeline_is(fakes.untouched)
    configs = [triton.Config({"BK": 64}, num_warps=4), triton.Config({"BK": 32}, num_warps=8)]
    stock = triton.jit(kernels.gemm_pointers.fn)

    def benches(kernel: Any, **options: Any) -> int:
        timed: list[Any] = []
        tuner = tuner_of(kernel, configs, do_bench=lambda call, quantiles: timed.append(call) or [1.0] * 3,
                         cache_results=True)  # fmt: skip
        tuner.run(*tensors(), 64, **BLOCKS, grid=(1,), warmup=True, **options)
        return len(timed)

    launches: list[Any] = [
        lambda: benches(stock),
        lambda: benches(tawa.jit(stock)),
        lambda: benches(tawa.jit(stock, aref_depth=2)),
        lambda: benches(tawa.jit(stock), mma_depth=0),
    ]
    assert [launch() for launch in launches] == [2, 2, 2, 2]
    assert [launch() for launch in launches] == [0, 0, 0, 0]
    assert benches(tawa.jit(stock), enable_warp_specialization=False) == 0, "it is stock Triton's kernel"
    with tawa.scope(mma_depth=0):
        assert [benches(tawa.jit(stock)), benches(stock)] == [2, 2]
        assert [benches(tawa.jit(stock)), benches(stock)] == [0, 0]


def test_a_plain_triton_kernel_is_refused_with_the_cure(driver: None) -> None:
    with pytest.raises(tawa.PlanError, match=r"'gemm_pointers', which is a plain triton.jit(.|\n)*@tawa.jit between"):
        tuner_of(kernels.gemm_pointers).warmup(*tensors(), 64, **BLOCKS, grid=(1,))


def test_without_tawas_options_it_is_a_triton_config(driver: None) -> None:
    config = tawa.Config({"BK": 64}, num_warps=4, num_stages=2)
    same = triton.Config({"BK": 64}, num_warps=4, num_stages=2)
    assert config == same and str(config) == str(same) and hash(config) == hash(same)
    tuner_of(kernels.gemm_pointers, [config, same]).warmup(*tensors(), 64, **BLOCKS, grid=(1,))


def test_a_configuration_is_json_even_with_a_plan() -> None:
    config = tawa.Config({"BK": 64}, plan=fakes.plan_of(4))
    again = triton.Config(**json.loads(json.dumps(config.__dict__)))
    assert again == config
    assert tawa.Plan.from_json(again.kwargs["plan"]) == fakes.plan_of(4)


@pytest.mark.parametrize("options", [{"aref_depth": 0}, {"mma_depth": -1}, {"num_consumer_groups": 3}, {"plan": 7}])
def test_a_bad_option_is_found_when_the_configuration_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(tawa.PlanError):
        tawa.Config({}, **options)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_plan_of_three_groups_is_refused_at_once_since_no_launch_has_warps_for_it(as_text: bool) -> None:
    plan = fakes.plan_of(2)
    three = replace(plan, partitions=(plan.partitions[0], *[plan.partitions[1]] * 3))
    given = three.to_json() if as_text else three
    for use in (lambda: tawa.Config({}, plan=given), lambda: tawa.jit(kernels.gemm_pointers, plan=given)):
        with pytest.raises(tawa.PlanError, match=r"a Plan of 3 consumer groups.* cure: a Plan of 1 or 2"):
            use()


def test_a_configuration_that_does_not_fit_is_skipped_by_the_tuner(pipeline_is: Any, driver: None) -> None:
    pipeline_is(fakes.uses_shared(slot_bytes=65536, natural_depth=2))
    configs = [tawa.Config({"BK": 64}, aref_depth=2), tawa.Config({"BK": 64}, aref_depth=4)]

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        return [1.0] * 3

    tuner = tuner_of(tawa.jit(kernels.gemm_pointers), configs, do_bench=bench)
    tuner.run(*tensors(), 64, **BLOCKS, grid=(1,), warmup=True)
    assert tuner.best_config.kwargs["aref_depth"] == 2


@pytest.mark.parametrize(
    "name, meant",
    [("aref_dept", "aref_depth"), ("num_warp", "num_warps"), ("num_consumer_group", "num_consumer_groups")],
)
def test_an_unknown_option_is_told_with_the_right_one(name: str, meant: str) -> None:
    with pytest.raises(tawa.PlanError, match=f"unknown option '{name}' of tawa.Config: did you mean '{meant}'?"):
        tawa.Config({"BK": 64}, **{name: 2})


def test_an_option_like_none_is_told_with_all_of_them() -> None:
    with pytest.raises(tawa.PlanError, match=r"unknown option 'colour'(.|\n)*takes aref_depth,(.|\n)*num_warps"):
        tawa.Config({"BK": 64}, colour=3)
