"""Counts the machine instructions of the attention loop: ``python -m bench.attention.instructions``. Needs no GPU.

The loop that is counted is the one in which most time is spent: the shortest loop that computes all exponentials of a
block of keys. Its instructions are divided by the elements of a block of scores that a thread has. The kernels of
`tawa.ops` are compiled by stock Triton, and by Tawa with sums in order, with sums after the loop
(``precision="relaxed"``), and also with the rows of K in the order of the next dot.

``--peer FILE`` also counts FlashAttention-3, from the shared library of its wheel (`pip download fa3-fwd`). Results of
a peer that is not given stay in the file.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import RESULTS, Report, Row, read
from tests.cases.case import Specimen

NAME = "attention_instructions"
PEER = "FlashAttention-3"
KINDS = {
    "dots": ("HGMMA", "QGMMA", "IGMMA"),
    "exponentials": ("MUFU",),
    "maxima": ("FMNMX",),
    "additions": ("FADD",),
    "fused": ("FFMA",),
    "multiplications": ("FMUL",),
    "conversions": ("F2FP",),
    "shuffles": ("SHFL", "PRMT"),
    "moves": ("MOV", "CS2R", "SEL", "FSEL"),
}
"""Instructions by what they do in the loop; all others are addresses, barriers and jumps."""
THREADS_OF_A_ROW_OF_64 = 2
"""A warp group has 64 rows of scores, so each of its 128 threads has half as many elements as there are keys."""
TILES = {("bf16", 64): (128, 128), ("bf16", 128): (128, 128), ("bf16", 256): (128, 64), ("fp8e4nv", 128): (128, 128)}
_PEER_TYPES = {"bf16": "cutlass::bfloat16_t", "fp8e4nv": "cutlass::float_e4m3_t"}
_MAINLOOP = re.compile(
    r"CollectiveMainloopFwdSm90<.*?cute::C<(\d+)>, cute::C<(\d+)>, cute::C<(\d+)> ?>, (\d+), ([\w:]+), float, "
    r"cutlass::arch::Sm90, ([a-z, ]+)>"
)
_PLAIN_FLAGS = ("false",) * 7
"""Not causal, no window, no softcap, one length, no pages, no appended keys, no second part of Q."""
_LINE = re.compile(r"\s*/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;")
_JUMP = re.compile(r"BRA.*?(0x[0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class Loop:
    """The instructions of one iteration of a loop; `keys` of a block."""

    instructions: tuple[str, ...]
    keys: int

    @property
    def each(self) -> float:
        """Instructions for each element of the scores."""
        return len(self.instructions) * THREADS_OF_A_ROW_OF_64 / self.keys

    def counts(self) -> dict[str, int]:
        """How many instructions of each kind there are."""
        names = collections.Counter(it.split(".")[0] for it in self.instructions)
        found = {kind: sum(names[name] for name in of) for kind, of in KINDS.items()}
        return {**found, "others": len(self.instructions) - sum(found.values())}


def steady_loop(sass: str, keys: int) -> Loop:
    """The shortest loop in machine code that computes the exponentials of a block; raises ValueError if there is none.

    sass: what cuobjdump prints of one kernel.
    """
    code = [(int(m[1], 16), m[2]) for line in sass.splitlines() if (m := _LINE.match(line))]
    place = {address: number for number, (address, _) in enumerate(code)}
    found: list[tuple[str, ...]] = []
    for number, (_, text) in enumerate(code):
        jump = _JUMP.search(text)
        start = place.get(int(jump[1], 16)) if jump else None
        if start is not None and start <= number:
            inside = tuple(re.sub(r"^@\S+\s+", "", it).split()[0] for _, it in code[start : number + 1])
            exponentials = sum(it.startswith("MUFU.EX2") for it in inside)
            if exponentials * THREADS_OF_A_ROW_OF_64 >= keys and any("GMMA" in it for it in inside):
                found.append(inside)
    if not found:
        raise ValueError(f"no loop has the exponentials of {keys} keys")
    return Loop(min(found, key=len), keys)


def own_cases() -> Iterator[tuple[Mapping[str, Any], Specimen]]:
    """The cases of the table: full attention with the tiles of `tawa.ops`, or as large in fp8."""
    from tests.cases.attention.cases import bench_case

    for (dtype, dim), (rows, keys) in TILES.items():
        case = bench_case("two_loops", dtype, dim, False, 4096, tile=(rows, keys, 8))
        yield {"dtype": dtype, "dim": dim, "rows": rows, "keys": keys}, case


def own_loops(case: Specimen, keys: int) -> Iterator[tuple[str, Loop]]:
    """The loop as stock Triton compiles it, and as Tawa does."""
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tests.cases.compiled import compile_case

    pinned, ordered = {"enable_warp_specialization": True}, {"operands": [{"rows": "for_next_dot"}]}
    ways: dict[str, dict[str, Any]] = {
        "stock Triton": {"enable_warp_specialization": False},
        "Tawa, sums in order": pinned,
        "Tawa, sums after the loop": {**pinned, "precision": "relaxed"},
        "Tawa, rows of K in the order of the next dot as well": {**pinned, "precision": "relaxed", "plan": ordered},
    }
    for name, options in ways.items():
        with launched_by_us():  # as a launch by Triton does, which makes the descriptor for such rows
            compiled = compile_case(case, **options)
        yield name, steady_loop(disassembled(compiled.asm["cubin"]), keys)


def peer_loops(library: Path) -> Iterator[tuple[Mapping[str, Any], Loop]]:
    """The loops of FlashAttention-3's kernels for full attention, from its shared library; one for each tile."""
    seen: list[Mapping[str, Any]] = []
    for function, text in zip(names := _functions(library), _demangled(names), strict=True):
        match = _MAINLOOP.search(text)
        flags = match[6].split(", ") if match else []
        dtypes = [it for it, name in _PEER_TYPES.items() if match and match[5] == name]
        if not match or not dtypes or tuple(flags[:7]) != _PLAIN_FLAGS or flags[9:12] != ["false"] * 3:
            continue
        rows, keys, dim, value_dim = (int(match[number]) for number in range(1, 5))
        if (dtypes[0], dim) in TILES and dim == value_dim:
            case = {"dtype": dtypes[0], "dim": dim, "rows": rows, "keys": keys}
            if case not in seen:
                seen.append(case)
                yield case, steady_loop(_run("cuobjdump", "-sass", "-fun", function, str(library)), keys)


def disassembled(cubin: bytes) -> str:
    """What cuobjdump prints of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return _run("cuobjdump", "-sass", file.name)


def _functions(library: Path) -> list[str]:
    text = _run("cuobjdump", "--dump-resource-usage", str(library))
    return [it for it in re.findall(r"Function (\S+):", text) if "FlashAttnFwdSm90" in it]


def _demangled(names: list[str]) -> list[str]:
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _run(tool: str, *arguments: str) -> str:
    from triton import knobs

    path = Path(str(getattr(knobs.nvidia, tool).path))
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, check=True).stdout


def _row(case: Mapping[str, Any], candidate: str, loop: Loop) -> Row:
    numbers = {"instructions": len(loop.instructions), "each": round(loop.each, 2), "counts": loop.counts()}
    print(f"{candidate}, {case['dtype']} d={case['dim']}: {len(loop.instructions)}, {loop.each:.2f} for each element")
    return Row({**case, **numbers}, candidate)


def main() -> int:
    """Counts and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, metavar="FILE", help="the shared library of FlashAttention-3")
    arguments = parser.parse_args()
    report, path, rows = Report(NAME), RESULTS / f"{NAME}.json", list[Row]()
    for case, specimen in own_cases():
        rows += [_row(case, name, loop) for name, loop in own_loops(specimen, case["keys"])]
    if arguments.peer is not None:
        rows += [_row(case, PEER, loop) for case, loop in peer_loops(arguments.peer)]
    elif path.exists():
        rows += [row for row in read(path)[1] if row.candidate == PEER]
    report.add(*rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
