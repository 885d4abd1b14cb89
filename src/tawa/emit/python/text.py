"""Python source as text: parentheses and line breaks."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

from tawa.ir.text import split_top_level

INDENT = "    "
WIDTH = 110
"""Characters of a line."""
_SUM = ast.Add | ast.Sub
_PRODUCT = ast.Mult | ast.Div | ast.FloorDiv | ast.Mod


def closed(text: str) -> bool:
    """Whether the text is a name, a number, a call or an index as a whole: `f(a, b)`, `x.index(a + b)`."""
    node = _parsed(text)
    return not isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp | ast.IfExp | ast.BoolOp | ast.Tuple)


def within(text: str, operator: str, left: bool) -> str:
    """The text as an operand of an operator, in parentheses where Python or a reader needs them.

    operator: `==` for all comparisons, `.` for a method.
    """
    if closed(text) and not (operator == "." and text.isdecimal()):
        return text
    node = _parsed(text)
    arithmetic = isinstance(node, ast.BinOp) and isinstance(node.op, _SUM | _PRODUCT)
    if operator == "==" and arithmetic:
        return text
    if operator not in "+-" or not isinstance(node, ast.BinOp):
        return f"({text})"
    same = isinstance(node.op, _PRODUCT) or (left and isinstance(node.op, _SUM))
    return text if same else f"({text})"


def bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and index + 1 < len(text):
            return text
    return text[1:-1]


def mentions(text: str, name: str) -> bool:
    """Whether a name stands in a text."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def wrapped(lead: str, parts: Sequence[str], end: str, depth: int) -> str:
    """A call or the head of a function, in lines that are not too long."""
    trailing = "," if len(parts) == 1 and lead.endswith(("((", ", (")) else ""  # a tuple
    lead, indent = INDENT * depth + lead, INDENT * (depth + 1)
    one = f"{lead}{', '.join(parts)}{trailing}{end}\n"
    if len(one) <= WIDTH:
        return one
    inner = textwrap.fill(", ".join(parts), WIDTH - 1, initial_indent=indent, subsequent_indent=indent)
    return f"{lead}\n{inner},\n{INDENT * depth}{end}\n"


def wrapped_call(text: str, depth: int) -> str:
    """A line that ends with a call, with the arguments in lines of their own; others as they are."""
    if text.startswith("#") or not text.endswith(")"):
        return INDENT * depth + text
    place, deep = len(text), 0
    while place and (deep or place == len(text)):
        place -= 1
        deep += (text[place] in ")]}") - (text[place] in "([{")
    parts = split_top_level(text[place + 1 : -1])
    return wrapped(text[: place + 1], parts, ")", depth).rstrip("\n") if len(parts) > 1 else INDENT * depth + text


def cut(text: str, most: int) -> str:
    """The first characters of a text, with an ellipsis if there are more."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
