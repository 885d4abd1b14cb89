"""Triton's launcher of one kernel, without the work at each launch that this kernel does not need.

`CudaLauncher.__call__` looks for scratch memory at each launch, and hands the launch over to a function in C. Few
kernels need scratch memory, and for the others that function can be called at once. The order of its arguments is that
of the installed Triton: 3.7 passes the kernel's arguments as one tuple, with a description of it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol


class Count(Protocol):
    """Something that counts launches."""

    launches: int


def straight(launcher: Callable[..., Any], count: Count | None = None) -> Callable[..., Any]:
    """What launches the kernel as `launcher` does, and sooner; any launcher but Triton's own stays as it is.

    count: is counted up by one at each launch.
    """
    from triton.backends.nvidia import driver

    kind: Any = driver.CudaLauncher
    it: Any = launcher
    if type(it) is not kind or it.global_scratch_size or it.profile_scratch_size or getattr(it, "gsan_enabled", False):
        return launcher if count is None else _counting(launcher, count)
    counted: Any = SimpleNamespace(launches=0) if count is None else count
    launch, together, dependent = it.launch, it.launch_cooperative_grid, it.launch_pdl

    if not hasattr(it, "kernel_signature"):

        def launch_spread(grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, *rest: Any) -> None:
            counted.launches += 1
            launch(grid_0, grid_1, grid_2, stream, function, together, dependent, None, None, *rest)

        return launch_spread
    notes, signature = it.arg_annotations, it.kernel_signature

    def launch_tuple(
        grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        counted.launches += 1
        launch(
            grid_0, grid_1, grid_2, stream, function, together, dependent, packed, metadata, enter, leave, None, None,
            notes, signature, args,
        )  # fmt: skip

    return launch_tuple


def _counting(launcher: Callable[..., Any], count: Count) -> Callable[..., Any]:
    def launch(*args: Any) -> None:
        count.launches += 1
        launcher(*args)

    return launch
