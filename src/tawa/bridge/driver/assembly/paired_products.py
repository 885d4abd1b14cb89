"""Sums of two products that LLVM has paired: it may have exchanged the two of one sum and not those of another.

    %s = fadd float %p, %q                     %p, %q = a · b, c · d       fma(a, b, round(c · d))
    %t = shufflevector %v, <1, poison>         %v = <a · b, c · d>
    %s = fadd <2 x float> %t, %v                                           fma(c, d, round(a · b))

Of a sum of two products, the NVPTX back end rounds the second. Triton's order of operands stays, unless the passes that
make vectors of scalars exchange them: sums are commutative.
"""

from __future__ import annotations

import re
from collections import Counter

_DEFINED = re.compile(r"^\s*(%[\w.]+) = (\w+)(.*)$", re.MULTILINE)
_VALUE = re.compile(r"%[\w.]+")
_SUMS, _PRODUCT = ("fadd", "fsub"), "fmul"
_MOVES = ("shufflevector", "insertelement", "fneg")
_PLACE = re.compile(r"(<\d+ x i32>|zeroinitializer|i\d+ \d+).*$")
_DEEPEST = 16


def paired_products(llir: str) -> Counter[str]:
    """The vectors of sums in LLVM IR that may add two products: how each operand is made of them, and how often."""
    made = {it[1]: (it[2], it[3]) for it in _DEFINED.finditer(llir)}

    def how(name: str, deep: int = 0) -> str:
        """How a value is made of products; empty if it is not."""
        op, rest = made.get(name, ("", ""))
        if op == _PRODUCT:
            return op
        inner = [how(it, deep + 1) for it in _VALUE.findall(rest)] if op in _MOVES and deep < _DEEPEST else []
        place = _PLACE.search(rest.partition("!")[0])
        return f"{op}({', '.join(inner)}{place[0] if place else ''})" if any(inner) else ""

    found: Counter[str] = Counter()
    for op, rest in made.values():
        operands = [how(it) for it in _VALUE.findall(rest)] if op in _SUMS and " x " in rest.partition("%")[0] else []
        if len(operands) == 2 and all(operands):
            found[f"{op} {operands[0]}, {operands[1]}"] += 1
    return found
