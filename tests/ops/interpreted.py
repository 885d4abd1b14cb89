"""The operator's launches under Triton's interpreter, on the CPU: every case below, each a line of JSON.

Run by `test_attention_interpreted.py` with ``TRITON_INTERPRET=1``, which has to be set before Triton is imported. Only
float16: the interpreter has no arithmetic for bfloat16 and fp8. Nothing is compiled: tiles, descriptors, strides, masks
and the order of arguments are what this checks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

from tawa.ops.attention_ops import backward_launch
from tawa.ops.attention_ops import launch as launching
from tawa.ops.attention_ops import tensors as attention_tensors
from tawa.ops.attention_ops import tiles as attention_tiles
from tests.ops.adversarial import CASES as ADVERSARIAL
from tests.ops.adversarial import check_adversarial
from tests.ops.expected import amid_nan, check_gradients, check_outputs, normal, spoiled, triple
from tests.ops.reported import report

SLOPES = (0.5, 0.25, 0.125, 0.0625)
APART = 1.5
IN_STEPS: Any = {
    mask: {box: (replace(choice[0], least=0),) for box, choice in of_boxes.items()}
    for mask, of_boxes in attention_tiles.HOPPER.in_steps.items()
}
"""As on Hopper, for any number of queries."""
TABLES = {
    "hopper": replace(attention_tiles.HOPPER, in_steps=IN_STEPS),
    "elsewhere": attention_tiles.ELSEWHERE,
}
# name: (dim, queries, keys), heads, options
CASES: dict[str, tuple[tuple[int, int, int], tuple[int, int], dict[str, Any]]] = {
    "full": ((64, 100, 133), (4, 2), {}),
    "even": ((64, 128, 128), (2, 2), {}),
    "causal": ((64, 133, 100), (4, 2), {"causal": True}),
    "bottom_right": ((64, 100, 133), (2, 1), {"causal": True, "diagonal": 33}),
    "rows_without_keys": ((64, 133, 100), (2, 1), {"causal": True, "diagonal": -33}),
    "one_query": ((64, 1, 133), (3, 1), {"causal": True, "diagonal": 132}),
    "one_key": ((64, 100, 1), (2, 2), {}),
    "d16": ((16, 70, 70), (2, 2), {"causal": True}),
    "d96": ((96, 100, 133), (2, 2), {"causal": True}),
    "d192": ((192, 100, 133), (4, 2), {"causal": True}),
    "d160": ((160, 100, 133), (2, 2), {}),
    "d192_values_128": ((192, 133, 100), (2, 1), {"causal": True, "values": 128}),
    "d136_values_72": ((136, 70, 70), (2, 2), {"values": 72}),
    "d64_values_16": ((64, 70, 70), (2, 2), {"causal": True, "values": 16}),
    "factor": ((64, 100, 133), (4, 2), {"factors": ((), (2,), (1, 2))}),
    "factors": ((128, 70, 70), (4, 2), {"factors": ((1, 2), None, (1, 1)), "causal": True, "softcap": 5.0}),
    "d256": ((256, 100, 133), (2, 2), {"causal": True}),
    "scale": ((64, 100, 133), (2, 2), {"scale": 0.3}),
    "window": ((64, 200, 233), (2, 2), {"causal": True, "window": 40, "diagonal": 33}),
    "softcap": ((64, 100, 133), (2, 2), {"softcap": 5.0}),
    "alibi": ((64, 100, 133), (4, 2), {"alibi": SLOPES, "causal": True}),
    "alibi_full": ((64, 100, 133), (2, 1), {"alibi": (-2.0, 0.5)}),
    "low_scores": ((64, 70, 100), (2, 2), {"apart": APART}),
    "low_scores_causal": ((64, 200, 100), (2, 2), {"causal": True, "apart": APART}),
    "low_scores_window": ((64, 200, 100), (2, 2), {"causal": True, "window": 40, "apart": APART}),
    "window_alone": ((64, 133, 200), (2, 2), {"window": 40}),
    "window_d128": ((128, 233, 200), (2, 1), {"causal": True, "window": 150}),
    "alibi_softcap_window": ((64, 100, 133), (4, 2), {"alibi": SLOPES, "causal": True, "softcap": 5.0, "window": 40}),
}
"""apart: what is added to Q and taken from K, so that scores are low and exp2 of a key beyond the last overflows."""
WITHOUT_GRADIENT = ("factor", "factors")
KINDS = ("plain", "amid_nan", "heads_within_rows", "copied_heads_within_rows")


def laid_out(kind: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors in another layout."""
    match kind:
        case "amid_nan":
            return tuple(amid_nan(x) for x in tensors)
        case "heads_within_rows":
            return tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors)
        case "copied_heads_within_rows":  # TMA cannot read rows of this length
            return tuple(torch.nn.functional.pad(x.transpose(1, 2), (0, 4))[..., :-4].transpose(1, 2) for x in tensors)
        case _:
            return tensors


def run(name: str, kind: str) -> None:
    """One case in one layout; raises AssertionError if a result is wrong. Gradients of lse: with the same bits."""
    sizes, heads, options = CASES[name]
    options = dict(options)
    q, k, v = triple(*sizes, heads=heads, batches=1)
    if apart := options.pop("apart", 0):
        q, k = q / 8 + apart, k / 8 - apart
    q, k, v = laid_out(kind, (q, k, v[..., : options.pop("values", sizes[0])].contiguous()))
    known = {**options, **({"alibi": torch.tensor(options["alibi"])} if "alibi" in options else {})}
    if "factors" in options:
        known["factors"] = tuple(it if it is None else 0.5 + torch.rand(it) for it in options["factors"])
    mask = launching.Mask(known.get("causal", False), known.get("diagonal", 0), known.get("window", 0))
    given = launching.Options(mask, known.get("scale", sizes[0] ** -0.5), known.get("softcap", 0.0))
    factors = known.get("factors", launching.NO_FACTORS)
    o, lse = launching.run_forward(q, k, v, known.get("alibi"), given, factors)
    assert (o.stride(1) < o.stride(2)) == ("heads_within_rows" in kind and sizes[1] > 1)
    check_outputs(o, lse * math.log(2), q, k, v, **known)
    if name in WITHOUT_GRADIENT:
        return
    do, dlse = normal(*o.shape, seed=4), normal(*lse.shape, dtype=torch.float32, seed=5)
    rest = known.get("alibi"), given
    found = backward_launch.run_backward(do, None, q, k, v, o, lse, *rest)
    check_gradients(found, q, k, v, do, **known)
    for one, of in zip((o, *found), (q, q, k, v), strict=True):  # what torch.compile is told
        like = attention_tensors.new_like(of, one.dtype, one.shape[3])
        assert [it for it, size in zip(one.stride(), one.shape, strict=True) if size > 1] == [
            it for it, size in zip(like.stride(), like.shape, strict=True) if size > 1
        ]
    weight = launching.LN_2  # the derivative by the base-2 logarithm
    torch.use_deterministic_algorithms(True)
    try:
        found = backward_launch.run_backward(do, dlse * weight, q, k, v, o, lse, *rest)
    finally:
        torch.use_deterministic_algorithms(False)
    check_gradients(found, q, k, v, do, dlse, **known)


def bear(name: str, dim: int, causal: bool) -> None:
    """Sums in whole numbers of adversarial numbers; raises AssertionError if a gradient is wrong."""

    def derived(q: Any, k: Any, v: Any, do: Any, causal: bool) -> Any:
        rest: tuple[Any, ...] = (None, launching.Options.of(causal, 0, dim**-0.5, 0.0))
        o, lse = launching.run_forward(q, k, v, *rest, launching.NO_FACTORS)
        torch.use_deterministic_algorithms(True)
        try:
            return backward_launch.run_backward(do, None, q, k, v, o, lse, *rest)
        finally:
            torch.use_deterministic_algorithms(False)

    check_adversarial(name, derived, dim, 150, torch.float16, causal)


REORDERED = {"rows": (0, 1, 2, 3), "projections": (0, 2, 1, 3), "columns": (3, 0, 1, 2)}
"""How V of fp8 lies in memory: its axes, outermost first."""


def reorder(name: str) -> None:
    """V of fp8 reordered by its kernel; raises AssertionError if a key is not in its place."""
    order = REORDERED[name]
    for sizes in ((2, 3, 200, 48), (1, 1, 1, 16), (1, 2, 128, 256)):
        numbers = torch.randint(-100, 100, [sizes[axis] for axis in order], dtype=torch.int8)
        v = numbers.permute([order.index(axis) for axis in range(4)])
        assert v.shape == sizes
        made = launching.ReorderValues(v.view(torch.float8_e4m3fn))(v.view(torch.float8_e4m3fn)).view(torch.int8)
        places = torch.arange(made.shape[3])
        keys = places // 16 * 16 + places // 2 % 2 * 8 + places // 4 % 4 * 2 + places % 2
        padded = torch.nn.functional.pad(v, (0, 0, 0, len(keys) - sizes[2]))
        assert torch.equal(made, padded[:, :, keys].mT)


def add_reductions() -> None:
    """Sums through descriptors (`desc.atomic_add`) under the interpreter, which lacks them; programs run in turn."""

    def reduce(self: Any, kind: Any, desc: Any, value: Any, indices: Any) -> None:
        places, is_inside = desc.materialize_pointers(indices)
        memory, number = interpreter._interpreter, value.data.dtype
        before = memory.load(places.data, is_inside, np.zeros_like(value.data), number)
        memory.store(places.data, (before + value.data).astype(number), is_inside)

    interpreter.InterpreterBuilder.create_descriptor_reduce = reduce


def main() -> None:
    """Runs every case on every table of tiles, in alternating layouts, into outputs full of NaN."""
    torch.set_num_threads(1)
    add_reductions()

    launching.unwritten = attention_tensors.unwritten = backward_launch.unwritten = spoiled
    launching.unwritten_copy = lambda tensor: torch.full_like(tensor, math.nan)
    launching.multiprocessors = lambda device: 3  # fewer programs than tiles
    for name in REORDERED:
        report("reordered", name, reorder, name)
    for table, tiles in TABLES.items():
        launching.tiles_for = backward_launch.tiles_for = lambda device, tiles=tiles: tiles
        launching.forwards.clear()
        backward_launch.backwards.clear()
        for number, name in enumerate(CASES):
            report(table, name, run, name, KINDS[number % len(KINDS)])
        if tiles.in_steps:
            for number, name in enumerate(ADVERSARIAL):
                report("adversarial", name, bear, name, 256 if number % 5 == 0 else 64, number % 2 == 0)


if __name__ == "__main__":
    main()
