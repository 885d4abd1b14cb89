"""The structural rules of all dialects, for `tawa.ir.verify_structure`: types across regions, terminators."""

from __future__ import annotations

from functools import cache

from tawa.dialects.declare.declaration import OpView, declared_ops
from tawa.ir import Operation, StructureRules
from tawa.ir.verifier import OpCheck


@cache
def structure_rules() -> StructureRules:
    """Terminators, isolated operations and the structure rule of each declared operation that has one."""
    declared = declared_ops()
    return StructureRules(
        terminators=frozenset(it.NAME for it in declared if it.TERMINATOR),
        isolated=frozenset(it.NAME for it in declared if it.ISOLATED),
        checks=tuple((it.NAME, _check_of(it)) for it in declared if it.check is not OpView.check),
    )


def _check_of(declared: type[OpView]) -> OpCheck:
    def check(op: Operation) -> str | None:
        return declared(op).check()

    return check
