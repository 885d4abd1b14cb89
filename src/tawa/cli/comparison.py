"""Runs a program several times and compares its output tensors, bit by bit, with those of another program."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.cli.failures import CHECKING, STATUS_REFUTED, UsageError, print_failure, require_folder
from tawa.cli.pages import tell_saved
from tawa.runtime.explain.table import plural
from tawa.runtime.progress import Tell

if TYPE_CHECKING:
    from tawa.cli.inputs.launch_arguments import Parameter
    from tawa.ir import Module
    from tawa.sim import SimulationError
    from tawa.symbolic.host.launch_spec import LaunchSpec

Values = dict[str, Any]
UNSPECIALISED = "the unspecialised program"


@dataclass(frozen=True, slots=True)
class Subject:
    """The program to run. title: its name in messages. baseline: the program with the right bits; None: itself, eager.

    note: a remark on where the program comes from. stock: returns stock Triton's program, for timelines. how: how the
    program was compiled. maker: the Triton that made the program by itself, "Triton 3.6.0"; else empty. launch: what
    launches of the program need, made from the kernel's own arguments, whose names are `names`; None for nothing.
    """

    title: str
    module: Module
    baseline: Module | None = None
    note: str = ""
    stock: Callable[[], Module] | None = None
    how: str = ""
    maker: str = ""
    launch: LaunchSpec | None = None
    names: Sequence[str] = ()

    @property
    def arguments_of(self) -> Module:
        """The program whose parameters are those that a user gives values for."""
        return self.module if self.launch is None or self.baseline is None else self.baseline


class Trapped(Exception):
    """A run that stopped with an error. title: of the program. order: of the run. maker: as of `Subject`."""

    def __init__(self, title: str, order: str, error: SimulationError, maker: str = "") -> None:
        self.title = title
        self.order = order
        self.error = error
        self.maker = maker
        super().__init__(str(error))

    @property
    def cure(self) -> str:
        """What the user can change: nothing in a program that stock Triton made of a kernel."""
        if not self.maker or self.status != STATUS_REFUTED:
            return self.error.cure
        return _blame(self.maker)

    @property
    def kind(self) -> str:
        """The cause in words: "deadlock", "missing fence", and so on."""
        return re.sub(r"(?<!^)([A-Z])", r" \1", type(self.error).__name__).lower()

    @property
    def status(self) -> int:
        """1 for a fault of the program, 2 for an operation that the simulator does not support."""
        from tawa.sim import UnsupportedOp

        return CHECKING.failed if isinstance(self.error, UnsupportedOp) else STATUS_REFUTED

    def facts(self) -> dict[str, Any]:
        """JSON data."""
        error = self.error
        return {
            "verdict": "unsupported" if self.status == CHECKING.failed else "trap",
            "kind": self.kind,
            "level": self.title,
            "order": self.order,
            "op": error.op,
            "reason": error.reason,
            "location": str(error.location) if error.location else None,
            "partition": error.partition or None,
            "program": list(error.program) if error.program else None,
            "cure": self.cure,
        }

    def print(self) -> None:
        """Prints the error, with partition and program."""
        error = self.error
        op = f"{error.op}: " if error.op else ""
        who = f"\n  in partition {error.partition} of program {error.program}" if error.partition else ""
        kind = "" if error.reason.startswith(self.kind) else f"{self.kind}: "
        print_failure(f"{self.title}, order {self.order}: {kind}{op}{error.reason}{who}", error.location)
        if self.cure:
            print_cure(self.cure)


def _blame(maker: str) -> str:
    """What to do about a program that stock Triton made of a kernel whose unspecialised program runs."""
    return (
        f"none in the kernel: the fault is {maker}'s, which made this program; the unspecialised program runs. "
        "Another version of Triton may be right, or the specialised program (--level barrier), if there is one"
    )


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that a run wrote, or that was filled with NaN to be written.

    written: whether any run changed it. equal: by order. difference, at: the largest difference in any order, and its
    index; difference is None if it is not a finite number. unwritten: how many elements no run wrote, of a tensor that
    was filled with NaN; first: the index of the first of them.
    """

    name: str
    shape: tuple[int, ...]
    element: str
    written: bool
    equal: Mapping[str, bool]
    difference: float | None
    at: tuple[int, ...] | None
    nans: int
    nans_wanted: int
    unwritten: int = 0
    first: tuple[int, ...] | None = None

    @property
    def finding(self) -> str:
        """What is suspicious although all bits are the same: elements that were never written; else empty."""
        if not self.unwritten:
            return ""
        size = prod(self.shape)
        share = f"{self.unwritten} of {size} elements ({self.unwritten / size:.0%})"
        return f"{self.name}: {share} still hold the NaN of before: not written, the first at {list(self.first or ())}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of all runs. tensors: by name in the file that --save writes."""

    subject: Subject
    orders: tuple[str, ...]
    programs: int
    outputs: tuple[Output, ...]
    seconds: float
    tensors: Mapping[str, Any]

    @property
    def equal(self) -> bool:
        """Whether every output has the same bits in every order."""
        return all(all(output.equal.values()) for output in self.outputs)

    @property
    def status(self) -> int:
        """0 the same bits, 1 other bits, 2 no tensor was written, so nothing was compared."""
        if not any(output.written for output in self.outputs):
            return CHECKING.failed
        return 0 if self.equal else STATUS_REFUTED


def compare(
    subject: Subject,
    parameters: Sequence[Parameter],
    orders: Sequence[str],
    grid: Sequence[int],
    make_values: Callable[[], Values],
    seed: int,
    tell: Tell,
) -> Comparison:
    """Runs the baseline once and the program in each order, each on fresh values; raises Trapped.

    tell: of the programs that have run.
    """
    start, count = time.perf_counter(), prod(grid)
    every = (1 + len(orders)) * count
    title = UNSPECIALISED if subject.baseline is not None else subject.title
    before, wanted = make_values(), make_values()
    first = Subject(title, subject.baseline or subject.module)
    run(first, wanted, grid, "eager", seed, lambda it: tell(it, every, title))
    found: dict[str, Values] = {}
    for number, order in enumerate(orders, 1):
        if subject.baseline is None and order == "eager":
            found[order] = wanted
            continue
        found[order] = make_values()

        def told(programs: int, before: int = number * count, order: str = order) -> None:
            tell(before + programs, every, order)

        run(subject, found[order], grid, order, seed, told)
    outputs: list[Output] = []
    for it in parameters:
        written = it.is_tensor and _written(it.name, before, wanted, found)
        if written or (it.is_tensor and _full_of_nans(before[it.name], it.element)):
            outputs.append(_output(it, written, before, wanted, found))
    tensors = _tensors(parameters, before, wanted, found[orders[0]])
    return Comparison(subject, tuple(orders), count, tuple(outputs), time.perf_counter() - start, tensors)


def run(
    subject: Subject, values: Values, grid: Sequence[int], order: Any, seed: int, told: Callable[[int], None]
) -> None:
    """Runs one launch of a program. told: how many of its programs have run.

    Raises Trapped, and UsageError if the values do not fit the program.
    """
    from tawa.runtime.simulation import simulate_launch
    from tawa.sim import SimulationError
    from tawa.sim.errors import ArgumentError

    try:
        simulate_launch(
            subject.module, subject.names, values, tuple(grid), order, seed, launch=subject.launch, told=told
        )
    except ArgumentError as error:
        raise UsageError(error.reason, error.cure) from error
    except SimulationError as error:
        raise Trapped(subject.title, order, error, subject.maker) from error


def array_of(value: Any) -> Any:
    """The array of a tensor or a descriptor."""
    return getattr(value, "array", value)


def check_save_path(path: Path) -> None:
    """Raises UsageError if `save` could not write."""
    if path.suffix != ".npz":
        raise UsageError(f"--save {path}: the file is one for numpy.load", f"--save {path.with_suffix('.npz')}")
    require_folder("--save", path)


def save(path: Path, found: Comparison) -> None:
    """Writes the tensors: ``before.a``, ``after.c`` (of the first order), ``wanted.c``; narrow floats as float32."""
    import numpy as np

    try:
        np.savez(path, **found.tensors)
    except OSError as error:
        raise UsageError(f"--save {path}: {error.strerror}", "name a file in a folder that exists") from error
    tell_saved(path, "the tensors before and after, for numpy.load")


# --- comparing --------------------------------------------------------------------------------------------------------


def _bits(value: Any) -> Any:
    array = array_of(value)
    return array.view(f"u{array.itemsize}")


def _written(name: str, before: Values, wanted: Values, found: Mapping[str, Values]) -> bool:
    """Whether any run changed a tensor."""
    first = _bits(before[name])
    return any(bool((_bits(values[name]) != first).any()) for values in (wanted, *found.values()))


def _full_of_nans(value: Any, element: str) -> bool:
    import numpy as np

    return bool(np.isnan(_numbers(value, element)).all())


def _unwritten(name: str, element: str, before: Values, every: Sequence[Values]) -> tuple[int, tuple[int, ...] | None]:
    """How many elements of a tensor full of NaN no run wrote, and the index of the first of them."""
    import numpy as np

    if not _full_of_nans(before[name], element):
        return 0, None
    first = _bits(before[name])
    same = np.logical_and.reduce([_bits(values[name]) == first for values in every])
    index = np.unravel_index(int(same.argmax()), same.shape)
    return int(same.sum()), tuple(map(int, index)) if same.any() else None


def _output(
    parameter: Parameter, written: bool, before: Values, wanted: Values, found: Mapping[str, Values]
) -> Output:  # fmt: skip
    import numpy as np

    name, element = parameter.name, parameter.element
    right = _numbers(wanted[name], element)
    equal: dict[str, bool] = {}
    worst: tuple[float, Any] = (0.0, None)
    nans = 0
    for order, values in found.items():
        equal[order] = bool((_bits(values[name]) == _bits(wanted[name])).all())
        got = _numbers(values[name], element)
        nans = max(nans, int(np.isnan(got).sum()))
        with np.errstate(invalid="ignore"):
            apart = np.abs(got - right)
        apart = np.where(np.isnan(got) & np.isnan(right) | (got == right), 0.0, apart)
        apart = np.where(np.isnan(apart), np.inf, apart)  # a NaN on one side only
        if not equal[order] and apart.max() >= worst[0]:
            worst = (float(apart.max()), np.unravel_index(int(apart.argmax()), apart.shape))
    size, index = worst
    place = tuple(int(it) for it in index) if index is not None else None
    array = array_of(wanted[name])
    unsigned = array.dtype.kind == "u" and element.startswith("i")  # the IR says of no tensor that it has no sign
    return Output(
        name,
        tuple(array.shape),
        element.replace("i", "u") if unsigned else element,
        written,
        equal,
        size if np.isfinite(size) else None,
        place,
        nans,
        int(np.isnan(right).sum()),
        *_unwritten(name, element, before, [wanted, *found.values()]),
    )


def _numbers(value: Any, element: str) -> Any:
    """The values as float64."""
    import numpy as np

    from tawa.sim import to_floats
    from tawa.sim.numbers import is_float

    array = array_of(value)
    return (to_floats(array, element) if is_float(element) else array).astype(np.float64)


def _tensors(parameters: Sequence[Parameter], before: Values, wanted: Values, after: Values) -> dict[str, Any]:
    import numpy as np

    from tawa.sim import to_floats
    from tawa.sim.numbers import is_float

    def plain(value: Any, element: str) -> Any:
        array = array_of(value)
        return to_floats(array, element).astype(np.float32) if is_float(element) and array.dtype.kind == "u" else array

    stages = {"before": before, "after": after, "wanted": wanted}
    tensors = [it for it in parameters if it.is_tensor]
    return {
        f"{stage}.{it.name}": plain(values[it.name], it.element) for stage, values in stages.items() for it in tensors
    }


# --- output -----------------------------------------------------------------------------------------------------------


def facts(found: Comparison) -> dict[str, Any]:
    """JSON data."""
    verdict = {0: "equal", STATUS_REFUTED: "different"}.get(found.status, "unknown")
    return {
        "verdict": verdict,
        "level": found.subject.title,
        "note": found.subject.note,
        "orders": list(found.orders),
        "programs": found.programs,
        "seconds": round(found.seconds, 3),
        "outputs": [
            {
                "name": it.name,
                "shape": list(it.shape),
                "dtype": it.element,
                "written": it.written,
                "equal": dict(it.equal),
                "max_difference": it.difference,
                "at": list(it.at) if it.at is not None else None,
                "nans": it.nans,
                "nans_wanted": it.nans_wanted,
                "unwritten": it.unwritten,
            }
            for it in found.outputs
        ],
    }


def print_comparison(found: Comparison, notes: Sequence[str] = ()) -> None:
    """Prints a line for each tensor, the verdict, and the notes."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if found.subject.note:
        console.print(Text(f"note: {found.subject.note}", style="yellow"))
    for output in found.outputs:
        console.print(_output_line(output))
    how = f"; {found.subject.how}" if found.subject.how else ""
    runs = f"{plural(found.programs, 'program')}, {', '.join(found.orders)}; {found.seconds:.1f} s{how}"
    against = UNSPECIALISED if found.subject.baseline is not None else "its own eager run"
    match found.status:
        case 0:
            console.print(Text.assemble(("same bits", "bold green"), f": {found.subject.title} and {against} ({runs})"))
        case 1:
            console.print(
                Text.assemble(("other bits", "bold red"), f": {found.subject.title} against {against} ({runs})")
            )
            if found.subject.maker and any(len(set(it.equal.values())) > 1 for it in found.outputs):
                print_cure(_blame(found.subject.maker))
        case _:
            console.print(
                Text.assemble(("unknown", "bold yellow"), f": no tensor was written, so nothing was compared ({runs})")
            )
            print_cure("give a grid and sizes for which the program stores something")

    findings = [it.finding for it in found.outputs if it.finding and it.written]
    for finding in findings:
        console.print(Text.assemble(("finding: ", "bold yellow"), finding))
    if findings:
        print_cure("if the kernel should write all of it: a larger --grid, or other sizes; else nothing")
    for note in notes:
        console.print(Text(f"  {note}", style="dim"))


def print_cure(cure: str) -> None:
    """Prints a cure to stderr, as for all failures."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble(("  cure: ", "bold green"), cure))


def _output_line(output: Output) -> Any:
    from rich.text import Text

    line = Text.assemble((output.name, "bold"), f"  {'x'.join(map(str, output.shape))} {output.element}  ")
    for order, equal in output.equal.items():
        line.append(f"{order} ")
        line.append("equal  " if equal else "differs  ", "green" if equal else "bold red")
    if output.at is not None:
        size = "NaN on one side" if output.difference is None else f"{output.difference:.6g}"
        line.append(f"max |difference| {size} at {list(output.at)}  ")
    if output.nans or output.nans_wanted:
        wanted = "" if output.nans == output.nans_wanted else f" ({output.nans_wanted} wanted)"
        line.append(f"{output.nans} NaN{wanted}", "yellow")
    else:
        line.append("no NaN", "dim")
    return line
