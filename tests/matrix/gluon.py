"""The hand-written Gluon kernels of the benches and tests, compiled to TTGIR without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.gluon.compile import compile_gluon
from tawa.bridge.triton.read_module import read_final
from tawa.bridge.triton.signature import Signature
from tawa.ir import Module


def gluon_module(
    kernel: Any,
    boxes: Mapping[str, list[int]],
    constants: Mapping[str, Any],
    dtypes: Mapping[str, str],
    scalars: Mapping[str, str],
) -> Module:
    """Compiles a Gluon kernel.

    boxes, dtypes: of its descriptors. scalars: types of other arguments that are not i32. constants: of its constexprs.
    """
    types = {name: "constexpr" if name in constants else scalars.get(name, "i32") for name in kernel.arg_names}
    types |= {name: f"tensordesc<{dtypes[name]}[{','.join(map(str, box))}]>" for name, box in boxes.items()}
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    return read_final(compile_gluon(kernel, Signature(types, values, {}), num_warps=constants["num_warps"]))
