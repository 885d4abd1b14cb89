"""Operations are declared once, by classes; nobody else quotes their names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tawa.dialects import OpView, by_name, declared_ops, is_opaque, op_class, op_names, structure_rules
from tawa.dialects.arith import AddIOp, SubIOp
from tawa.dialects.declare.declaration import address_of, effects_by_name
from tawa.dialects.declare.fields import Operand, operand
from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.dialects.inline.markers import GroupIndexOp, SameNumberOp
from tawa.dialects.scf import ForOp, IfOp
from tawa.dialects.tt import CallOp, LoadOp, StoreOp
from tawa.ir import Block, Builder, Operation, Value

SOURCE = Path(__file__).resolve().parents[3] / "src" / "tawa"
DIALECTS = ("tt", "ttg", "ttng", "arith", "math", "scf", "cf", "aref", "warp", "gpu", "nvvm", "llvm", "ub", "builtin")
QUOTED = re.compile(rf"(?:{'|'.join(DIALECTS)})\.[a-z]\w*(?:\.\w+)*")
ATTRIBUTES = {"tt.divisibility", "tt.warp_specialize", "ttg.maxnreg", "tt.constancy", "tt.contiguity", "ttg.shared"}
"""Names of attributes and types, which look like names of operations."""
QUOTING = {
    "ir": "knows no dialect: it names the few operations that its own helpers make or read",
}
"""Rooms and files that may quote names of operations, and why."""


def values(count: int) -> list[Value]:
    return Block(["i32"] * count).args


# -- declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", declared_ops(), ids=lambda it: it.NAME)
def test_an_effect_names_an_operand_that_exists(declared: type[OpView]) -> None:
    for effect in declared.EFFECTS:
        assert effect.operand is None or isinstance(getattr(declared, effect.operand), Operand)
        assert (effect.operand is not None) == (effect.kind in ("read", "write"))


@pytest.mark.parametrize("declared", declared_ops(), ids=lambda it: it.NAME)
def test_a_view_holds_no_state_but_the_operation(declared: type[OpView]) -> None:
    op = Operation(declared.NAME)
    assert declared.matches(op) and op_class(op.name) is declared
    view = declared.of(op)
    assert view is not None and view.op is op


def test_an_operation_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"scf.for is declared twice"):
        type("AnotherForOp", (OpView,), {"NAME": "scf.for"})
    assert len({it.NAME for it in declared_ops()}) == len(declared_ops())


def test_a_family_declares_nothing() -> None:
    before = declared_ops()

    class Family(OpView):
        source = operand(0)

    assert declared_ops() == before and Family.source.index == 0


def test_what_nobody_declares_is_opaque() -> None:
    assert is_opaque("made.up") and op_class("made.up") is None
    assert effects_by_name("made.up")[0].kind == "any"
    assert is_opaque(CallOp.NAME) and effects_by_name(CallOp.NAME) == effects_by_name("made.up")
    assert not is_opaque(LoadOp.NAME)


def test_structure_rules_come_from_the_classes() -> None:
    rules = structure_rules()
    assert {"scf.yield", "tt.return", "warp.end"} <= rules.terminators
    checks = dict(rules.checks)
    assert {"scf.for", "scf.if", "scf.while", "aref.put", "aref.get", "warp.group"} <= set(checks)
    assert checks["scf.if"](Operation("scf.if", values(1))) == "the condition is i32, not i1"


# -- operands and attributes by name -----------------------------------------------------------------------------------


def test_an_effect_has_an_address() -> None:
    pointers, source = values(2)
    store = Operation("tt.store", [pointers, source])
    assert address_of(store, StoreOp.EFFECTS[0]) is pointers


# -- lookups -----------------------------------------------------------------------------------------------------------


def test_lookups_go_by_class() -> None:
    add = Operation("arith.addi", values(2))
    assert AddIOp.matches(add) and not SubIOp.matches(add) and not AddIOp.matches(None)
    assert SubIOp.of(add) is None and AddIOp(add).lhs is add.operands[0]
    assert op_names(AddIOp, SubIOp) == {"arith.addi", "arith.subi"}
    assert by_name({ForOp: 1, IfOp: 2}) == {"scf.for": 1, "scf.if": 2}


def test_a_refinement_reads_some_operations_of_its_parent() -> None:
    block = Block()
    builder = Builder(block)
    made = GroupIndexOp.create(builder, 2).defining_op
    assert GroupIndexOp.matches(made) and ElementwiseInlineAsmOp.matches(made) and not SameNumberOp.matches(made)
    assert GroupIndexOp.of(Operation("tt.elementwise_inline_asm")) is None
    with pytest.raises(ValueError, match="GroupIndexOp does not read this"):
        GroupIndexOp(Operation("tt.elementwise_inline_asm"))
    assert op_class("tt.elementwise_inline_asm") is ElementwiseInlineAsmOp


# -- nobody else quotes names ------------------------------------------------------------------------------------------


def quoted_names(path: Path) -> list[str]:
    """The strings of a file that are names of operations, without docstrings and the text of f-strings."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    prose = {id(it.value) for it in nodes if isinstance(it, ast.Expr)}
    prose |= {id(part) for it in nodes if isinstance(it, ast.JoinedStr) for part in it.values}
    texts = [it for it in nodes if isinstance(it, ast.Constant) and id(it) not in prose]
    return [
        f"{path.relative_to(SOURCE)}:{it.lineno}: {it.value}"
        for it in texts
        if isinstance(it.value, str) and (words := it.value.split())
        if all(QUOTED.fullmatch(word) and word not in ATTRIBUTES for word in words)
    ]


def test_no_operation_is_quoted_outside_of_the_dialects() -> None:
    files = [it for it in sorted(SOURCE.rglob("*.py")) if it.relative_to(SOURCE).parts[0] != "dialects"]
    allowed = tuple(f"{it}/" if (SOURCE / it).is_dir() else it for it in QUOTING)
    found = [line for path in files for line in quoted_names(path) if not line.startswith(allowed)]
    assert found == []
