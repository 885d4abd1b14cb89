"""Atomics, prints, assertions and assembly; pointers that are made from integers."""

from __future__ import annotations

import json

from tawa.dialects import tt
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.emit.body import Body, Writer, statement
from tawa.emit.values.expressions import element_of, integers, type_source
from tawa.ir import Operation
from tawa.ir.attributes import attribute_of, read_string
from tawa.ir.types import PointerType, TensorType, parse_type

UNSIGNED = (8, 9)
ORDERS = {1: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel"}
SCOPES = {1: "gpu", 2: "cta", 3: "sys"}


def pointer_source(pointee: str) -> str:
    """The type of a pointer in Gluon."""
    match parse_type(pointee):
        case PointerType(pointee=inner):
            return f"gl.pointer_type({pointer_source(inner)})"
        case _:
            return f"gl.pointer_type({type_source(pointee)})"


def _order(op: Operation) -> str:
    """The order and the scope of an atomic; acq_rel and gpu are the defaults."""
    order, scope = (integers(op.properties[it])[0] for it in ("sem", "scope"))
    return f', sem="{ORDERS[order]}"' * (order != 4) + f', scope="{SCOPES[scope]}"' * (scope != 1)


def _atomic(body: Body, op: Operation) -> None:
    number = integers(op.properties["atomic_rmw_op"])[0]
    pointer, value, *mask = (body.of(it) for it in op.operands)
    element = element_of(op.operands[1].type)
    if number in UNSIGNED:
        whole = f"gl.uint{element[1:]}"
        pointer = f"{body.of(op.operands[0], atomic=True)}.to(gl.pointer_type({whole}), bitcast=True)"
        value = f"{body.of(op.operands[1], atomic=True)}.to({whole})"
    more = f", mask={mask[0]}" if mask and mask[0] != "True" else ""
    _value(body, op, f"gl.atomic_{tt.RMW_NAMES[number]}({pointer}, {value}{more}{_order(op)})", number in UNSIGNED)


def _compare_and_swap(body: Body, op: Operation) -> None:
    pointer, expected, value = (body.of(it) for it in op.operands)
    _value(body, op, f"gl.atomic_cas({pointer}, {expected}, {value}{_order(op)})")


def _value(body: Body, op: Operation, text: str, unsigned: bool = False) -> None:
    """A statement, or an assignment if the value is used."""
    if not op.result.uses:
        statement(lambda body, op: text)(body, op)
        return
    signed = f".to({type_source(element_of(op.result.type))})" if unsigned else ""
    body.results(op, text + signed)


def _print(body: Body, op: Operation) -> str:
    signed = integers(op.properties["isSigned"])
    values: list[str] = []
    for value, is_signed in zip(op.operands, signed, strict=True):
        element = element_of(value.type)
        text = body.of(value, atomic=True)
        values.append(
            f"{text}.to(gl.uint{element[1:]})" if element[0] == "i" and not is_signed and element != "i1" else text
        )
    more = ", hex=True" if op.properties.get("hex", "false") == "true" else ""
    return f"gl.device_print({', '.join([json.dumps(read_string(op.properties['prefix'])), *values])}{more})"


def _assert(body: Body, op: Operation) -> str:
    message = json.dumps(read_string(op.properties["message"]))
    return f"gl.device_assert({body.of(op.operands[0])}, {message})"


def _assembly(body: Body, op: Operation) -> None:
    text, constraints = (json.dumps(read_string(op.properties[it])) for it in ("asm_string", "constraints"))
    types = [type_source(element_of(it.type)) for it in op.results]
    dtype = types[0] if len(types) == 1 else f"({', '.join(types)})"
    pure, pack = op.properties["pure"] == "true", integers(op.properties["packed_element"])[0]
    values = ", ".join(body.of(it) for it in op.operands)
    call = f"gl.inline_asm_elementwise({text}, {constraints}, [{values}], {dtype}, is_pure={pure}, pack={pack})"
    if len(types) == 1:
        _value(body, op, call)
        return
    body.results(op, call)


def _grid_wait(body: Body, op: Operation) -> str:
    return _GRID_CONTROL.format("wait")


def _grid_signal(body: Body, op: Operation) -> str:
    return _GRID_CONTROL.format("launch_dependents")


_GRID_CONTROL = 'gl.inline_asm_elementwise("griddepcontrol.{}; // dummy $0", "=r", [], gl.int32, is_pure=False, pack=1)'
"""As `tl.extra.cuda.gdc_wait` of Triton 3.6."""


def _pointer(body: Body, op: Operation) -> None:
    """A pointer from an integer, or from a pointer to other elements."""
    pointee = _pointee(op)
    if pointee is None:
        _add(body, op)
        return
    more = ", bitcast=True" * tt.BitcastOp.matches(op)
    _hinted(body, op, f"{body.of(op.operands[0], atomic=True)}.to({pointer_source(pointee)}{more})")


def _pointee(op: Operation) -> str | None:
    """The pointee of the result; None if the result is not a pointer."""
    type = parse_type(op.result.type)
    inner = parse_type(type.element) if isinstance(type, TensorType) else type
    return inner.pointee if isinstance(inner, PointerType) else None


def _add(body: Body, op: Operation) -> None:
    """An expression, which may be a pointer."""
    _hinted(body, op, body.file.expressions[op.name](body, op))


def _hinted(body: Body, op: Operation, text: str) -> None:
    """A pointer, with the user's hint about its alignment."""
    divisible = attribute_of(op.attributes, "tt.divisibility")
    if divisible is None:
        body.keep(op, text)
        return
    type = parse_type(op.result.type)
    rank = len(type.shape) if isinstance(type, TensorType) else 1
    said = divisible.removeprefix("dense<").partition(">")[0].strip("[]").split(",")
    values = [int(it) for it in said] * (rank if len(said) == 1 else 1)
    body.results(op, f"gl.multiple_of({text}, {values if len(values) > 1 else values[0]})")


def _number(body: Body, op: Operation) -> None:
    body.keep(op, f"{body.of(op.operands[0], atomic=True)}.to({type_source(element_of(op.result.type))})")


def _unsplat(body: Body, op: Operation) -> None:
    body.results(op, f"{body.of(op.operands[0], atomic=True)}.item()")


WRITERS: dict[str, Writer] = by_name(
    {
        tt.AtomicRMWOp: _atomic,
        tt.AtomicCASOp: _compare_and_swap,
        tt.PrintOp: statement(_print),
        tt.AssertOp: statement(_assert),
        ElementwiseInlineAsmOp: _assembly,
        tt.GridDependencyWaitOp: statement(_grid_wait),
        tt.GridDependencyLaunchDependentsOp: statement(_grid_signal),
        tt.IntToPtrOp: _pointer,
        tt.BitcastOp: _pointer,
        tt.AddPtrOp: _add,
        tt.PtrToIntOp: _number,
        tt.UnsplatOp: _unsplat,
    }
)
