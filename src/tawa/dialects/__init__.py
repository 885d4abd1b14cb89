"""Dialects: what operations mean to Tawa. Importing this package declares all of them."""

from tawa.dialects import aref, arith, builtin, math, scf, tcgen05, tt, ttg, ttng, warp
from tawa.dialects.declare.declaration import (
    Effect,
    OpView,
    Refinement,
    by_name,
    declared_ops,
    is_opaque,
    is_terminator,
    op_class,
    op_names,
)
from tawa.dialects.declare.structure import structure_rules
from tawa.dialects.inline import markers

__all__ = [
    "Effect",
    "OpView",
    "Refinement",
    "aref",
    "arith",
    "builtin",
    "by_name",
    "declared_ops",
    "is_opaque",
    "is_terminator",
    "markers",
    "math",
    "op_class",
    "op_names",
    "scf",
    "structure_rules",
    "tcgen05",
    "tt",
    "ttg",
    "ttng",
    "warp",
]
