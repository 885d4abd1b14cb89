"""The function `unfit` of an emitted file: it rejects launches that the kernel was not compiled for.

Condition(2 * stride_am, "TMA limits strides", multiple=16)       if 2 * stride_am % 16 != 0:
                                                                      return "TMA limits strides: …"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tawa.emit.launch.grid import most_of_grid
from tawa.emit.launch.made import Made
from tawa.emit.launch.table import INDENT, table
from tawa.symbolic.host.conditions import Clause, simplified
from tawa.symbolic.host.expr import Apply, HostValue, Number, named
from tawa.symbolic.host.ranges import ANY, Domain
from tawa.symbolic.host.text import python_text
from tawa.symbolic.range import Range

ADDRESS_BITS = 63


def checks_of(made: Made) -> list[str]:
    """The statements of the function, each of which may return a reason."""
    lines = _constants(made)
    tensors = {name: type for name, type in made.types.items() if type.startswith(("*", "tensordesc<"))}
    if tensors:
        shown = [f'("{name}", {_tensor(name, type)}, "{_element(type)}")' for name, type in tensors.items()]
        lines += _loop(
            table("for name, tensor, element in (", shown, "):"), "canonicalize_dtype(tensor.dtype) != element",
            'f"{name} has elements of {tensor.dtype}, and the kernel was made for {element}"',
        )  # fmt: skip
    descriptors = [name for name, type in tensors.items() if not type.startswith("*")]
    if descriptors:
        shown = [f'("{name}", {name}, {_block(tensors[name])})' for name in descriptors]
        lines += _loop(
            table("for name, descriptor, block in (", shown, "):"), "list(descriptor.block_shape) != block",
            'f"{name} has blocks of {descriptor.block_shape}, and the kernel was made for {block}"',
        )  # fmt: skip
    short = [f'"{name}": {name}' for name, type in made.types.items() if type == "i32"]
    if short:
        reason = 'f"{name} is {value}, and the kernel was made for numbers of 32 bits"'
        lines += _loop(table("for name, value in {", short, "}.items():"), "not -(2**31) <= value < 2**31", reason)
    divisible = [f'"{name}": {_number(name, made.types[name])}' for name in made.divisible]
    if divisible:
        reason = 'f"{name} is not divisible by 16"'
        lines += _loop(table("for name, value in {", divisible, "}.items():"), "value % 16 != 0", reason)
    return [*lines, *_conditions(made), *most_of_grid(made.launch)]


def _constants(made: Made) -> list[str]:
    """Values of constexprs, of what Triton made a constant of, and names of functions."""
    lines: list[str] = []
    if made.plain_constants:
        lines += _loop(
            "for name, made_for in CONSTANTS.items():", "others[name] != made_for",
            'f"{name} is {others[name]!r}, and the kernel was made for {made_for!r}"',
        )  # fmt: skip
    for name, function in made.functions.items():
        test = f'getattr(others.get("{name}"), "__name__", "{function}") != "{function}"'
        lines += _if(test, f'"{name} is another function than {function}"')
    for part in made.constants:
        if not part.isidentifier():
            value = made.constants[part]
            lines += _if(f"{part} != {value!r}", f'f"{part} is {{{part}!r}}, and the kernel was made for {value!r}"')
    return lines


def domain_of(made: Made) -> Domain:
    """The range of each argument of the kernel's function, as the checks of types leave it."""
    found: dict[int, Range] = {}
    for index, (number, name) in enumerate(zip(made.values, made.passed, strict=True)):
        type = made.types.get(name, "")
        multiple = 16 if name in made.divisible else 1
        if type.startswith("*") or number.endswith("data_ptr()"):
            found[index] = Range(0, 1 << ADDRESS_BITS, multiple)
        elif type in ("i32", "i16", "i8"):
            bits = int(type[1:])
            found[index] = Range(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, multiple)
        else:
            found[index] = replace(ANY, multiple=multiple)
    return found


def _conditions(made: Made) -> Iterator[str]:
    """The conditions of the launch, and those under which its numbers can be computed."""
    spec, domain = made.launch, domain_of(made)
    values = [value for it in spec.descriptors for value in (it.offset, *it.shape, *it.strides)]
    for divisor in dict.fromkeys(_divisors([*(it.value for it in spec.conditions), *values])):
        text = python_text(named(divisor, made.value_of), domain)
        yield from _if(f"{text} == 0", f'"a size or a stride cannot be computed: {_quoted(text)} is 0"')
    padded = {made.passed[it.base] for it in spec.descriptors if made.values[it.base].endswith(".base.data_ptr()")}
    for name in sorted(padded):
        reason = f'"{name} is padded, and the kernel reads zeros outside of tensors"'
        yield from _if(f'getattr({name}, "padding", "zero") != "zero"', reason)
    seen: set[str] = set()
    for condition in spec.conditions:
        clauses = simplified([Clause.of(condition)], domain)
        parts = [part for it in clauses for part in _parts(replace(it, value=named(it.value, made.value_of)), domain)]
        holds = " and ".join(text for text, _ in parts)
        if parts and holds not in seen:
            seen.add(holds)
            yield from _if(" or ".join(text for _, text in parts), f'"{condition.reason}: {_quoted(holds)}"')


def _parts(clause: Clause, domain: Domain) -> list[tuple[str, str]]:
    """A clause as pairs of a comparison and its negation."""
    text = python_text(clause.value, domain)
    least, most = clause.least, clause.most
    found: list[tuple[str, str]] = []
    if least is not None and most is not None:
        inside = f"{text} == {least}" if least == most else f"{least} <= {text} <= {most}"
        found.append((inside, f"{text} != {least}" if least == most else f"not {inside}"))
    elif least is not None:
        found.append((f"{text} >= {least}", f"{text} < {least}"))
    elif most is not None:
        found.append((f"{text} <= {most}", f"{text} > {most}"))
    if clause.multiple != 1:
        rest = f"{python_text(clause.value, domain, factor=True)} % {clause.multiple}"
        found.append((f"{rest} == 0", f"{rest} != 0"))
    return [*found, *[(f"{text} != 0", f"{text} == 0")] * clause.nonzero]


def _divisors(values: Iterable[HostValue]) -> Iterator[HostValue]:
    """The divisors in a value, innermost first: none may be 0."""
    for value in values:
        if isinstance(value, Apply):
            yield from _divisors(value.operands)
            if value.divisor is not None and not isinstance(value.divisor, Number):
                yield value.divisor


def _tensor(name: str, type: str) -> str:
    return name if type.startswith("*") else f"{name}.base"


def _number(name: str, type: str) -> str:
    return f"{name}.data_ptr()" if type.startswith("*") else name


def _element(type: str) -> str:
    return type.removeprefix("*").removeprefix("k").removeprefix("tensordesc<").partition("[")[0]


def _block(type: str) -> list[int]:
    return [int(it) for it in type.partition("[")[2].partition("]")[0].split(",")]


def _quoted(text: str) -> str:
    return text.replace('"', "'")


def _if(test: str, reason: str) -> list[str]:
    return [f"if {test}:", f"{INDENT}return {reason}"]


def _loop(head: str, test: str, reason: str) -> list[str]:
    return [*head.splitlines(), *(INDENT + line for line in _if(test, reason))]
