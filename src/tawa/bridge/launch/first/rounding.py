"""Whether a form of a kernel rounds as stock Triton's kernel does, from the final TTGIR of both.

    stock    %p = arith.mulf …                     %s = arith.addf %p, %r        one rounding
    form     %p = arith.mulf …   %c = convert %p   %s = arith.addf %c, %r        two

LLVM fuses a product and a sum into one instruction only where the product is an operand of the sum. Triton's passes
over layouts may put a conversion between them in one kernel and not in the other, which no Plan decides; a product of
an earlier iteration is another value. Sums are told apart by their locations, so a loop body that was duplicated counts
once; a location that has sums of both kinds in the stock kernel says nothing.
"""

from __future__ import annotations

import re

from tawa.dialects.arith import AddFOp, MulFOp, SubFOp

_OP = re.compile(r"^\s*(%[\w$.-]+)(?::\d+)? = \"?([\w.]+)\"?(.*)$")
_DEFINED = re.compile(r"(%[\w$.-]+)(?=:\s|\s=\s)")
"""Results, arguments of blocks and of loops: ``%r = ``, ``^bb0(%a: f32 …``, ``iter_args(%i = %init …``."""
_LOCATION = re.compile(r"loc\((#loc\d*)\)\s*$")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_REFERENCE = re.compile(r"#loc\d*")
_VALUE = re.compile(r"%[\w$.-]+")
_SUMS = (AddFOp.NAME, SubFOp.NAME)


def other_rounding(stock: str, form: str) -> str:
    """Where a form rounds otherwise than stock Triton's kernel, as a location of the source; empty if nowhere.

    stock, form: TTGIR with locations, as Triton prints it.
    """
    (fused, apart), (ours, ours_apart) = _sums(stock), _sums(form)
    return next(iter(sorted(((fused - apart) & ours_apart) | ((apart - fused) & ours))), "")


def _sums(text: str) -> tuple[set[str], set[str]]:
    """The places of sums with a product as an operand, and of the other sums."""
    aliases = dict(_ALIAS.findall(text))
    products = set[str]()
    fused, apart = set[str](), set[str]()
    for line in text.splitlines():
        found = _OP.match(line)
        name, op, rest = found.groups() if found is not None else ("", "", "")
        operands = set(_VALUE.findall(rest.partition(" : ")[0]))
        if op in _SUMS and (place := _place(rest, aliases)):
            (fused if operands & products else apart).add(place)
        products.difference_update(_DEFINED.findall(line))  # a name may stand for another value in each region
        if op == MulFOp.NAME:
            products.add(name)
    return fused, apart


def _place(rest: str, aliases: dict[str, str]) -> str:
    """The location of an operation, without aliases; empty without one."""
    known = _LOCATION.search(rest)
    place = known[1] if known else ""
    for _ in range(len(aliases)):
        shorter = _REFERENCE.sub(lambda it: aliases.get(it[0], ""), place)
        if shorter == place:
            break
        place = shorter
    return place
