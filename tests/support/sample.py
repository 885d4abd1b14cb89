"""A choice of cases for tests that compile each of them: all of the matrix in CI would take too long on two cores.

``TEST_EVERY_CASE=1 make test`` takes all. What runs over all of it anyway: the benches, on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

EVERY_CASE = bool(os.environ.get("TEST_EVERY_CASE"))


def sample(names: Sequence[str], step: int) -> list[str]:
    """Every `step`-th name, beginning with the first; all of them if asked for."""
    return list(names) if EVERY_CASE else list(names[::step])
