"""The hand-written Gluon kernels of the benches and tests, lowered to TTGIR without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from triton.backends.nvidia.compiler import CUDABackend

from tawa.bridge.gluon.compile import gluon_source, lower_gluon
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.signature import Signature
from tawa.ir import Module, parse_module, print_module
from tawa.machine.machines import SM_90
from tests.support.fronts import key_of
from tests.support.kept import kept


def gluon_module(
    kernel: Any,
    boxes: Mapping[str, list[int]],
    constants: Mapping[str, Any],
    dtypes: Mapping[str, str],
    scalars: Mapping[str, str],
) -> Module:
    """Lowers a Gluon kernel, once for all processes.

    boxes, dtypes: of its descriptors. scalars: types of other arguments that are not i32. constants: of its constexprs.
    """
    types = {name: "constexpr" if name in constants else scalars.get(name, "i32") for name in kernel.arg_names}
    types |= {name: f"tensordesc<{dtypes[name]}[{','.join(map(str, box))}]>" for name, box in boxes.items()}
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    return parse_module(_lowered(kernel, tuple(types.items()), tuple(values.items()), constants["num_warps"]))


def backward_attention(variant: str, causal: bool) -> Module:
    """Attention backward for d = 256, by the name of its variant."""
    from bench.peers import gluon_attention_backward as by_hand

    asked = by_hand.VARIANTS[variant]
    blocks = by_hand.boxes(256, asked)
    dtypes, boxes = ({name: it[0] for name, it in blocks.items()}, {name: it[1] for name, it in blocks.items()})
    scalars = {"dq_p": "*fp32", "scale": "fp32"}
    return gluon_module(by_hand.backward, boxes, by_hand.constants(256, causal, asked), dtypes, scalars)


@cache
def _lowered(kernel: Any, types: tuple[Any, ...], values: tuple[Any, ...], num_warps: int) -> str:
    signature = Signature(dict(types), dict(values), {})

    def lowered() -> str:
        return print_module(lower_gluon(kernel, signature, SM_90, num_warps=num_warps)[1])

    backend = CUDABackend(gpu_target(SM_90))
    source = gluon_source(kernel, signature)
    key = key_of(source, backend, backend.parse_options({"num_warps": num_warps, **source.parse_options()}))
    return kept(("gluon", *key), lowered, ours=True) if key else lowered()
