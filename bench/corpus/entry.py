"""The parts of the corpus: packages and their entries. An entry is one public operation on one shape.

This module imports neither torch nor a package, so that entries can be listed without them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.corpus.partial_package import PartialPackage

Inputs = dict[str, Any]
Outputs = dict[str, Any]
OURS = "chosen here"


@dataclass(frozen=True, slots=True)
class RmsRatio:
    """Root mean square of the error over that of the reference; differences below `floor` count as zero."""

    limit: float
    floor: float = 1e-6

    def error(self, wanted: Any, got: Any) -> float:
        """The ratio; infinite if `got` is not finite where `wanted` is."""
        wanted, got = wanted.detach().double(), got.detach().double()
        if not bool(got.isfinite().all()):
            return 0.0 if bool(((got == wanted) | (got.isnan() & wanted.isnan())).all()) else float("inf")
        if float((wanted - got).abs().max()) <= self.floor:
            return 0.0
        return float((wanted - got).square().mean().sqrt() / (wanted.square().mean().sqrt() + 1e-8))


@dataclass(frozen=True, slots=True)
class AllClose:
    """The largest of ``|got - wanted| / (atol + rtol * |wanted|)``, which `torch.allclose` wants to be at most 1."""

    atol: float
    rtol: float
    limit: float = 1.0

    def error(self, wanted: Any, got: Any) -> float:
        """The largest ratio; infinite if `got` is not finite where `wanted` is."""
        wanted, got = wanted.detach().double(), got.detach().double()
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        ratios = (got - wanted).abs() / (self.atol + self.rtol * wanted.abs())
        ratios = ratios.masked_fill(same, 0.0)
        return float(ratios.nan_to_num(nan=float("inf"), posinf=float("inf")).max()) if ratios.numel() else 0.0


@dataclass(frozen=True, slots=True)
class MeanError:
    """The mean of the absolute error."""

    limit: float

    def error(self, wanted: Any, got: Any) -> float:
        """The mean; infinite if `got` has a NaN."""
        found = float((wanted.detach().double() - got.detach().double()).abs().mean())
        return found if found == found else float("inf")


Tolerance = RmsRatio | AllClose | MeanError


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of a package on one shape.

    make: makes the inputs by name, on a device; the random state is seeded before. run: the operation of the package.
    reference: the package's own reference, or PyTorch, in higher precision. tolerance: of all outputs that are not in
    `limits`. backward: whether the gradients of all inputs that require one are compared and timed too; their names are
    ``d`` and the name of the input. source: the file of the package that the tolerance comes from. shape_source: the
    file that tests or times this very shape, `OURS` if there is none. reset: fills outputs that `make` allocated with
    NaN; called before each run that is checked, not timed. configs: how many configurations of each autotuner are
    tried, spread evenly over its list; 0: all; 1 if nothing is tuned.
    """

    name: str
    shape: Mapping[str, Any]
    make: Callable[[str], Inputs]
    run: Callable[[Inputs], Outputs]
    reference: Callable[[Inputs], Outputs]
    tolerance: Tolerance
    source: str
    limits: Mapping[str, Tolerance] = field(default_factory=dict[str, Tolerance])
    backward: bool = False
    shape_source: str = OURS
    reset: Callable[[Inputs], None] | None = None
    configs: int = 4

    @property
    def key(self) -> str:
        """Name and shape: ``chunk_gla B=2 T=1024``."""
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.shape.items())])

    def limit_of(self, output: str) -> Tolerance:
        """The tolerance of one output."""
        return self.limits.get(output, self.tolerance)


@dataclass(frozen=True, slots=True)
class Archive:
    """The sources of a repository at a commit, as ``.tar.gz``. folders: of which the Python files are unpacked.

    under: the folder of the repository that they lie in.
    """

    address: str
    folders: tuple[str, ...]
    under: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """A package from PyPI, or files at a pinned commit.

    requires: for ``pip install --no-deps``. sources: of these wheels only the Python files are unpacked, since their
    extensions are large and not needed. archives: likewise, of repositories. files: path in the folder -> address.
    module: must be importable. partial: how, if most of the package is left out.
    """

    name: str
    home: str
    licence: str
    requires: tuple[str, ...]
    module: str
    entries: tuple[Entry, ...]
    sources: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    partial: PartialPackage | None = None
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: str = ""

    @property
    def version(self) -> str:
        """The version, or the first digits of the commit, that is pinned; empty if the package has its own."""
        numbers = [it.partition("==")[2] for it in (*self.requires, *self.sources)]
        addresses = [*(it.address for it in self.archives), *self.files.values()]
        commits = [found[0][:9] for it in addresses if (found := re.search(r"[0-9a-f]{40}", it))]
        return next(iter([*numbers, *commits]), "")

    def load(self) -> Any:
        """Imports `module`; raises ImportError if the package is not there."""
        return self.partial.load(self.module) if self.partial else importlib.import_module(self.module)
