"""Signatures: argument types as text, in Triton's own notation.

``a=tensordesc<fp16[128,64]>, p=*fp16:16, K=i32:16, s=1, bias=None``

| value | meaning |
|---|---|
| ``i32``, ``fp16``, ``*bf16``, ``tensordesc<...>`` | a type |
| type ``:16`` | a type whose values are divisible by 16 |
| type ``:1`` | the constant 1, as Triton specialises it |
| ``1``, ``0.5``, ``True``, ``None``, ``'text'`` | a constant |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tawa.bridge.triton.type_names import check_type
from tawa.errors import PlanError, did_you_mean

_OTHERWISE = re.compile(r"(?P<name>[^\W\d]\w*)\s*[:\s]\s*(?P<value>.+)", re.DOTALL)
"""A name and a value without ``=`` between them."""
_QUOTED = re.compile(r"""(['"])(?:\\.|(?!\1).)*\1""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of Triton's `ASTSource`: types by name, constants and attributes by position."""

    types: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attributes: dict[tuple[int, ...], list[list[Any]]]

    def __str__(self) -> str:
        """The types in Triton's notation, without constants."""
        marks = (":16" if (at,) in self.attributes else "" for at in range(len(self.types)))
        known = zip(self.types.items(), marks, strict=True)
        return ", ".join(f"{name}={kind}{mark}" for (name, kind), mark in known if kind != "constexpr")


def parse_signature(
    text: str, constants: Mapping[str, Any], parameters: Sequence[str], constexprs: Collection[str] = ()
) -> Signature:
    """Reads a signature.

    text: see the module. constants: values of the `tl.constexpr` parameters. parameters: all names, in the kernel's
    order. constexprs: those of them that are `tl.constexpr`, for messages. Raises PlanError, which names the parameter,
    on a bad type and on an unknown, missing or repeated name.
    """
    given = signature_parts(text)
    for name in constants:
        if name in given:
            raise PlanError(
                f"parameter {name!r} is given twice; cure: leave it out of the signature or of the constants"
            )
    unknown = [name for name in (*given, *constants) if name not in parameters]
    if unknown:
        raise PlanError(
            f"the kernel has no parameter {unknown[0]!r}; cure: {meant_parameter(unknown[0], parameters, given)}"
        )
    missing = [name for name in parameters if name not in given and name not in constants]
    if missing:
        raise _missing([it for it in missing if it not in constexprs], [it for it in missing if it in constexprs])
    types: dict[str, str] = {}
    values: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for position, name in enumerate(parameters):
        if name in constants:
            types[name], values[(position,)] = "constexpr", constants[name]
            continue
        kind, value = _read_value(name, given[name])
        types[name] = kind
        if kind == "constexpr":
            values[(position,)] = value
        elif value:
            attributes[(position,)] = [["tt.divisibility", 16]]
    return Signature(types, values, attributes)


def _missing(types: Sequence[str], values: Sequence[str]) -> PlanError:
    """The error for parameters without a type, and for constants without a value."""
    what = [f"no type and no constant for {', '.join(types)}"] if types else []
    what += [f"no value for tl.constexpr {', '.join(values)}"] if values else []
    cures = [f"add to the signature {', '.join(f'{it}={likely_type(it)}' for it in types)}"] if types else []
    cures += [f"constexprs={{{', '.join(f'{it!r}: …' for it in values)}}}"] if values else []
    return PlanError(f"{'; '.join(what)}; cure: {', and '.join(cures)} (with the types and values of your launch)")


def likely_type(name: str) -> str:
    """A type for an example, by what parameters of such a name usually are."""
    name = name.lower()
    if "desc" in name:
        return "tensordesc<fp16[128,64]>"
    if name.endswith("ptr") or name.startswith("ptr"):
        return "*fp16:16"
    return "i32:16" if "stride" in name else "i32"


def meant_parameter(name: str, parameters: Sequence[str], given: Collection[str]) -> str:
    """What to write in place of a name that no parameter has: first of those that are not given yet."""
    left = [it for it in parameters if it not in given]
    any_of_them = did_you_mean(name, parameters, f"it has {', '.join(parameters)}", show=str, cutoff=0.5)
    return did_you_mean(name, left, any_of_them, show=str, cutoff=0.5)


def as_signature(
    signature: object, constants: Mapping[str, Any], parameters: Sequence[str], constexprs: Collection[str] = ()
) -> Signature:
    """A signature from its text, or as it is; raises PlanError on anything else, and as `parse_signature`."""
    if isinstance(signature, Signature):
        return signature
    if not isinstance(signature, str):
        kind = type(signature).__name__
        raise PlanError(f'signature: a text is needed, not {kind}; cure: signature="p=*fp16:16, K=i32:16"')
    if not isinstance(constants, Mapping):
        kind = type(constants).__name__
        raise PlanError(f'constexprs: names and values are needed, not {kind}; cure: constexprs={{"BM": 128}}')
    return parse_signature(signature, constants, parameters, constexprs)


def parse_constants(text: str, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Reads ``"BM=128, SHAPE=(64, 64), TYPE=tl.float16, ACT=relu"`` into names and values.

    known: values by name, those of the kernel's module; dotted names are looked up there, and nothing is evaluated.
    Raises PlanError on anything else.
    """
    return {name: _constant(name, value, known or {}) for name, value in _split(text, "value", "128").items()}


def signature_parts(text: str) -> dict[str, str]:
    """The types and constants of a signature by name, each checked. Raises PlanError, which says how to write it."""
    found = _split(text, "type", "*fp16:16")
    for name, value in found.items():
        _read_value(name, value)
    return found


def _read_value(name: str, text: str) -> tuple[str, Any]:
    """(type, whether divisible by 16), or ("constexpr", value)."""
    if _is_literal(text):
        return "constexpr", ast.literal_eval(text)
    kind, colon, mark = (part.strip() for part in text.partition(":"))
    kind = kind.replace(" ", "")
    check_type(name, kind, colon + mark)
    if mark and kind.startswith(("fp", "bf")):
        raise PlanError(
            f"{name}={text}: {kind} is a number with a fraction, which no mark belongs to; "
            f"cure: {name}=*{kind}:{mark} for a pointer, {name}={kind} for a number"
        )
    match mark:
        case "":
            return kind, False
        case "16":
            return kind, True
        case "1":
            return "constexpr", 1
        case _:
            raise PlanError(
                f"{name}={text}: the mark after ':' is 16 (divisible by 16) or 1 (the constant), not {mark!r}; "
                f"cure: {name}={kind}:16 if it is divisible by 16, {name}={kind} if it may not be"
            )


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _constant(name: str, text: str, known: Mapping[str, Any]) -> Any:
    try:
        return _value(ast.parse(text, mode="eval").body, known)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise PlanError(
            f"{name}={text}: not a constant; cure: a number, True, False, None, a 'text' in quotes, a name of the "
            "kernel's module such as tl.float16 or a function, or a tuple of these"
        ) from None
    except LookupError as error:
        missing = str(error.args[0])
        names = [it for it in known if not it.startswith("_")]
        hint = did_you_mean(missing, names, "a name that the module of the kernel has, or a 'text' in quotes")
        raise PlanError(f"{name}={text}: the module of the kernel has no {missing!r}; cure: {hint}") from None


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of a literal, a dotted name, or a tuple. Raises ValueError on other code, LookupError without it."""
    match node:
        case ast.Tuple(items):
            return tuple(_value(it, known) for it in items)
        case ast.Name(id):
            return _plain(known[id])
        case ast.Attribute(of, name):
            value = _value(of, known)
            if not hasattr(value, name):
                raise LookupError(ast.unparse(node))
            return _plain(getattr(value, name))
        case _:
            return ast.literal_eval(node)


def _plain(value: Any) -> Any:
    """The value of a `tl.constexpr` of the module; any other value as it is."""
    from triton.language import constexpr

    return value.value if isinstance(value, constexpr) else value


def _split(text: str, kind: str, example: str) -> dict[str, str]:
    """Splits ``name=value, name=value`` at commas outside brackets and quotes.

    kind, example: of a value, for the message of the PlanError.
    """
    items: dict[str, str] = {}
    plain = _QUOTED.sub(lambda it: "_" * len(it[0]), text)
    depths = accumulate((it in "<[(") - (it in ">])") for it in plain)
    ends = [at for at, depth in enumerate(depths) if plain[at] == "," and not depth]
    for start, end in zip([0, *(at + 1 for at in ends)], [*ends, len(text)], strict=True):
        piece = text[start:end]
        if not piece.strip():
            continue
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not name.isidentifier() or not value:
            meant = _OTHERWISE.fullmatch(piece.strip().replace("=", " "))
            named = name if name.isidentifier() else "x"
            right = f"{meant['name']}={meant['value']}" if meant else f"{named}={example}"
            raise PlanError(f"{piece.strip()!r}: name={kind} is needed; cure: {right}")
        if name in items:
            twice = f"{name}={items[name]} and {name}={value}"
            raise PlanError(f"parameter {name!r} is given twice: {twice}; cure: leave out one of them")
        items[name] = value
    return items
