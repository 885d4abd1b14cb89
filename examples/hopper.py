"""What the examples need to run: PyTorch and a Hopper GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def torch_on_hopper(instead: str) -> Any:
    """Returns the torch module; ends the program with one line if PyTorch or a Hopper GPU is missing.

    instead: the sentence that says what works without either.
    """
    needs = "This example needs PyTorch and a Hopper GPU (H100, H200)"
    try:
        import torch
    except ImportError:
        raise SystemExit(f"{needs}; PyTorch is not installed. {instead}") from None
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        raise SystemExit(f"{needs}; there is no such GPU here. {instead}")
    return torch


def check_errors(names: tuple[str, ...], found: tuple[Any, ...], peer: tuple[Any, ...], exact: tuple[Any, ...]) -> None:
    """Prints the largest errors of our and of PyTorch's tensors; raises AssertionError if ours are much larger."""
    width = max(map(len, names))
    for name, one, two, three in zip(names, found, peer, exact, strict=True):
        error, peer_error = ((it.double() - three).abs().max().item() for it in (one, two))
        print(f"largest error of {name:>{width}} against float64: {error:.2e} (PyTorch {peer_error:.2e})")
        assert error <= 4 * peer_error


def median_us(functions: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The median time of each function in microseconds, taken alternately: the GPU slows down as it warms up."""
    import torch
    import triton

    times: dict[str, list[float]] = {name: [] for name in functions}
    with torch.no_grad():
        for _ in range(10):
            for name, function in functions.items():
                time_ms = triton.testing.do_bench(function, warmup=2, rep=10, return_mode="median")
                times[name].append(1e3 * time_ms)
    return {name: sorted(some)[5] for name, some in times.items()}
