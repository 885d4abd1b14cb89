"""The IR: one small data model for all four levels, read from and written to MLIR's generic form.

It is independent of dialects; `tawa.dialects` defines the operations.
"""

from tawa.ir.core import UNKNOWN_LOC, Block, Module, Operation, Region, Use, Value
from tawa.ir.locations import source_of
from tawa.ir.parser import parse_module
from tawa.ir.printer import print_module, print_op
from tawa.ir.rewriter import Builder, ValueMap, clone_op, clone_region, copy_module, replace_op
from tawa.ir.types import (
    MemDescType,
    OpaqueType,
    PointerType,
    ScalarType,
    TensorDescType,
    TensorType,
    is_scalar,
    memdesc_type,
    parse_type,
    shape_of,
)
from tawa.ir.verifier import StructureError, StructureRules, verify_structure
from tawa.ir.worklist import Worklist

__all__ = [
    "UNKNOWN_LOC",
    "Block",
    "Builder",
    "MemDescType",
    "Module",
    "OpaqueType",
    "Operation",
    "PointerType",
    "Region",
    "ScalarType",
    "StructureError",
    "StructureRules",
    "TensorDescType",
    "TensorType",
    "Use",
    "Value",
    "ValueMap",
    "Worklist",
    "clone_op",
    "clone_region",
    "copy_module",
    "is_scalar",
    "memdesc_type",
    "parse_module",
    "parse_type",
    "print_module",
    "print_op",
    "replace_op",
    "shape_of",
    "source_of",
    "verify_structure",
]
