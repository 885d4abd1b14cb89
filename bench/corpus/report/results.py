"""Results: the status of each entry, derived from the answers of the workers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

NO_WORSE_THAN_STOCK = 1.1  # if stock itself misses the tolerance, Tawa's error may be larger by this factor
FARTHEST = 4.0  # no error of an element may exceed the largest of stock's by this factor


@dataclass(frozen=True, slots=True)
class Microseconds:
    """The time of a kernel in one run of its operation: median, 10th and 90th percentile over many runs."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one kernel of an entry, in automatic mode or wherever legal; for stock only the name and time.

    us: the time of all launches with its name, in whatever version; None if it was not timed by itself.
    """

    kernel: str
    applied: bool
    reason: str
    location: str | None
    launches: int
    versions: int
    us: Microseconds | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """Everything known about one entry.

    status: ``ok``; ``wrong`` (an error above the tolerance that stock Triton's kernel does not have, an element with a
    far larger error than any of stock's, or a configuration whose results vary or are far from stock's); ``crashed``,
    ``hung`` (under Tawa); ``skipped`` (the package is missing, or stock Triton itself fails, crashes or hangs).
    errors: by mode, the largest error of any output relative to its tolerance; None: infinite or not a number.
    equal_bits: by mode, whether every output has stock's bits. times: by mode, median, 10th and 90th percentile in ms.
    compared: configurations of autotuners that were compared with stock's kernel, one by one.
    date: of the run that found it. tried: by mode, whether some configuration that an autotuner tried was specialised,
    though another may have been chosen; it steers what is timed, and is not kept.
    """

    package: str
    name: str
    shape: Mapping[str, Any]
    backward: bool
    status: str
    message: str = ""
    errors: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    equal_bits: Mapping[str, bool] = field(default_factory=dict[str, bool])
    kernels: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict[str, tuple[Verdict, ...]])
    times: Mapping[str, tuple[float, float, float]] = field(default_factory=dict[str, tuple[float, float, float]])
    date: str = ""
    compared: int = 0
    tried: Mapping[str, bool] = field(default_factory=dict[str, bool], compare=False)

    @property
    def applied(self) -> bool:
        """Whether automatic mode specialised one of its kernels."""
        return any(verdict.applied for verdict in self.kernels.get("tawa", ()))

    @property
    def legal(self) -> bool:
        """Whether one of its kernels can be specialised at all."""
        return self.applied or any(verdict.applied for verdict in self.kernels.get("legal", ()))

    def speedup(self, mode: str = "tawa") -> float | None:
        """Stock's median time over that of a mode; None if either was not timed."""
        if "stock" not in self.times or mode not in self.times:
            return None
        return self.times["stock"][0] / self.times[mode][0]

    def identity(self) -> tuple[Any, ...]:
        """The key of an entry: what distinguishes it from all others."""
        return (self.package, self.name, tuple(self.shape.items()))


def judge(about: Mapping[str, Any], answer: Mapping[str, Any], reached: str) -> Result:
    """The result of a check.

    about: package, name, shape, backward. answer: of the worker, or of its parent if the worker gave none. reached: the
    mode that was running when a worker died.
    """
    status, message = answer["status"], answer.get("message", "")
    if status in ("hung", "crashed", "failed"):
        status = "hung" if status == "hung" else "crashed"
        blame = reached in ("tawa", "legal")
        text = f"in {reached}: {message}"
        return Result(**about, status=status if blame else "skipped", message=text if blame else f"{status} {text}")
    if status != "done":
        return Result(**about, status="skipped", message=message)
    modes = answer["modes"]
    broken = {mode: found["failed"] for mode, found in modes.items() if "failed" in found}
    done = {mode: found for mode, found in modes.items() if mode not in broken}
    errors = {mode: found["worst"] for mode, found in done.items()}
    kernels = {mode: tuple(Verdict(**it) for it in found["kernels"]) for mode, found in done.items()}
    bits = {mode: found["equal_bits"] for mode, found in done.items()}
    if broken:
        status, message = "crashed", "; ".join(f"in {mode}: {text}" for mode, text in broken.items())
    else:
        wrong = [mode for mode in errors if not right(errors[mode], errors["stock"], bits[mode])]
        texts = [f"in {mode}: error {told(errors[mode])} of the tolerance" for mode in wrong]
        far = [mode for mode in done if mode not in wrong and not bits[mode] and far_off(done[mode]["peak"])]
        texts += [
            f"in {mode}: an element {told(done[mode]['peak'])} times as far off as any of stock's" for mode in far
        ]
        texts += [text for found in done.values() for text in found.get("off", ())]
        status, message = "wrong" if texts else "ok", "; ".join(texts)
        if not texts and not right(errors["stock"], 0.0, False):
            message = f"stock Triton itself misses the tolerance: {told(errors['stock'])} of it"
    tried = {mode: bool(it.get("tried")) for mode, it in done.items()}
    compared = sum(it.get("compared", 0) for it in done.values())
    known = {"errors": errors, "equal_bits": bits, "kernels": kernels, "tried": tried, "compared": compared}
    return Result(**about, status=status, message=message, **known)


def right(error: float | None, stock: float | None, equal_bits: bool) -> bool:
    """Whether a result is within its tolerance, or no worse than stock Triton's, which may miss it too."""
    if equal_bits:
        return True
    if error is None:
        return False
    return error <= 1.0 or (stock is not None and stock > 1.0 and error <= stock * NO_WORSE_THAN_STOCK)


def far_off(peak: float | None) -> bool:
    """Whether few elements are far off, as after a race or a missing tile; a mean does not show them."""
    return peak is None or peak > FARTHEST


def told(error: float | None) -> str:
    """An error as text; None is infinite."""
    return "infinite" if error is None else f"{error:.3g}"


def geomean(values: Iterable[float]) -> float | None:
    """The geometric mean; None for an empty sequence."""
    found = list(values)
    return math.exp(sum(math.log(value) for value in found) / len(found)) if found else None


def title(result: Result) -> str:
    """Package, operation and shape in one line."""
    shape = " ".join(f"{name}={value}" for name, value in result.shape.items())
    return f"{result.package}: {result.name} {shape}"
