"""The kernels that the demo shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.runtime.case import Case
    from tawa.runtime.explain.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel of the demo.

    case: its name in `tawa.demo.cases`. length: K of a product, queries and keys of attention, in the race on a GPU; 0
    for no race.
    """

    title: str
    case: str
    length: int = 0


EXHIBITS = (
    Exhibit("attention, fp16, causal", "two_loops_fp16_d128_causal", 4096),
    Exhibit("fp16, one tile a program", "tile_8warps_nt", 4096),
    Exhibit("fp16, persistent", "persistent_8warps", 1024),
    Exhibit("fp8 e4m3, persistent", "persistent_fp8e4nv", 8192),
    Exhibit("gate and up projection", "gate_up_8warps", 4096),
    Exhibit("tiles from a counter", "dynamic_tiles"),
)


def find_case(exhibit: Exhibit) -> Case:
    """The case behind an exhibit."""
    from tawa.demo.cases import find

    return find(exhibit.case)


def compile_exhibit(exhibit: Exhibit) -> tuple[Any, Explanation]:
    """Compiles an exhibit as under `tawa.jit`; returns Triton's `CompiledKernel` and the explanation."""
    from tawa.runtime.explain.explaining import explain_compiled

    compiled = compile_case(find_case(exhibit), only_if_faster=False)
    return compiled, explain_compiled(compiled)


def compile_case(case: Case, **options: Any) -> Any:
    """Compiles a case with Tawa's launch options."""
    from tawa.bridge.triton.signature import Signature
    from tawa.runtime.explain.explaining import compile_with_options

    position = {name: index for index, name in enumerate(case.kernel.arg_names)}
    constants = {(position[name],): value for name, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    return compile_with_options(case.kernel, signature, {}, **case.options(), **options)
