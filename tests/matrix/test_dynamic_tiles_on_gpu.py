"""Tiles from a counter on a GPU: the same bits in any order, on several streams, and in graphs that are replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm

PERSISTENT = {"form": "persistent", "tiles": "dynamic"}
LONGEST = {**PERSISTENT, "tile_order": "longest_first"}
WRITTEN = {"tiles": "dynamic"}
CASES: dict[str, tuple[Specimen, dict[str, str]]] = {
    "gemm": (find_gemm("tile_fp16_nn").with_sizes(M=4096, N=4096, K=512), PERSISTENT),
    "gemm with a loop over tiles": (find_gemm("persistent").with_sizes(M=2048, N=2048, K=256), WRITTEN),
    "causal attention": (find_attention("two_loops_fp16_d128_causal"), LONGEST),
    "causal attention with a loop over tiles": (find_attention("persistent_fp16_d128_causal"), WRITTEN),
}
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


class Launches:
    """Launches of one case into outputs of their own. wanted: what the kernel writes with strided tiles."""

    def __init__(self, name: str) -> None:
        import tawa
        from tests.cases import launch
        from tests.cases.check import judge_all

        self.launch = launch
        self.case, self.plan = CASES[name]
        self.kernel: Any = tawa.jit(self.case.kernel)
        self.inputs = launch.make_tensors(self.case, seed=7)
        self.wanted = self.fresh()
        launch.launch(self.case, self.kernel, self.wanted, plan={**self.plan, "tiles": "strided"})
        assert judge_all(self.case, self.wanted, [self.wanted]).faults == ()

    def fresh(self) -> dict[str, Any]:
        """The inputs, with outputs full of NaN."""
        tensors = {key: value.clone() for key, value in self.inputs.items()}
        self.launch.poison(self.case, tensors)
        return tensors

    def __call__(self, tensors: dict[str, Any]) -> None:
        self.launch.launch(self.case, self.kernel, tensors, plan=self.plan)

    def right(self, tensors: dict[str, Any]) -> bool:
        """Whether the outputs have the same bits."""
        import torch

        names = self.launch.outputs(self.case)
        return all(tensors[key].view(torch.uint8).equal(self.wanted[key].view(torch.uint8)) for key in names)


@pytest.fixture(params=CASES)
def launches(request: pytest.FixtureRequest) -> Launches:
    return Launches(request.param)


def test_repeated_launches_give_the_same_bits(launches: Launches) -> None:
    for _ in range(20):
        tensors = launches.fresh()
        launches(tensors)
        assert launches.right(tensors)


def test_launches_on_several_streams_at_once_do_not_disturb_each_other(launches: Launches) -> None:
    import torch

    launches(launches.fresh())
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = [[launches.fresh() for _ in range(8)] for _ in streams]
    torch.cuda.synchronize()
    for number in range(8):
        for stream, tensors in zip(streams, found, strict=True):
            with torch.cuda.stream(stream):
                launches(tensors[number])
    torch.cuda.synchronize()
    assert all(launches.right(it) for tensors in found for it in tensors)


def captured(launches: Launches, count: int) -> tuple[Any, list[dict[str, Any]]]:
    """A graph of several launches, and what they write."""
    import torch

    graph, found = torch.cuda.CUDAGraph(), [launches.fresh() for _ in range(count)]
    with torch.cuda.graph(graph):
        for tensors in found:
            launches(tensors)
    return graph, found


def replayed(replay: Callable[[], None], times: int) -> None:
    for _ in range(times):
        replay()


def test_graphs_that_are_replayed_beside_other_launches_are_right(launches: Launches) -> None:
    import torch

    launches(launches.fresh())
    (one, first), (two, second) = captured(launches, 2), captured(launches, 3)
    streams = [torch.cuda.Stream() for _ in range(3)]
    beside = [launches.fresh() for _ in range(10)]
    for tensors in (*first, *second):
        launches.launch.poison(launches.case, tensors)
    torch.cuda.synchronize()
    with torch.cuda.stream(streams[0]):
        replayed(one.replay, 10)
    with torch.cuda.stream(streams[1]):
        replayed(two.replay, 10)
    with torch.cuda.stream(streams[2]):
        for tensors in beside:
            launches(tensors)
    torch.cuda.synchronize()
    assert all(launches.right(it) for it in (*first, *second, *beside))


def test_two_branches_of_one_graph_are_right(launches: Launches) -> None:
    import torch

    launches(launches.fresh())
    graph, found, side = torch.cuda.CUDAGraph(), [launches.fresh() for _ in range(2)], torch.cuda.Stream()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            launches(found[0])
        launches(found[1])
        torch.cuda.current_stream().wait_stream(side)
    replayed(graph.replay, 5)
    torch.cuda.synchronize()
    assert all(map(launches.right, found))


def test_threads_with_streams_of_their_own_are_right(launches: Launches) -> None:
    import threading

    import torch

    launches(launches.fresh())
    found = [launches.fresh() for _ in range(4)]
    torch.cuda.synchronize()

    def work(tensors: dict[str, Any]) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                launches(tensors)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(tensors,)) for tensors in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(map(launches.right, found))
