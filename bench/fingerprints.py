"""Whether a change of the compiler changes the generated code: ``python -m bench.fingerprints --record | --compare``.

Compiles every case of `tests.cases` (GEMM, attention, pointers, whole operations) without a GPU in each of the `MODES`,
and hashes three levels of each kernel: the aref level and the barrier level without locations, and the PTX without line
numbers. Before a change, ``--record`` writes the hashes to ``bench/fingerprints.json``; after it, ``--compare`` lists
the kernels and levels that differ. ``--texts FOLDER`` keeps the texts, to be compared with those of another commit by
``diff -r``.
``--cache FOLDER`` also hashes the kernels of a Triton cache under their names there, which covers the corpus:

    TRITON_DISABLE_LINE_INFO=1 TRITON_CACHE_DIR=FOLDER python -m bench.corpus compile --packages PACKAGES
    python -m bench.fingerprints --compare --cache FOLDER
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HASHES = Path(__file__).resolve().with_suffix(".json")
MODES: dict[str, dict[str, Any]] = {
    "automatic": {},
    "legal": {"only_if_faster": False},
    "persistent": {"only_if_faster": False, "persistent": True},
}
LEVELS = ("aref", "barrier", "ptx")
_DIGITS = 16
_LOCATION = re.compile(r'^#loc\d*(?: = .*)?\n|loc\((?:#loc\d*|unknown|"[^"]*"(?:\([^()]*\)|:\d+:\d+)?)\)', re.MULTILINE)


def texts_of(asm: Mapping[str, str]) -> dict[str, str]:
    """The levels that are compared; a kernel that is not specialised has its PTX only."""
    from tawa.ir import parse_module, print_module

    texts = {level: asm[level] for level in LEVELS if level in asm}
    if texts.get("barrier", "").startswith("//"):  # the reason why the kernel was declined, with source locations
        return {"ptx": texts["ptx"]}
    if "barrier" in texts:
        texts["barrier"] = print_module(parse_module(texts["barrier"]), locations=False)
    return texts


def hash_of(text: str) -> str:
    """A short hash of one text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def case_names() -> list[str]:
    """Every case as FAMILY/NAME."""
    return [f"{family}/{case.name}" for family, cases in _families().items() for case in cases]


def compile_case(name: str) -> dict[str, dict[str, str]]:
    """The texts of one case by mode; if the compile fails, the class of the error in place of the PTX."""
    from tawa.bridge.driver.attach import attached
    from tawa.bridge.driver.compile import compile_kernel
    from tawa.bridge.driver.request import Request
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tawa.bridge.triton.signature import Signature
    from tawa.plan import PlanOptions

    family, _, wanted = name.partition("/")
    case = next(case for case in _families()[family] if case.name == wanted)
    names = case.kernel.arg_names
    constants = {(names.index(key),): value for key, value in case.constants().items()}
    found: dict[str, dict[str, str]] = {}
    for mode, options in MODES.items():
        signature = Signature(case.signature(), constants, case.attributes())
        try:
            with attached(), launched_by_us(function=case.kernel):
                made = compile_kernel(case.kernel, signature, Request(PlanOptions(**options)), **case.options())
            found[mode] = texts_of(made.asm)
        except Exception as error:
            found[mode] = {"ptx": type(error).__name__}
    return found


def in_cache(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and texts of each kernel in a Triton cache; the name has a hash of the TTIR and the options."""
    for about in sorted(folder.glob("*/*.json")):
        name = about.stem
        if name.startswith("__grp__") or not (text := about.with_suffix(".ttir")).exists():
            continue
        metadata = json.loads(about.read_text())
        record = metadata.get("tawa") or {}
        warps = metadata["num_warps"], metadata["num_stages"]
        identity = [_LOCATION.sub("", text.read_text()), *warps, record.get("options")]
        asm = {level: path.read_text() for level in LEVELS if (path := about.with_suffix(f".{level}")).exists()}
        yield f"cache/{name}-{hash_of(json.dumps(identity, sort_keys=True))}", texts_of(asm)


def _families() -> dict[str, Any]:
    from tests.cases.attention import cases as attention
    from tests.cases.gemm import cases as gemm
    from tests.cases.operations import cases as operations
    from tests.cases.pointers import cases as pointers

    families = {"gemm": gemm, "attention": attention, "pointers": pointers, "operations": operations}
    return {name: family.CASES for name, family in families.items()}


def main() -> int:
    """Records or compares; returns 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the hashes")
    parser.add_argument("--compare", action="store_true", help="compare with the hashes that are written")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--texts", type=Path, help="keep the texts in this folder")
    parser.add_argument("--cache", type=Path, help="also the kernels of a Triton cache")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if arguments.record == arguments.compare:
        parser.error("one of --record and --compare is needed")
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    names = [name for name in case_names() if arguments.only in name]
    hashes: dict[str, dict[str, str]] = {}

    def take(name: str, texts: Mapping[str, str]) -> None:
        hashes[name] = {level: hash_of(text) for level, text in texts.items()}
        for level, text in texts.items() if arguments.texts else ():
            path = arguments.texts / name / level
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    with tempfile.TemporaryDirectory() as cache:  # without kernels compiled by another commit
        os.environ["TRITON_CACHE_DIR"] = cache
        with concurrent.futures.ProcessPoolExecutor(arguments.processes) as pool:
            for name, found in zip(names, pool.map(compile_case, names), strict=True):
                for mode, texts in found.items():
                    take(f"{name}/{mode}", texts)
    for name, texts in in_cache(arguments.cache) if arguments.cache else ():
        take(name, texts)
    if arguments.record:
        known = json.loads(HASHES.read_text()) if HASHES.exists() and (arguments.only or not arguments.cache) else {}
        kept = {name: it for name, it in known.items() if arguments.only not in name or name.startswith("cache/")}
        lines = (f" {json.dumps(name)}: {json.dumps(it)}" for name, it in sorted({**kept, **hashes}.items()))
        HASHES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{len(hashes)} kernels: {HASHES.name}")
        return 0
    return _compare(json.loads(HASHES.read_text()), hashes, arguments.only, bool(arguments.cache))


def _compare(known: dict[str, dict[str, str]], found: dict[str, dict[str, str]], only: str, cached: bool) -> int:
    wanted = {name for name in known if only in name and (cached or not name.startswith("cache/"))}
    different = 0
    for name in sorted(wanted | set(found)):
        before, now = known.get(name), found.get(name)
        if before == now:
            continue
        different += 1
        if before is None or now is None:
            print(f"{name}: {'new' if before is None else 'gone'}")
        else:
            levels = [level for level in LEVELS if before.get(level) != now.get(level)]
            print(f"{name}: {', '.join(levels)}")
    print(f"{different} of {len(wanted | set(found))} kernels differ")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
