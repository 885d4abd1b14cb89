"""Shared by the commands that compile a kernel: the arguments that describe one compile, and the compile itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Table
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tawa.cli.completion import complete_arch, complete_kernel, complete_option
from tawa.cli.failures import UsageError
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.runtime.progress import progress

if TYPE_CHECKING:
    from tawa.bridge.triton.signature import Signature
    from tawa.cli.inputs.arguments import Argument
    from tawa.ir import Module
    from tawa.machine.machines import Machine
    from tawa.mapping import Mapping
    from tawa.plan import Plan
    from tawa.runtime.explain.explanation import Explanation
    from tawa.runtime.explain.timelines import SimulatedLaunch
    from tawa.runtime.protocol import Levels

Made = TypeVar("Made")
KernelArgument = Annotated[
    str, typer.Argument(metavar="FILE.py:KERNEL", help="The file and the kernel in it.", autocompletion=complete_kernel)
]
SigOption = Annotated[
    str,
    typer.Option(
        "--sig",
        metavar="NAME=TYPE,…",
        help="Argument types in Triton's notation: a=tensordesc<fp16[128,64]>, p=*fp16:16, K=i32:16, s=1. "
        ":16 means divisible by 16; a number is a constant.",
    ),
]
ConstOption = Annotated[
    str,
    typer.Option(
        "--const",
        metavar="NAME=VALUE,…",
        help="Values of the tl.constexpr parameters: BM=128, TYPE=tl.bfloat16, ACT=relu, SHAPE=(128,64). Names are "
        "those of the kernel's file.",
    ),
]
WarpsOption = Annotated[int, typer.Option("--num-warps", help="Consumer warps, as the kernel would be launched.")]
StagesOption = Annotated[int, typer.Option("--num-stages", help="Triton's num_stages.")]
PlanOptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE,…",
        help="Tawa's launch options: aref_depth=3,mma_depth=1. "
        "enable_warp_specialization = True pins: specialise or fail.",
        autocompletion=complete_option,
    ),
]
PlanFileOption = Annotated[
    str,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Pin a Plan, or a part of one: JSON as --emit plan of tawa compile prints it. A file, - for stdin, or the "
        "JSON text itself.",
    ),
]
MappingFileOption = Annotated[
    str,
    typer.Option(
        "--mapping",
        metavar="FILE",
        help="Pin a mapping: a Plan in the kernel's own words, as --emit mapping of tawa explain prints it. A file, - "
        "for stdin, or the TOML text itself.",
    ),
]
ArchOption = Annotated[
    str,
    typer.Option(
        "--arch",
        metavar="NAME",
        help="The GPU to compile for: sm_90 (H100, H200) or sm_100 (B200, GB200). Default: the one whose operations a "
        "Gluon kernel has; else sm_90.",
        autocompletion=complete_arch,
    ),
]
WHEREVER_LEGAL = "(specialised wherever legal; tawa explain says what a launch gets)"
"""Printed with an outcome that a launch may not get."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@dataclass(frozen=True, slots=True)
class Job:
    """One compile: the kernel, the types and constants of its arguments, Tawa's options, and how it is launched.

    legal: specialise wherever that is legal, unless the options say otherwise; else as for a launch.
    plan: the pinned part of the Plan. mapping: the same in names of the kernel. target: the GPU that the user names.
    """

    kernel: Any
    signature: Signature
    options: dict[str, Any]
    num_warps: int
    num_stages: int
    legal: bool = True
    plan: Plan | None = None
    mapping: Mapping | None = None
    target: Machine | None = None

    @property
    def how(self) -> str:
        """`WHEREVER_LEGAL` if a launch may not get this outcome; else empty."""
        chosen = self.plan is None and self.mapping is None and "only_if_faster" not in self.options
        return WHEREVER_LEGAL if self.legal and chosen else ""

    @property
    def _wanted(self) -> dict[str, Any]:
        options = {"only_if_faster": False, **self.options} if self.legal else self.options
        pinned = {"plan": self.plan, "mapping": self.mapping}
        return {**options, **{name: it for name, it in pinned.items() if it is not None}}

    @property
    def needs_launch(self) -> bool:
        """Whether the Plan needs a kernel that Triton launches (descriptors from the launcher, a persistent form)."""
        from tawa.plan.decide.launches import needs_launch

        if self.mapping is not None:
            return self.mapping.needs_launch
        return self.plan is not None and needs_launch(self.plan)

    def compile(self, launched: bool = False) -> Any:
        """Compiles as a launch would; returns Triton's `CompiledKernel`.

        launched: compile for a launch by Triton, to which arguments may be added; else for a caller that only reads the
        text, unless the Plan needs such a launch.
        """
        from tawa.bridge.launch.first.compiles import launched_by_us
        from tawa.runtime.explain.explaining import compile_with_options

        def compiled() -> Any:
            return compile_with_options(
                self.kernel,
                self.signature,
                {},
                num_warps=self.num_warps,
                num_stages=self.num_stages,
                target=self.target,
                **self._wanted,
            )

        with launched_by_us(launched or self.needs_launch, self.kernel):
            return self._apart(compiled)

    def compile_unchecked(self) -> Any:
        """As `compile` for a launch by Triton, without verification: for a command that runs the levels afterwards."""
        from tawa.machine.machines import SM_90
        from tawa.runtime.protocol import compile_unchecked

        about, target = (self.kernel, self.signature, self._wanted), self.target or SM_90
        return self._apart(lambda: compile_unchecked(*about, **self._sizes, target=target))

    def levels(self) -> Levels:
        """The levels that `tawa verify` checks: those of a launch by Triton."""
        from tawa.runtime.protocol import levels_of

        about = self.kernel, self.signature, self._wanted
        return self._apart(lambda: levels_of(*about, **self._sizes, target=self.target))

    def compile_stock(self) -> Any:
        """Compiles as Triton alone would, without ``tl.range(warp_specialize=True)``."""
        from tawa.bridge.driver.annotations import STOCK_WITHOUT
        from tawa.bridge.driver.compile import compile_kernel
        from tawa.machine.machines import SM_90

        target = self.target or SM_90
        return self._apart(
            lambda: compile_kernel(self.kernel, self.signature, STOCK_WITHOUT, **self._sizes, target=target)
        )

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def _apart(self, compiled: Callable[[], Made]) -> Made:
        """Compiles in a child process first: on some kernels LLVM aborts the process."""
        from tawa.bridge.triton.apart import compiled_apart
        from tawa.bridge.triton.jitted import is_gluon, named
        from tawa.machine.machines import SM_90

        what, location = named(self.kernel)
        with progress(f"compiling {what}"):
            if is_gluon(self.kernel):
                return compiled()
            return compiled_apart(compiled, what, location, self.target or SM_90)

    def explain(
        self,
        launched: bool = False,
        arguments: Table[str, Any] | None = None,
        grid: Sequence[int] | None = None,
        simulated: SimulatedLaunch | None = None,
    ) -> tuple[Any, Explanation]:
        """Compiles and explains; returns both the `CompiledKernel` and the explanation.

        launched: as for `compile`. arguments, grid: of the one launch that is asked about. simulated: that of the
        timelines; None for none.
        """
        from tawa.bridge.launch.first.compiles import overflow_refused
        from tawa.runtime.explain.explaining import explain_compiled

        with overflow_refused():
            compiled = self.compile(launched)
        with progress("explaining" if simulated is None else "explaining, with timelines of the simulator"):
            return compiled, explain_compiled(compiled, False, arguments, grid, simulated)

    def simulated(self, given: Table[str, Argument], grid: Sequence[int] | None) -> SimulatedLaunch:
        """The launch of the timelines: with the arguments that are given, and guesses for the others."""
        from tawa.cli.inputs.arguments import NumberArgument, TensorArgument
        from tawa.cli.inputs.launch_arguments import launch_values, parameters_of
        from tawa.runtime.explain.timelines import SimulatedLaunch

        numbers = {name: it.value for name, it in given.items() if isinstance(it, NumberArgument)}
        tensors = {name for name, it in given.items() if isinstance(it, TensorArgument)}

        def made(module: Module) -> dict[str, Any]:
            return launch_values([it for it in parameters_of(module) if it.name in tensors], given, seed=0)

        return SimulatedLaunch(numbers, made, grid, self.compile_stock)


def plan_of_compiled(compiled: Any) -> Plan:
    """The Plan of a `CompiledKernel`; for stock Triton's kernel the Plan that asks for it."""
    from tawa.bridge.report.record import KEY, plan_of
    from tawa.plan.option_conflicts import STOCK

    record = getattr(compiled.metadata, KEY, None)
    return (plan_of(record) if record is not None else None) or STOCK


def read_job(
    target: str,
    sig: str,
    const: str,
    num_warps: int,
    num_stages: int,
    options: list[str] | None,
    legal: bool = True,
    plan: str = "",
    gluon: bool = False,
    mapping: str = "",
    arch: str = "",
) -> Job:
    """Reads the arguments; raises UsageError or PlanError if they are wrong. gluon: Gluon kernels are taken, too."""
    from tawa.bridge.triton.signature import parse_signature
    from tawa.plan import PlanOptions
    from tawa.plan.option_conflicts import check_agreement

    if num_warps not in (1, 2, 4, 8, 16):
        raise UsageError(
            f"--num-warps {num_warps}: a power of two up to 16 is needed", "--num-warps 4 or --num-warps 8"
        )
    if num_stages < 1:
        raise UsageError(f"--num-stages {num_stages}: at least 1 is needed", "--num-stages 3")
    gpu = read_arch(arch)
    given, pinned, mapped = read_options(options or []), read_plan(plan), read_mapping(mapping)
    if pinned is not None and mapped is not None:
        raise UsageError("--plan and --mapping say the same in two ways", "give one of them")
    asked = PlanOptions.from_mapping(given)  # the options of the kernel's decorator are checked in the compile
    check_agreement(asked, pinned)
    kernel = load_kernel(target)
    _check_gluon(kernel, gluon)
    refuse_for_gluon(kernel, option=options, plan=plan, mapping=mapping)
    sig = _true_false_none(sig)
    constants = _with_defaults(kernel, read_constants(kernel, const), sig, const, num_warps)
    signature = parse_signature(sig, constants, kernel.arg_names)
    return Job(kernel, signature, given, num_warps, num_stages, legal, pinned, mapped, gpu)


def read_arch(text: str) -> Machine | None:
    """The GPU that --arch names; None for an empty text. Raises UsageError."""
    from tawa.errors import TargetError
    from tawa.machine.machines import machine_named

    if not text:
        return None
    try:
        return machine_named(text)
    except TargetError as error:
        raise UsageError(f"--arch {error.what}", error.cure) from error


def _check_gluon(kernel: Any, taken: bool) -> None:
    """Raises UsageError if a Gluon kernel is not taken."""
    from tawa.bridge.triton.jitted import is_gluon

    if is_gluon(kernel) and not taken:
        raise UsageError(_explicit(kernel), "tawa verify, tawa explain and tawa simulate take it as it is")


def refuse_for_gluon(kernel: Any, **given: object) -> None:
    """Raises UsageError if a Gluon kernel is given options that specialise a kernel."""
    from tawa.bridge.triton.jitted import is_gluon

    for name, value in given.items():
        if value and is_gluon(kernel):
            raise UsageError(f"--{name}: {_explicit(kernel)}", f"leave --{name} out")


def _explicit(kernel: Any) -> str:
    return f"{kernel.__name__} is a Gluon kernel: it assigns work to warps explicitly"


def read_constants(kernel: Any, const: str) -> dict[str, Any]:
    """The constants by name; names are those of the kernel's module. Raises PlanError."""
    from tawa.bridge.triton.signature import parse_constants

    return parse_constants(_true_false_none(const), kernel.fn.__globals__)


def _with_defaults(kernel: Any, constants: dict[str, Any], sig: str, const: str, num_warps: int) -> dict[str, Any]:
    """The constants, with defaults of constexpr parameters; raises UsageError for unknown names and missing values."""
    from tawa.bridge.triton.jitted import default_constants
    from tawa.bridge.triton.signature import meant_parameter, signature_parts

    named = set(signature_parts(sig)).union(constants)
    if unknown := sorted(named.difference(kernel.arg_names)):
        meant = meant_parameter(unknown[0], kernel.arg_names, named)
        raise UsageError(f"{kernel.__name__} has no parameter {unknown[0]!r}", meant)
    defaults = {name: it for name, it in default_constants(kernel, num_warps).items() if name not in named}
    missing = [it.name for it in kernel.params if it.is_constexpr and it.name not in named.union(defaults)]
    untyped = [it for it in kernel.params if not it.is_constexpr and it.name not in named]
    values = ",".join(f"{name}=…" for name in missing)
    if untyped:
        types = ", ".join(filter(None, [sig.strip().rstrip(","), *map(_typed, untyped)]))
        line = f"--sig '{types}'" + (f" --const {','.join(filter(None, [const, values]))}" if const or values else "")
        what = f"{kernel.__name__}: no type and no constant for {', '.join(it.name for it in untyped)}"
        also = f"; no value for tl.constexpr {', '.join(missing)}" if missing else ""
        raise UsageError(what + also, f"{line} (with the types and values of your launch)")
    if missing:
        raise UsageError(f"{kernel.__name__}: no value for tl.constexpr {', '.join(missing)}", f"--const {values}")
    return {**defaults, **constants}


def _typed(parameter: Any) -> str:
    """An example of a parameter's type."""
    from tawa.bridge.triton.signature import likely_type

    return f"{parameter.name}={parameter.annotation_type or likely_type(parameter.name)}"


def read_plan(text: str) -> Plan | None:
    """Reads the Plan from a file, from stdin (``-``), or from JSON text; None for an empty text. Raises PlanError."""
    from tawa.plan import Plan

    if not text:
        return None
    return Plan.from_json(sys.stdin.read()) if text == "-" else Plan.of(text)


def read_mapping(text: str) -> Mapping | None:
    """Reads a mapping from a file, from stdin (``-``), or from TOML text; None for an empty text. Raises PlanError."""
    from tawa.mapping import Mapping

    if not text:
        return None
    return Mapping.parse(sys.stdin.read()) if text == "-" else Mapping.of(text)


def read_options(texts: list[str]) -> dict[str, Any]:
    """Reads ``["aref_depth=3,mma_depth=1"]`` into names and values; raises UsageError for anything else."""
    values: dict[str, Any] = {}
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not item:
            continue
        if not equals or not value:
            right = re.sub(r"\s*[:\s]\s*", "=", item) if re.fullmatch(r"\w+\s*[:\s]\s*\w+", item) else "aref_depth=3"
            raise UsageError(f"--option {item!r}: name=value is needed", f"--option {right}")
        values[name] = _read_value(value)
    return values


def _read_value(text: str) -> int | bool | str | None:
    named: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _true_false_none(text: str) -> str:
    """Accepts ``=true`` as people write it in a shell; Triton's notation is Python's."""
    return re.sub(r"(?<==)\s*(true|false|none)\b", lambda match: match[1].capitalize(), text)
