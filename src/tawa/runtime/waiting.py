"""`tawa.wait`: until nothing is compiled in the background any more."""

from __future__ import annotations

from tawa.bridge.launch.first import background
from tawa.runtime.progress import progress


def wait(timeout: float | None = None) -> bool:
    """Waits until nothing is compiled in the background any more.

    timeout: in seconds; None: as long as it takes. Returns whether all has ended.
    """
    with progress("compiling in the background"):
        return background.wait(timeout)


__all__ = ["wait"]
