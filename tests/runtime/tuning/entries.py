"""Entries to put into tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tawa.plan import Plan
from tawa.plan.search.measured import Timed
from tawa.runtime.tuning.table import Entry, versions_here

TIMES = (Timed("stock Triton", {"form": "stock"}, 20.0, 1.0), Timed("persistent", {"form": "persistent"}, 10.0, 0.5))


def entry(**changes: Any) -> Entry:
    """An entry of this version."""
    known = Entry(
        "k" * 32, "gemm", "a card", versions_here(), "K <= 4096, 3 waves", ((3, "K"),), Plan(form="persistent"),
        "persistent", TIMES, "2030-01-01T00:00:00+00:00",
    )  # fmt: skip
    return replace(known, **changes)
