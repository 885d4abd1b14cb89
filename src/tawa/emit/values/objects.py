"""Numbers and tiles as the objects that Triton's front end compares.

Triton must know which variables a loop changes. It visits the body once and compares the object of each variable before
and after the visit. If both are the same Python object, Triton takes the variable for unchanged.

    a = x; b = x              both variables have one object
    for …: a = b              the object of a is the same after the visit: Triton does not see that a changes

Such a variable therefore begins with an object of its own: ``a = x + 0``, which the compiler folds.

A literal has the type that Triton gives it: `0` is int32, `0.5` is float32. A constant of another type is written with
its type: `gl.full([], 0, gl.int64)`.
"""

from __future__ import annotations

import ast
import re

from tawa.dialects import scf
from tawa.dialects.control_flow import incoming
from tawa.emit.errors import cannot_say
from tawa.emit.python.text import within
from tawa.emit.values.expressions import element_of, type_source
from tawa.ir import Value
from tawa.ir.types import MemDescType, PointerType, ScalarType, parse_type

_NOT_FINITE = re.compile(r'float\("([^"]*)"\)')

SMALLEST = 2.0**-126
"""The smallest positive normal number of float32; Triton reads a literal below it as float64."""


def may_look_unchanged(init: Value, yielded: Value, argument: Value) -> bool:
    """Whether a loop changes a variable, and the front end may not see it.

    init, yielded: its first and next value. argument: the variable in the body.
    """
    return yielded not in (argument, init) and not _objects(init).isdisjoint(_objects(yielded, argument))


def _objects(value: Value, without: Value | None = None) -> set[Value]:
    """The values that may have the same object as this one while the front end visits the body."""
    found: set[Value] = set()
    work = [value]
    while work:
        it = work.pop()
        if it is without or it in found or (it.defining_op is not None and not it.defining_op.regions and _number(it)):
            continue
        found.add(it)
        sources = [use.value for use in incoming(it)]
        branch = it.defining_op is not None and scf.IfOp.matches(it.defining_op)
        work += sources if branch else sources[:1]  # loops: what they begin with
    return found


def _number(value: Value) -> bool:
    """Whether a value is a constant that is written as a literal, which is a new object each time."""
    op = value.defining_op
    return op is not None and "value" in op.properties and isinstance(parse_type(value.type), ScalarType)


def own_object(text: str, value: Value) -> str:
    """An expression that copies the value into a new object; raises EmitError for types without arithmetic."""
    type = parse_type(value.type)
    element = element_of(value.type) if not isinstance(type, MemDescType) else ""
    if isinstance(type, PointerType) or (element.startswith("i") and element != "i1") or element.startswith("!tt.ptr"):
        return f"{within(text, '+', True)} + 0"
    if element == "i1":
        return f"{within(text, '&', True)} & True"
    if element.startswith(("f16", "f32", "f64", "bf")):
        return f"{within(text, '-', True)} - 0.0"  # x + 0.0 would change -0.0
    raise cannot_say(f"variables of type {value.type} that begin with one value and are exchanged")


def literal(text: str) -> bool | int | float | None:
    """The value of a numeric literal; None for any other expression."""
    if found := _NOT_FINITE.fullmatch(text):
        return float(found.group(1))
    try:
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return number if isinstance(number, bool | int | float) else None


def assigned(text: str, type: str) -> str:
    """A text that may be a literal, as what is assigned to a variable of this type."""
    number = literal(text)
    return text if number is None or type == _type_of(number) else object_of(text, type)


def object_of(text: str, type: str) -> str:
    """A literal as a Triton scalar, which has methods such as `to`."""
    return f"gl.full([], {text}, {type_source(element_of(type))})"


def _type_of(number: bool | float) -> str:
    """The type that Triton gives to a literal."""
    match number:
        case bool():
            return "i1"
        case int():
            return "i32" if -(2**31) <= number < 2**31 else "i64" if not 2**31 <= number < 2**32 else ""
        case float():
            return "f32" if not 0 < abs(number) < SMALLEST else "f64"
