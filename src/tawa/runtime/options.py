"""Tawa's launch options as a type checker and an editor see them."""

from __future__ import annotations

import os
from collections.abc import Mapping as Table
from typing import Any, Literal, TypedDict

from tawa.mapping import Mapping
from tawa.plan import Plan


class LaunchOptions(TypedDict, total=False):
    """The options of a launch, a scope or an installation: those of `tawa.PlanOptions`, a Plan, and a mapping."""

    enable_warp_specialization: bool | None
    aref_depth: int | None
    num_buffers_warp_spec: int | None
    mma_depth: int | None
    num_consumer_groups: int | None
    ping_pong: bool | None
    pointer_loads: Literal["tma", "cp.async"] | None
    persistent: bool | None
    mode: Literal["automatic", "measure"] | None
    only_if_faster: bool | None
    precision: Literal["exact", "relaxed"] | None
    compile_budget_s: float | None
    start: Literal["stock", "ready"] | None
    plan: Plan | Table[str, Any] | str | os.PathLike[str] | None
    mapping: Mapping | Table[str, Any] | str | os.PathLike[str] | None


__all__ = ["LaunchOptions"]
