"""Other people's Triton kernels under Tawa. ``python -m bench.corpus --help``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.corpus.entry import Entry, Package
from bench.corpus.packages import PACKAGES

if TYPE_CHECKING:
    from bench.corpus.report.results import Result

_EPILOG = """
  python -m bench.corpus fetch FOLDER               bring the packages (network)
  python -m bench.corpus list                       name every entry
  python -m bench.corpus compile --packages FOLDER  what becomes of each kernel, without a GPU (needs PyTorch)
  python -m bench.corpus missing --compiled FILE    what the most expensive kernels lack; writes missing.json
  python -m bench.corpus run --packages FOLDER      check and time on a Hopper GPU; writes bench/results/corpus.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status: 1 if something is wrong, crashed or hung, 2 for wrong usage."""
    given = _parser().parse_args(arguments)
    pairs = chosen(given.only)
    if not pairs:
        print(
            f"no entry's name contains {' or '.join(given.only)}; python -m bench.corpus list names them",
            file=sys.stderr,
        )
        return 2
    if given.command == "list":
        for package, entry in pairs:
            gradients = ", with gradients" if entry.backward else ""
            configs = f"{entry.configs} configurations at most" if entry.configs else "all configurations"
            print(f"{package.name}: {entry.key}{gradients}; shape: {entry.shape_source}; {configs}")
        return 0
    if given.command == "missing":
        from bench.corpus.report.missing import write

        print(write(given.compiled))
        return 0
    if given.command == "fetch":
        return _fetch([it for it in PACKAGES if any(it is package for package, _ in pairs)], given.folder)
    return _run(given, pairs)


def chosen(only: Sequence[str]) -> list[tuple[Package, Entry]]:
    """The entries whose ``package: key`` contains one of the texts; without texts, all."""
    pairs = [(package, entry) for package in PACKAGES for entry in package.entries]
    named = [(f"{package.name}: {entry.key}", package, entry) for package, entry in pairs]
    return [(package, entry) for name, package, entry in named if not only or any(text in name for text in only)]


def _run(given: argparse.Namespace, pairs: list[tuple[Package, Entry]]) -> int:
    from bench.corpus import runner
    from bench.corpus.report.page import reasons_table, summary_table
    from bench.corpus.report.result_file import LEARNED, NAME, about_run, read, rows_of, write
    from bench.corpus.report.summary import summarise
    from bench.harness import RESULTS, environment

    options = runner.Options(
        packages=given.packages,
        processes=given.processes,
        limit_s=given.limit,
        configs=given.configs,
        seconds=given.seconds,
        timing=not given.no_timing,
        legal=not given.no_legal,
        time_legal=given.time_legal and not given.no_legal,
        learned=given.learned,
    )
    name = LEARNED if given.learned else NAME
    file = RESULTS / f"{name}.json"
    if given.command == "compile":
        results = runner.compile_all(pairs, options, print)
        print("\n" + reasons_table(results))
        if given.json:
            rows = [dataclasses.asdict(row) for it in results for row in rows_of(it)]
            given.json.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return _say_faults(results)
    if environment()["device"] == "none":
        print("there is no GPU here; python -m bench.corpus compile needs none", file=sys.stderr)
        return 2
    about, before = read(file) if file.exists() else ({}, [])
    if given.missing:
        pairs = missing(pairs, before)
    run = about_run(options.configs)

    def merged(found: Sequence[Result]) -> list[Result]:
        now = [dataclasses.replace(it, date=run["date"]) for it in found]
        return in_order(replaced(before, now))

    results = runner.run(pairs, options, keep=lambda found: write(merged(found), run, about, name=name))
    if results:
        write(merged(results), run, about, clocks=True, name=name)
    print(f"\n{len(results)} of {len(pairs)} entries reached; results are in {file}\n")
    if not given.learned:
        print(summary_table(summarise(merged(results))))
    return _say_faults(results)


def _say_faults(results: Sequence[Result]) -> int:
    """Prints what is wrong, crashed or hung; returns the exit status."""
    from bench.corpus.runner import line

    bad = [it for it in results if it.status in ("wrong", "crashed", "hung")]
    for it in bad:
        print(line(it))
    return 1 if bad else 0


def missing(pairs: Sequence[tuple[Package, Entry]], results: Sequence[Result]) -> list[tuple[Package, Entry]]:
    """The entries that have no result yet, or an incomplete one."""
    complete = {it.identity() for it in results if it.status != "skipped" and not it.message.startswith("not timed")}
    return [(package, entry) for package, entry in pairs if _identity(package, entry) not in complete]


def replaced(before: Sequence[Result], now: Sequence[Result]) -> list[Result]:
    """Results, of which new ones replace earlier ones; one that is right but was not timed replaces none with times."""
    timed = {it.identity() for it in before if it.times}
    taken = [it for it in now if it.times or it.status != "ok" or it.identity() not in timed]
    again = {it.identity() for it in taken}
    return [*(it for it in before if it.identity() not in again), *taken]


def in_order(results: Sequence[Result]) -> list[Result]:
    """Results in the order of the packages and their entries; those of removed entries come last."""
    place = {_identity(package, entry): at for at, (package, entry) in enumerate(chosen([]))}
    return sorted(results, key=lambda it: place.get(it.identity(), len(place)))


def _identity(package: Package, entry: Entry) -> tuple[Any, ...]:
    return (package.name, entry.name, tuple(entry.shape.items()))


def _fetch(packages: Sequence[Package], folder: Path) -> int:
    from bench.corpus.fetch import fetch

    failures = fetch(packages, folder)
    for text in failures:
        print(f"not fetched: {text}", file=sys.stderr)
    there = [it.name for it in packages if not any(text.startswith(f"{it.name}: ") for text in failures)]
    print(f"packages in {folder}: {', '.join(there) or 'none'}")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.corpus", description=__doc__, epilog=_EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.set_defaults(only=[])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    only = argparse.ArgumentParser(add_help=False)
    only.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="entries whose name contains one of these")
    running = argparse.ArgumentParser(add_help=False, parents=[only])
    running.add_argument("--packages", default="", metavar="FOLDER", help="packages that are not installed")
    running.add_argument("--processes", type=int, default=8, help="checked at once (8); timings never share the GPU")
    running.add_argument("--limit", type=float, default=180.0, metavar="SECONDS", help="of silence of a job (180)")
    running.add_argument("--configs", type=int, help="most of each autotuner's list; 0: all (as each entry says)")
    running.add_argument("--seconds", type=float, help="begin no further entry after this time")
    fetching = commands.add_parser("fetch", parents=[only], help="bring the packages into a folder")
    fetching.add_argument("folder", type=Path)
    commands.add_parser("list", parents=[only], help="name every entry")
    run = commands.add_parser("run", parents=[running], help="check and time, on a Hopper GPU")
    run.add_argument("--no-timing", action="store_true", help="only check")
    run.add_argument("--missing", action="store_true", help="only what the result file lacks")
    run.add_argument("--no-legal", action="store_true", help="leave out what automatic mode declines")
    run.add_argument("--time-legal", action="store_true", help="time what automatic mode declines, too")
    run.add_argument("--learned", action="store_true", help="what launches learn, alone; writes learned.json")
    lacking = commands.add_parser("missing", help="what the most expensive kernels lack, from results")
    lacking.add_argument(
        "--compiled", type=Path, metavar="FILE", help="verdicts that compile --json wrote; others stay as they are"
    )
    compiling = commands.add_parser("compile", parents=[running], help="compile only, without a GPU")
    compiling.add_argument(
        "--json", type=Path, metavar="FILE", help="write the verdicts, a line of JSON for each entry and mode"
    )
    compiling.set_defaults(no_timing=True, time_legal=False, no_legal=False, missing=False, learned=False)
    run.set_defaults(json=None)
    return parser


if __name__ == "__main__":
    sys.exit(main())
