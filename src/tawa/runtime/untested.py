"""`tawa.jit` on an untested Triton, which then works as if Tawa were not installed, with one warning.

Nothing of Triton is wrapped. The code relies only on `run` launching a jitted function, and calls the kernel's own. The
copy in front of the kernel has its type and attributes, for kernels that call it, autotuners and `isinstance`.
"""

from __future__ import annotations

from typing import Any

from tawa.bridge.driver.request import Request, surrounding_request
from tawa.bridge.triton.versions import refuse_pinned, warn_untested
from tawa.runtime.requests import OPTION_NAMES, layered, make_request, take_options
from tawa.runtime.settings import Settings


class LeftToTriton:
    """A mixin for the class of a jitted function: takes Tawa's options out of each launch, and nothing else."""

    arg_names: list[str]
    tawa_defaults: Request
    tawa_inner: Any
    last_kernel: Any = None

    def request_for(self, given: dict[str, Any]) -> Request:
        """The request of a launch with these options; raises PlanError on a bad option."""
        return make_request(given, layered(self.tawa_defaults, surrounding_request()), Settings.from_environment())

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launches as Triton does. Raises UnsupportedKernel if the launch demands specialisation."""
        request = self.request_for(take_options(kwargs, OPTION_NAMES.difference(self.arg_names)))
        refuse_pinned(request.pinned, getattr(self, "__name__", "the kernel"))
        if not request.stock:
            warn_untested()
        self.last_kernel = self.tawa_inner.run(*args, grid=grid, warmup=warmup, **kwargs)
        return self.last_kernel

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, '__module__', '')}:{getattr(self, '__name__', '')})"


def left_to_triton(kernel: Any, defaults: Request) -> Any:
    """The same kernel, of the same kind, whose launches take Tawa's options."""
    inner = getattr(kernel, "tawa_inner", kernel)
    kind = type("TawaFunction", (LeftToTriton, type(inner)), {})
    function: Any = kind.__new__(kind)
    vars(function).update(vars(inner))  # bypasses Triton's __setattr__, which refuses some names
    vars(function).update(tawa_defaults=defaults, tawa_inner=inner)
    return function
