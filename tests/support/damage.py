"""Damage to files: what a disk, an editor or a stranger may do to them, for property tests.

Data keeps its shape but for one to three places, at which a value is left out, has another type, is doubled, is cut
off, or is null, a list, a huge number. Text loses lines, words and brackets; bytes become others.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

OTHERS: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 2**31, 10**30, 0.5, float("inf"), "", "x", "0", "../../outside", "\ud800", "a\nb", [], [1],
    ["x"], [[1, 2], [3]], {}, {"x": 1}, {"name": None},
)  # fmt: skip
"""Values that replace others."""
WORDS = ("0", "-1", "9" * 20, '""', "x", "(", "<", "}", "null", "true", "i1", "é")
"""Words that replace others."""
_TOKEN = re.compile(r'"(?:[^"\n]*)"|[\w.$-]+|\s+|.', re.DOTALL)


def damaged_data(data: Any, seed: int) -> Any:
    """JSON data with damage."""
    lot, found = random.Random(seed), json.loads(json.dumps(data))
    for _ in range(lot.randint(1, 3)):
        places = list(_places(found))
        if not places:
            return lot.choice(OTHERS)
        holder, key = lot.choice(places)
        lot.choice(_DAMAGES)(holder, key, lot)
    return found


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Everything within data: what holds it, and its key there."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from _places(value)


def _drop(holder: Any, key: Any, lot: random.Random) -> None:
    del holder[key]


def _replace(holder: Any, key: Any, lot: random.Random) -> None:
    holder[key] = json.loads(json.dumps(lot.choice(OTHERS)))


def _retype(holder: Any, key: Any, lot: random.Random) -> None:
    value = holder[key]
    holder[key] = lot.choice([str(value), [value], {"value": value}, not value, value == value and 1.5])


def _double(holder: Any, key: Any, lot: random.Random) -> None:
    if isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[f"{key}{lot.choice('_x1')}"] = holder[key]


def _other(holder: Any, key: Any, lot: random.Random) -> None:
    """Another value of the same type: legal data that may contradict the rest."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        holder[key] = lot.choice([value + 1, value - 1, -value, value * 2, 7, 64])
    elif isinstance(value, str):
        holder[key] = lot.choice([value[:-1], value + "x", value.upper(), value[::-1]])
    elif isinstance(value, list):
        holder[key] = lot.choice([value[:-1], value[::-1], value * 2])


_DAMAGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (_drop, _replace, _replace, _retype, _double, _other)


def damaged_text(text: str, seed: int) -> bytes:
    """Text with damage, as bytes; sometimes not UTF-8."""
    lot = random.Random(seed)
    for _ in range(lot.randint(1, 3)):
        text = lot.choice((_cut, _lines, _lines, _tokens, _tokens, _tokens))(text, lot)
    made = text.encode("utf-8", "surrogatepass")
    if made and lot.random() < 0.1:
        at = lot.randrange(len(made))
        made = made[:at] + bytes([lot.randrange(256)]) + made[at + 1 :]
    return made


def _cut(text: str, lot: random.Random) -> str:
    return text[: lot.randint(0, len(text))]


def _lines(text: str, lot: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at, other = lot.randrange(len(lines)), lot.randrange(len(lines))
    match lot.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines[at] = lines[at][: lot.randint(0, len(lines[at]))]
    return "".join(lines)


def _tokens(text: str, lot: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    words = [at for at, token in enumerate(tokens) if not token.isspace()]
    at, other = lot.choice(words or [0]), lot.choice(words or [0])
    match lot.randrange(4):
        case 0:
            del tokens[at]
        case 1:
            tokens[at] = tokens[other]
        case 2:
            tokens[at] = lot.choice(WORDS)
        case _:
            tokens.insert(at, tokens[at])
    return "".join(tokens)


seeds = st.integers(0, 2**32 - 1)

__all__ = ["OTHERS", "damaged_data", "damaged_text", "seeds"]
