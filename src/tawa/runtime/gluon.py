"""`tawa.jit` on a Gluon kernel: it is compiled as it is, and its protocol is verified in the compile.

```python
@tawa.jit
@gluon.jit
def gemm(a, b, c, M, N, K, …): ...
```

A refuted kernel is a warning, or with ``TAWA_GLUON=raise`` a ProtocolError; see `tawa.bridge.gluon.check`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction

from tawa.bridge.driver.request import Request
from tawa.runtime.function import TawaFunction
from tawa.runtime.requests import refuse_options


class GluonFunction(TawaFunction, GluonJITFunction[Any]):
    """A `gluon.jit` function under `tawa.jit`. Launches take none of Tawa's options: there is nothing to decide."""

    def __init__(self, fn: Any, defaults: Request, **triton_options: Any) -> None:
        super().__init__(fn, defaults, **triton_options)
        self._checking: dict[int, tuple[Request, Request]] = {}

    def request_for(self, given: dict[str, Any]) -> Request:
        """The request of a launch in this context; raises PlanError if options are given."""
        refuse_options(self, given)
        request = super().request_for(given)
        if request.gluon != "auto":
            return request
        if id(request) not in self._checking:  # kept: a request finds its part of the cache's key once
            self._checking[id(request)] = request, replace(request, gluon="warn")
        return self._checking[id(request)][1]

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launches the kernel, or with `warmup` only compiles it, as `JITFunction.run`."""
        self.last_kernel = self._run_by_triton(args, grid, warmup, kwargs)
        return self.last_kernel
