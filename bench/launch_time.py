"""Host time of a launch: ``python -m bench.launch_time [--only NAME] [--rounds 60] [--hold]``.

How long Python is busy with one launch: from the call until it returns, not until the GPU is done. Each kernel is
launched by stock Triton, and through Tawa in each way that a launch can take. All ways are timed round-robin, a burst
of launches each round; a row is the median over the rounds. `--hold` fails if a way takes longer than `LIMITS` says.
`--profile` prints where the time of one way goes.

Without a GPU the driver is a stand-in (`bench.stand_in_driver`), and the time is that of the thread, so that other work
on the machine does not count: what Triton, Tawa and PyTorch take, without the driver. The driver's own time is the same
for all ways of a kernel, except that descriptors which are encoded already save calls of it.

Results: ``bench/results/launch_time.json``.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.harness import Report, Row, Timing, describe

STOCK = "stock Triton"
INSTALLED = " (installed)"
"""Ends the name of a way that is timed while `tawa.install` is in effect."""
LAUNCHES = 40
LIMITS = {"tawa.jit": 5.0, "Tawa" + INSTALLED: 5.0, "left to stock": 1.0}
"""Microseconds more than stock Triton: of a kernel under `tawa.jit`, of one under `tawa.install`, of a stock kernel."""
LEFT_TO_STOCK = ("short pointer GEMM", "softmax")
MOST_US = {"tawa.ops.attention": 60.0, "tawa.ops.matmul": 45.0, "tawa.ops.linear": 45.0}
"""Microseconds of eager calls without gradients."""
Ways = dict[str, Callable[[], Any]]


def device() -> str:
    """Where tensors are: on the GPU, or on the CPU with the stand-in for a driver."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def tensor(*shape: int, dtype: str = "float16") -> Any:
    """A tensor. Its values do not matter, but are no NaN."""
    import torch

    return torch.zeros(shape, dtype=getattr(torch, dtype), device=device())


def copied(kernel: Any) -> Any:
    """The kernel under `triton.jit` once more, with caches of its own."""
    import triton

    return triton.jit(kernel.fn)


def ways_of(kernel: Any, launch: Callable[..., Any], options: Mapping[str, dict[str, Any]]) -> Ways:
    """The ways to launch a kernel. launch: takes the kernel, and options. options: of the ways with `tawa.jit`."""
    import tawa

    stock, installed = copied(kernel), copied(kernel)
    made: Ways = {STOCK: lambda: launch(stock), "Tawa" + INSTALLED: lambda: launch(installed)}
    for name, given in options.items():
        ours = tawa.jit(copied(kernel), **given)
        made[name] = lambda ours=ours: launch(ours)
    return made


def derivatives(call: Callable[[], Any], leaves: Sequence[Any]) -> Callable[[], Any]:
    """Computes the gradients of a call, again and again from one graph: the backward pass alone."""
    import torch

    made: list[Any] = []

    def launch() -> Any:
        if not made:
            made.append(call())
            made.append(torch.zeros_like(made[0]))
        return torch.autograd.grad(made[0], leaves, made[1], retain_graph=True)

    return launch


def descriptor_gemm() -> Ways:
    """A GEMM with one tile per program, operands through descriptors of the host's, as in the demo."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tawa.demo.kernels.gemm import gemm_tile

    a, b, c = tensor(4096, 1024), tensor(1024, 4096), tensor(4096, 4096)
    tile = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8, "A_T": False, "B_T": False}
    descriptors = [
        TensorDescriptor.from_tensor(x, list(box)) for x, box in ((a, (128, 64)), (b, (64, 256)), (c, (128, 256)))
    ]

    def launch(kernel: Any) -> Any:
        return kernel[(512,)](*descriptors, 4096, 4096, 1024, **tile, num_warps=8, num_stages=3)

    made = ways_of(gemm_tile, launch, _FORMS)
    if device() == "cuda":
        made["torch.mm"] = lambda: torch.mm(a, b, out=c)
    return made


def pointer_gemm() -> Ways:
    """Triton's tutorial GEMM with pointer loads, which Tawa promotes to TMA: descriptors are added to each launch."""
    import torch

    from tests.cases.pointers.gemm import gemm_tutorial

    a, b, c = tensor(4096, 1024), tensor(1024, 4096), tensor(4096, 4096)
    tile = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8, "ACT": ""}

    def launch(kernel: Any) -> Any:
        strides = (it for x in (a, b, c) for it in x.stride())
        return kernel[(512,)](a, b, c, 4096, 4096, 1024, *strides, **tile, num_warps=8, num_stages=3)

    made = ways_of(gemm_tutorial, launch, _FORMS)
    if device() == "cuda":
        made["torch.mm"] = lambda: torch.mm(a, b, out=c)
    return made


_FORMS: dict[str, dict[str, Any]] = {
    "tawa.jit": {"only_if_faster": False},
    "tawa.jit, as written": {"only_if_faster": False, "persistent": False},
    "tawa.jit, left to stock": {"enable_warp_specialization": False},
}


def short_gemm() -> Ways:
    """The pointer GEMM on so small a problem that the launcher takes the stock kernel."""
    from tests.cases.pointers.gemm import gemm_tutorial

    a, b, c = tensor(256, 256), tensor(256, 256), tensor(256, 256)
    tile = {"BM": 128, "BN": 128, "BK": 64, "GROUP_M": 8, "ACT": ""}

    def launch(kernel: Any) -> Any:
        strides = (it for x in (a, b, c) for it in x.stride())
        return kernel[(4,)](a, b, c, 256, 256, 256, *strides, **tile, num_warps=8, num_stages=3)

    return ways_of(gemm_tutorial, launch, {"tawa.jit": {}})


def softmax() -> Ways:
    """A kernel without a dot: Tawa has nothing to do with it."""
    from tests.bridge.kernels import softmax_rows

    x, y = tensor(256, 256), tensor(256, 256)
    return ways_of(softmax_rows, lambda kernel: kernel[(256,)](x, y, 256, BLOCK=256), {"tawa.jit": {}})


def tuned_gemm() -> Ways:
    """The pointer GEMM under `triton.autotune`, with one configuration: it is tuned before it is timed."""
    import triton

    import tawa
    from tests.cases.pointers.gemm import gemm_tutorial

    a, b, c = tensor(4096, 1024), tensor(1024, 4096), tensor(4096, 4096)
    tile = {"BM": 128, "BN": 256, "BK": 64, "GROUP_M": 8}

    def tuned(kernel: Any, config: Any) -> Callable[[], Any]:
        function = triton.autotune([config], key=["M", "N", "K"])(kernel)

        def launch() -> Any:
            strides = (it for x in (a, b, c) for it in x.stride())
            return function[lambda meta: (4096 // meta["BM"] * 4096 // meta["BN"],)](
                a, b, c, 4096, 4096, 1024, *strides, ACT=""
            )

        return launch

    return {
        STOCK: tuned(copied(gemm_tutorial), triton.Config(tile, num_warps=8, num_stages=3)),
        "Tawa" + INSTALLED: tuned(copied(gemm_tutorial), triton.Config(tile, num_warps=8, num_stages=3)),
        "tawa.jit": tuned(tawa.jit(copied(gemm_tutorial)), tawa.Config(tile, num_warps=8, num_stages=3, aref_depth=3)),
    }


def attention() -> Ways:
    """The attention operator: eager, with gradients, and compiled."""
    import torch

    from tawa.ops import attention as operator
    from tawa.ops import attention_decode, attention_varlen

    q, k, v = (tensor(2, 16, 2048, 128) for _ in range(3))
    leaves = tuple(x.clone().requires_grad_() for x in (q, k, v))
    backend = "inductor" if device() == "cuda" else "aot_eager"
    compiled = torch.compile(lambda q, k, v: operator(q, k, v, causal=True), backend=backend, fullgraph=True)
    theirs = torch.nn.functional.scaled_dot_product_attention
    last, cache = tensor(2, 16, 1, 128), tensor(2, 16, 4096, 128)
    lengths = torch.tensor([1000, 4096], dtype=torch.int32, device=device())
    one, keys, values = (tensor(4096, 16, 128) for _ in range(3))
    cu = torch.tensor([0, 1000, 4096], dtype=torch.int32, device=device())
    packed = tuple(x.clone().requires_grad_() for x in (one, keys, values))

    def varlen() -> Any:
        return attention_varlen(*packed, cu, cu, 3096, 3096, causal=True)

    made: Ways = {
        "tawa.ops.attention": lambda: operator(q, k, v, causal=True),
        "tawa.ops.attention, as a BSHD view": lambda: operator(*views, causal=True),
        "tawa.ops.attention, with a graph for gradients": lambda: operator(*leaves, causal=True),
        "tawa.ops.attention, its gradients": derivatives(lambda: operator(*leaves, causal=True), leaves),
        "tawa.ops.attention, compiled": lambda: compiled(q, k, v),
        "tawa.ops.attention_decode": lambda: attention_decode(last, cache, cache, cache_seqlens=lengths),
        "tawa.ops.attention_varlen": lambda: attention_varlen(one, keys, values, cu, cu, 3096, 3096, causal=True),
        "tawa.ops.attention_varlen, with a graph for gradients": varlen,
        "tawa.ops.attention_varlen, its gradients": derivatives(varlen, packed),
    }
    views = tuple(tensor(2, 2048, 16, 128).transpose(1, 2) for _ in range(3))
    if device() == "cuda":
        made["torch SDPA"] = lambda: theirs(q, k, v, is_causal=True)
        made["torch SDPA, with a graph for gradients"] = lambda: theirs(*leaves, is_causal=True)
        made["torch SDPA, its gradients"] = derivatives(lambda: theirs(*leaves, is_causal=True), leaves)
    return made


def convolution() -> Ways:
    """The convolution operator: without a copy, with a copy of the input in window order, and with its gradient."""
    import torch

    from tawa.ops import conv2d

    def last(*shape: int) -> Any:
        return tensor(*shape).to(memory_format=torch.channels_last)

    x, weight, bias = last(2, 64, 28, 28), last(64, 64, 3, 3), tensor(64)
    few, filters = last(2, 3, 28, 28), last(64, 3, 7, 7)
    leaf = weight.clone().requires_grad_()
    made: Ways = {
        "tawa.ops.conv2d": lambda: conv2d(x, weight, bias, padding=1, relu=True, form="direct"),
        "tawa.ops.conv2d, im2win": lambda: conv2d(few, filters, stride=2, form="im2win"),
        "tawa.ops.conv2d, with a graph for gradients": lambda: conv2d(x, leaf, bias, padding=1, form="direct"),
    }
    if device() == "cuda":
        made["torch conv2d"] = lambda: torch.nn.functional.conv2d(x, weight, bias, padding=1)
    return made


def products() -> Ways:
    """Products of matrices: eager, and with a graph for gradients; of groups of rows; a mixture of experts."""
    import torch

    from tawa.ops import batched_mm, grouped_mm, linear, matmul, moe

    x, weight, bias = tensor(512, 1024), tensor(1024, 1024), tensor(1024)
    source, leaf, several = x.clone().requires_grad_(), weight.clone().requires_grad_(), tensor(4, 256, 256)
    ends = torch.tensor([100, 100, 300, 512], dtype=torch.int32, device=device())
    matrices = tensor(4, 1024, 1024)
    experts = torch.arange(1024, device=device()).reshape(512, 2) % 4
    weights, gate_up, down = torch.rand(512, 2, device=device()), tensor(4, 512, 1024), tensor(4, 1024, 256)
    made: Ways = {
        "tawa.ops.matmul": lambda: matmul(x, weight),
        "tawa.ops.linear": lambda: linear(x, weight, bias),
        "tawa.ops.linear, with a graph for gradients": lambda: linear(x, leaf, bias),
        "tawa.ops.linear, its gradients": derivatives(lambda: linear(source, leaf, bias), (source, leaf)),
        "tawa.ops.batched_mm": lambda: batched_mm(several, several),
        "tawa.ops.grouped_mm": lambda: grouped_mm(x, matrices, ends),
        "tawa.ops.moe": lambda: moe(x, gate_up, down, weights, experts),
    }
    if device() == "cuda":
        made["torch.mm"] = lambda: torch.mm(x, weight)
        made["torch linear"] = lambda: torch.nn.functional.linear(x, weight, bias)
        theirs = torch.nn.functional.linear
        made["torch linear, with a graph for gradients"] = lambda: theirs(x, leaf, bias)
        made["torch linear, its gradients"] = derivatives(lambda: theirs(source, leaf, bias), (source, leaf))
    return made


CASES: dict[str, Callable[[], Ways]] = {
    "descriptor GEMM": descriptor_gemm,
    "pointer GEMM": pointer_gemm,
    "short pointer GEMM": short_gemm,
    "softmax": softmax,
    "pointer GEMM, autotuned": tuned_gemm,
    "attention": attention,
    "convolution": convolution,
    "products": products,
}


@contextmanager
def _around(way: str) -> Iterator[None]:
    """With Tawa installed, if the way says so."""
    import tawa

    if not way.endswith(INSTALLED):
        yield
        return
    tawa.install()
    try:
        yield
    finally:
        tawa.uninstall()


def _finish() -> None:
    """Waits for the GPU: a full queue would make launches wait."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def burst_us(launch: Callable[[], Any]) -> float:
    """Microseconds of a launch, the mean of a few in a row."""
    clock = time.perf_counter if device() == "cuda" else time.thread_time
    _finish()
    start = clock()
    for _ in range(LAUNCHES):
        launch()
    took = clock() - start
    _finish()
    return took / LAUNCHES * 1e6


def time_ways(ways: Ways, rounds: int) -> tuple[dict[str, Timing], dict[str, str]]:
    """Host times by way, round-robin, and the errors of ways that failed."""
    import tawa

    errors: dict[str, str] = {}
    for way, launch in ways.items():
        try:
            with _around(way):
                for _ in range(3):
                    launch()
                tawa.wait()
                burst_us(launch)
        except Exception as error:
            errors[way] = describe(error)
    names = [way for way in ways if way not in errors]
    samples: dict[str, list[float]] = {way: [] for way in names}
    gc.disable()
    for number in range(rounds):
        start = number % max(1, len(names))
        for way in names[start:] + names[:start]:
            with _around(way):
                samples[way].append(burst_us(ways[way]) / 1000)
        gc.collect(0)
    gc.enable()
    return {way: Timing.of(it, captured=False) for way, it in samples.items()}, errors


def too_slow(case: str, timings: Mapping[str, Timing]) -> list[str]:
    """What takes longer than it may."""
    found: list[str] = []
    stock = timings.get(STOCK)
    for way, timing in timings.items():
        took = timing.median_ms * 1000
        if took > MOST_US.get(way, took):
            found.append(f"{case}, {way}: {took:.1f} µs, at most {MOST_US[way]:.0f}")
        if stock is None or way in (STOCK, "torch.mm"):
            continue
        left = case in LEFT_TO_STOCK or way.endswith("left to stock")
        limit = LIMITS["left to stock" if left else way.split(",")[0]]
        more = took - stock.median_ms * 1000
        if more > limit:
            found.append(f"{case}, {way}: {more:.1f} µs more than stock Triton, at most {limit:.0f}")
    return found


def show_profile(launch: Callable[[], Any], way: str) -> None:
    """Prints where the time of a launch goes."""
    with _around(way):
        launch()
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(1000):
            launch()
        profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Measures, prints and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, action="append", help="only this case (may be repeated)")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--name", default="launch_time", help="of the result file")
    parser.add_argument("--hold", action="store_true", help="fail if a way takes longer than it may")
    parser.add_argument("--profile", metavar="WAY", help="profile this way instead")
    arguments = parser.parse_args()
    if device() == "cpu":
        from bench import stand_in_driver

        stand_in_driver.install()
        stand_in_driver.install_for_operators()
    report = None if arguments.profile else Report(arguments.name)
    slow: list[str] = []
    for case in arguments.only or CASES:
        ways = CASES[case]()
        if report is None:
            show_profile(ways[arguments.profile], arguments.profile)
            continue
        timings, errors = time_ways(ways, arguments.rounds)
        slow += too_slow(case, timings)
        for way in ways:
            if way in errors:
                report.add(Row({"case": case}, way, error=errors[way]))
                print(f"{case:28}{way:48}{errors[way]}", flush=True)
            else:
                it = timings[way]
                report.add(Row.timed({"case": case}, way, it, 0.0))
                shown = " ".join(f"{ms * 1000:7.1f}" for ms in (it.median_ms, it.p10_ms, it.p90_ms))
                print(f"{case:28}{way:48}{shown} µs", flush=True)
    print(*slow, sep="\n")
    if arguments.hold and slow:
        sys.exit(1)


if __name__ == "__main__":
    main()
