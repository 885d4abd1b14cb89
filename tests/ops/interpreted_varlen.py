"""Attention over packed sequences under Triton's interpreter: every case below, each a line of JSON.

As `interpreted.py`: descriptors, strides, masks and the order of arguments are what this checks.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from tawa.ops.attention_ops import varlen_backward
from tawa.ops.attention_ops import varlen_launch as launching
from tests.ops.expected import normal
from tests.ops.expected_varlen import amid_nan, check_neighbours, check_packed_gradients, check_sequences, packed
from tests.ops.interpreted import APART, TABLES, add_reductions
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
    "low_scores": ((70, 33), (70, 65), (64, 2, 2), {"apart": APART}),
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
    if apart := options.pop("apart", 0):
        q, k = q / 8 + apart, k / 8 - apart
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
    check_backward(call, tensors, rest, options)


def check_backward(call: Any, tensors: tuple[Any, ...], rest: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Gradients of the sequences, with those of the logarithms; and of one amid NaN, which reaches no other row."""
    o, lse = call(*tensors)
    do, dlse = normal(*o.shape, seed=4), normal(*lse.shape, dtype=torch.float32, seed=5)
    weight = varlen_backward.LN_2  # the derivative by the base-2 logarithm

    def backward(do: Any, of_lse: Any, given: tuple[Any, ...], found: tuple[Any, ...]) -> Any:
        return varlen_backward.run_varlen_backward(do, of_lse, *given[:3], *found, *given[3:], *rest)

    for of_lse in (None, dlse):
        for same_bits in (False, True):
            torch.use_deterministic_algorithms(same_bits)
            try:
                found = backward(do, None if of_lse is None else of_lse * weight, tensors, (o, lse))
            finally:
                torch.use_deterministic_algorithms(False)
            check_packed_gradients(found, do, of_lse, tensors, **options)
    cu_q, cu_k = tensors[3:]
    for at in range(len(cu_q) - 1):
        amid = amid_nan(tensors, at)
        of_amid = call(*amid)
        more = torch.full_like(of_amid[0], math.nan)
        own, of_keys = (slice(int(cu[at]), int(cu[at + 1])) for cu in (cu_q, cu_k))
        there, keys_there = (slice(int(cu[at]), int(cu[at + 1])) for cu in amid[3:])
        more[there] = do[own]
        alone = backward(more, None, amid, of_amid)
        wanted = backward(do, None, tensors, (o, lse))
        for got, exact, inside, of in zip(alone, wanted, (there, keys_there, keys_there), (own, of_keys, of_keys),
                                          strict=True):  # fmt: skip
            assert torch.equal(got[inside], exact[of]), f"gradients of sequence {at} amid NaN"
            assert not got[: int(amid[3 if inside is there else 4][0])].any(), "rows of no sequence"


def main() -> None:
    """Runs every case on every table of tiles, in alternating layouts, into outputs full of NaN."""
    torch.set_num_threads(1)
    add_reductions()

    def poisoned(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.full(shape, math.nan, dtype=dtype, device=like.device)

    launching.unwritten = varlen_backward.unwritten = poisoned
    for table, tiles in TABLES.items():
        launching.tiles_for = varlen_backward.tiles_for = lambda device, tiles=tiles: tiles
        varlen_backward.backwards.clear()
        for number, name in enumerate(CASES):
            report(table, name, run, name, KINDS[number % len(KINDS)])


if __name__ == "__main__":
    main()
