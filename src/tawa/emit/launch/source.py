"""The functions `launch`, `unfit` and `run` of an emitted file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any, cast

from tawa.analysis.tma.boxes import OPEN
from tawa.emit.errors import cannot_say
from tawa.emit.launch.arguments import run_of
from tawa.emit.launch.checks import checks_of
from tawa.emit.launch.grid import GRID
from tawa.emit.launch.made import Made
from tawa.emit.launch.table import table
from tawa.emit.parameters import Parameter
from tawa.emit.python.names import Names
from tawa.symbolic.host.text import DIVIDE

LAUNCH = '''
{parameters}
"""Parameters of the original kernel."""
{constants}
"""Constants that this kernel was compiled for."""
{helpers}

def unfit({grid}{checked}, **others):
    """Why this kernel cannot run a launch; None if it can."""
{checks}
    return None


def run({grid}{used}, **others):
    """Makes the arguments of the kernel, and launches it."""
{run}


def launch(grid, *args, fallback=None, **kwargs):
    """Launches the kernel with the arguments of the kernel that it came from.

    fallback: that kernel, for launches that this one was not made for; without it they raise ValueError.
    """
    given = {{{defaults}, **dict(zip(PARAMETERS, args)), **kwargs}}
    sizes = grid(given) if callable(grid) else grid
    if (reason := unfit(sizes, **given)) is None:
        return run(sizes, **given)
    if fallback is None:
        raise ValueError(reason)
    return fallback[grid](*args, **kwargs)
'''
MEMORY = '''

class Memory:
    """A base address and an element type, in place of a tensor."""

    def __init__(self, address, dtype):
        self.address, self.dtype = address, dtype

    def data_ptr(self):
        return self.address
'''
UNBOUNDED = f'''UNBOUNDED = {OPEN}
"""The size that a descriptor claims where the kernel itself checks the bounds."""
'''
DIVISION = f'''

def {DIVIDE}(left, right):
    """The quotient, rounded towards zero, as in a kernel."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient
'''
TAKEN = {
    "CONSTANTS", "Memory", "PARAMETERS", "UNBOUNDED", "canonicalize_dtype", "contextvars", "launch", "run",
    "torch", "triton", "unfit", DIVIDE,
}  # fmt: skip
"""Names of a file with a `launch`."""


def launch_source(
    made: Made, kernel: str, parameters: Sequence[Parameter], options: Mapping[str, Any], scratch: bool = False
) -> tuple[str, str]:
    """The imports and the functions. kernel: the name of the emitted kernel, which has these parameters.

    options: of its launches. scratch: whether the kernel makes descriptors.
    """
    said = ", ".join(f"{name}={value}" for name, value in options.items())
    checks, run = checks_of(made), run_of(made, parameters, kernel, said, scratch)
    grid = Names(set(made.parameters)).fresh("grid")
    checks, run = ([line.replace(GRID, grid) for line in lines] for lines in (checks, run))
    run = [line.replace(str(OPEN), "UNBOUNDED") for line in run]
    helpers = UNBOUNDED * any("UNBOUNDED" in line for line in run)
    helpers += MEMORY * any("Memory(" in line for line in run)
    helpers += DIVISION * any(f"{DIVIDE}(" in line for line in (*checks, *run))
    text = LAUNCH.format(
        parameters=table("PARAMETERS = (", [f'"{name}"' for name in made.parameters], ")"),
        constants=_dictionary(made.plain_constants, "CONSTANTS = "),
        helpers=helpers,
        grid=grid,
        checked=_signature(made, checks),
        checks=indent("\n".join(checks) or "pass", "    "),
        used=_signature(made, run),
        run=indent("\n".join(run), "    "),
        defaults=f"**CONSTANTS, **{_dictionary(made.defaults)}" if made.defaults else "**CONSTANTS",
    )
    return "import contextvars\n\nimport triton\n" * scratch, text


def _dictionary(values: Mapping[str, Any], before: str = "") -> str:
    return table(f"{before}{{", [f'"{name}": {_literal(name, value)}' for name, value in values.items()], "}")


def _literal(name: str, value: Any) -> str:
    value = getattr(value, "value", value)  # of tl.constexpr
    if isinstance(value, str):
        return json.dumps(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, tuple):
        inner = [_literal(name, it) for it in cast(tuple[Any, ...], value)]
        return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
    if type(value).__name__ == "dtype" and hasattr(value, "name"):
        return f'tl.dtype("{value.name}")'
    raise cannot_say(f"the value of the constant {name}, {value!r},")


def _signature(made: Made, lines: Sequence[str]) -> str:
    """The parameters of the original kernel that these lines read."""
    text = "\n".join(lines)
    used = [name for name in made.parameters if name not in made.constants and re.search(rf"\b{name}\b", text)]
    return "".join(f", {name}" for name in used)
