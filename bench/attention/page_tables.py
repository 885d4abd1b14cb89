"""Tables of docs/attention.md that compare the operators with libraries, made from result rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.attention.candidates import V_AS_ROWS
from bench.attention.report import rates, title
from bench.harness import Row

FLASH = "FlashAttention-3"
OF_CACHES = ("Tawa", "stock Triton", FLASH, "cuDNN", "reads only")
OF_MIXES = ("Tawa", "stock Triton", FLASH, "PyTorch")
GB_PER_TB = 1e3
LENGTHS = (512, 1024, 4096, 16384)
MIXES = {
    "equal": "16 of 1024 tokens",
    "mixed": "1 to 2048 tokens",
    "short": "1 to 256 tokens",
    "one_long": "one of 8192 among short ones",
}


def libraries(rows: Sequence[Row]) -> list[str]:
    """Tawa's rate by problem and length, with its ratio to FlashAttention-3, and to cuDNN where it runs.

    In fp8 the operator gets V as rows, as FlashAttention-3 does.
    """
    lines = [f"| problem | {' | '.join(f'S = {S}' for S in LENGTHS)} |", f"|---|{'---|' * len(LENGTHS)}"]
    for panel, found in rates(rows).items():
        cells = [_beside(found.get(S, {})) for S in LENGTHS]
        if any(cells):
            lines.append(f"| {title(panel)} | {' | '.join(cell or '–' for cell in cells)} |")
    return lines


def _beside(line: Mapping[str, Row]) -> str:
    ours = line.get(V_AS_ROWS) or line.get("Tawa")
    if ours is None or FLASH not in line:
        return ""
    peers = [line[name] for name in (FLASH, "cuDNN") if name in line]
    return f"{ours.tflops:.0f} ({', '.join(f'{_ratio(ours, peer):.2f}' for peer in peers)})"


def _ratio(ours: Row, peer: Row) -> float:
    return (ours.tflops or 0.0) / (peer.tflops or 1.0)


def decoding(rows: Sequence[Row]) -> list[str]:
    """GB/s of K and V by problem and candidate."""
    lines = [f"| sequences × keys | {' | '.join(OF_CACHES)} |", f"|---|{'---|' * len(OF_CACHES)}"]
    for problem, found in by_cache(rows).items():
        cells = (f"{GB_PER_TB * (found[name].tflops or 0):.0f}" if name in found else "–" for name in OF_CACHES)
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return lines


def by_cache(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """The timed rows of `bench.attention.decode` by candidate, by problem."""
    problems: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.tflops:
            problems.setdefault(_cache(row.case), {})[row.candidate] = row
    return problems


def _cache(case: Mapping[str, Any]) -> str:
    queries = "one query" if case["queries"] == 1 else f"{case['queries']} queries"
    pages = f", pages of {case['page']}" if case["page"] else ""
    return f"{case['batches']} × {case['keys']}, {queries}, {case['heads']} heads on {case['key_heads']}{pages}"


def packed(rows: Sequence[Row]) -> list[str]:
    """Tawa's rate by mix of lengths, with its ratios to the others."""
    return _ratios(("lengths", "mask"), by_mix(rows), {it: it for it in OF_MIXES[1:]})


PEERS_OF_GRADIENTS = {"Tawa, same bits": "same bits", "cuDNN": "cuDNN", "CuTe": "CuTe"}
PEERS_BY_MASK = {it: it for it in ("FlashAttention-3", "CuTe", "cuDNN", "Tawa, V with keys innermost")}


def gradients(rows: Sequence[Row]) -> list[str]:
    """Tawa's rate in the backward pass by problem, with its ratios to the others."""
    problems: dict[tuple[int, int, bool], dict[str, Row]] = {}
    for row in rows:
        if row.tflops:
            problems.setdefault((row.case["d"], row.case["S"], row.case["causal"]), {})[row.candidate] = row
    named = {(d, S, "causal" if causal else "full"): found for (d, S, causal), found in sorted(problems.items())}
    return _ratios(("D", "tokens", "mask"), named, PEERS_OF_GRADIENTS)


def by_mask(rows: Sequence[Row]) -> list[str]:
    """Tawa's rate of `bench.attention.masks` by problem, with its ratios to the others."""
    problems: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if row.tflops:
            about = row.case
            mask = f"window {about['window']}" if about["window"] else "causal" if about["causal"] else "full"
            key = about["dtype"], about["d"], f"{about['H']} on {about['HK']}", mask, about["S"]
            problems.setdefault(key, {})[row.candidate] = row
    return _ratios(("type", "D", "heads", "mask", "tokens"), problems, PEERS_BY_MASK)


def _ratios(about: Sequence[str], problems: Mapping[Any, Mapping[str, Row]], peers: Mapping[str, str]) -> list[str]:
    """A table of Tawa's rate by problem, a tuple; of each peer's, with Tawa's ratio to it. peers: headings, by name."""
    names = [it for it in peers if any(it in found for found in problems.values())]
    headings = " | ".join((*about, "Tawa", *(peers[it] for it in names)))
    lines = [f"| {headings} |", "|---" * (len(about) + 1 + len(names)) + "|"]
    for problem, found in problems.items():
        ours = found["Tawa"]
        cells = (
            f"{found[name].tflops:.0f} ({_ratio(ours, found[name]):.2f})" if name in found else "–" for name in names
        )
        lines.append(f"| {' | '.join((*map(str, problem), f'{ours.tflops:.0f}', *cells))} |")
    return lines


MECHANISMS = (
    "waits by dataflow",
    "rows in the ring of their tile",
    "a turned operand through shared memory",
    "staged reductions",
    "groups that exchange",
    "a warp that stores",
    "a lag",
    "one ring for both tiles",
)
"""Of the backward pass, in the order of docs/attention-backward.md."""


def mechanisms(rows: Sequence[Row]) -> list[str]:
    """The rate of the backward pass without each mechanism of the compiler and with all, and their ratio, by D."""
    rates = {(row.case["d"], row.candidate): row.tflops for row in rows if row.tflops}
    dims = list(dict.fromkeys(d for d, _ in rates))
    lines = [f"| | {' | '.join(f'D = {d}' for d in dims)} |", f"|---|{'---|' * len(dims)}"]
    timed = {name.removeprefix("without ") for _, name in rates if name != "Tawa"}
    for name in (*MECHANISMS, *sorted(timed - set(MECHANISMS))):
        cells = ["not timed alone"] * len(dims)
        if name in timed:
            pairs = ((rates.get((d, f"without {name}")), rates[d, "Tawa"]) for d in dims)
            cells = [f"{before:.0f} → {after:.0f} ({after / before:.2f})" if before else "–" for before, after in pairs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def others(rows: Sequence[Row]) -> list[str]:
    """Other kernels: rates of stock Triton and of Tawa, and with one mechanism less or more."""
    rates: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.tflops:
            rates.setdefault(row.case["kernel"], {})[row.candidate] = row.tflops
    changes = dict.fromkeys(name for of in rates.values() for name in of if name.startswith("with"))
    lines = [f"| | stock Triton | Tawa | {' | '.join(changes)} |", f"|---|{'---|' * (2 + len(changes))}"]
    for kernel, of in rates.items():
        ours = f"{of['Tawa']:.0f} ({of['Tawa'] / of['stock Triton']:.2f})"
        cells = (f"{of[name]:.0f}" if name in of else "–" for name in changes)
        lines.append(f"| {kernel} | {of['stock Triton']:.0f} | {ours} | {' | '.join(cells)} |")
    return lines


def by_mix(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """The timed rows of `bench.attention.varlen` in bf16 with d = 128 by candidate, by lengths and mask."""
    problems: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row.tflops and (row.case["dtype"], row.case["d"]) == ("bf16", 128):
            problem = MIXES[row.case["mix"]], "causal" if row.case["causal"] else "full"
            problems.setdefault(problem, {})[row.candidate] = row
    return problems
