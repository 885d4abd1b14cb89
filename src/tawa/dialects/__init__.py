"""Dialects: what operations mean to Tawa. Importing this package declares all of them."""

from tawa.dialects import aref, arith, scf, tt, ttg, ttng, warp
from tawa.dialects.registry import Effect, OpSpec, all_specs, spec_of
from tawa.dialects.structure import structure_rules

__all__ = [
    "Effect",
    "OpSpec",
    "all_specs",
    "aref",
    "arith",
    "scf",
    "spec_of",
    "structure_rules",
    "tt",
    "ttg",
    "ttng",
    "warp",
]
