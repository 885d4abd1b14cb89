"""Mappings: a Plan in the kernel's own words, written by a person and kept beside the kernel."""

from tawa.mapping.mapping import Mapping
from tawa.mapping.sections import (
    GroupWords,
    KernelWords,
    LoopWords,
    OperandWords,
    PartitionWords,
    RingWords,
    StoreWords,
)

__all__ = [
    "GroupWords", "KernelWords", "LoopWords", "Mapping", "OperandWords", "PartitionWords", "RingWords", "StoreWords",
]  # fmt: skip
