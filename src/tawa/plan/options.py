"""`PlanOptions`: the part of a Plan that launch options and settings can pin.

The names are those of the paper (`aref_depth`, `mma_depth`) and of Meta's branch of Triton
(`num_consumer_groups`, `num_buffers_warp_spec`). ``None`` leaves a decision to the planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tawa.errors import PlanError, did_you_mean


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Launch options of one compile.

    enable_warp_specialization: True specialises or raises, False compiles the stock kernel, None lets Tawa decide.
    aref_depth: D, slots per ring, at least 1. `num_buffers_warp_spec` is another name for it.
    mma_depth: P, iterations whose wgmmas stay in flight, at least 0; needs D >= P + 1.
    num_consumer_groups: consumer partitions; 1: all consumer warps work on one tile together (cooperative), 2: each
        group computes half of the tile's rows.
    ping_pong: True makes the consumer groups issue their dots alternately, which needs two groups; False does not
        synchronise them. None is False.
    pointer_loads: how tiles that the kernel loads through pointers reach shared memory. "tma": as boxes by TMA, and a
        kernel with a tile that is not provably a box is declined; "cp.async": by copies of the producer's threads. None
        lets Tawa decide.
    persistent: True makes a kernel with one tile per program persistent: it runs as many programs as there are SMs,
        or a few for each, which iterate over tiles; False never does. None does so for launches for which it is
        expected to pay, and for kernels whose dots are in no loop.
    mode: "measure" specialises wherever it is legal; the first launch of each size that may run twice times several
        Plans and stock Triton's kernel, and the fastest is remembered. "automatic", or None, relies on what was
        measured before, else on the prediction.
    only_if_faster: True declines kernels that are not expected to beat stock Triton, False specialises wherever it is
        legal. None is True, unless the kernel is pinned or the user asks for a depth, a number of groups, ping-pong or
        a persistent kernel.
    precision: "relaxed" allows another order of the sums of rows than stock Triton's, and of the sums of dots over a
        loop, hence other rounding; "exact", or None, keeps the order of every sum.
    compile_budget_s: seconds for trying further Plans in Triton's back end; None: two Plans are tried at most.
    start: "stock": the first launches get stock Triton's kernel, until the specialised one is made in the background;
        "ready", or None: the first launch waits for it.
    """

    enable_warp_specialization: bool | None = None
    aref_depth: int | None = None
    mma_depth: int | None = None
    num_consumer_groups: int | None = None
    ping_pong: bool | None = None
    pointer_loads: Literal["tma", "cp.async"] | None = None
    persistent: bool | None = None
    mode: Literal["automatic", "measure"] | None = None
    only_if_faster: bool | None = None
    precision: Literal["exact", "relaxed"] | None = None
    compile_budget_s: float | None = None
    start: Literal["stock", "ready"] | None = None

    def __post_init__(self) -> None:
        for name in ("enable_warp_specialization", "ping_pong", "persistent", "only_if_faster"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise PlanError(f"{name}={value!r}: True, False or None is needed, not {type(value).__name__}")
        budget: Any = self.compile_budget_s
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | float) or not budget >= 0):
            raise PlanError(f"compile_budget_s={budget!r}: a number of seconds is needed, 0 or more")
        _check_count("aref_depth", self.aref_depth, 1, "a ring needs at least one slot")
        _check_count("mma_depth", self.mma_depth, 0, "0 waits for every wgmma, 1 keeps one iteration in flight")
        _check_whole("num_consumer_groups", self.num_consumer_groups)
        if self.num_consumer_groups not in (None, 1, 2):
            raise PlanError(
                f"num_consumer_groups={self.num_consumer_groups}: 1 and 2 are possible; "
                "cure: 1 (all consumer warps work on one tile), or 2 (each group has half of its rows)"
            )
        if self.pointer_loads not in (None, "tma", "cp.async"):
            raise PlanError(f"pointer_loads={self.pointer_loads!r}: 'tma', 'cp.async' or None is needed")
        if self.precision not in (None, "exact", "relaxed"):
            raise PlanError(f"precision={self.precision!r}: 'exact', 'relaxed' or None is needed")
        if self.mode not in (None, "automatic", "measure"):
            raise PlanError(f"mode={self.mode!r}: 'automatic', 'measure' or None is needed")
        if self.start not in (None, "stock", "ready"):
            raise PlanError(f"start={self.start!r}: 'stock', 'ready' or None is needed")
        if self.ping_pong and self.num_consumer_groups == 1:
            raise PlanError(
                "ping_pong=True, num_consumer_groups=1: ping-pong needs two groups; "
                "cure: num_consumer_groups=2 or ping_pong=False"
            )
        if self.aref_depth is not None and self.mma_depth is not None and self.aref_depth < self.mma_depth + 1:
            raise PlanError(
                f"aref_depth={self.aref_depth}, mma_depth={self.mma_depth}: a ring read with P iterations in flight "
                f"needs D >= P + 1; cure: aref_depth={self.mma_depth + 1} or mma_depth={self.aref_depth - 1}"
            )

    @property
    def pinned(self) -> bool:
        """Whether the user demands specialisation: if it is impossible, an error says why."""
        return self.enable_warp_specialization is True

    @property
    def wherever_legal(self) -> bool:
        """Whether to specialise even if it is not expected to pay: the user pinned it, set an option, or asked."""
        if self.mode == "measure":
            return True
        if self.only_if_faster is not None:
            return self.pinned or not self.only_if_faster
        named = (self.aref_depth, self.mma_depth, self.num_consumer_groups)
        return self.pinned or named != (None, None, None) or True in (self.ping_pong, self.persistent)

    @staticmethod
    def names() -> tuple[str, ...]:
        """Every launch option Tawa understands, aliases included."""
        return (*(field.name for field in fields(PlanOptions)), "num_buffers_warp_spec")

    @staticmethod
    def from_mapping(options: Mapping[str, Any]) -> PlanOptions:
        """Builds options from names and values; raises PlanError on an unknown name or a bad value."""
        known = dict(options)
        for name in known:
            if name not in PlanOptions.names():
                hint = did_you_mean(name, PlanOptions.names(), f"known: {', '.join(PlanOptions.names())}")
                raise PlanError(f"unknown option {name!r}: {hint}")
        alias = known.pop("num_buffers_warp_spec", None)
        if alias is not None:
            if known.get("aref_depth") not in (None, alias):
                raise PlanError(
                    f"num_buffers_warp_spec={alias} and aref_depth={known['aref_depth']} are two names for D; "
                    "cure: give one of them"
                )
            known["aref_depth"] = alias
        return PlanOptions(**known)

    def key(self) -> str:
        """A stable text for cache keys."""
        return ",".join(f"{name}={value}" for name, value in sorted(asdict(self).items()))


def _check_whole(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PlanError(f"{name}={value!r}: a whole number is needed, not {type(value).__name__}")


def _check_count(name: str, value: int | None, least: int, why: str) -> None:
    _check_whole(name, value)
    if value is not None and value < least:
        raise PlanError(f"{name}={value}: at least {least} is needed ({why}); cure: {name}={least} or more")
