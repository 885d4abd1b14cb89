"""The Gluon kernels of one file, as its own tests launch them: ``python -m bench.foreign.collect FILE FOLDER``.

The tests run under `bench.foreign.stand_in`, without a GPU. Each kernel is compiled for Hopper, or with ``--arch 100``
for Blackwell. Its final TTGIR is written to FOLDER in MLIR's generic form, with one line of JSON for each to the
standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from bench.foreign.calls import CALLS, environment
from bench.foreign.stand_in import Launch, install, tensors_without_data
from tawa.machine.machines import MACHINES, Machine, machine_of


class Run:
    """A plugin of pytest: tests make tensors without data. failed: why a file cannot be imported."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_collectreport(self, report: Any) -> None:
        """After a file is imported."""
        if report.failed:
            self.failed = report.longreprtext.strip().splitlines()[-1]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Around each test."""
        with tensors_without_data():
            yield


def run_file(file: Path) -> Any:
    """Imports a file and runs its tests under pytest; returns the module, or why there is none."""
    options = [
        "-q",
        "--tb=no",
        "--no-header",
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(file.parent),
    ]
    run = Run()
    pytest.main([str(file), *options], plugins=[run])
    if run.failed:
        return f"the file cannot be imported: {run.failed}"
    found = (it for it in list(sys.modules.values()) if getattr(it, "__file__", None) == str(file))
    return next(found, None)


def call_functions(module: Any, name: str) -> None:
    """Makes the calls for a file without tests."""
    for text in CALLS.get(name, ()):
        with tensors_without_data():
            eval(text, {**vars(module), **environment()})


def distinct(launches: list[Launch], own: Path) -> dict[str, Launch]:
    """Each version of each kernel once, by the name of the kernel and what it is compiled with."""
    return {
        f"{it.kernel.__name__}: {it}": it for it in launches if Path(it.kernel.fn.__code__.co_filename).resolve() == own
    }


def compiled_text(launch: Launch, gpu: Machine) -> str:
    """The final TTGIR of a launch."""
    from tawa.bridge.gluon.compile import compile_gluon
    from tawa.bridge.triton.read_module import read_final
    from tawa.bridge.triton.signature import Signature
    from tawa.ir import print_module

    signature = Signature(launch.types, launch.constants, launch.attributes)
    more = {"num_ctas": launch.num_ctas} if launch.num_ctas > 1 else {}
    made = compile_gluon(launch.kernel, signature, num_warps=launch.num_warps, target=gpu, **more)
    return print_module(read_final(made))


def main() -> None:
    """Prints a line for each version of each kernel: its name, and the file of its text or the error of the compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", type=int, default=90, choices=[it.capability for it in MACHINES])
    arguments = parser.parse_args()
    file, folder = arguments.file.resolve(), arguments.folder.resolve()
    launches: list[Launch] = []
    gpu = machine_of(arguments.arch)
    os.chdir(folder)
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        install(launches, gpu)
        module = run_file(file)
        if isinstance(module, str):
            print(json.dumps({"kernel": "", "error": module}), file=answers, flush=True)
        elif module is not None:
            call_functions(module, file.name)
        for number, (title, launch) in enumerate(distinct(launches, file).items()):
            answer: dict[str, Any] = {"kernel": launch.kernel.__name__, "version": title.partition(": ")[2]}
            answer |= {"grid": launch.grid, "arguments": launch.arguments}
            try:
                made = folder / f"{file.stem}.{number}.mlir"
                made.write_text(compiled_text(launch, gpu))
                answer["text"] = made.name
            except Exception as error:
                answer["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[-300:]
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
