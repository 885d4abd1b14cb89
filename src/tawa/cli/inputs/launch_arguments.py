"""Turns parsed arguments into a launch: the kernel's signature, then values for the parameters of its program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tawa.cli.failures import UsageError
from tawa.cli.inputs.arguments import Argument, NumberArgument, TensorArgument, check_rows, make_array

if TYPE_CHECKING:
    from tawa.ir import Module

_FOLLOWER = re.compile(r"(.+)\.(?:shape|stride)\.\d+")
"""Names of the shape and strides that follow a host descriptor, from Triton 3.8 on; earlier ones repeat its name."""

_NAMED = re.compile(r"(\w+)\s*=")
_FIXED = re.compile(r"(\w+)\s*=\s*(?:-?[\d.]+|None|True|False|i\d+:1)\s*(?:,|$)")
"""A constant in a signature."""


_ADDRESS = 1 << 40


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a program. element: type of the elements it points to or describes, or of the number itself."""

    name: str
    element: str
    is_tensor: bool
    box: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.box is not None:
            return f"{self.name} (descriptor of {self.element}, box {_sizes(self.box)})"
        return f"{self.name} ({'pointer to ' if self.is_tensor else ''}{self.element})"

    @property
    def example(self) -> str:
        """An example of an argument for it."""
        if not self.is_tensor:
            return f"{self.name}={'512' if self.element.startswith('i') else '0.5'}"
        kind = "zeros" if self.element.startswith("i") else "randn"
        return f"{self.name}={kind}:{'x'.join(['256'] * len(self.box or (1, 1)))}:{self.element}"


def read_grid(text: str) -> tuple[int, ...]:
    """Reads ``4,4`` (or ``4x4``); raises UsageError."""
    if not re.fullmatch(r"\s*\d+(\s*[,x]\s*\d+){0,2}\s*", text) or 0 in (
        sizes := tuple(int(size) for size in re.findall(r"\d+", text))
    ):
        raise UsageError(f"--grid {text}: one to three sizes from 1 on are needed", "--grid 4,4")
    return sizes


def with_defaults(kernel: Any, arguments: Mapping[str, Argument]) -> dict[str, Argument]:
    """The arguments, and the defaults of parameters without one, as at a launch."""
    defaults = {
        it.name: NumberArgument(f"{it.name}={it.default}", it.name, it.default)
        for it in kernel.params
        if it.has_default and not it.is_constexpr and it.name not in arguments
    }
    return {**arguments, **defaults}


def whole_signature(
    kernel: Any, sig: str, const: str, arguments: Mapping[str, Argument], all_values: bool = True
) -> str:
    """The signature, with types from the arguments for parameters that `sig` and `const` leave out.

    all_values: whether each parameter needs a value, as for a launch that is run; else a type suffices.
    Raises UsageError.
    """
    from tawa.bridge.triton.signature import meant_parameter

    given, constants = (dict.fromkeys(_NAMED.findall(text)) for text in (sig, const))
    names = list(kernel.arg_names)
    unknown = [name for name in arguments if name not in names]
    if unknown:
        meant = meant_parameter(unknown[0], names, {*given, *constants, *arguments})
        raise UsageError(f"{kernel.__name__} has no parameter {unknown[0]!r}", meant)
    for parameter in kernel.params:
        argument = arguments.get(parameter.name)
        if argument and (parameter.is_constexpr or parameter.name in constants):
            raise UsageError(
                f"--arg {argument.text}: {parameter.name} is a constant of the compile",
                f"--const {argument.text} in its place",
            )
    needed = [parameter.name for parameter in kernel.params if not parameter.is_constexpr]
    fixed = {**constants, **dict.fromkeys(_FIXED.findall(sig))}
    missing = [name for name in needed if name not in arguments and name not in fixed]
    if missing and all_values:
        examples = " ".join(f"--arg {name}=…" for name in missing)
        raise UsageError(
            f"no value for {', '.join(missing)}; the launch needs {', '.join(needed)}",
            f"{examples} (a tensor randn:256x512:f16, a number 512; of a host descriptor also :box=128x64)",
        )
    parameters = {it.name: it for it in kernel.params}
    added = [f"{name}={_type_of(parameters[name], it)}" for name, it in arguments.items() if name not in given]
    return ", ".join([*([sig.strip().rstrip(",")] if sig.strip() else []), *added])


def _type_of(parameter: Any, argument: Argument) -> str:
    """The type of an argument at a launch, where an annotation of the parameter, or `do_not_specialize`, may set it."""
    kind, _, mark = argument.triton_type.partition(":")
    if not isinstance(argument, NumberArgument) or not isinstance(argument.value, int) or argument.value is True:
        return argument.triton_type
    if parameter.do_not_specialize:
        mark = ""
    if str(parameter.annotation_type or "").startswith(("i", "u")):
        kind, mark = parameter.annotation_type, mark if mark == "16" else ""
    return f"{kind}:{mark}" if mark else kind


def addresses_and_numbers(arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """The values that a launcher reads: numbers, and for a tensor an address, aligned as by PyTorch."""
    return {name: it.value if isinstance(it, NumberArgument) else _ADDRESS for name, it in arguments.items()}


def parameters_of(module: Module) -> list[Parameter]:
    """The parameters of a program. A descriptor's shape and strides are not parameters of their own."""
    from tawa.bridge.triton.read_module import kernel_of
    from tawa.dialects.parameters import parameter_name
    from tawa.ir import PointerType, TensorDescType, parse_type

    found: dict[str, Parameter] = {}
    for arg in kernel_of(module).body.args:
        name, kind = parameter_name(module, arg), parse_type(arg.type)
        follows = _FOLLOWER.fullmatch(name)
        if follows and follows[1] in found:
            continue
        if isinstance(kind, TensorDescType):
            parameter = Parameter(name, kind.block.element, True, kind.block.shape)
        elif isinstance(kind, PointerType):
            parameter = Parameter(name, kind.pointee, True)
        else:
            parameter = Parameter(name, arg.type, False)
        found.setdefault(name, parameter)
    return list(found.values())


def check_arguments(parameters: list[Parameter], arguments: Mapping[str, Argument]) -> None:
    """Raises UsageError if the arguments do not fit the parameters."""
    missing = [parameter for parameter in parameters if parameter.name not in arguments]
    if missing:
        raise UsageError(
            f"no value for {', '.join(it.name for it in missing)}; the program takes {', '.join(map(str, parameters))}",
            " ".join(f"--arg {parameter.example}" for parameter in missing),
        )
    for parameter in parameters:
        argument = arguments[parameter.name]
        if isinstance(argument, TensorArgument):
            _check_tensor(parameter, argument)
        elif parameter.is_tensor:
            raise UsageError(f"--arg {argument.text}: {parameter} is a tensor", f"--arg {parameter.example}")
        elif argument.value is None or (isinstance(argument.value, float) and parameter.element.startswith("i")):
            raise UsageError(
                f"--arg {argument.text}: {parameter} is a number of that type", f"--arg {parameter.example}"
            )


def launch_values(parameters: list[Parameter], arguments: Mapping[str, Argument], seed: int) -> dict[str, Any]:
    """Fresh arrays and numbers by name, for `tawa.sim.simulate`."""
    from tawa.sim import Descriptor

    values: dict[str, Any] = {}
    for parameter in parameters:
        match arguments[parameter.name]:
            case NumberArgument(_, name, value):
                values[name] = value
            case TensorArgument() as tensor:
                array = make_array(tensor, seed)
                values[parameter.name] = Descriptor(array) if parameter.box is not None else array
                if parameter.box is not None:
                    values |= {f"{parameter.name}.shape.{axis}": size for axis, size in enumerate(array.shape)}
                    strides = (stride // array.itemsize for stride in array.strides)
                    values |= {f"{parameter.name}.stride.{axis}": stride for axis, stride in enumerate(strides)}
    return values


def _check_tensor(parameter: Parameter, argument: TensorArgument) -> None:
    if not parameter.is_tensor:
        raise UsageError(f"--arg {argument.text}: {parameter} is a number", f"--arg {parameter.example}")
    if parameter.element != argument.element.removeprefix("u"):  # pointers and tiles of integers have no sign in IR
        raise UsageError(
            f"--arg {argument.text}: {parameter} takes {parameter.element}, not {argument.element.replace('ui', 'u')}",
            f"{argument.name}={argument.kind}:{_sizes(argument.shape or ())}:{parameter.element}",
        )
    if argument.box not in (None, parameter.box):
        raise UsageError(
            f"--arg {argument.text}: {parameter}",
            f"leave the box out, or box={_sizes(parameter.box)}" if parameter.box else "leave the box out",
        )
    shape = argument.shape or ()
    if parameter.box is None:
        return
    if len(parameter.box) != len(shape):
        raise UsageError(f"--arg {argument.text}: {parameter} has {len(parameter.box)} dimensions, not {len(shape)}")
    check_rows(argument.text, shape, argument.element, parameter.box)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
