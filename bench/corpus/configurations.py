"""Compares Tawa's kernel with stock Triton's in every configuration that an autotuner tries.

The outputs of an operation come only from the chosen configurations; this checks the others too. Each configuration
that Tawa specialises runs on the arguments of the launch, twice under stock Triton and several times under Tawa. It is
a race if the results of Tawa differ from run to run and those of stock do not; it is wrong if they are far from
stock's. During the comparison no launch is left to the stock kernel as unprofitable, because tests use short launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tawa.bridge.launch.forecasts import Forecasts

RUNS = 3
MOST_BYTES = 2 << 30  # bytes of all tensors of a launch: six copies of each are kept
FARTHEST = 2.0**-6  # of the largest value; more for 8-bit values, whose neighbours differ by a quarter
FARTHEST_8_BITS = 0.5


@dataclass(frozen=True, slots=True)
class Compared:
    """One configuration.

    moves: whether Tawa's results differ from run to run. apart: the distance of the worst tensor from stock's, relative
    to its largest value and divided by the allowed distance; more than 1 is wrong.
    """

    kernel: str
    config: str
    moves: bool
    apart: float

    def wrong(self) -> str:
        """What is wrong with it; empty if nothing is."""
        what = "moves from run to run" if self.moves else "is far from stock Triton's" if self.apart > 1 else ""
        return f"{self.kernel} with {self.config} {what} ({self.apart:.3g} of the distance that may be)" if what else ""


_found: list[Compared] | None = None
_choose = Forecasts.choose


def begin_comparing() -> list[Compared]:
    """Starts comparing; the list fills as autotuners try their configurations."""
    global _found
    _found = []
    Forecasts.choose = lambda self, values, grid, at_hand=False: None
    return _found


def stop_comparing() -> None:
    """Stops comparing."""
    global _found
    _found = None
    Forecasts.choose = _choose


def watch_tuners(switch_to: Callable[[str], None], mode: Callable[[], str]) -> None:
    """Wraps the autotuner's benchmark function for the rest of the process. mode: returns the current mode."""
    from triton.runtime.autotuner import Autotuner

    tuners: Any = Autotuner
    original = tuners._bench

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        if _found is None or mode() != "tawa":
            return original(self, *args, config=config, **meta)
        seen = self.fn = _Seen(self.fn)
        try:
            times = original(self, *args, config=config, **meta)
        finally:
            self.fn = seen.function
        if seen.specialised and math.isfinite(times[0]):

            def run(name: str) -> None:
                switch_to(name)
                original(self, *args, config=config, **meta)

            kernel = getattr(self.base_fn, "__name__", str(self.base_fn))
            try:
                made = compare(kernel, str(config), run, tensors_of({**self.nargs, **meta}))
            finally:
                switch_to("tawa")
            _found.extend([made] if made else [])
        return times

    tuners._bench = _bench


class _Seen:
    """Launches a Triton function, and notes whether the launched kernel was specialised."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.specialised = False

    def run(self, *args: Any, **kwargs: Any) -> Any:
        kernel = self.function.run(*args, **kwargs)
        record = getattr(getattr(kernel, "metadata", None), "tawa", None) or {}
        self.specialised |= bool(record.get("applied"))
        return kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def tensors_of(arguments: Mapping[str, Any]) -> list[Any]:
    """The tensors that a launch may write: among the arguments, and behind descriptors."""
    import torch

    found = [getattr(it, "base", it) for it in arguments.values()]
    tensors = [it for it in found if isinstance(it, torch.Tensor) and it.numel()]
    return [it.detach() for it in tensors if not _is_repeated(it)]


def _is_repeated(tensor: Any) -> bool:
    """Whether several elements of the tensor share memory (stride 0): such tensors are never written."""
    return any(size > 1 and not step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def compare(kernel: str, config: str, run: Callable[[str], None], tensors: Sequence[Any]) -> Compared | None:
    """Runs one configuration in both modes on the same arguments; None if they are too large to copy."""
    if sum(it.numel() * it.element_size() for it in tensors) > MOST_BYTES:
        return None
    before = [it.clone() for it in tensors]

    def restore() -> None:
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copy_(value)

    def outcome(mode: str) -> list[Any]:
        restore()
        run(mode)
        return [it.clone() for it in tensors]

    try:
        stock, again = outcome("stock"), outcome("stock")
        runs = [outcome("tawa") for _ in range(RUNS)]
    finally:
        restore()
    moves = _same(stock, again) and not all(_same(runs[0], it) for it in runs[1:])
    apart = max((_apart(*pair) for it in runs for pair in zip(stock, it, strict=True)), default=0.0)
    return Compared(kernel, config, moves, apart)


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    import torch

    return all(
        torch.equal(it.contiguous().flatten().view(torch.uint8), other.contiguous().flatten().view(torch.uint8))
        for it, other in zip(first, second, strict=True)
    )


def _apart(stock: Any, ours: Any) -> float:
    largest = stock.float().nan_to_num(0.0, 0.0, 0.0).abs().max()
    same = (stock == ours) | (stock.isnan() & ours.isnan())
    distance = (stock.float() - ours.float()).abs().masked_fill(same, 0.0).nan_to_num(float("inf")).max()
    limit = FARTHEST_8_BITS if stock.element_size() == 1 else FARTHEST
    return float(distance) / (limit * float(largest) + 1e-30)
