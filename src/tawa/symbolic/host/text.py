"""Host expressions and clauses as text, as the author of a kernel would write them.

Apply("ceiling", (K, 64))                       ceil(K / 64)
Clause(M, 1), Clause(N, 1)                      M, N > 0
Clause(2 * stride, 16, None, 16)                2 * stride >= 16 and 2 * stride % 16 == 0

`python_text` writes a value as an expression of Python that has the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.symbolic.host.conditions import NEVER, Clause, narrowed
from tawa.symbolic.host.expr import Apply, Argument, HostValue, Number
from tawa.symbolic.host.ranges import Domain, range_of
from tawa.symbolic.host.simplify import terms_of

_SUM, _PRODUCT, _ATOM = range(3)
"""Precedence of the operators of a text, weakest first."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How the operators are written that Python has no sign for. truncated, remainder: rounded towards zero."""

    ceiling: str = "ceil({0} / {1})"
    truncated: str = "trunc({0} / {1})"
    remainder: str = "({0} % {1})"


_SHORT = _Spelling()
DIVIDE = "divide"
"""The function in `python_text` that rounds a quotient towards zero."""
_PYTHON = _Spelling("-(-{0} // {1})", DIVIDE + "({0}, {1})", "({0} - " + DIVIDE + "({0}, {1}) * {1})")


def value_text(value: HostValue, domain: Domain) -> str:
    """The value as text: ``x // y`` where neither is negative, ``trunc(x / y)`` elsewhere."""
    return _text(value, domain, _SHORT)[0]


def python_text(value: HostValue, domain: Domain, factor: bool = False) -> str:
    """The value as an expression of Python, which may call `DIVIDE`. factor: in parentheses if it is a sum."""
    return _held(value, domain, _PRODUCT if factor else _SUM, _PYTHON)


def clauses_text(clauses: Sequence[Clause], domain: Domain) -> str:
    """The conjunction of all clauses; ``x > 0`` bounds of single arguments come last."""
    if NEVER in clauses:
        return "never"
    domain = narrowed(domain, clauses)  # all clauses are read together
    groups: dict[str, list[str]] = {}
    for it in clauses:
        for bound in _bounds(it):
            groups.setdefault(bound, []).append(value_text(it.value, domain))
    plain = [f"{name} {bound}" for bound, names in groups.items() if bound != "> 0" for name in names]
    ordered = sorted(clauses, key=lambda it: min(it.value.arguments, default=0))
    positive = [value_text(it.value, domain) for it in ordered if "> 0" in _bounds(it)]
    joined = " and ".join(plain)
    if not positive:
        return joined
    last = f"{', '.join(positive)} > 0"
    return f"{joined}{', and ' if len(positive) > 1 else ' and '}{last}" if joined else last


def _bounds(clause: Clause) -> list[str]:
    least, most = clause.least, clause.most
    if least is not None and least == most:
        return [f"== {least}"]
    found = [] if clause.multiple == 1 else [f"% {clause.multiple} == 0"]
    if least is not None:
        found.append("> 0" if least == 1 and isinstance(clause.value, Argument) else f">= {least}")
    if most is not None:
        found.append(f"<= {most}")
    return [*found, *["!= 0"] * clause.nonzero]


def _text(value: HostValue, domain: Domain, spelling: _Spelling) -> tuple[str, int]:
    match value:
        case Number(number):
            return str(number), _ATOM if number >= 0 else _SUM
        case Argument():
            return str(value), _ATOM
        case Apply("sum"):
            return _sum(value, domain, spelling), _SUM
        case Apply("product", operands):
            factors = (operands[-1], *operands[:-1]) if isinstance(operands[-1], Number) else operands
            return " * ".join(_held(it, domain, _PRODUCT, spelling) for it in factors), _PRODUCT
        case Apply("ceiling", (dividend, by)):
            return spelling.ceiling.format(*_sides(dividend, by, domain, spelling)), _ATOM
        case Apply("divide", (dividend, by)):
            natural = _are_natural(dividend, by, domain)
            form = "({0} // {1})" if natural else spelling.truncated
            return form.format(*_sides(dividend, by, domain, spelling)), _ATOM
        case Apply("remainder", (dividend, by)):
            form = _SHORT.remainder if _are_natural(dividend, by, domain) else spelling.remainder
            return form.format(*_sides(dividend, by, domain, spelling)), _ATOM
        case Apply(operator, operands):
            name = {"smallest": "min", "largest": "max"}[operator]
            return f"{name}({', '.join(_text(it, domain, spelling)[0] for it in operands)})", _ATOM


def _sides(dividend: HostValue, by: HostValue, domain: Domain, spelling: _Spelling) -> tuple[str, str]:
    return _held(dividend, domain, _ATOM, spelling), _held(by, domain, _ATOM, spelling)


def _are_natural(dividend: HostValue, by: HostValue, domain: Domain) -> bool:
    return range_of(dividend, domain).is_natural and range_of(by, domain).is_natural


def _held(value: HostValue, domain: Domain, least: int, spelling: _Spelling) -> str:
    text, strength = _text(value, domain, spelling)
    return text if strength >= least else f"({text})"


def _sum(value: Apply, domain: Domain, spelling: _Spelling) -> str:
    terms, number = terms_of(value)
    parts: list[tuple[bool, str]] = []
    for term, factor in terms.items():
        text = _held(term, domain, _PRODUCT, spelling)
        parts.append((factor < 0, text if abs(factor) == 1 else f"{abs(factor)} * {text}"))
    if number or not parts:
        parts.append((number < 0, str(abs(number))))
    first = ("-" if parts[0][0] else "") + parts[0][1]
    return first + "".join(f" {'-' if minus else '+'} {text}" for minus, text in parts[1:])
