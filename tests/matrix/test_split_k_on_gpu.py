"""Programs that share tiles, on a GPU: the same bits in every run, on several streams, and in graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.pointers.cases import find as find_pointers

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def small(name: str, **sizes: int) -> Specimen:
    case = find_gemm(name)
    return replace(case, constexprs={**case.constexprs, "BM": 64}, num_warps=4).with_sizes(**sizes)


CASES: dict[str, tuple[Specimen, int]] = {
    "few rows": (small("plus_equals", M=16, N=4096, K=4096), 4),
    "odd sizes": (small("tile_fp16_nn", M=100, N=1000, K=1000), 3),
    "more shares than trips": (small("tile_fp16_nn", M=64, N=512, K=128), 8),
    "many tiles": (small("plus_equals", M=2048, N=4096, K=1024), 2),
    "eight warps": (find_gemm("tile_8warps_nn").with_sizes(M=512, N=1024, K=4096), 6),
    "through pointers": (find_pointers("tutorial_fp16_nn").with_sizes(M=256, N=512, K=2048), 5),
}


@pytest.fixture(params=CASES)
def launches(request: pytest.FixtureRequest) -> Any:
    """The case, its inputs, a function that makes outputs full of NaN, and one that launches."""
    import tawa
    from tests.cases import launch

    case, shares = CASES[request.param]
    kernel: Any = tawa.jit(case.kernel)
    inputs = launch.make_tensors(case, seed=3)

    def fresh() -> dict[str, Any]:
        tensors = {key: value.clone() for key, value in inputs.items()}
        launch.poison(case, tensors)
        return tensors

    def run(tensors: dict[str, Any]) -> None:
        launch.launch(case, kernel, tensors, plan={"split_k": shares}, precision="relaxed")

    return case, fresh, run


def test_results_are_right_and_the_same_in_every_run(launches: Any) -> None:
    import torch

    from tests.cases.check import judge_all

    case, fresh, run = launches
    first = fresh()
    run(first)
    assert judge_all(case, first, [first]).faults == ()
    for _ in range(50):
        again = fresh()
        run(again)
        assert again["c"].view(torch.uint8).equal(first["c"].view(torch.uint8))


def test_launches_on_several_streams_do_not_disturb_each_other(launches: Any) -> None:
    import torch

    _, fresh, run = launches
    wanted = fresh()
    run(wanted)
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = [[fresh() for _ in range(8)] for _ in streams]
    torch.cuda.synchronize()
    for number in range(8):
        for stream, tensors in zip(streams, found, strict=True):
            with torch.cuda.stream(stream):
                run(tensors[number])
    torch.cuda.synchronize()
    for tensors in (it for each in found for it in each):
        assert tensors["c"].view(torch.uint8).equal(wanted["c"].view(torch.uint8))


def test_graphs_are_replayed_beside_eager_launches(launches: Any) -> None:
    import torch

    _, fresh, run = launches
    wanted, captured = fresh(), [fresh() for _ in range(3)]
    run(wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for tensors in captured:
            run(tensors)
    side = torch.cuda.Stream()
    for _ in range(5):
        eager = fresh()
        for tensors in captured:
            tensors["c"].fill_(float("nan"))
        torch.cuda.synchronize()
        graph.replay()
        with torch.cuda.stream(side):
            run(eager)
        torch.cuda.synchronize()
        for tensors in (eager, *captured):
            assert tensors["c"].view(torch.uint8).equal(wanted["c"].view(torch.uint8))
