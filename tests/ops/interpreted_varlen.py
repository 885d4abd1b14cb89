"""Attention over packed sequences under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`: descriptors, strides, masks and the order of arguments are what this checks.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.attention_ops import varlen_launch as launching
from tests.ops.expected_varlen import check_neighbours, check_sequences, packed
from tests.ops.interpreted import TABLES
from tests.ops.reported import report

# name: lengths of the queries, of the keys, (dim, heads, key heads), options
Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int], dict[str, Any]]
CASES: dict[str, Case] = {
    "full": ((1, 127, 0, 129, 60), (128, 0, 33, 129, 1), (64, 2, 2), {}),
    "causal": ((1, 127, 0, 129, 60), (128, 60, 33, 129, 0), (64, 2, 2), {"causal": True}),
    "more_queries_than_keys": ((150, 10), (3, 1), (64, 2, 1), {"causal": True}),
    "more_keys_than_queries": ((3, 1), (150, 129), (64, 2, 1), {"causal": True}),
    "one_sequence": ((128,), (128,), (64, 1, 1), {"causal": True}),
    "one_query": ((1,), (1,), (64, 1, 1), {}),
    "gqa": ((70, 128), (128, 70), (64, 4, 2), {"causal": True}),
    "d16": ((70, 33), (70, 33), (16, 2, 2), {"causal": True}),
    "d96": ((70, 33), (70, 33), (96, 2, 2), {}),
    "d192": ((70, 33), (70, 65), (192, 4, 2), {"causal": True}),
    "d192_values_128": ((133, 33), (70, 65), (192, 2, 1), {"causal": True, "values": 128}),
    "d64_values_16": ((70, 33), (70, 65), (64, 2, 2), {"values": 16}),
    "d256": ((70, 33), (70, 65), (256, 2, 2), {"causal": True}),
    "scale": ((70, 33), (70, 33), (64, 2, 2), {"scale": 0.3}),
    "window": ((200, 100, 40), (233, 60, 40), (64, 2, 2), {"causal": True, "window": 40}),
    "softcap": ((70, 33), (70, 33), (64, 2, 2), {"softcap": 5.0}),
}
KINDS = ("plain", "projections", "strided")


def laid_out(kind: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors in another layout."""
    q, k, v, *offsets = tensors
    match kind:
        case "projections":  # heads outside of rows
            q, k, v = (x.transpose(0, 1).contiguous().transpose(0, 1) for x in (q, k, v))
        case "strided":  # TMA cannot read it
            q, k, v = (torch.stack((x, x), dim=3)[..., 0] for x in (q, k, v))
            offsets = [torch.stack((x, x), dim=1)[:, 0] for x in offsets]
        case _:
            pass
    return q, k, v, *offsets


def run(name: str, kind: str) -> None:
    """One case in one layout; raises AssertionError if a result is wrong."""
    queries, keys, (dim, *heads), options = CASES[name]
    options = dict(options)
    q, k, v, *offsets = packed(queries, keys, dim, (heads[0], heads[1]))
    tensors = laid_out(kind, (q, k, v[..., : options.pop("values", dim)].contiguous(), *offsets))
    scale = options.get("scale", dim**-0.5)
    rest = options.get("causal", False), options.get("window", 0), scale, options.get("softcap", 0.0)

    def call(*given: Any) -> Any:
        return launching.run_varlen(*given, max(queries), *rest)

    o, lse = call(*tensors)
    check_sequences(o, lse * math.log(2), tensors, **options)
    for at in range(len(queries)):
        if queries[at]:
            check_neighbours(lambda *given: call(*given)[0], tensors, at)


def main() -> None:
    """Runs every case on every table of tiles, in alternating layouts, into outputs full of NaN."""
    torch.set_num_threads(1)

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    launching.unwritten = poisoned
    for table, tiles in TABLES.items():
        launching.tiles_for = lambda device, tiles=tiles: tiles
        for number, name in enumerate(CASES):
            report(table, name, run, name, KINDS[number % len(KINDS)])


if __name__ == "__main__":
    main()
