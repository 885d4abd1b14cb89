"""Decoding under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`: descriptors, strides, masks and the order of arguments are what this checks.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.attention_ops import decode_launch as launching
from tests.ops.expected import normal
from tests.ops.expected_decode import check_decoded, make_cache
from tests.ops.interpreted import TABLES
from tests.ops.reported import report

# name: lengths, queries, (dim, heads, key heads), of the cache, options
Case = tuple[tuple[int, ...], int, tuple[int, int, int], dict[str, Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "one_query": ((133, 1, 0, 256), 1, (64, 2, 2), {"rows": 256}, {"splits": 1}),
    "two_splits": ((133, 1, 0, 256), 1, (64, 2, 2), {"rows": 256}, {"splits": 2}),
    "seven_splits": ((400, 129), 1, (64, 2, 1), {"rows": 400}, {"splits": 7}),
    "chosen_splits": ((400, 129), 1, (64, 2, 1), {"rows": 512}, {}),
    "more_splits_than_blocks": ((130, 5), 1, (64, 2, 1), {"rows": 140}, {"splits": 9}),
    "gqa4": ((133, 64), 1, (64, 8, 2), {"rows": 160}, {"splits": 2}),
    "gqa16": ((133,), 1, (64, 16, 1), {"rows": 160}, {"splits": 2}),
    "queries": ((133, 4, 2, 0), 4, (64, 4, 2), {"rows": 160}, {"splits": 2}),
    "more_rows_than_a_tile": ((133, 90), 5, (64, 16, 1), {"rows": 160}, {"splits": 2}),
    "not_causal": ((133, 4), 4, (64, 4, 2), {"rows": 160}, {"causal": False, "splits": 2}),
    "rows_first": ((133, 64, 7), 1, (64, 4, 2), {"rows": 160, "rows_first": True}, {"splits": 2}),
    "d96": ((133, 64), 1, (96, 2, 1), {"rows": 160}, {"splits": 2}),
    "d256": ((133, 64), 1, (256, 2, 1), {"rows": 160}, {"splits": 2}),
    "pages16": ((133, 1, 0, 64), 1, (64, 4, 2), {"rows": 160, "page": 16}, {"splits": 2}),
    "pages48": ((133, 1, 48), 1, (64, 4, 2), {"rows": 160, "page": 48}, {"splits": 3}),
    "pages64": ((133, 129), 3, (64, 4, 2), {"rows": 192, "page": 64, "rows_first": True}, {"splits": 2}),
    "pages256": ((300, 256, 255), 1, (128, 4, 2), {"rows": 512, "page": 256}, {"splits": 1}),
    "window": ((233, 300, 40), 2, (64, 4, 2), {"rows": 300}, {"window": 40, "splits": 2}),
    "window_of_blocks": ((433, 300), 1, (64, 4, 2), {"rows": 448, "page": 64}, {"window": 200, "splits": 3}),
    "softcap": ((133, 64), 1, (64, 2, 2), {"rows": 160}, {"softcap": 5.0, "splits": 2}),
    "scale": ((133, 64), 1, (64, 2, 2), {"rows": 160}, {"scale": 0.3}),
    "whole_cache": ((160, 160), 1, (64, 2, 2), {"rows": 160}, {"splits": 2, "whole": True}),
    "appended": ((133, 2, 64), 2, (64, 4, 2), {"rows": 160}, {"splits": 2, "new": 2}),
    "appended_pages": ((133, 1, 65), 1, (64, 4, 2), {"rows": 160, "page": 16}, {"splits": 2, "new": 1}),
    "appended_rows_first": ((133, 3, 64), 3, (64, 4, 2), {"rows": 160, "rows_first": True}, {"new": 3}),
}  # fmt: skip
WITHOUT_ROOM = {"no_room": 0, "no_room_in_pages": 16}
"""New keys that do not fit, by the keys of a page."""


def run(name: str) -> None:
    """One case; raises AssertionError if a result is wrong."""
    if name in WITHOUT_ROOM:
        run_without_room(WITHOUT_ROOM[name])
        return
    lengths, queries, (dim, heads, key_heads), of_cache, options = CASES[name]
    options = {"causal": True, **options}
    splits, new, whole = options.pop("splits", None), options.pop("new", 0), options.pop("whole", False)
    cache = make_cache(lengths, key_heads, dim, **of_cache)
    q = normal(len(lengths), heads, queries, dim, seed=1)
    length = launching.Length(None if whole else cache.lengths, of_cache["rows"])
    if new:
        hidden = make_cache(tuple(it - new for it in lengths), key_heads, dim, **of_cache)
        k, v = (torch.cat([it[:, :, -new:] for it in of]) for of in (cache.keys, cache.values))
        before = launching.Length(hidden.lengths, of_cache["rows"])
        forget(cache, lengths, new, of_cache.get("page", 0))
        launching.run_append(k, v, cache.k, cache.v, before, cache.table)
        length = launching.Length(hidden.lengths, of_cache["rows"], new)
    scale = options.get("scale", dim**-0.5)
    given = launching.Options.of(options["causal"], options.get("window", 0), scale, options.get("softcap", 0.0))
    o, lse = launching.run_decode(q, cache.k, cache.v, length, cache.table, given, splits)
    check_decoded(o, lse * math.log(2), q, cache, **options)


def run_without_room(page: int) -> None:
    """New keys of a full sequence, or of a page that does not exist, are written nowhere."""
    for length, missing in ((64, False), (63, True)):
        if missing and not page:
            continue
        cache = make_cache((length, 5), 2, 64, rows=64, page=page)
        if missing:
            cache.table[0, -1] = -1
        before = cache.k.clone(), cache.v.clone()
        k = v = normal(2, 2, 1, 64, seed=9)
        launching.run_append(k, v, cache.k, cache.v, launching.Length(cache.lengths, 64), cache.table)
        place = (int(cache.table[1, 0]), 5) if page else (1, 5)
        for found, wanted in zip((cache.k, cache.v), before, strict=True):
            wanted[place[0], :, place[1]] = k[1, :, 0]
            assert torch.equal(found.nan_to_num(7.0), wanted.nan_to_num(7.0)), "something else was written"


def forget(cache: Any, lengths: tuple[int, ...], new: int, page: int) -> None:
    """Makes the last `new` keys of each sequence NaN again."""
    for b, length in enumerate(lengths):
        for n in range(length - new, length):
            place = (int(cache.table[b, n // page]), n % page) if page else (b, n)
            for tensor in (cache.k, cache.v):
                tensor[place[0], :, place[1]] = math.nan


def main() -> None:
    """Runs every case on every table of tiles, into outputs full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    launching.unwritten = poisoned
    for table, tiles in TABLES.items():
        launching.tiles_for = lambda device, tiles=tiles: tiles
        launching._decodes.clear()
        for name in (*CASES, *WITHOUT_ROOM):
            report(table, name, run, name)


if __name__ == "__main__":
    main()
