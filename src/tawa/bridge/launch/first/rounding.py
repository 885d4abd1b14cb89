"""Whether a form of a kernel rounds as stock Triton's kernel does, from the final TTGIR of both.

    stock    %p = arith.mulf …                     %s = arith.addf %p, %r        one rounding
    form     %p = arith.mulf …   %c = convert %p   %s = arith.addf %c, %r        two

LLVM fuses a product and a sum into one instruction only where the product is an operand of the sum. Triton's passes
over layouts may put a conversion between them in one kernel and not in the other, which no Plan decides; a product of
an earlier iteration is another value. Sums are told apart by their locations, so a loop body that was duplicated counts
once; a location that has sums of both kinds in the stock kernel says nothing.

A sum of what is no product for certain, such as an exponential, is no other rounding in a form: a first iteration that
was peeled multiplies by 1, which MLIR drops and which rounds nothing.
"""

from __future__ import annotations

import re

from tawa.dialects.arith import AddFOp, DivFOp, MaximumFOp, MaxNumFOp, MinimumFOp, MinNumFOp, MulFOp, SubFOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import ReduceOp

_OP = re.compile(r"^\s*(%[\w$.-]+)(?::\d+)? = \"?([\w.]+)\"?(.*)$")
_DEFINED = re.compile(r"(%[\w$.-]+)(?=:\s|\s=\s)")
"""Results, arguments of blocks and of loops: ``%r = ``, ``^bb0(%a: f32 …``, ``iter_args(%i = %init …``."""
_LOCATION = re.compile(r"loc\((#loc\d*)\)\s*$")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_REFERENCE = re.compile(r"#loc\d*")
_VALUE = re.compile(r"%[\w$.-]+")
_SUMS = (AddFOp.NAME, SubFOp.NAME)
_NO_PRODUCTS = op_names(AddFOp, SubFOp, DivFOp, MaximumFOp, MaxNumFOp, MinimumFOp, MinNumFOp, ReduceOp)
_FUNCTIONS = "math."


def other_rounding(stock: str, form: str) -> str:
    """Where a form rounds otherwise than stock Triton's kernel, as a location of the source; empty if nowhere.

    stock, form: TTGIR with locations, as Triton prints it.
    """
    (fused, apart, plain), (ours, ours_apart, _) = _sums(stock), _sums(form)
    return next(iter(sorted(((fused - apart - plain) & ours_apart) | (((apart | plain) - fused) & ours))), "")


def _sums(text: str) -> tuple[set[str], set[str], set[str]]:
    """The places of sums with a product as an operand, of those that may have one in it, and of the other sums."""
    aliases = dict(_ALIAS.findall(text))
    made: dict[str, str] = {}
    fused, apart, plain = set[str](), set[str](), set[str]()
    for line in text.splitlines():
        found = _OP.match(line)
        name, op, rest = found.groups() if found is not None else ("", "", "")
        operands = _VALUE.findall(rest.partition(" : ")[0])
        if op in _SUMS and (place := _place(rest, aliases)):
            kinds = [made.get(it, "") for it in operands]
            certain = all(it in _NO_PRODUCTS or it.startswith(_FUNCTIONS) for it in kinds)
            (fused if MulFOp.NAME in kinds else plain if certain else apart).add(place)
        for it in _DEFINED.findall(line):  # a name may stand for another value in each region
            made.pop(it, None)
        if name and op != ForOp.NAME:
            made[name] = op
    return fused, apart, plain


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
