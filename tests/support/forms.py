"""Forms of a kernel by what is said of them."""

from __future__ import annotations

from tawa.plan import OperandPlan, Plan


def form_plan(
    groups: int = 1, *, persistent: bool = False, pointers: bool = False, programs: int = 1, dynamic: bool = False,
    longest_first: bool = False, split_k: int = 1,
) -> Plan:  # fmt: skip
    """The partial Plan of a form. groups: of a program. programs: that share a CTA. split_k: that share a tile."""
    return Plan(
        form="persistent" if persistent else "as_written",
        tiles="dynamic" if dynamic else None,
        tile_order="longest_first" if longest_first else None,
        groups=groups * programs,
        split="programs" if programs > 1 else None,
        split_k=split_k if split_k > 1 else None,
        operands=(OperandPlan(path="pointers"),) if pointers else (),
    )
