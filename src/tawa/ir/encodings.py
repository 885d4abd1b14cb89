"""Encodings as text: `#ttg.blocked<{order = [1, 0], …}>`, or the alias of one (`#blocked`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tawa.ir.core import Operation
from tawa.ir.text import match_bracket, parse_dictionary

_NOTHING: Mapping[str, str] = {}


def aliases_at(op: Operation) -> Mapping[str, str]:
    """The aliases of the module that an operation is in; none if it is in no module."""
    while op.parent_op is not None:
        op = op.parent_op
    return op.aliases if op.aliases is not None else _NOTHING


def kind_of(aliases: Mapping[str, str], encoding: str) -> str:
    """The kind of an encoding, for example ``#ttg.blocked``."""
    return aliases.get(encoding, encoding).partition("<")[0]


def fields_of(aliases: Mapping[str, str], encoding: str) -> dict[str, str]:
    """The parameters of an encoding, as text; empty if it has none."""
    text = aliases.get(encoding, encoding)
    start = text.find("<")
    inner = text[start + 1 : match_bracket(text, start) - 1] if start >= 0 else ""
    if inner.startswith("{"):
        end = match_bracket(inner, 0)
        return parse_dictionary(inner[1 : end - 1]) | parse_dictionary(inner[end:].lstrip(", "))
    return parse_dictionary(inner) if _PLAIN.match(inner) else {}


_PLAIN = re.compile(r"\w+ = ")
"""The begin of parameters without braces: ``#ttng.tensor_memory_encoding<blockM = 128, …>``."""
