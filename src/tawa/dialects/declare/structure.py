"""The structural rules of all dialects, for `tawa.ir.verify_structure`: types across regions, terminators."""

from __future__ import annotations

from functools import cache

from tawa.dialects.declare.declaration import OpView, declared_ops, op_class
from tawa.dialects.declare.fields import Attribute
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


def unreadable_attribute(op: Operation) -> str:
    """The name of a declared attribute that an operation lacks, or that is of another kind; empty if it has all."""
    declared = op_class(op.name)
    view = declared(op) if declared is not None else None
    for name in _attributes(declared) if declared is not None else ():
        try:
            getattr(view, name)
        except (KeyError, ValueError):
            return name
    return ""


@cache
def _attributes(declared: type[OpView]) -> tuple[str, ...]:
    return tuple(name for name in dir(declared) if isinstance(getattr(declared, name), Attribute))


def _check_of(declared: type[OpView]) -> OpCheck:
    def check(op: Operation) -> str | None:
        return declared(op).check()

    return check
