"""What a tuner of others, such as Triton's or Inductor's, has measured: which configurations get a specialised kernel.

1.00  1.10  1.18  1.24  1.60     the first three: at most `MOST_TWINS`, at most `CLOSE_TUNED` times the fastest
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.plan.thresholds import CLEAR_TUNED, CLOSE_TUNED, MOST_TWINS


def fastest_few(times: Sequence[float], fastest: float) -> list[int]:
    """The places of the configurations that get one. fastest: of all that was measured, which may be more."""
    order = sorted(range(len(times)), key=times.__getitem__)
    return [at for at in order if times[at] <= CLOSE_TUNED * fastest][:MOST_TWINS]


def is_faster(specialised: float, stock: float) -> bool:
    """Whether a tuner's times of one configuration say so."""
    return specialised * CLEAR_TUNED < stock
