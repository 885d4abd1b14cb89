"""What Tawa supports: for each thing that it depends on a range, with a reason for each bound, and where it runs.

Messages, `tawa doctor` and docs/versions.md take them from here. The tests compare pyproject.toml, the Makefile and the
pages with it (`tests/project/test_supported.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tawa.machine.machines import MACHINES, SM_90

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Supported:
    """A range of versions: of every minor version from `first` to `last`, all patches.

    name: as messages write it. package: its name on the package index; empty for Python. last: None if there is no
    upper bound. why_first, why_last: the reason for each bound. runs: what runs, by version.
    """

    name: str
    package: str
    first: tuple[int, int]
    last: tuple[int, int] | None
    why_first: str
    why_last: str
    runs: tuple[tuple[str, str], ...]

    def __contains__(self, version: Version) -> bool:
        """Whether a version is supported."""
        return self.first <= version[:2] and (self.last is None or version[:2] <= self.last)

    def __str__(self) -> str:
        """``3.6 to 3.9``, or ``2.10 or newer``."""
        return f"{_text(self.first)} {'or newer' if self.last is None else f'to {_text(self.last)}'}"

    @property
    def requirement(self) -> str:
        """The range as pip reads it: ``triton>=3.6,<3.10``."""
        upper = f",<{self.last[0]}.{self.last[1] + 1}" if self.last is not None else ""
        return f"{self.package}>={_text(self.first)}{upper}"

    @property
    def cure(self) -> str:
        """The command that installs a supported version."""
        return f"pip install '{self.requirement}'"


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def parse_version(text: str) -> Version:
    """Reads ``"3.9.0+git1234"`` as (3, 9, 0); parts that are missing or not numbers are 0."""
    match = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text)
    if match is None:
        return (0, 0, 0)
    major, minor, patch = (int(part or 0) for part in match.groups())
    return (major, minor, patch)


_CONTRACT = "CI: the contract; `make nightly`: all tests that compile"

TRITON = Supported(
    "Triton",
    "triton",
    first=(3, 6),
    last=(3, 9),
    why_first="3.5 has no hook for the stages of a compile (`knobs.runtime.add_stages_inspection_hook`)",
    why_last="the newest minor version that runs the contract. Each minor version since 3.6 changed the IR: the "
    "captures of `ttg.warp_specialize` (3.7), the types of descriptors (3.8), slices of tensor memory (3.9)",
    runs=(("3.6.0", "CI: all tests"), ("3.7.1", _CONTRACT), ("3.8.0", _CONTRACT), ("3.9.0", _CONTRACT)),
)
PYTORCH = Supported(
    "PyTorch",
    "torch",
    first=(2, 10),
    last=None,
    why_first="2.9 requires Triton 3.5",
    why_last="each version requires a version of Triton, whose bound decides",
    runs=(
        ("none", "CI: what needs PyTorch runs with stand-ins, or is skipped"),
        ("2.11.0", "the measurements under `bench/results`, on H100 and H200"),
    ),
)
PYTHON = Supported(
    "Python",
    "",
    first=(3, 11),
    last=None,
    why_first="`tomllib`, `StrEnum` and notes of exceptions are new in 3.11",
    why_last="Triton's wheels decide",
    runs=(
        ("3.11", "CI: all tests; `make release`"),
        ("3.12", "`make release`: the wheel and the sdist, installed"),
        ("3.13", "`make release`: the wheel and the sdist, installed"),
    ),
)
RANGES = (TRITON, PYTORCH, PYTHON)

TRITON_OF_PYTORCH = {
    "2.10": "3.6",
    "2.11": "3.6",
    "2.12": "3.7",
    "2.13": "3.7",
    "2.14": "3.8",
    "2.15": "3.9",
}
"""The Triton that each PyTorch requires, by their metadata."""


GPUS = {
    it.name: (
        "measured on H100 and H200; automatic mode specialises"
        if it is SM_90
        else f"kernels are compiled, proved and simulated; none has run. Automatic mode needs `TAWA_ARCH={it.name}`"
    )
    for it in MACHINES
}
"""What is supported of each GPU, by the name of its machine. On others, every kernel is left to stock Triton."""

DRIVER = (
    "its CUDA has the major version of Triton's ptxas, or a newer one",
    "machine code runs on drivers of its own major version of CUDA and on later ones (CUDA Compatibility, minor "
    "version compatibility)",
)
"""Which driver a launch needs, and why."""


def pytorch_beside(triton: str | None) -> str:
    """The command that installs PyTorch and keeps the installed Triton, if that is supported.

    triton: the installed version; None for none. pip chooses a PyTorch of the index that requires it.
    """
    here = parse_version(triton) if triton else (0, 0, 0)
    return f"{PYTORCH.cure} 'triton=={_text(here[:2])}.*'" if here in TRITON else PYTORCH.cure
